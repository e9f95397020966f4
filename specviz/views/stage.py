"""StageFeed: folds session events into the items that the stage (`assets/stage.js`) paints.

The same fold serves a live run and a recorded one, so both give the same items in the same
order. Every fact of decoding that the page shows is found here, from `trace` and `metrics`;
the browser scales, animates and formats, and works out nothing. It keeps running sums: a
round costs the same however long the run. This is not the page (`specviz.ui`), and it draws
nothing.

The page wraps items in envelopes and sends each as one JSON string, written with
`json.dumps(envelope, ensure_ascii=True, allow_nan=False)`:

    {"v": 1, "run": "<id>", "seq": n, "source": "live" | "recorded", "label": "...", "items": [...]}

`seq` starts at 0 and counts envelopes of that run. The stage drops repeats, holds back what
comes early and says so when one stays missing. A run id it has not seen replaces the picture
as soon as that run's "start" item comes; until then (progress) the old picture stays usable.
A run that has been replaced is not listened to again. `label` says in words where the run comes
from; it is the badge. An envelope may carry `"last": true`: nothing follows, whatever was said.

In the browser (SCRIPTS in `assets/`, in that order, are plain scripts: definitions, no imports):

    const stage = SpecVizStage.mount(rootElement);
    stage.receive(envelopeString);     // any number of times
    stage.pending("Waiting in line");  // Run was pressed, nothing has come yet
    stage.interrupted("Stopped.");     // Stop was pressed or the connection was lost
    stage.destroy();                   // frees its listeners; the page seldom needs it

Items, told apart by "kind" (times in seconds on the lane's own clock, prefill excluded):

    progress  stage, message, done, total
    start     created, target, device, dtype, quantisation, source, path, machine, prompt (cleaned
              text), num_prompt_tokens, prefill_seconds, sampling (words), seed, max_new_tokens
    lane      lane, name, title, description, knobs (words), is_plain, is_lossy, prefill_seconds
    round     lane, round (from 1), at [start, drafted, verified, end], tree, next, new, prefix,
              rows_written, rows_kept, num_drafted, num_accepted, time, total, versus, sentence
    lane_end  lane, reason, sentence
    end       wall_seconds, versus
    failure   message

    tree      width, height, lookahead_y (first line of the lookahead block, null without),
              x, y, depth, parent, text, status, sees (rows that each row may attend to),
              draft_prob, target_prob, trials {row: {threshold, draw, is_accepted}},
              odds {row: [[text, target_prob], ...]} of the rows that the walk came to
    next      the target's own token: text, kind "bonus" | "recovered" | "plain", x, y, parent
    new       text and origin of each committed token; an origin is a depth (drafted) or a kind
    total     num_tokens, num_rounds, tau, tokens_per_second, num_drafted, num_accepted,
              acceptance_rate, time
    time      draft, verify, commit: {seconds, share} each
    versus    {lane: {speedup, rho, agreement}} against the plain lane, for every lane that this
              event changed; agreement is {state, num_tokens, top_two_gap, sentence}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from specviz.trace import (
    LaneEnd,
    LaneStart,
    Progress,
    RoundTrace,
    RowOdds,
    RunEnd,
    RunStart,
    SessionEvent,
)
from specviz.views.agreement import Comparison, is_greedy
from specviz.views.round_picture import check_lengths, picture, short
from specviz.views.summary import (
    PLAIN_DRAFTER,
    lane_end_sentence,
    own_prefill,
    round_sentence,
)
from specviz.views.tokens import legible

Item: TypeAlias = dict[str, Any]
SCRIPTS = ("stage_run.js", "stage_paint.js", "stage.js")  # each needs those before it


@dataclass(slots=True)
class _Lane:
    """Running sums of one lane; after any round they equal `metrics` of the rounds so far."""

    start: LaneStart
    comparison: Comparison
    num_rounds: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    commit_seconds: float = 0.0
    answer: list[int] = field(default_factory=list)
    odds: list[RowOdds] = field(default_factory=list)  # one per answer token; plain lane only

    @property
    def is_plain(self) -> bool:
        return self.start.drafter == PLAIN_DRAFTER

    @property
    def seconds(self) -> float:
        return self.draft_seconds + self.verify_seconds + self.commit_seconds

    @property
    def tokens_per_second(self) -> float | None:
        return _ratio(len(self.answer), self.seconds)

    def add(self, round_: RoundTrace) -> None:
        self.num_rounds += 1
        self.num_drafted += round_.tree.num_draft_tokens
        self.num_accepted += len(round_.verdict.accepted_rows)
        self.draft_seconds += round_.draft_seconds
        self.verify_seconds += round_.verify_seconds
        self.commit_seconds += round_.commit_seconds
        self.answer += round_.new_tokens
        if self.is_plain:
            self.odds += round_.odds

    def total(self) -> Item:
        return {
            "num_tokens": len(self.answer),
            "num_rounds": self.num_rounds,
            "tau": short(_ratio(len(self.answer), self.num_rounds)),
            "tokens_per_second": short(self.tokens_per_second),
            "num_drafted": self.num_drafted,
            "num_accepted": self.num_accepted,
            "acceptance_rate": short(_ratio(self.num_accepted, self.num_drafted)),
            "time": _time_item(self.draft_seconds, self.verify_seconds, self.commit_seconds),
        }

    def versus(self, plain: _Lane) -> Item:
        """This lane beside the plain one, each as far as it has come."""
        per_round = _ratio(self.seconds, self.num_rounds)
        agreement = self.comparison.update(self.answer, plain.answer, plain.odds)
        return {
            "speedup": short(_ratio(self.tokens_per_second, plain.tokens_per_second)),
            "rho": short(_ratio(per_round, _ratio(plain.seconds, plain.num_rounds))),
            "agreement": {**asdict(agreement), "top_two_gap": short(agreement.top_two_gap)},
        }


class StageFeed:
    """One run's events, in order, to the stage's items. Make a new feed for each run."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._plain: _Lane | None = None
        self._dtype = ""

    def feed(self, event: SessionEvent) -> list[Item]:
        """Items for one event. ValueError if the trace contradicts itself."""
        if isinstance(event, RoundTrace):
            return [self._round(event)]
        if isinstance(event, RunStart):
            self._dtype = event.target.dtype
            return [_start_item(event)]
        if isinstance(event, LaneStart):
            return [self._lane(event)]
        if isinstance(event, LaneEnd):
            sentence = legible(lane_end_sentence(event))
            return [
                {
                    "kind": "lane_end",
                    "lane": event.lane,
                    "reason": event.reason,
                    "sentence": sentence,
                }
            ]
        if isinstance(event, RunEnd):
            versus = self._versus(self._lanes)
            return [{"kind": "end", "wall_seconds": short(event.wall_seconds), "versus": versus}]
        if isinstance(event, Progress):
            return [{**asdict(event), "message": legible(event.message)}]
        return [{"kind": "failure", "message": legible(event.message)}]

    def _lane(self, start: LaneStart) -> Item:
        lane = _Lane(start, Comparison(start, self._dtype))
        self._lanes[start.lane] = lane
        if lane.is_plain and self._plain is None:
            self._plain = lane
        return {
            "kind": "lane",
            "lane": start.lane,
            "name": legible(start.name),
            "title": legible(start.title),
            "description": legible(
                "; ".join(filter(None, (start.description, own_prefill(start))))
            ),
            "knobs": legible(", ".join(f"{k} {v}" for k, v in start.knobs.items())),
            "is_plain": lane.is_plain,
            "is_lossy": start.exactness == "lossy",
            "prefill_seconds": short(start.drafter_prefill_seconds),
        }

    def _round(self, round_: RoundTrace) -> Item:
        lane = self._lanes.get(round_.lane)
        if lane is None:
            raise ValueError(f"The trace has a round of lane {round_.lane}, which never started.")
        check_lengths(round_)
        began = lane.seconds
        lane.add(round_)
        drafted = began + round_.draft_seconds
        at = (began, drafted, drafted + round_.verify_seconds, lane.seconds)
        return {
            "kind": "round",
            "lane": round_.lane,
            "round": round_.index + 1,
            "at": [round(seconds, 9) for seconds in at],
            **picture(round_),
            "prefix": round_.cache_length,
            "rows_written": round_.rows_written,
            "rows_kept": round_.rows_kept,
            "num_drafted": round_.tree.num_draft_tokens,
            "num_accepted": len(round_.verdict.accepted_rows),
            "time": _time_item(round_.draft_seconds, round_.verify_seconds, round_.commit_seconds),
            "total": lane.total(),
            "versus": self._versus(self._lanes if lane is self._plain else [round_.lane]),
            "sentence": round_sentence(round_, is_plain=lane.is_plain),
        }

    def _versus(self, changed: Iterable[int]) -> Item:
        plain = self._plain
        if plain is None or not plain.num_rounds:
            return {}
        lanes = {number: self._lanes[number] for number in changed}
        return {
            str(number): lane.versus(plain)
            for number, lane in lanes.items()
            if lane is not plain and lane.num_rounds
        }


def _start_item(start: RunStart) -> Item:
    target, request = start.target, start.request
    return {
        "kind": "start",
        "created": start.created,
        "target": legible(target.name),
        "device": legible(target.device),
        "dtype": target.dtype,
        "quantisation": target.quantisation,
        "source": legible(target.source),
        "path": legible(target.path),
        "machine": legible(start.machine),
        "prompt": legible("".join(start.prompt_texts)),
        "num_prompt_tokens": len(start.prompt_tokens),
        "prefill_seconds": short(start.prefill_seconds),
        "sampling": _sampling_words(start),
        "seed": request.seed,
        "max_new_tokens": request.max_new_tokens,
    }


def _time_item(draft: float, verify: float, commit: float) -> Item:
    seconds = {"draft": draft, "verify": verify, "commit": commit}
    whole = sum(seconds.values())
    return {
        part: {"seconds": short(value), "share": short(_ratio(value, whole))}
        for part, value in seconds.items()
    }


def _sampling_words(start: RunStart) -> str:
    if is_greedy(start.request.sampling):
        return "greedy"
    rule = {"rejection": "rejection sampling", "coupled": "coupled sampling"}
    words = f"temperature {start.request.sampling.temperature:g}"
    return f"{words}, {rule[start.request.verification]}"


def _ratio(part: float | None, whole: float | None) -> float | None:
    """None where nothing was measured yet: no rounds, no drafts, or a clock that stood still."""
    return None if part is None or not whole else part / whole
