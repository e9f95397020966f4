"""A benchmark's report, its progress and the comparison of two, as HTML in either language.

All numbers are those of the report's document (`bench/report.py`) or of `bench/compare.py`; here they
are rounded and laid out. Whatever a file brought in is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from specviz.bench.compare import Comparison
from specviz.metrics import Spread, interval
from specviz.ui.bench_runs import Report, Seen
from specviz.words import Language, table, tell, word

NONE = "–"
LANE_COLUMNS = ("tau", "speedup", "totals", "rho", "kept", "split", "rate", "identical", "prompts")
PEER_COLUMNS = ("dtype", "per_pass", "rate", "over_generate", "ours", "ours_totals", "as_plain")
COMPARED = ("tau_a", "tau_b", "speedup_a", "speedup_b", "speedup_ratio", "speed_ratio", "common")
OTHER_TERMS = ("by_kind", "by_depth", "near_tie")  # of the report that are no columns
Facts = Mapping[str, Any]


def progress_html(seen: Seen, language: Language) -> str:
    share = seen.num_done / seen.num_runs if seen.num_runs else 0
    bar = f"<progress max='1' value='{share:.4f}'></progress>" if seen.num_runs else ""
    runs = word("bench.runs", language, done=seen.num_done, of=seen.num_runs)
    count = f" <span>{escape(runs)}</span>" if seen.num_runs else ""
    said = escape(tell(seen.state, language))
    return f"<div class='specviz-bench-state' role='status'>{bar}{count} <b>{said}</b></div>"


def report_html(report: Report, language: Language) -> str:
    """Nothing before the first prompt is measured."""
    if not report.document:
        return ""
    facts = json.loads(report.document)
    parts = [
        _head(facts, language),
        _lanes(facts, language),
        _categories(facts, language),
        _depths(facts, language),
        _peers(facts, language),
        _lists(facts, language),
        _definitions((*LANE_COLUMNS, *PEER_COLUMNS, *OTHER_TERMS), language),
    ]
    return "".join(parts)


def comparison_html(comparison: Comparison, language: Language) -> str:
    names = word("bench.a_and_b", language, a=comparison.a.name, b=comparison.b.name)
    differs = [
        word("bench.differs_in", language, name=name, a=pair[0], b=pair[1])
        for name, pair in comparison.differences.items()
    ]
    rows = [
        (
            lane.name,
            [
                *(_number(tau) for tau in lane.tau),
                *(_times(ratio) for ratio in lane.speedup),
                _spread(lane.speedup_ratio, language),
                _spread(lane.speed_ratio, language),
                str(lane.num_common),
            ],
        )
        for lane in comparison.lanes
    ]
    differing = _listed(word("bench.differs", language), differs)
    same = "" if differs else f"<p>{escape(word('bench.all_alike', language))}</p>"
    return (
        f"<p>{escape(names)}</p>{differing}{same}"
        f"{_table(_columns(COMPARED, language), rows, language)}{_definitions(COMPARED, language)}"
    )


def _head(facts: Facts, language: Language) -> str:
    target, settings = facts["target"], facts["settings"]
    load = facts["load_average"]
    said = word(
        "bench.head",
        language,
        target=target["name"],
        device=target["device"],
        dtype=target["dtype"],
        budget=settings["budget"],
        prompts=facts["prompts"],
        machine=facts["machine"],
        date=facts["date"],
        commit=facts["commit"] or NONE,
        load=NONE if load is None else f"{load:.2f}",
    )
    return f"<p class='specviz-bench-head'>{escape(said)}</p>"


def _lanes(facts: Facts, language: Language) -> str:
    most = max((_most(lane["speedup_quartiles"]) for lane in facts["lanes"].values()), default=1)
    rows = [(name, _lane_cells(lane, most, language)) for name, lane in facts["lanes"].items()]
    return _titled("bench.lanes_table", _table(_columns(LANE_COLUMNS, language), rows, language), language)  # fmt: skip


def _lane_cells(lane: Facts, most: float, language: Language) -> list[str]:
    seconds, kept = lane["seconds"], NONE
    if lane["drafted"]:
        kept = f"{lane['accepted']}/{lane['drafted']} ({lane['acceptance_rate']:.0%})"
    return [
        _number(lane["tau"]),
        _quartiles(lane["speedup"], lane["speedup_quartiles"], language)
        + _track(lane["speedup"], lane["speedup_quartiles"], most),
        _times(lane["speedup_of_totals"]),
        _number(lane["rho"]),
        kept,
        _split(seconds),
        NONE if lane["tokens_per_second"] is None else f"{lane['tokens_per_second']:.1f}",
        f"{lane['identical']}/{lane['compared']}" if lane["compared"] else NONE,
        str(lane["prompts"]),
    ]


def _categories(facts: Facts, language: Language) -> str:
    lanes = {n: lane for n, lane in facts["lanes"].items() if n != lane["baseline"]}
    if not lanes:
        return ""
    kinds = list(facts["settings"]["categories"])
    rows = [
        (_kind(kind, language), [_category_cell(lane["categories"].get(kind)) for lane in lanes.values()])
        for kind in kinds
    ]  # fmt: skip
    columns = [(_drafter(name, language), "") for name in lanes]
    return _titled("bench.categories_table", _table(columns, rows, language, is_named=True), language)  # fmt: skip


def _category_cell(found: Facts | None) -> str:
    if not found or found["tau"] is None:
        return NONE
    return f"{_times(found['speedup'])} <small>tau {found['tau']:.2f}</small>"


def _depths(facts: Facts, language: Language) -> str:
    found = {n: lane["acceptance_by_depth"] for n, lane in facts["lanes"].items()}
    deepest = max((len(depths) for depths in found.values()), default=0)
    if not deepest:
        return ""
    rows = [
        (
            name,
            [_depth_cell(d["accepted"], d["reached"], language) for d in depths]
            + [NONE] * (deepest - len(depths)),
        )
        for name, depths in found.items()
        if depths
    ]
    columns = [(word("bench.depth", language, n=n + 1), "") for n in range(deepest)]
    return _titled("bench.depths_table", _table(columns, rows, language), language)


def _depth_cell(num_accepted: int, num_reached: int, language: Language) -> str:
    low, high = (f"{value:.2f}" for value in interval(num_accepted, num_reached))
    spread = escape(word("bench.quartiles", language, low=low, high=high))
    rate = f"{num_accepted / num_reached:.2f}"
    return f"{rate} <small>({spread}; {num_accepted}/{num_reached})</small>"


def _peers(facts: Facts, language: Language) -> str:
    """Others' code on the same weights: a table of its own, so nobody takes them for lanes."""
    peers = facts.get("peers")
    if peers is None:
        return ""
    rows = [
        (
            name,
            [
                escape(peer["dtype"]),
                _number(peer["tokens_per_pass"]),
                NONE if peer["tokens_per_second"] is None else f"{peer['tokens_per_second']:.1f}",
                _quartiles(peer["over_generate"], peer["over_generate_quartiles"], language),
                _quartiles(peer["our_speedup"], peer["our_speedup_quartiles"], language),
                _times(peer["our_speedup_of_totals"]),
                f"{peer['identical']}/{peer['prompts']}",
            ],
        )
        for name, peer in peers.items()
    ]
    about = f"<p>{escape(word('bench.peers_about', language))}</p>"
    made = _table(_columns(PEER_COLUMNS, language), rows, language, is_named=True)
    left = [f"{name}: {why}" for name, why in facts["peers_left_out"].items()]
    left_out = _listed(word("bench.peers_left_out", language), left)
    return _titled("bench.peers_table", about + made + left_out, language)


def _lists(facts: Facts, language: Language) -> str:
    skipped = [f"{s['prompt']} ({', '.join(s['lanes'])}): {s['reason']}" for s in facts["skipped"]]
    partings = [
        word(
            "bench.parts",
            language,
            lane=name,
            prompt=d["prompt"],
            token=d["position"] + 1,
            gap=f"{d['top_two_gap']:.3g}",
            what=word("bench.near_tie" if d["is_near_tie"] else "bench.no_near_tie", language),
        )
        for name, lane in facts["lanes"].items()
        for d in lane["differences"]
    ]
    return _listed(word("bench.partings", language), partings) + _listed(
        word("bench.skipped", language), skipped
    )


def _definitions(names: Sequence[str], language: Language) -> str:
    lines = [
        f"<dt>{escape(word(f'bench.column.{name}', language))}</dt>"
        f"<dd>{escape(word(f'bench.column.{name}.help', language))}</dd>"
        for name in dict.fromkeys(names)
    ]
    summary = escape(word("bench.definitions", language))
    return f"<details class='specviz-bench-terms'><summary>{summary}</summary><dl>{''.join(lines)}</dl></details>"


def _columns(names: Iterable[str], language: Language) -> list[tuple[str, str]]:
    """Title and meaning of each."""
    return [(word(f"bench.column.{n}", language), word(f"bench.column.{n}.help", language)) for n in names]  # fmt: skip


def _table(
    columns: Sequence[tuple[str, str]],
    rows: Sequence[tuple[str, list[str]]],
    language: Language,
    *,
    is_named: bool = False,
) -> str:
    """Cells are HTML. A row's name is a lane's, or, if `is_named`, as it stands."""
    head = "".join(
        f"<th scope='col'{_title(meaning)}>{escape(name)}</th>" for name, meaning in columns
    )
    body = "".join(
        f"<tr><th scope='row'>{escape(name if is_named else _drafter(name, language))}</th>"
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for name, cells in rows
    )
    return (
        "<div class='specviz-bench-box'><table><thead><tr><td></td>"
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _title(meaning: str) -> str:
    return f' title="{escape(meaning)}"' if meaning else ""


def _titled(key: str, html: str, language: Language) -> str:
    return f"<h3>{escape(word(key, language))}</h3>{html}"


def _listed(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return (
        f"<h4>{escape(title)}</h4><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
    )


def _drafter(name: str, language: Language) -> str:
    """A lane's name in words: its drafter's title, and the knobs that stand behind it."""
    drafter, _, rest = name.partition(" ")
    key = f"drafter.{drafter}.title"
    return f"{word(key, language)} {rest}".strip() if key in table("en") else name


def _kind(kind: str, language: Language) -> str:
    key = f"bench.kind.{kind}"
    return word(key, language) if key in table("en") else kind


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _times(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}x"


def _spread(found: Spread | None, language: Language) -> str:
    if found is None:
        return NONE
    return _quartiles(found.median, [found.low, found.high], language)


def _quartiles(median: float | None, quartiles: Sequence[float] | None, language: Language) -> str:
    if median is None or quartiles is None:
        return NONE
    low, high = (f"{value:.2f}" for value in quartiles)
    spread = word("bench.quartiles", language, low=low, high=high)
    return f"<b>{median:.2f}x</b> <small>({escape(spread)})</small>"


def _most(quartiles: Sequence[float] | None) -> float:
    return max(1.0, *quartiles) if quartiles else 1.0


def _track(median: float | None, quartiles: Sequence[float] | None, most: float) -> str:
    """The spread on one scale for all lanes, with the line at 1."""
    if median is None or quartiles is None:
        return ""
    low, high = (100 * value / most for value in quartiles)
    return (
        f"<span class='specviz-bench-track' aria-hidden='true'><u style='left:{100 / most:.1f}%'></u>"
        f"<i style='left:{low:.1f}%;width:{high - low:.1f}%'></i>"
        f"<b style='left:{100 * median / most:.1f}%'></b></span>"
    )


def _split(seconds: Facts) -> str:
    parts = [seconds[f"{name}_seconds"] for name in ("draft", "verify", "commit")]
    total = sum(parts)
    return " · ".join(f"{part / total:.0%}" for part in parts) if total else NONE
