"""Any repository of the Hub as a target or a drafter: which files come, and what is said if none do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file
from torch import Tensor

from specviz.catalogue import PublishedDrafter
from specviz.lm import child
from specviz.lm.checkpoint_files import PICKLED, PICKLED_INDEX
from specviz.lm.folder import tensors_of, tokenizer_of
from specviz.lm.hub_worker import CONFIG, of_drafter, of_target, room_for
from specviz.lm.plain import load_plain
from specviz.lm.safe_copy import make_safe
from specviz.lm.weights import WeightsUnavailable, fetch, fetch_drafter
from specviz.presets import PUBLISHED, hub_target, local_target
from specviz.trace import Progress
from specviz.words import tell
from tests.lm.standins import REPOSITORY, HubServer, drained

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = "model.safetensors.index.json"
OTHERS = (
    "README.md",
    "pytorch_model-00001-of-00002.bin",
    "original/consolidated.00.pth",
    "LICENSE",
)


def test_a_sharded_target_comes_with_its_index_and_nothing_else() -> None:
    wanted = {"config.json", *TOKENIZER, INDEX, *SHARDS}
    assert set(of_target([*wanted, *OTHERS])) == wanted
    one = {"config.json", "tokenizer.model", "model.safetensors"}
    assert set(of_target([*one, INDEX, *SHARDS])) == one


def test_a_targets_pickles_come_where_nothing_else_is_there() -> None:
    beside = ["config.json", "tokenizer.model"]
    assert of_target([*beside, PICKLED, "README.md"]) == [*beside, PICKLED]
    shards = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    assert of_target([*beside, *shards, PICKLED_INDEX]) == [*beside, PICKLED_INDEX, *shards]
    assert of_target([*beside, PICKLED, "model.safetensors"]) == [*beside, "model.safetensors"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("tokenizer.json", "model.safetensors"), "no config.json"),
        (("config.json", "model.safetensors"), "no tokenizer.json"),
        (
            ("config.json", "tokenizer.json", *OTHERS),
            "neither model.safetensors nor pytorch_model.bin",
        ),
    ],
)
def test_a_repository_without_a_target_says_what_it_lacks(
    names: tuple[str, ...], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        of_target(names)


def test_a_drafter_comes_as_safetensors_before_pickles() -> None:
    assert of_drafter(["config.json", "pytorch_model.bin", "README.md"]) == [
        "config.json",
        "pytorch_model.bin",
    ]
    both = ["config.json", "pytorch_model.bin", "model.safetensors"]
    assert of_drafter(both) == ["config.json", "model.safetensors"]
    assert of_drafter(["config.json", "medusa_lm_head.safetensors", "medusa_lm_head.pt"]) == [
        "config.json",
        "medusa_lm_head.safetensors",
    ]
    with pytest.raises(ValueError, match="no weights"):
        of_drafter(["config.json", "README.md"])


def test_a_repository_is_fetched_once_and_kept(hub: HubServer, own_cache: Path) -> None:
    spec = hub_target(REPOSITORY)
    checkpoint, _ = drained(fetch(spec))
    assert checkpoint.folder == own_cache / "hub--somebody--tiny"
    assert checkpoint.source.startswith(f"Hub: {REPOSITORY}")
    hub.requests.clear()
    again, told = drained(fetch(spec))
    assert (again.folder, told, hub.requests) == (checkpoint.folder, [], [])
    assert again.source.startswith("cache (")


@pytest.mark.parametrize("num_files", [1, 2])
def test_a_pickled_target_is_rewritten_and_decodes_as_it_did(
    hub: HubServer, own_cache: Path, tmp_path: Path, num_files: int
) -> None:
    tensors = load_file(hub.folder / "model.safetensors")
    hub.folder = without_weights(hub.folder, tmp_path / "pickled")
    write_pickles(hub.folder, tensors, num_files)
    checkpoint, _ = drained(fetch(hub_target(REPOSITORY)))
    assert not list(checkpoint.folder.glob("*.bin*"))
    kept = tensors_of(checkpoint.folder)
    assert kept.keys() == tensors.keys()
    assert all(torch.equal(kept[name], tensors[name].bfloat16()) for name in kept)
    lm = load_plain(checkpoint.folder, dtype=torch.float32, device=torch.device("cpu"))
    assert lm.num_parameters == sum(t.numel() for t in tensors.values())
    assert drained(fetch(hub_target(REPOSITORY)))[0].source.startswith("cache (")


def test_a_head_that_is_the_embedding_is_written_once_for_each_name(tmp_path: Path) -> None:
    table = torch.arange(6.0).view(3, 2)
    write_pickles(tmp_path, {"embed": table, "head": table}, 1)
    make_safe(tmp_path, tmp_path)
    assert all(torch.equal(t, table) for t in load_file(tmp_path / "model.safetensors").values())


class Evil:
    """Says so in a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


def test_a_pickled_target_that_would_run_code_is_refused_and_does_not(
    hub: HubServer, own_cache: Path, tmp_path: Path
) -> None:
    hub.folder = without_weights(hub.folder, tmp_path / "evil")
    torch.save({"weight": Evil(tmp_path / "ran")}, hub.folder / PICKLED)
    with pytest.raises(WeightsUnavailable, match="could run code, so it is refused"):
        drained(fetch(hub_target(REPOSITORY)))
    assert not (tmp_path / "ran").exists()
    assert not list(own_cache.glob("hub--*/*"))


def test_room_is_asked_for_what_is_written_anew_beside_it() -> None:
    sizes = {PICKLED_INDEX: 1, "pytorch_model-00001-of-00002.bin": 30, CONFIG: 2}
    sizes |= {"pytorch_model-00002-of-00002.bin": 50}
    assert room_for(sizes, is_rewritten=True) == 133  # the largest is here twice for a while
    assert room_for(sizes, is_rewritten=False) == 83
    assert room_for({CONFIG: 2, "model.safetensors": 50}, is_rewritten=True) == 52


@pytest.fixture
def mine(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """A person's own folder: model and tokenizer, without the weights."""
    return without_weights(tiny_checkpoint, tmp_path / "mine")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's work in this process, where no libraries need be imported first."""

    def run(job: child.Job) -> Generator[Progress, None, list[str]]:
        assert job.command[1:3] == ["-m", "specviz.lm.safe_copy"]
        key, values = job.message
        yield Progress("fetch", (key, {**values, "size": ""}))
        make_safe(*map(Path, job.command[3:]))
        return []

    monkeypatch.setattr(child, "run", run)


@pytest.mark.usefixtures("here")
def test_an_own_folder_of_pickles_is_copied_once_and_left_as_it_is(
    tiny_checkpoint: Path, mine: Path, own_cache: Path
) -> None:
    tensors, device = load_file(tiny_checkpoint / "model.safetensors"), torch.device("cpu")
    write_pickles(mine, tensors, 2)
    before = {path.name: path.read_bytes() for path in mine.iterdir()}
    checkpoint, told = drained(fetch(local_target(str(mine))))
    assert (checkpoint.source, checkpoint.folder.parent) == ("local folder mine", own_cache)
    assert any("Rewriting the pickled weights of mine" in tell(step.message) for step in told)
    ours, truth = (
        load_plain(folder, dtype=torch.float32, device=device).stock_logits([3, 1, 4])
        for folder in (checkpoint.folder, tiny_checkpoint)
    )
    assert torch.equal(ours, truth)
    assert {path.name: path.read_bytes() for path in mine.iterdir()} == before
    assert drained(fetch(local_target(str(mine)))) == (checkpoint, [])
    write_pickles(mine, tensors, 1)  # now both; the index still says which files count
    again, told = drained(fetch(local_target(str(mine))))
    assert again.folder != checkpoint.folder
    assert told
    assert [path for path in own_cache.iterdir() if path.is_dir()] == [again.folder]


def test_an_own_pickle_that_would_run_code_is_refused_and_does_not(
    mine: Path, own_cache: Path, tmp_path: Path
) -> None:
    torch.save({"lm_head.weight": Evil(tmp_path / "ran")}, mine / PICKLED)
    with pytest.raises(ValueError, match=r"more than tensors.* could run code, so it is refused"):
        drained(fetch(local_target(str(mine))))
    assert not (tmp_path / "ran").exists()
    assert not [path for path in own_cache.iterdir() if path.is_dir()]


@pytest.mark.usefixtures("here")
def test_an_own_pickle_that_cannot_be_used_is_told_of(mine: Path, own_cache: Path) -> None:
    torch.save({"lm_head.weight": torch.zeros(4000)}, mine / PICKLED)
    (mine / PICKLED).write_bytes((mine / PICKLED).read_bytes()[:9000])
    with pytest.raises(ValueError, match="cut short: fetch it again"):
        drained(fetch(local_target(str(mine))))
    assert not [path for path in own_cache.iterdir() if path.is_dir()]
    (mine / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="no tokenizer"):
        drained(fetch(local_target(str(mine))))


def test_a_target_with_a_sentencepiece_tokenizer_alone_can_be_read(tmp_path: Path) -> None:
    """As the first Llamas and Vicunas are published."""
    (tmp_path / "text").write_text("the draft is verified by the target model " * 20, "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "tokenizer"),
        vocab_size=290,
        model_type="bpe",
        byte_fallback=True,
        minloglevel=2,
    )
    said = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said), "utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', "utf-8")
    ids = tokenizer_of(tmp_path).encode("the target", add_special_tokens=False)
    own = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    assert ids == own.encode("the target")


def without_weights(folder: Path, place: Path) -> Path:
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.safetensors*"))
    return place


def write_pickles(folder: Path, tensors: dict[str, Tensor], num_files: int) -> None:
    """In one file, or in several with an index, as models of 2023 are published."""
    if num_files == 1:
        torch.save(tensors, folder / PICKLED)
        return
    homes = {}
    for i in range(num_files):
        name = f"pytorch_model-{i + 1:05}-of-{num_files:05}.bin"
        part = dict(list(tensors.items())[i::num_files])
        torch.save(part, folder / name)
        homes |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 0}, "weight_map": homes}
    (folder / PICKLED_INDEX).write_text(json.dumps(index), "utf-8")


def test_a_repository_that_is_not_there_is_explained(hub: HubServer) -> None:
    with pytest.raises(WeightsUnavailable, match="the Hub has no such repository"):
        drained(fetch(hub_target("somebody/else")))


def test_a_published_drafter_needs_no_tokenizer(hub: HubServer, own_cache: Path) -> None:
    checkpoint, _ = drained(fetch_drafter(PublishedDrafter(REPOSITORY, "eagle3")))
    assert checkpoint.folder.parent == own_cache
    assert {p.name for p in checkpoint.folder.iterdir()} == {
        *("config.json", "model.safetensors", "source.json")
    }


def test_a_catalogued_repository_keeps_its_name() -> None:
    assert hub_target("Qwen/Qwen3-8B") in PUBLISHED
