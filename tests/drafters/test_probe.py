"""The probe: a drafter that fits its target is right, one of another target is not, and is told of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from specviz.config import LaneSpec, Request
from specviz.drafters.base import DraftContext, Outcome, Proposal
from specviz.drafters.draft_model import DraftModel, DraftModelConfig
from specviz.drafters.probe import NUM_PLACES, Agreement, first_agreement, probe_tokens
from specviz.engine import Engine
from specviz.engine.probing import probe_all
from specviz.lm.checkpoints import DrafterCheckpoint, save_checkpoint
from specviz.presets import local_target
from specviz.session import drain
from specviz.trace import LaneEnd, LaneStart, Progress, RoundTrace
from specviz.tree import DraftTree
from specviz.views.lineup import lane_item
from specviz.words import tell
from tests.drafters.checkpoints import MAKERS
from tests.engine.lanes import kit_of
from tests.engine.test_trained import ready
from tests.models import tiny, tiny_folder, tiny_tokenizer

TOKENS = list(range(10, 50))


class Knowing:
    """Drafts what it was told, by the place of the root; two children, the second the surer."""

    taps: Any = ()

    def __init__(self, guesses: dict[int, int]) -> None:
        self.guesses, self.num_started, self.asked = guesses, 0, list[int]()

    def start(self, context: DraftContext) -> None:
        self.num_started += 1

    def propose(self, context: DraftContext) -> Proposal:
        place, root = len(context.tokens) - 1, context.tokens[-1]
        self.asked.append(place)
        assert context.max_depth == 1
        if place not in self.guesses:
            return Proposal(DraftTree.chain(root), (1.0,))
        guess = self.guesses[place]
        tree = DraftTree((root, (guess + 50) % 97, guess), (-1, 0, 0))
        return Proposal(tree, (1.0, 0.2, 0.7))

    def observe(self, outcome: Outcome) -> None:
        raise AssertionError("a probe is no round")


def test_guesses_are_counted_at_even_places_behind_the_question() -> None:
    lm = tiny()
    said = lm.stock_logits(TOKENS).argmax(-1).tolist()
    knows = {place: said[place] for place in range(0, 40, 2)}
    wrong = {place: (said[place] + 1) % 97 for place in range(1, 40, 4)}
    drafter: Any = Knowing(knows | wrong)
    found = first_agreement(drafter, lm, TOKENS, 15, 97)
    assert drafter.num_started == 1
    assert drafter.asked == sorted(set(drafter.asked))
    assert (drafter.asked[0], drafter.asked[-1]) == (15, 39)
    assert len(drafter.asked) == NUM_PLACES
    assert found.num_right == len(set(drafter.asked) & set(knows))
    assert found.num_asked == len(set(drafter.asked) & set(knows | wrong))


def test_a_copy_of_the_target_is_right_everywhere_and_a_stranger_hardly_ever() -> None:
    """Through a drafter with a cache of its own, asked at one place after another."""
    lm, knobs = tiny(), DraftModelConfig(draft="own checkpoint")
    for draft, is_suspicious in ((tiny(), False), (tiny(seed=9), True)):
        drafter = DraftModel(knobs, kit_of(lm, draft))
        found = first_agreement(drafter, lm, TOKENS, 4, 97)
        assert found.num_asked == NUM_PLACES
        assert found.is_suspicious is is_suspicious
        assert is_suspicious or found.num_right == NUM_PLACES


def test_what_counts_as_suspicious() -> None:
    assert Agreement(0, 24).is_suspicious
    assert Agreement(1, 24).is_suspicious
    assert not Agreement(2, 24).is_suspicious
    assert not Agreement(0, 0).is_suspicious


def test_the_text_is_the_models_own_form_and_fits_its_context() -> None:
    chat, plain = (probe_tokens(tiny_tokenizer(chat=chat), 4096) for chat in (True, False))
    assert chat[0][0] == 1  # <|im_start|>
    assert chat[1] > plain[1]
    assert chat[0][chat[1] :] == plain[0][plain[1] :]
    assert len(probe_tokens(tiny_tokenizer(), 64)[0]) == 63


@pytest.mark.parametrize(
    ("verifier", "repository", "is_told"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-Base", True),
        ("Qwen/Qwen3-8B", "another/qwen3-8b", False),
        ("meta-llama/Llama-3.1-8B-Instruct", "a/Meta-Llama-3.1-8B-Instruct", False),
        ("Qwen/Qwen3-8B", "", False),  # a folder of one's own
        (None, "Qwen/Qwen3-8B", False),
        ({"not": "a name"}, "Qwen/Qwen3-8B", False),
    ],
)
def test_a_drafter_that_names_another_target_says_so(
    tmp_path: Path, verifier: Any, repository: str, is_told: bool
) -> None:
    target, drafter = ready(tiny_folder(tmp_path)), Named("a network")
    target.spec = replace(target.spec, repository=repository)
    config = {"speculators_config": {"verifier": {"name_or_path": verifier}}}
    target.checkpoints["eagle3"] = DrafterCheckpoint(tmp_path, config, {})
    lane = LaneSpec("eagle3")
    target.agreements[lane.drafter, lane.knobs] = Agreement(12, 24)
    drafters: Any = [drafter]
    told = [tell(step.message) for step in probe_all(target, [lane], drafters)]
    assert len(told) == is_told
    assert (f"trained for {verifier}, and this target is {repository}" in "".join(told)) is is_told
    assert (
        f"warning: its config.json says that it was trained for {verifier}" in drafter.description
    ) is is_told


@dataclass
class Named:
    description: str
    title: str = "EAGLE-3"


def test_a_lane_of_a_drafter_for_another_target_says_so_and_goes_on(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    made = MAKERS["medusa"](tiny(vocab_size=328))
    save_checkpoint(tmp_path / "drafters" / "medusa", made.config, made.tensors)
    spec = local_target(str(folder))
    lanes = (LaneSpec("autoregressive"), LaneSpec("medusa"))
    request = Request(
        "one, two", lanes, spec.name, is_chat=False, precision="float32", max_new_tokens=12
    )
    engine = Engine([spec], drafters_root=tmp_path / "drafters")
    for _ in range(2):  # the second run is told again, without another probe
        events = list(engine.run(request))
        warnings = [tell(e.message) for e in events if isinstance(e, Progress)]
        assert (
            sum("of a short text right; it was likely trained for another" in w for w in warnings)
            == 1
        )
        start = [e for e in events if isinstance(e, LaneStart)][1]
        assert "warning: its first guess on a short text was right at" in start.description
        assert lane_item(start)["description"][0] == "drafts.suspect"
        trace = drain(iter(events))
        assert {e.reason for e in trace if isinstance(e, LaneEnd)} <= {"length", "stop"}
        rounds = [e for e in trace if isinstance(e, RoundTrace)]
        texts = [[t for r in rounds if r.lane == i for t in r.new_tokens] for i in (0, 1)]
        assert texts[0] == texts[1]
