"""Any repository of the Hub as a target or a drafter: which files come, and what is said if none do."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.catalogue import PublishedDrafter
from specviz.lm.hub_worker import of_drafter, of_target
from specviz.lm.weights import WeightsUnavailable, fetch, fetch_drafter
from specviz.presets import PUBLISHED, hub_target
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


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("tokenizer.json", "model.safetensors"), "no config.json"),
        (("config.json", "model.safetensors"), "no tokenizer.json"),
        (("config.json", "tokenizer.json", *OTHERS), "no model.safetensors; weights in other"),
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
