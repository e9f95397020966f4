"""A folder to a model: which pass reads it and why, which copies it has, what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from specviz.lm import packed_loading
from specviz.lm.device import half_dtype
from specviz.lm.int4 import why_not_int4
from specviz.lm.linear import why_not_packed
from specviz.lm.loading import (
    LoadedLM,
    load_copy,
    load_target,
    why_not_copied_in_int4,
)
from specviz.lm.packed import PackedLM
from specviz.lm.plain import PlainLM
from specviz.lm.quantised import compute_dtype
from specviz.lm.vocabulary import MAX_TAIL, check_same_tokens
from specviz.tree import DraftTree
from tests.models import (
    family_config,
    random_model,
    spm_tokenizer,
    tiny_folder,
    tiny_tokenizer,
    write_folder,
)

CPU = torch.device("cpu")
needs_packed = pytest.mark.skipif(why_not_packed() is not None, reason=str(why_not_packed()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("loading") / "tiny")


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder that a test may spoil."""
    return Path(shutil.copytree(folder, tmp_path / "own"))


def test_float32_is_the_plain_path(folder: Path) -> None:
    loaded = load_target(folder, "float32", CPU)
    assert isinstance(loaded.lm, PlainLM)
    assert loaded.lm.dtype == torch.float32
    assert loaded.lm.path.startswith("plain: LlamaForCausalLM")
    assert loaded.architecture == "LlamaForCausalLM"
    assert (loaded.eos, loaded.text.num_known_tokens) == (frozenset({2}), 320)
    assert (loaded.lm.vocab_size, loaded.lm.max_context) == (328, 512)


@needs_packed
@pytest.mark.parametrize("precision", ["auto", "bfloat16"])
def test_the_packed_pass_is_taken_where_there_is_one(folder: Path, precision: Any) -> None:
    loaded = load_target(folder, precision, CPU)
    assert isinstance(loaded.lm, PackedLM)
    assert "packed bf16" in loaded.lm.path
    assert loaded.lm.max_context == 512


@pytest.mark.parametrize(
    ("precision", "dtype"), [("auto", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_without_a_packed_pass_the_plain_path_says_why(
    folder: Path, precision: Any, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_loading, "why_not_packed", lambda: "this CPU is a slide rule")
    loaded = load_target(folder, precision, CPU)
    assert isinstance(loaded.lm, PlainLM)
    assert loaded.lm.dtype == dtype
    assert loaded.lm.path.endswith("(not packed: this CPU is a slide rule)")
    copy = load_copy(loaded, 1)
    assert isinstance(copy, PlainLM)
    assert (copy.num_layers, copy.dtype) == (1, dtype)
    assert why_not_copied_in_int4(loaded) == "this CPU is a slide rule"
    with pytest.raises(ValueError, match="4-bit copy cannot be made here: this CPU is a slide"):
        load_copy(loaded, None)


def test_a_family_without_a_packed_pass_runs_plain(tmp_path: Path) -> None:
    model = random_model(family_config("qwen3", vocab_size=328))
    loaded = load_target(write_folder(tmp_path, model, tiny_tokenizer()), "auto", CPU)
    assert isinstance(loaded.lm, PlainLM)
    assert "not packed: there is a packed forward pass for llama" in loaded.lm.path


@needs_packed
def test_copies_of_a_packed_target_are_packed(folder: Path) -> None:
    loaded = load_target(folder, "auto", CPU)
    copy = load_copy(loaded, 1)
    assert isinstance(copy, PackedLM)
    assert (copy.num_layers, copy.max_context) == (1, 512)
    if why_not_int4() is None:
        assert why_not_copied_in_int4(loaded) is None
        small = load_copy(loaded, None)
        assert small.num_layers == 2
        tree = DraftTree.chain(5, (6, 7))
        theirs, ours = (lm.read(tree, lm.new_cache(8)).logits for lm in (loaded.lm, small))
        assert theirs.shape == ours.shape == (3, 328)


@needs_packed
def test_a_width_four_bits_cannot_hold_leaves_the_other_copy(tmp_path: Path) -> None:
    """Auto chose the 4-bit copy for any packed model, and the run ended in a kernel's error."""
    loaded = load_target(tiny_folder(tmp_path / "odd", intermediate_size=72), "auto", CPU)
    assert "multiples of 32; this model has 72" in str(why_not_copied_in_int4(loaded))
    with pytest.raises(ValueError, match="this model has 72. Choose another draft"):
        load_copy(loaded, None)
    assert load_copy(loaded, 1).num_layers == 1


@pytest.mark.parametrize(
    ("saved", "ids"),
    [(2, {2}), ([2, 7], {2, 7}), (7, {2, 7}), (None, {2})],
)
def test_every_end_of_text_is_known(own: Path, saved: Any, ids: set[int]) -> None:
    """One id, a list, or none in the generation config; the tokenizer's own besides."""
    (own / "generation_config.json").write_text(json.dumps({"eos_token_id": saved}))
    assert load_target(own, "float32", CPU).eos == ids
    (own / "generation_config.json").unlink()
    assert load_target(own, "float32", CPU).eos == {2}


# What cannot be loaded, on both paths.


def spoil_config(folder: Path) -> None:
    (folder / "config.json").write_text("{ not json")


def forget_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def forget_tokenizer(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()


def spoil_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("[]")


def forget_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def cut_weights(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def forget_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def reshape_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    tensors[name] = tensors[name][:, :32].contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def reshape_a_head(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.0.self_attn.k_proj.weight"
    tensors[name] = tensors[name][:20].contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def spoil_generation_config(folder: Path) -> None:
    (folder / "generation_config.json").write_text("{ not json")


def spoil_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"].fill_(torch.nan)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


SPOILT: dict[Callable[[Path], None], str] = {
    spoil_config: "config.json",
    forget_config: "config.json",
    forget_tokenizer: "tokenizer",
    spoil_tokenizer: "tokenizer",
    forget_weights: "safetensors",
    cut_weights: "weights",
    forget_a_tensor: r"lack .*model\.layers\.1\.mlp\.up_proj\.weight",
    reshape_a_tensor: "weights|tree",
    reshape_a_head: "weights",
    spoil_generation_config: "generation_config.json",
    spoil_a_tensor: "could not be trusted",
}


@pytest.mark.parametrize("precision", ["float32", "auto"])
@pytest.mark.parametrize("spoil", SPOILT, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_spoilt_folder_is_refused_in_a_sentence(
    own: Path, spoil: Callable[[Path], None], precision: Any
) -> None:
    """A ValueError reaches the person who chose the folder; anything else reads as our failure."""
    spoil(own)
    with pytest.raises(ValueError, match=SPOILT[spoil]) as caught:
        load_target(own, precision, CPU)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize("precision", ["float32", "auto"])
def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, precision: Any) -> None:
    with pytest.raises(ValueError, match=r"nowhere has no config\.json"):
        load_target(tmp_path / "nowhere", precision, CPU)


@pytest.mark.parametrize("precision", ["float32", "auto"])
def test_a_model_with_a_running_state_is_refused(tmp_path: Path, precision: Any) -> None:
    config = transformers.MambaConfig(vocab_size=328, hidden_size=32, num_hidden_layers=1)
    config.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="could not forget rejected draft tokens"):
        load_target(tmp_path, precision, CPU)


# Do two models speak the same tokens?


class Names:
    """A tokenizer that is only its vocabulary."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def get_vocab(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}


NAMES = [f"t{i}" for i in range(300)]


def test_one_tokenizer_speaks_to_itself() -> None:
    check_same_tokens(tiny_tokenizer(), tiny_tokenizer(chat=False))
    check_same_tokens(spm_tokenizer(), spm_tokenizer())


def test_permuted_ids_are_refused_with_an_example() -> None:
    """Equal sizes prove nothing: the draft's words were garbage to the target elsewhere."""
    swapped = [*NAMES[:40], NAMES[41], NAMES[40], *NAMES[42:]]
    with pytest.raises(ValueError, match="id 40 is 't41' in the draft and 't40' in the target"):
        check_same_tokens(Names(NAMES), Names(swapped))


def test_two_tokenizers_are_refused() -> None:
    with pytest.raises(ValueError, match="speaks other tokens than the target: id 0"):
        check_same_tokens(tiny_tokenizer(), spm_tokenizer())


@pytest.mark.parametrize("extra", [1, 17, MAX_TAIL])
def test_added_tokens_at_the_tail_are_allowed(extra: int) -> None:
    """A stricter check refused good pairs after an update that added special tokens."""
    longer = Names([*NAMES, *(f"<extra {i}>" for i in range(extra))])
    check_same_tokens(Names(NAMES), longer)
    check_same_tokens(longer, Names(NAMES))


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_long_tail_is_another_tokenizer(is_ours: bool) -> None:
    longer = Names([*NAMES, *(f"<extra {i}>" for i in range(MAX_TAIL + 1))])
    pair = (longer, Names(NAMES)) if is_ours else (Names(NAMES), longer)
    with pytest.raises(ValueError, match="of which they share 300"):
        check_same_tokens(*pair)


def test_a_model_keeps_its_facts_together(folder: Path) -> None:
    loaded: LoadedLM = load_target(folder, "float32", CPU)
    assert loaded.folder == folder
    assert loaded.tokenizer.eos_token == "<|im_end|>"


@pytest.mark.parametrize(("is_native", "dtype"), [(True, torch.bfloat16), (False, torch.float16)])
def test_a_card_that_only_emulates_bfloat16_gets_float16(
    monkeypatch: pytest.MonkeyPatch, is_native: bool, dtype: torch.dtype
) -> None:
    """torch counts emulation as support, and then lacks kernels: every run with EAGLE failed."""
    monkeypatch.setattr(
        torch.cuda,
        "is_bf16_supported",
        lambda including_emulation=True: including_emulation or is_native,
    )
    assert half_dtype(torch.device("cuda")) == compute_dtype(torch.device("cuda")) == dtype
    assert half_dtype(torch.device("cpu")) == torch.bfloat16
