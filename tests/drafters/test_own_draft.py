"""A draft checkpoint of one's own beside its target, from files: padded otherwise, or with fewer
tokens added to the tokenizer. One tokenizer's ids mean the same; rows of a head are not ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.config import LaneSpec, Request, SamplingParams
from specviz.engine import Engine
from specviz.presets import local_target
from specviz.session import drain
from specviz.trace import LaneEnd, LaneStart, RoundTrace, RunStart
from tests.models import (
    TOKENIZER_SIZE,
    family_config,
    random_model,
    tiny_folder,
    tiny_tokenizer,
    write_folder,
)

ADDED = "<|tool|>"
LANES = (LaneSpec("autoregressive"), LaneSpec("draft_model", (("draft", "own checkpoint"),)))


def run(target: Path, draft: Path, prompt: str, temperature: float) -> list[list[int]]:
    """The answers of the plain lane and of the draft model's."""
    spec = local_target(str(target))
    request = Request(
        prompt,
        LANES,
        spec.name,
        is_chat=False,
        precision="float32",
        sampling=SamplingParams(temperature=temperature),
        verification="coupled",
        max_new_tokens=16,
    )
    events = drain(Engine([spec], draft).run(request))
    assert {e.reason for e in events if isinstance(e, LaneEnd)} <= {"length", "stop"}
    starts = [e for e in events if isinstance(e, LaneStart)]
    assert starts[1].description.startswith("a draft model of")
    rounds = [e for e in events if isinstance(e, RoundTrace)]
    drafted = [t for r in rounds if r.lane == 1 for t in r.tree.tokens[1:]]
    assert drafted, "a draft that never drafts would prove nothing"
    assert max(drafted) < TOKENIZER_SIZE + 1
    prompts = [e.prompt_tokens for e in events if isinstance(e, RunStart)]
    assert len(prompts) == 1
    return [[t for r in rounds if r.lane == lane for t in r.new_tokens] for lane in (0, 1)]


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(336, 320), (320, 384)])
def test_heads_padded_differently_decode_losslessly(
    tmp_path: Path, target_rows: int, draft_rows: int
) -> None:
    target = tiny_folder(tmp_path / "target", vocab_size=target_rows)
    draft = tiny_folder(tmp_path / "draft", seed=1, vocab_size=draft_rows, num_hidden_layers=1)
    for temperature in (0.0, 1.0):
        plain, drafted = run(target, draft, "one, two, three, four", temperature)
        assert plain == drafted


def test_a_token_that_the_draft_has_no_row_for_is_read_as_another(tmp_path: Path) -> None:
    """The target's tokenizer got a token more after the draft was made; looking its row up in the
    draft's table ended the run with an index error."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([ADDED], special_tokens=True)
    assert tokenizer.convert_tokens_to_ids(ADDED) == TOKENIZER_SIZE
    config = family_config("llama", vocab_size=328, max_position_embeddings=512)
    target = write_folder(tmp_path / "target", random_model(config), tokenizer)
    draft = tiny_folder(tmp_path / "draft", seed=1, vocab_size=TOKENIZER_SIZE)
    plain, drafted = run(target, draft, f"one {ADDED} two, three", 0.0)
    assert plain == drafted
