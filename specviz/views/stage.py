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
as soon as that run's "start" item comes; until then (progress) the old picture stays usable, and
other runs may be shown. A run that has been replaced is not listened to again. `label` says in
words where the run comes from; it is the badge. An envelope may carry `"last": true`: nothing follows, whatever was said.

In the browser (SCRIPTS and STYLES in `assets/`, in that order; scripts are plain: definitions, no
imports):

    const stage = SpecVizStage.mount(rootElement);
    stage.receive(envelopeString);     // any number of times
    stage.pending("Waiting in line");  // Run was pressed, nothing has come yet
    stage.interrupted("Stopped.");     // Stop was pressed or the connection was lost
    stage.look((view) => {});          // after each drawing; see stage_look.js. Returns a way to stop
    stage.destroy();                   // frees its listeners; the page seldom needs it

Items, told apart by "kind" (times in seconds on the lane's own clock, prefill excluded):

    progress  stage, message, done, total
    start     created, target, device, dtype, quantisation, source, path, machine (messages), prompt
              (cleaned text), prompt_tokens (texts), num_prompt_tokens, prefill_seconds, sampling (message),
              seed, max_new_tokens, settings {name: value}, read_costs (text), versions {library: version}, commit,
              asked {prompt, target, stop_strings} as a request has them
    lane      lane, name, drafter, title, description, knobs, prefill (messages), is_plain,
              backbone (text, empty: the target) and model (message about it, or empty),
              family "plain" | "chain" | "tree" | "text" (how it drafts), promise "text" |
              "distribution" | "approximate" (what of plain decoding it keeps), rule "greedy" |
              "rejection" | "coupled", column "head" | "step" | "level" | "pass" | "" (what makes
              the tokens of one depth), prefill_seconds
    round     lane, round (from 1), at [start, drafted, verified, end], outcome "plain" | "none" |
              "some" | "all", tree, draft, next, new, kept_rows, lost_rows, prefix, rows_written,
              rows_kept, num_drafted, num_accepted, time, total, versus, sentence (message)
    lane_end  lane, reason, sentence (message)
    end       wall_seconds, versus, finish [{lane, seconds, num_tokens}], the first to finish first,
              finish_by "time" | "rate" (texts differ in length: by time per token), first_look (the two lanes that a first look should see), judged {lane: item of
              `views/judgement.py`}
    failure   message

A message is [key, values] of `specviz/words.py`, or a text as it stands.

    tree      width, height, lookahead_y (first line of the lookahead block, null without),
              x, y, depth, parent, position (ids), text, id, status, sees (rows that each row may
              attend to), branch (which child of its parent each row is, from 0), draft_prob (null
              where the drafter gave no chances), target_prob,
              softmax_prob (the target's own number), shown_prob (the one of these two that the
              row's decision rests on; null where only another is known),
              trials {row: {draft_prob, target_prob, threshold, draw, is_accepted}},
              odds {row: {gap, is_near_tie, tokens [[text, id, p, q, residual, softmax], ...]}} of the rows that
              the walk came to
    draft     steps (seconds of each pass of the drafter), born (seconds into the round at which
              each row was made), grown_at, score, rank (null without candidates), num_grown,
              num_pruned, ghosts [{text, id, parent, depth, score, rank, born, y (line)}] pruned
              candidates, number N + k for the k-th, num_best (so many ghosts, from the first,
              have the best scores), heights (lines in use with the best, and with all ghosts),
              heads [[text, id, probability], ...] by depth, levels [[grown or null, kept], ...] by
              depth, window (levels of columns of rows), pool {size, ngrams (rows)} or null, match
              {start, length, copied} in tokens of the text or null
    next      the target's own token: text, id, kind "bonus" | "recovered" | "plain", x, y, parent
    new       text, id, row and origin of each committed token; an origin is a depth (drafted) or a
              kind, and then the row is -1
    total     num_tokens, num_rounds, tau, accepted_per_round, tokens_per_second, seconds, num_drafted,
              num_accepted, acceptance_rate, depths [[reached, accepted, rate, low, high], ...],
              lengths [rounds that accepted 0, 1, ... tokens], time
    time      draft, verify, commit: {seconds, share} each
    versus    {lane: {plain (the lane compared with; null: there is none), outcome "faster" | "even"
              | "slower", speedup, rho, round_seconds, plain_step (seconds), agreement}} for every lane that this
              event changed; agreement is {state, num_tokens, top_two_gap, sentence (message)}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, TypeAlias

from specviz.metrics import time_split
from specviz.trace import (
    Failure,
    LaneEnd,
    LaneStart,
    Progress,
    RoundTrace,
    RunEnd,
    RunStart,
    SessionEvent,
    TraceEvent,
)
from specviz.views.agreement import Comparison, is_greedy
from specviz.views.drafting import COLUMNS
from specviz.views.judgement import judged_item
from specviz.views.lane_sums import LaneSums, time_item
from specviz.views.lineup import differing_knobs, first_look, lane_item
from specviz.views.numbers import short
from specviz.views.round_picture import check_lengths, picture
from specviz.views.summary import lane_end_message, read_curve, round_message
from specviz.views.tokens import glyphs, legible, legible_message
from specviz.views.told import told
from specviz.words import Message, message

Item: TypeAlias = dict[str, Any]
STYLES = ("stage.css", "stage_lanes.css", "stage_pane.css", "stage_truth.css", "stage_widths.css")
SCRIPTS = (  # each needs those before it, and SpecVizWords
    "stage_run.js",
    "stage_time.js",
    "stage_dom.js",
    "stage_term.js",
    "stage_node.js",
    "stage_pan.js",
    "stage_tree.js",
    "stage_source.js",
    "stage_mask.js",
    "stage_text.js",
    "stage_card.js",
    "stage_chart.js",
    "stage_account.js",
    "stage_what_if.js",
    "stage_numbers.js",
    "stage_others.js",
    "stage_race.js",
    "stage_lane.js",
    "stage_table.js",
    "stage_page.js",
    "stage_play.js",
    "stage_select.js",
    "stage_pane.js",
    "stage_place.js",
    "stage_first.js",
    "stage_clock.js",
    "stage_sheet.js",
    "stage_sizes.js",
    "stage_speak.js",
    "stage_keys.js",
    "stage_hear.js",
    "stage_look.js",
    "stage.js",
)


class StageFeed:
    """One run's events, in order, to the stage's items. Make a new feed for each run."""

    def __init__(self) -> None:
        self._lanes: dict[int, LaneSums] = {}
        self._plain: dict[str, LaneSums] = {}  # the plain lane of each backbone
        self._reasons: dict[int, str] = {}
        self._dtype = ""
        self._differing: dict[str, list[str]] = {}  # by drafter
        self._passed: list[TraceEvent] = []  # for the judgement at the end

    def feed(self, event: SessionEvent) -> list[Item]:
        """Items for one event. ValueError if the trace contradicts itself."""
        if not isinstance(event, Progress | Failure):
            self._passed.append(event)
        if isinstance(event, RoundTrace):
            return [self._round(event)]
        if isinstance(event, RunStart):
            self._dtype = event.target.dtype
            self._differing = differing_knobs(event.request.lanes)
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
        return lane_item(start, self._differing.get(start.drafter, []))

    def _end(self, event: RunEnd) -> Item:
        """The lanes that came to the end of their text, by what it cost on their own clock; by what a
        token cost where one text is longer than another."""
        done = [n for n, reason in self._reasons.items() if reason in ("stop", "length")]
        tokens = {n: self._lanes[n].tally.num_tokens for n in done}
        is_even = len(set(tokens.values())) <= 1
        share = {n: 1 if is_even else max(tokens[n], 1) for n in done}
        done.sort(key=lambda number: (self._lanes[number].seconds / share[number], number))
        return {
            "kind": "end",
            "wall_seconds": short(event.wall_seconds),
            "versus": self._versus(self._lanes),
            "finish": [
                {"lane": n, "seconds": short(self._lanes[n].seconds), "num_tokens": tokens[n]}
                for n in done
            ],
            "finish_by": "time" if is_even else "rate",
            "first_look": first_look(self._lanes.values(), self._plain),
            "judged": self._judged(),
        }

    def _judged(self) -> Item:
        """What is recognised about each lane that drafts: why, at what cost, and what to do."""
        return {
            str(number): judged_item(self._passed, number)
            for number, lane in self._lanes.items()
            if lane.num_rounds and not lane.is_plain
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
            **picture(
                round_,
                column=COLUMNS.get(lane.start.drafter, ""),
                sampling=lane.start.sampling,
                dtype=self._dtype,
            ),
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
            if plain is None:
                found[str(number)] = lane.versus(None, is_alone=not self._plain)
            elif plain.num_rounds:
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
        "settings": _settings(start),
        "read_costs": read_curve(start),
        "versions": {name: legible(version) for name, version in start.versions.items()},
        "commit": legible(start.commit),
        "asked": {
            "prompt": request.prompt,
            "target": request.target,
            "stop_strings": list(request.stop_strings),
        },
    }


def _settings(start: RunStart) -> dict[str, Any]:
    """What was asked for besides prompt, lanes, seed and budget, by its name in a request."""
    request = start.request
    more = ("precision", "verification", "is_chat", "is_adaptive")
    return {**asdict(request.sampling), **{name: getattr(request, name) for name in more}}


def _sampling(start: RunStart) -> Message:
    sampling, rule = start.request.sampling, start.request.verification
    if is_greedy(sampling):
        return message("sampling.greedy")
    return message("sampling." + rule, temperature=f"{sampling.temperature:g}")
