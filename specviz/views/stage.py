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
    start     created, target, device, dtype, quantisation, source, path, machine (messages), prompt
              (cleaned text), prompt_tokens (texts), num_prompt_tokens, prefill_seconds, sampling (message),
              seed, max_new_tokens
    lane      lane, name, title, description, knobs, prefill (messages), is_plain, is_lossy,
              rule "greedy" | "rejection" | "coupled", has_heads, prefill_seconds
    round     lane, round (from 1), at [start, drafted, verified, end], outcome "plain" | "none" |
              "some" | "all", tree, draft, next, new, kept_rows, lost_rows, prefix, rows_written,
              rows_kept, num_drafted, num_accepted, time, total, versus, sentence (message)
    lane_end  lane, reason, sentence (message)
    end       wall_seconds, versus, finish [{lane, seconds}], the first to finish first
    failure   message

A message is [key, values] of `specviz/words.py`, or a text as it stands.

    tree      width, height, lookahead_y (first line of the lookahead block, null without),
              x, y, depth, parent, position (ids), text, id, status, sees (rows that each row may
              attend to), draft_prob, target_prob, softmax_prob (the target's own number),
              trials {row: {draft_prob, target_prob, threshold, draw, is_accepted}},
              odds {row: {gap, tokens [[text, id, p, q, residual, softmax], ...]}} of the rows that
              the walk came to
    draft     steps (seconds of each pass of the drafter), born (seconds into the round at which
              each row was made), grown_at, score, rank (null without candidates), num_grown, num_pruned,
              ghosts [{text, id, parent, depth, score, rank, born}] pruned candidates, number
              N + k for the k-th, places {x, y, next, lookahead_y, width, height} of rows and ghosts
              (null without ghosts), heads [[text, id, probability], ...] by depth, window (levels
              of columns of rows), pool {size, ngrams (rows)} or null, match {start, length,
              copied} in tokens of the text or null
    next      the target's own token: text, id, kind "bonus" | "recovered" | "plain", x, y, parent
    new       text, id, row and origin of each committed token; an origin is a depth (drafted) or a
              kind, and then the row is -1
    total     num_tokens, num_rounds, tau, accepted_per_round, tokens_per_second, num_drafted,
              num_accepted, acceptance_rate, depths [[reached, accepted, rate, low, high], ...],
              lengths [rounds that accepted 0, 1, ... tokens], time
    time      draft, verify, commit: {seconds, share} each
    versus    {lane: {speedup, rho, agreement}} against the plain lane, for every lane that this
              event changed; agreement is {state, num_tokens, top_two_gap, sentence (message)}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, TypeAlias

from specviz.metrics import time_split
from specviz.trace import (
    LaneEnd,
    LaneStart,
    Progress,
    RoundTrace,
    RunEnd,
    RunStart,
    SessionEvent,
)
from specviz.views.agreement import Comparison, is_greedy
from specviz.views.drafting import HEADS
from specviz.views.lane_sums import LaneSums, time_item
from specviz.views.numbers import short
from specviz.views.round_picture import check_lengths, picture
from specviz.views.summary import lane_end_message, own_prefill, round_message
from specviz.views.told import knobs_message, told
from specviz.views.tokens import glyphs, legible, legible_message
from specviz.words import Message, message, table

Item: TypeAlias = dict[str, Any]
SCRIPTS = (  # each needs those before it, and SpecVizWords
    "stage_run.js",
    "stage_time.js",
    "stage_dom.js",
    "stage_tree.js",
    "stage_source.js",
    "stage_mask.js",
    "stage_text.js",
    "stage_card.js",
    "stage_chart.js",
    "stage_numbers.js",
    "stage_race.js",
    "stage_lane.js",
    "stage_page.js",
    "stage_play.js",
    "stage_select.js",
    "stage_hear.js",
    "stage.js",
)


class StageFeed:
    """One run's events, in order, to the stage's items. Make a new feed for each run."""

    def __init__(self) -> None:
        self._lanes: dict[int, LaneSums] = {}
        self._plain: dict[str, LaneSums] = {}  # the plain lane of each backbone
        self._reasons: dict[int, str] = {}
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
            said = lane_end_message(event)
            self._reasons[event.lane] = event.reason
            return [
                {
                    "kind": "lane_end",
                    "lane": event.lane,
                    "reason": event.reason,
                    "sentence": said,
                }
            ]
        if isinstance(event, RunEnd):
            return [self._end(event)]
        if isinstance(event, Progress):
            return [{**asdict(event), "message": legible_message(event.message)}]
        return [{"kind": "failure", "message": legible_message(event.message)}]

    def _lane(self, start: LaneStart) -> Item:
        lane = LaneSums(start, Comparison(start, self._dtype))
        self._lanes[start.lane] = lane
        if lane.is_plain:
            self._plain.setdefault(start.backbone, lane)
        rule = "greedy" if is_greedy(start.sampling) else start.verification
        return {
            "kind": "lane",
            "lane": start.lane,
            "name": legible(start.name),
            "title": _title(start),
            "description": told(start.description, "drafts."),
            "prefill": own_prefill(start) or "",
            "knobs": knobs_message(start.knobs),
            "is_plain": lane.is_plain,
            "is_lossy": start.exactness == "lossy",
            "rule": rule,
            "has_heads": start.drafter in HEADS,
            "prefill_seconds": short(start.drafter_prefill_seconds),
        }

    def _end(self, event: RunEnd) -> Item:
        """The lanes that came to the end of their text, by what it cost on their own clock."""
        done = [n for n, reason in self._reasons.items() if reason in ("stop", "length")]
        done.sort(key=lambda number: (self._lanes[number].seconds, number))
        return {
            "kind": "end",
            "wall_seconds": short(event.wall_seconds),
            "versus": self._versus(self._lanes),
            "finish": [{"lane": n, "seconds": short(self._lanes[n].seconds)} for n in done],
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
            **picture(round_, has_heads=lane.start.drafter in HEADS),
            "prefix": round_.cache_length,
            "rows_written": round_.rows_written,
            "rows_kept": round_.rows_kept,
            "num_drafted": round_.tree.num_draft_tokens,
            "num_accepted": len(round_.verdict.accepted_rows),
            "time": time_item(time_split([round_])),
            "total": lane.total(),
            "versus": self._versus(self._lanes if lane.is_plain else [round_.lane]),
            "sentence": round_message(round_, is_plain=lane.is_plain),
        }

    def _versus(self, changed: Iterable[int]) -> Item:
        """Each lane beside the plain lane of its own backbone, if both have begun."""
        found = {}
        for number in changed:
            lane = self._lanes[number]
            plain = self._plain.get(lane.start.backbone)
            if plain is lane or not lane.num_rounds:
                continue
            if plain is None and (lane.start.backbone or self._plain):
                found[str(number)] = lane.versus(None)
            elif plain is not None and plain.num_rounds:
                found[str(number)] = lane.versus(plain)
        return found


def _start_item(start: RunStart) -> Item:
    target, request = start.target, start.request
    return {
        "kind": "start",
        "created": start.created,
        "target": legible(target.name),
        "device": legible(target.device),
        "dtype": target.dtype,
        "quantisation": target.quantisation,
        "source": told(target.source, "source."),
        "path": told(target.path, "path."),
        "machine": told(start.machine, "machine."),
        "prompt": legible("".join(start.prompt_texts)),
        "prompt_tokens": [glyphs(text) for text in start.prompt_texts],
        "num_prompt_tokens": len(start.prompt_tokens),
        "prefill_seconds": short(start.prefill_seconds),
        "sampling": _sampling(start),
        "seed": request.seed,
        "max_new_tokens": request.max_new_tokens,
    }


def _title(start: LaneStart) -> Message | str:
    """The drafter's title, in any language if it is the one of this program's words."""
    key = f"drafter.{start.drafter}.title"
    return message(key) if table("en").get(key) == start.title else legible(start.title)


def _sampling(start: RunStart) -> Message:
    sampling, rule = start.request.sampling, start.request.verification
    if is_greedy(sampling):
        return message("sampling.greedy")
    return message("sampling." + rule, temperature=f"{sampling.temperature:g}")
