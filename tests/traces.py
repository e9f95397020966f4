"""Small hand-made runs for tests of whatever reads traces. Not recordings: no model was run.

A run decodes a fixed answer greedily, so what the target would say is known; drafters are
given their guesses. Verdicts are worked out here by the plainest walk there is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from specviz.config import LaneSpec, Request, SamplingParams
from specviz.trace import (
    LaneEnd,
    LaneStart,
    LaneTarget,
    RoundTrace,
    RowOdds,
    RowStatus,
    RunEnd,
    RunStart,
    SessionEvent,
    TokenOdds,
    Trial,
    Verdict,
)
from specviz.tree import DraftTree

PROMPT = ("<|user|>", "\n", "Why", " guess", "?", "\n")
ANSWER = (
    "Reading", " a", " model", "'s", " weights", " is", " slow", ",", " and", " one", " pass",
    " reads", " them", " all", ".", "\n", "Checking", " several", " guesses", " costs", " about",
    " as", " much", " as", " making", " one", " token", ",", " so", " a", " cheap", " guess",
    " that", " is", " often", " right", " makes", " the", " same", " text", " come", " sooner",
    ".", " The", " target", " keeps", " the", " last", " word", ".",
)  # fmt: skip
HOSTILE = (
    "<img src=x onerror=window.pwned=1>", "</script>", "${window.pwned=1}", "{{y}}", "\x00\x07",
    "\u202eevil", "\ud83d", "<0xF0>", "\t\n  ", "\u0301", "`", "",
)  # fmt: skip
WRONG = " quite", " slow", " token", " now", " not", " these", " which", " an", " never", " it"
VOCABULARY = tuple(dict.fromkeys((*PROMPT, *ANSWER, *WRONG, *HOSTILE)))
IDS = {text: number for number, text in enumerate(VOCABULARY)}


def ids(*texts: str) -> tuple[int, ...]:
    return tuple(IDS[text] for text in texts)


def run_start(
    *, dtype: str = "float32", sampling: SamplingParams | None = None, prompt: str = "Why guess?"
) -> RunStart:
    request = Request(
        prompt=prompt,
        lanes=(LaneSpec("autoregressive"),),
        sampling=sampling or SamplingParams(),
        max_new_tokens=len(ANSWER),
    )
    target = LaneTarget(
        name="hand-made",
        source="no model: a test",
        architecture="none",
        num_parameters=1,
        num_layers=1,
        vocab_size=len(VOCABULARY),
        device="cpu",
        dtype=dtype,
        quantisation="none",
        path="none",
    )
    return RunStart(
        created="2026-01-02T03:04:05Z",
        request=request,
        target=target,
        prompt_tokens=ids(*PROMPT),
        prompt_texts=PROMPT,
        prefill_seconds=0.031,
        machine="a test bench",
        versions={},
        commit="0000000",
    )


def lane_start(
    lane: int,
    drafter: str = "autoregressive",
    *,
    title: str = "Plain decoding",
    exactness: str = "exact",
    verification: str = "rejection",
    sampling: SamplingParams | None = None,
) -> LaneStart:
    return LaneStart(
        lane=lane,
        name=f"{drafter}-{lane}",
        drafter=drafter,
        title=title,
        description="guesses written by hand",
        knobs={},
        exactness=exactness,  # type: ignore[arg-type]
        verification=verification,  # type: ignore[arg-type]
        sampling=sampling or SamplingParams(),
        drafter_prefill_seconds=0.0,
    )


def greedy_verdict(tree: DraftTree, answer: Sequence[int]) -> Verdict:
    """The walk at temperature 0, when the target goes on with `answer` and nothing else."""
    row, accepted, trials = 0, [], []
    status: list[RowStatus] = ["unreached"] * len(tree)
    status[0] = "root"
    for lookahead in range(tree.num_draft_tokens + 1, len(tree)):
        status[lookahead] = "lookahead"
    for wanted in answer:
        match = None
        for child in tree.children(row):
            is_right = tree.tokens[child] == wanted
            status[child] = "accepted" if is_right else "rejected"
            trials.append(Trial(child, 1.0, float(is_right), float(is_right), 0.5, is_right))
            if is_right:
                match = child
                break
        if match is None:
            break
        accepted.append(match)
        row = match
    tried = {t.row: t.target_prob for t in trials}
    return Verdict(
        accepted_rows=tuple(accepted),
        next_token=answer[len(accepted)],
        next_token_kind="recovered" if tree.children(row) else "bonus",
        row_status=tuple(status),
        target_probs=tuple(tried.get(r) for r in range(len(tree))),
        trials=tuple(trials),
    )


def odds(token: int, *, row: int = 0, top: float = 14.0, gap: float = 2.0) -> RowOdds:
    """Two candidates after `row`, their logits `gap` apart."""
    second = (token + 1) % len(VOCABULARY)
    return RowOdds(
        row,
        (
            TokenOdds(token, VOCABULARY[token], 0.8, top, 1.0, None, None),
            TokenOdds(second, VOCABULARY[second], 0.1, top - gap, 0.0, None, None),
        ),
    )


def round_trace(
    tree: DraftTree,
    verdict: Verdict,
    *,
    lane: int = 0,
    index: int = 0,
    cache_length: int = len(PROMPT) - 1,
    seconds: tuple[float, float, float] = (0.001, 0.004, 0.0002),
    gap: float = 2.0,
) -> RoundTrace:
    """A round; `seconds` are draft, verify, commit. A chain is drafted token by token."""
    num_steps = tree.num_draft_tokens if tree.is_chain else 0
    new = [tree.tokens[row] for row in verdict.accepted_rows]
    new += [] if verdict.next_token is None else [verdict.next_token]
    path = (0, *verdict.accepted_rows)
    return RoundTrace(
        lane=lane,
        index=index,
        tree=tree,
        texts=tuple(VOCABULARY[t] for t in tree.tokens),
        verdict=verdict,
        new_tokens=tuple(new),
        new_texts=tuple(VOCABULARY[t] for t in new),
        text="".join(VOCABULARY[t] for t in new),
        draft_probs=(1.0, *(0.5 for _ in tree.tokens[1:])),
        softmax_probs=verdict.target_probs,
        odds=tuple(odds(t, row=r, gap=gap) for t, r in zip(new, path, strict=False)),
        cache_length=cache_length,
        rows_written=len(tree),
        rows_kept=len(path),
        draft_seconds=seconds[0],
        draft_step_seconds=(0.9 * seconds[0] / num_steps,) * num_steps if num_steps else (),
        verify_seconds=seconds[1],
        commit_seconds=seconds[2],
    )


def decode(
    lane: int,
    guess: Iterable[DraftTree],
    *,
    answer: Sequence[int] = ids(*ANSWER),
    seconds: tuple[float, float, float] = (0.001, 0.004, 0.0002),
) -> Iterator[RoundTrace]:
    """Rounds until the answer is written; `guess` gives each round's tree, its root put right."""
    root, done = ids(PROMPT[-1])[0], 0
    for index, tree in enumerate(guess):
        if done == len(answer):
            return
        tree = DraftTree((root, *tree.tokens[1:]), tree.parents, tree.num_lookahead_rows)
        verdict = greedy_verdict(tree, [*answer[done:], -1])
        verdict = verdict.cut(len(answer) - done, tree)
        length = len(PROMPT) - 1 + done
        stretch = 1 + 0.05 * (index % 3)
        times = (seconds[0] * stretch, seconds[1] * stretch, seconds[2])
        round_ = round_trace(
            tree, verdict, lane=lane, index=index, cache_length=length, seconds=times
        )
        done += len(round_.new_tokens)
        root = round_.new_tokens[-1]
        yield round_


def interleaved(*lanes: Iterable[RoundTrace]) -> Iterator[RoundTrace]:
    """As the arena does: always the lane whose clock is furthest behind."""
    waiting = [(0.0, number, iter(rounds)) for number, rounds in enumerate(lanes)]
    heapq.heapify(waiting)
    while waiting:
        clock, number, rounds = heapq.heappop(waiting)
        round_ = next(rounds, None)
        if round_ is not None:
            yield round_
            heapq.heappush(waiting, (clock + round_.seconds, number, rounds))


def plain_trees() -> Iterator[DraftTree]:
    while True:
        yield DraftTree.chain(0)


def chain_trees(answer: Sequence[int] = ids(*ANSWER), length: int = 4) -> Iterator[DraftTree]:
    """Chains that go wrong after 3, 4, 0, 2, 1, 3, ... tokens; the next one starts right."""
    wrong = ids(*WRONG)
    done = 0
    for index, hits in enumerate((3, 4, 0, 2, 1, 3, 4, 2) * 40):
        right = list(answer[done : done + min(hits, length)])
        miss = [wrong[(index + i) % len(wrong)] for i in range(length - len(right))]
        following = answer[done + len(right) : done + len(right) + 1]
        if miss and following and miss[0] == following[0]:
            miss[0] = wrong[(index + 5) % len(wrong)]
        yield DraftTree.chain(0, right + miss)
        done += len(right) + 1


def bushy_trees(answer: Sequence[int] = ids(*ANSWER), width: int = 3) -> Iterator[DraftTree]:
    """Trees of 3 deep paths whose right branch is the first, second or third, or absent."""
    wrong = ids(*WRONG)
    done = 0
    for index in range(200):
        depth = (4, 2, 3, 1)[index % 4]
        right = list(answer[done : done + depth])
        paths: list[list[int]] = []
        for branch in range(width):
            if branch == index % width:
                paths.append(right)
                paths.append([*right[: depth // 2], wrong[(index + branch) % len(wrong)]])
            off = [wrong[(index + 3 * branch + i) % len(wrong)] for i in range(3)]
            paths.append([t for t in off if t not in right[:1]])
        tree = DraftTree.from_paths(0, paths)
        yield tree
        done += len(greedy_verdict(tree, [*answer[done:], -1]).accepted_rows) + 1


def lookahead_trees(answer: Sequence[int] = ids(*ANSWER)) -> Iterator[DraftTree]:
    """One guess of two tokens, and a window of 3 columns by 2 levels read beside it."""
    wrong = ids(*WRONG)
    done = 0
    for index in range(200):
        right = list(answer[done : done + 2]) if index % 2 else [wrong[index % len(wrong)]]
        tree = DraftTree.chain(0, right)
        start = len(tree)
        window = (0, start, start + 1, start, start + 1, start + 2)
        tokens = tuple(wrong[(index + i) % len(wrong)] for i in range(len(window)))
        yield DraftTree((*tree.tokens, *tokens), (*tree.parents, *window), len(window))
        done += len(greedy_verdict(tree, [*answer[done:], -1]).accepted_rows) + 1


def demo_run() -> list[SessionEvent]:
    """Four lanes of one prompt: plain, a chain, trees, and lookahead with its window."""
    starts = [
        lane_start(0),
        lane_start(1, "draft_model", title="Draft model"),
        lane_start(2, "medusa", title="Tree of guesses"),
        lane_start(3, "lookahead", title="Lookahead"),
    ]
    lanes = (
        decode(0, plain_trees(), seconds=(0.00001, 0.021, 0.0002)),
        decode(1, chain_trees(), seconds=(0.012, 0.026, 0.0004)),
        decode(2, bushy_trees(), seconds=(0.004, 0.030, 0.0006)),
        decode(3, lookahead_trees(), seconds=(0.0002, 0.029, 0.0005)),
    )
    rounds = list(interleaved(*lanes))
    ends = [LaneEnd(s.lane, "length", "".join(ANSWER)) for s in starts]
    return [run_start(), *starts, *rounds, *ends, RunEnd(sum(r.seconds for r in rounds))]
