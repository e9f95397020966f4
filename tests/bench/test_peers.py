"""Peers: their numbers on answers written by hand, how they are kept, and where they are told of."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from specviz.bench.csv_report import report_csv
from specviz.bench.peers import Peer, PeerAnswer
from specviz.bench.records import PartialFile
from specviz.bench.report import report_json, report_text
from specviz.bench.results import Results
from specviz.bench.run import Benchmark
from tests.bench.fake_session import FakeSession, Notes, plan
from tests.bench.test_run import PROMPTS, SCRIPTS, SIX, TWO

PREFILL = 0.031  # of every run of the fake session
SPEEDS = {"float32": 2.0, "bfloat16": 1.0}
GENERATE = Peer("generate", "autoregressive", "generate()", "float32", SPEEDS)
COPYING = Peer("copying, as eagle", "eagle", "generate(copy=8)", "float32", SPEEDS)
# seconds and passes of each peer on the answers of six and of two tokens
ANSWERS = {
    GENERATE.name: {6: PeerAnswer(SIX, 24.0, 6), 2: PeerAnswer(TWO, 8.0, 2)},
    COPYING.name: {6: PeerAnswer((1, 2, 3, 9, 9, 9), 12.0, 4), 2: PeerAnswer(TWO, 16.0, 2)},
}


@dataclass
class FakePeers:
    peers: tuple[Peer, ...] = (GENERATE, COPYING)
    left_out: dict[str, str] = field(default_factory=lambda: {"assisted": "There is no draft."})
    asked: list[tuple[str, int]] = field(default_factory=list)

    def answer(self, peer: Peer, prompt: Sequence[int], num_tokens: int) -> PeerAnswer:
        assert len(prompt) > 1
        self.asked.append((peer.name, num_tokens))
        if num_tokens not in ANSWERS[peer.name]:
            raise ValueError("generate wrote 3 tokens; 1 were asked for.")
        return ANSWERS[peer.name][num_tokens]


def measured(
    peers: FakePeers,
    prompts: Sequence[tuple[str, str]] = PROMPTS,
    session: FakeSession | None = None,
    kept: PartialFile | None = None,
    notes: Notes | None = None,
) -> Results:
    wanted = replace(plan("eagle", prompts=prompts), is_with_peers=True)
    benchmark = Benchmark(session or FakeSession(SCRIPTS), wanted, notes or Notes(), lambda: False)
    setup = replace(benchmark.warm_up(), peers=peers)
    records, is_complete = benchmark.measure(setup, kept)
    return Results(wanted, setup, tuple(records), is_complete, 0.0)


@pytest.fixture(scope="module")
def results() -> Results:
    return measured(FakePeers())


@pytest.fixture(scope="module")
def document(results: Results) -> Any:
    return json.loads(report_json(results))


def test_they_write_as_many_tokens_as_our_plain_lane_and_take_turns() -> None:
    peers, notes = FakePeers(), Notes()
    measured(peers, notes=notes)
    first, second = GENERATE.name, COPYING.name
    assert peers.asked == [(first, 6), (second, 6), (second, 2), (first, 2)]
    assert [step for step, _ in notes.steps] == list(range(9))
    assert {of for _, of in notes.steps} == {8}


def test_ours_is_compared_with_prefill_at_equal_drafts(document: Any) -> None:
    """eagle takes 7.5 and 6 s, plain decoding 12 and 4 s, each behind a prefill."""
    copying = document["peers"][COPYING.name]
    ratios = [12 / (7.5 + PREFILL), 16 / (6 + PREFILL)]
    assert copying["our_speedup"] == pytest.approx(sum(ratios) / 2)
    assert copying["our_speedup_of_totals"] == pytest.approx(28 / (13.5 + 2 * PREFILL))
    assert copying["over_generate"] == pytest.approx((2 + 0.5) / 2)
    assert (copying["lane"], copying["tokens_per_pass"]) == ("eagle", 8 / 6)
    assert copying["tokens_per_second"] == pytest.approx(8 / 28)
    generate = document["peers"][GENERATE.name]
    ratios = [24 / (12 + PREFILL), 8 / (4 + PREFILL)]
    assert generate["our_speedup"] == pytest.approx(sum(ratios) / 2)
    assert generate["over_generate"] == 1.0


def test_where_they_differ_from_our_plain_text_is_told(document: Any) -> None:
    copying = document["peers"][COPYING.name]
    assert (copying["identical"], copying["prompts"], copying["near_ties"]) == (1, 2, 0)
    assert copying["differences"] == [
        {"prompt": "P1", "position": 3, "top_two_gap": 2.0, "is_near_tie": False}
    ]
    assert document["peers"][GENERATE.name]["identical"] == 2


def test_a_peer_is_no_lane(document: Any) -> None:
    assert list(document["lanes"]) == ["autoregressive", "eagle"]
    assert document["lanes"]["eagle"]["speedup"] == pytest.approx((1.6 + 2 / 3) / 2)
    assert document["prompts"] == 2
    assert document["peers_left_out"] == {"assisted": "There is no draft."}
    assert document["peers"]["generate"]["dtype"] == "float32"
    assert document["peers"]["generate"]["warm_up_tokens_per_second"] == SPEEDS


def test_people_read_of_them_in_a_table_of_their_own(results: Results) -> None:
    text = report_text(results, is_markdown=False)
    row = next(line for line in text.splitlines() if line.startswith("copying"))
    assert re.split(r"\s{2,}", row) == [
        *("copying, as eagle", "float32", "1.33", "0.3", "1.25x (0.88 to 1.62)"),
        *("2.12x (1.86 to 2.39)", "2.06x", "1/2", "2"),
    ]
    for sentence in (
        "  copying, as eagle: generate(copy=8), against eagle; float32 2.0, bfloat16 1.0 tokens/s",
        "  assisted: There is no draft.",
    ):
        assert sentence in text
    assert "\n| copying, as eagle | float32 | 1.33 |" in report_text(results, is_markdown=True)


def test_their_lines_of_the_csv_hold_whole_seconds_only(results: Results) -> None:
    rows = list(csv.DictReader(io.StringIO(report_csv(results))))
    assert len(rows) == 2 * 4
    row = next(r for r in rows if r["lane"] == COPYING.name and r["prompt"] == "P1")
    assert (row["whole_seconds"], row["rounds"], row["tokens"]) == ("12.0", "4", "6")
    assert (row["identical"], row["differs_at_token"]) == ("no", "4")
    assert (row["verify_seconds"], row["speedup"], row["baseline"]) == ("", "", "")


def test_a_peer_that_fails_on_a_prompt_is_skipped_with_the_reason() -> None:
    """The fake session answers other prompts with one token, which the peers cannot."""
    results = measured(FakePeers(), [*PROMPTS, ("P3", "short")])
    names = [GENERATE.name, COPYING.name]
    assert results.skipped == [("P3", "generate wrote 3 tokens; 1 were asked for.", names)]
    assert [len(lane.records) for lane in results.lanes.values()] == [3, 3]
    assert [len(peer.records) for peer in results.peers.values()] == [2, 2]


def test_without_a_plain_answer_there_is_nothing_to_ask_a_peer_for() -> None:
    peers = FakePeers()
    session = FakeSession({**SCRIPTS, ("P1", "autoregressive"): "Too long."})
    results = measured(peers, session=session)
    assert [count for _, count in peers.asked] == [2, 2]
    assert ("P1", "Too long.", ["autoregressive", *results.peers]) in results.skipped


def test_their_answers_are_kept_and_gone_on_from(tmp_path: Path) -> None:
    kept = PartialFile(tmp_path / "partial.jsonl")
    whole = measured(FakePeers(), kept=kept)
    peers = FakePeers()
    again = measured(peers, kept=kept)
    assert peers.asked == []
    assert again.records == whole.records
    assert report_json(again) == report_json(whole)


def test_a_benchmark_without_peers_is_not_gone_on_from_with_them(tmp_path: Path) -> None:
    kept = PartialFile(tmp_path / "partial.jsonl")
    alone = Benchmark(FakeSession(SCRIPTS), plan("eagle", prompts=PROMPTS), Notes(), lambda: False)
    alone.measure(alone.warm_up(), kept)
    with pytest.raises(ValueError, match="holds measurements with another --peers;"):
        measured(FakePeers(), kept=kept)


def test_a_stop_is_noticed_between_two_peers(tmp_path: Path) -> None:
    peers, kept = FakePeers(), PartialFile(tmp_path / "partial.jsonl")
    wanted = replace(plan("eagle", prompts=PROMPTS), is_with_peers=True)
    benchmark = Benchmark(FakeSession(SCRIPTS), wanted, Notes(), lambda: len(peers.asked) == 1)
    setup = replace(benchmark.warm_up(), peers=peers)
    records, is_complete = benchmark.measure(setup, kept)
    assert (records, is_complete, len(peers.asked)) == ([], False, 1)


def test_records_of_before_there_were_peers_are_still_read(tmp_path: Path) -> None:
    kept = PartialFile(tmp_path / "partial.jsonl")
    wanted = plan("eagle", prompts=PROMPTS)
    benchmark = Benchmark(FakeSession(SCRIPTS), wanted, Notes(), lambda: False)
    records, _ = benchmark.measure(benchmark.warm_up(), kept)
    head, *lines = kept.path.read_text().splitlines()
    old = [{k: v for k, v in json.loads(x).items() if k != "whole_seconds"} for x in lines]
    kept.path.write_text("\n".join([head, *map(json.dumps, old)]) + "\n")
    assert kept.load(wanted.settings()) == records
