"""Each rule of the verdict on a run made for it, and on the recorded runs; headline and advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from specviz import cost, verdict, verdict_rules
from specviz.trace import LaneStart, RoundTrace, RunStart, TraceEvent
from specviz.tree import DraftTree
from specviz.verdict_rules import RULES, Case
from specviz.words import Refusal, tell
from tests import recorded
from tests.traces import greedy_verdict, lane_start, round_trace, run_start

STEP = 0.02  # seconds of a plain step's pass
HOST = 0.001


def a_round(
    hits: int,
    length: int,
    *,
    first: int,
    read: float = STEP,
    steps: float = 0.002,
    host: float = HOST,
) -> RoundTrace:
    """A chain of `length` that keeps `hits`; tokens count up from `first`."""
    guesses = [first + i if i < hits else 9 for i in range(length)]
    tree = DraftTree.chain(1, guesses)
    decided = greedy_verdict(tree, [*range(first, first + hits + 1), 0][: hits + 1])
    new = tuple(range(first, first + hits + 1))
    bare = DraftTree.chain(1)
    made = round_trace(bare, greedy_verdict(bare, (2,)), seconds=(length * steps, read, host))
    return replace(
        made,
        tree=tree,
        verdict=decided,
        new_tokens=new,
        draft_probs=(1.0,) * len(tree),
        draft_step_seconds=(steps,) * length,
        rows_written=len(tree),
        rows_kept=len(new),
    )


def rounds_of(
    hits: Sequence[int], length: int = 3, *, read: float = STEP, steps: float = 0.002, **kw: float
) -> list[RoundTrace]:
    made, first = list[RoundTrace](), 1000
    for count in hits:
        made.append(a_round(count, length, first=first, read=read, steps=steps, **kw))
        first += count + 1
    return made


PLAIN = rounds_of([0] * 30, 0)


def case_of(
    rounds: Sequence[RoundTrace],
    drafter: str = "draft_model",
    *,
    run: RunStart | None = None,
    start: LaneStart | None = None,
) -> Case:
    lane = start or replace(lane_start(1, drafter), knobs={"num_draft_tokens": 3})
    return Case(run or run_start(), lane, rounds, cost.account(rounds, PLAIN))


def saying(tokens: Sequence[int], rounds: Sequence[RoundTrace]) -> list[RoundTrace]:
    """The same rounds with other words in them: as many tokens each as before."""
    ends = [0]
    for round_ in rounds:
        ends.append(ends[-1] + len(round_.new_tokens))
    assert ends[-1] == len(tokens)
    return [
        replace(r, new_tokens=tuple(tokens[a:b]))
        for r, (a, b) in zip(rounds, pairwise(ends), strict=True)
    ]


GOOD = rounds_of([3, 2, 3, 1] * 6)
BAD = rounds_of([0] * 40)


def rule(name: str) -> Callable[[Case], str | None]:
    def said(case: Case) -> str | None:
        found = RULES[name](case)
        return None if found is None else tell(found)

    return said


def test_a_short_run_is_too_short_to_judge() -> None:
    said = rule("too_short")(case_of(GOOD[:4]))
    assert said == "Too short to judge: 13 tokens in 4 rounds. Ask for a longer answer."
    assert rule("too_short")(case_of(GOOD)) is None
    assert rule("too_short")(case_of(rounds_of([0] * 12))) is not None, "12 tokens are few as well"


def test_a_few_passes_that_took_far_too_long_are_a_disturbed_clock() -> None:
    slow = rounds_of([3] * 3, read=20 * STEP)
    said = rule("disturbed_clock")(case_of([*GOOD, *slow]))
    assert said is not None
    assert "from typical passes a round costs 1.29" in said  # 0.02 + 3 x 0.002 + 0.001, of 0.021
    assert rule("disturbed_clock")(case_of(GOOD)) is None


def test_rounds_cheaper_than_a_plain_step_are_a_disturbed_clock() -> None:
    """A read of the root is part of each, so the plain lane met a slower machine than this one."""
    said = rule("disturbed_clock")(case_of(rounds_of([3] * 20, read=0.5 * STEP)))
    assert said is not None
    assert "cost only 0.81 plain steps" in said


def test_near_zero_acceptance_names_a_wrong_drafter() -> None:
    said = rule("no_agreement")(case_of(BAD, "eagle3"))
    assert said is not None
    assert "kept 0 of 40 first guesses" in said
    assert "template is off" not in said
    assert rule("no_agreement")(case_of(GOOD, "eagle3")) is None
    assert rule("no_agreement")(case_of(BAD[:10], "eagle3")) is None, "ten tries prove nothing"
    assert rule("no_agreement")(case_of(BAD, "prompt_lookup")) is None


def test_near_zero_acceptance_mentions_a_template_that_is_off() -> None:
    run = run_start()
    run = replace(run, request=replace(run.request, is_chat=False))
    said = rule("no_agreement")(case_of(BAD, "eagle3", run=run))
    assert said is not None
    assert said.endswith("The chat template is off in this run.")


def test_a_fifth_of_first_guesses_is_poor_but_no_wrong_drafter() -> None:
    assert rule("no_agreement")(case_of(rounds_of([1, 0, 0, 0, 0] * 8))) is None
    tenth = rounds_of([1, *[0] * 9] * 4)
    assert rule("no_agreement")(case_of(tenth)) is None, "4 of 40 may well be a fifth"


def test_a_copier_that_finds_nothing_says_so() -> None:
    said = rule("nothing_to_copy")(case_of(BAD, "prompt_lookup"))
    assert said is not None
    assert "0 of 40 rounds" in said
    assert rule("nothing_to_copy")(case_of(BAD, "medusa")) is None
    assert rule("nothing_to_copy")(case_of(GOOD, "lookahead")) is None


def quantised(versions: dict[str, str]) -> RunStart:
    run = run_start()
    return replace(run, target=replace(run.target, quantisation="nf4"), versions=versions)


SLOW_READS = rounds_of([1] * 20, read=4.3 * STEP)


def test_a_quantised_read_of_many_rows_is_named_with_its_library() -> None:
    said = rule("quantised_read")(case_of(SLOW_READS, run=quantised({"bitsandbytes": "0.45.1"})))
    assert said is not None
    assert "4 rows takes 4.30 times" in said
    assert "(nf4)" in said
    assert "bitsandbytes 0.45.1" in said
    other = rule("quantised_read")(case_of(SLOW_READS, run=quantised({})))
    assert other is not None
    assert "bitsandbytes" not in other
    assert rule("growing_read")(case_of(SLOW_READS, run=quantised({}))) is None
    assert rule("quantised_read")(case_of(GOOD, run=quantised({}))) is None


def test_a_dense_read_that_grows_is_not_called_quantised() -> None:
    said = rule("growing_read")(case_of(SLOW_READS))
    assert said is not None
    assert "float32" in said
    assert rule("quantised_read")(case_of(SLOW_READS)) is None
    assert rule("growing_read")(case_of(GOOD)) is None
    slower_drafts = rounds_of([1] * 20, read=1.6 * STEP, steps=STEP)
    assert rule("growing_read")(case_of(slower_drafts)) is None, "drafting costs more than that"


def test_a_host_that_costs_most_is_named() -> None:
    said = rule("host_bound")(case_of(rounds_of([2] * 20, host=0.012)))
    assert said is not None
    assert "0.57 plain steps a round" in said  # 0.012 of a plain step of 0.021
    assert rule("host_bound")(case_of(GOOD)) is None
    assert rule("host_bound")(case_of(rounds_of([2] * 20, host=0.012, steps=STEP))) is None


def test_a_slow_drafter_is_named_whether_or_not_it_still_wins() -> None:
    said = rule("slow_drafter")(case_of(rounds_of([3] * 20, steps=0.6 * STEP)))
    assert said is not None
    assert "costs 0.57 of a plain step and a round takes 3.0" in said
    assert "1.71 plain steps to win 3.00 tokens" in said
    assert rule("slow_drafter")(case_of(GOOD)) is None


def test_an_answer_that_copies_the_prompt_is_named() -> None:
    text = tuple(range(50, 90))
    run = replace(run_start(), prompt_tokens=(1, 2, *text, 3))
    rounds = rounds_of([3] * 10)
    said = rule("copied_prompt")(case_of(saying(text, rounds), run=run))
    assert said is not None
    assert said.startswith("The answer copies the prompt: 100 %")
    half = (*text[:20], *range(500, 520))
    assert rule("copied_prompt")(case_of(saying(half, rounds), run=run)) is None
    assert rule("copied_prompt")(case_of(rounds, run=run)) is None
    plain_speed = rounds_of([0] * 40)
    assert rule("copied_prompt")(case_of(saying(text, plain_speed), run=run)) is None


def test_a_repetition_loop_is_named_with_what_it_does_to_the_yield() -> None:
    before, loop = rounds_of([0] * 20), rounds_of([3] * 10)
    tokens = (*range(300, 320), *(7, 8, 9, 10) * 10)
    said = rule("repetition_loop")(case_of(saying(tokens, [*before, *loop])))
    assert said is not None
    assert "40 of its 60 tokens repeat a phrase of 4" in said
    assert "yields 4.00 tokens there and 1.14 elsewhere" in said  # with the first turn: 24 in 21
    only = rule("repetition_loop")(case_of(saying((5,) * 40, loop)))
    assert only is not None
    assert "elsewhere" not in only
    assert rule("repetition_loop")(case_of(GOOD)) is None
    twice = (*range(300, 320), *range(300, 320))
    assert rule("repetition_loop")(case_of(saying(twice, loop))) is None


def test_a_lossy_lane_is_told() -> None:
    lossy = lane_start(1, "medusa", exactness="lossy")
    assert rule("lossy_rule")(case_of(GOOD, start=lossy)) is not None
    assert rule("lossy_rule")(case_of(GOOD)) is None


def test_why_it_is_faster() -> None:
    cheap_and_right = case_of(GOOD)
    assert (verdict_rules.reason_for_speed(cheap_and_right) or ("",))[0] == "verdict.why_both"
    cheap = case_of(rounds_of([1, 0] * 20))
    assert (verdict_rules.reason_for_speed(cheap) or ("",))[0] == "verdict.why_cheap"
    right = case_of(rounds_of([3] * 20, steps=0.6 * STEP))
    assert (verdict_rules.reason_for_speed(right) or ("",))[0] == "verdict.why_right"
    assert verdict_rules.reason_for_speed(case_of(BAD)) is None


def test_the_sentence_of_a_lane_that_loses() -> None:
    """Rounds of 0.042 s beside plain steps of 0.021 that yield 1.5 tokens: two steps for 1.5."""
    found = verdict.judge(case_of(rounds_of([1, 0] * 20, length=5, steps=0.0042)))
    assert found.kind == "slower"
    assert tell(found.headline) == (
        "Slower here (0.75x plain): a round costs 2.00 plain steps, so it must yield 2.00 tokens "
        "to break even; it yields only 1.50."
    )
    assert found.advice is not None
    assert tell(found.advice).startswith("Shorter drafts (K = 1) would yield 1.50 at 1.20: 1.25x")
    assert found.best is not None
    assert found.best.num_draft_tokens == 1


def test_a_speedup_within_three_percent_of_one_is_even() -> None:
    speedups = (0.96, 0.98, 1.0, 1.02, 1.04)
    said = [verdict.outcome_of(speedup) for speedup in speedups]
    assert said == ["slower", "even", "even", "even", "faster"]


def test_where_no_length_repays_it_says_to_decode_plainly() -> None:
    found = verdict.judge(case_of(BAD))
    assert found.kind == "slower"
    assert found.advice is not None
    assert found.advice[0] == "verdict.off"


def test_a_lane_that_gains_nothing_is_even() -> None:
    found = verdict.judge(case_of(rounds_of([1, 0, 0, 0] * 10, length=1, steps=0.0053)))
    assert found.kind == "even"
    assert found.account is not None
    assert found.account.speedup == pytest.approx(1, abs=0.03)


def test_a_lane_that_wins_says_by_how_much_and_why() -> None:
    found = verdict.judge(case_of(GOOD))
    assert found.kind == "faster"
    assert found.account is not None
    assert f"Faster here: {found.account.speedup:.2f}x plain" in found.sentences()
    assert [f.rule for f in found.findings] == ["reason_for_speed"]


def events_of(*lanes: tuple[LaneStart, list[RoundTrace]]) -> list[TraceEvent]:
    rounds = [replace(r, lane=start.lane) for start, own in lanes for r in own]
    return [run_start(), *(start for start, _ in lanes), *rounds]


def test_lanes_that_cannot_be_compared_are_told_so() -> None:
    plain, draft = lane_start(0), lane_start(1, "draft_model")
    run = events_of((plain, PLAIN), (draft, GOOD))
    assert verdict.judged(run, 0).kind == "plain"
    assert verdict.judged(run, 1).kind == "faster"
    assert verdict.judged(events_of((draft, GOOD)), 1).kind == "unpaired"
    assert verdict.judged(events_of((plain, PLAIN), (draft, [])), 1).kind == "too_short"
    still = [replace(r, draft_seconds=0.0, verify_seconds=0.0, commit_seconds=0.0) for r in GOOD]
    assert verdict.judged(events_of((plain, PLAIN), (draft, still)), 1).kind == "no_times"
    with pytest.raises(Refusal, match="has lanes 0, 1; got 7"):
        verdict.judged(run, 7)


def test_a_length_that_would_hardly_be_faster_is_not_advised() -> None:
    lane = next(s for s in recorded.starts("code_fibonacci") if s.drafter == "prompt_lookup")
    found = verdict.judged(recorded.events("code_fibonacci"), lane.lane)
    assert found.best is not None
    assert found.account is not None
    assert 1 < found.best.estimate.speedup / found.account.speedup < 1.03
    assert found.best.num_draft_tokens < 8
    assert found.advice is None


RECORDED_KINDS = {
    ("chat_rainbows", "draft_model"): ("faster", {"slow_drafter", "reason_for_speed"}),
    ("chat_rainbows", "prompt_lookup"): ("even", {"nothing_to_copy"}),
    ("code_fibonacci", "draft_model"): ("faster", {"slow_drafter", "reason_for_speed"}),
    ("code_fibonacci", "prompt_lookup"): ("faster", {"reason_for_speed"}),
    ("copying_a_text", "draft_model"): ("too_short", {"copied_prompt"}),
    ("copying_a_text", "prompt_lookup"): ("too_short", {"copied_prompt"}),
}


@pytest.mark.parametrize("case", RECORDED_KINDS, ids=" ".join)
def test_recorded_lanes_are_judged_as_a_reader_of_their_numbers_would(
    case: tuple[str, str],
) -> None:
    """Bound to the traces that ship: record them anew, and look at these lanes again."""
    name, drafter = case
    lanes = [s.lane for s in recorded.starts(name) if s.drafter == drafter]
    found = verdict.judged(recorded.events(name), lanes[0])
    kind, rules = RECORDED_KINDS[case]
    assert found.kind == kind
    told = {f.rule for f in found.findings}
    assert told == rules


@pytest.mark.parametrize("name", recorded.NAMES)
def test_every_recorded_lane_is_told_in_both_languages(name: str) -> None:
    for start in recorded.starts(name):
        found = verdict.judged(recorded.events(name), start.lane)
        assert "{" not in found.sentences() + found.sentences("zh")
        assert len(found.sentences("zh")) > 10
