"""How a report tells of peers: a table of their own, and an object beside `lanes`."""

from __future__ import annotations

from dataclasses import asdict

from specviz.bench.peer_results import PeerResult
from specviz.bench.peers import Peer
from specviz.bench.results import Results
from specviz.bench.table import NONE, TableLines, spread_cell
from specviz.metrics import Spread

PEER_COLUMNS = (
    "peer",
    "dtype",
    "tokens per pass",
    "tokens/s",
    "over generate (quartiles)",
    "our lane over it (quartiles)",
    "of totals",
    "as our plain text",
    "prompts",
)


def peer_parts(results: Results, lines: TableLines, bullet: str, gap: str) -> list[str]:
    """Paragraphs of the report; none if no peers were asked for."""
    facts = results.setup.peers
    if facts is None:
        return []
    heading = (
        "Peers: transformers, greedy, same weights and process, each in its faster dtype here. "
        "Seconds from the prompt's tokens to the whole answer on both sides, so prefill is in "
        "them; each lane of ours is compared with the peer that drafts as many tokens."
    )
    table = "\n".join(lines(PEER_COLUMNS, [_row(peer) for peer in results.peers.values()]))
    hows = [_how(peer) for peer in facts.peers]
    parts = [heading, table, "How they are called:" + gap + _listed(hows, bullet)]
    if facts.left_out:
        reasons = [f"{name}: {why}" for name, why in facts.left_out.items()]
        parts.append("Peers left out:" + gap + _listed(reasons, bullet))
    return parts


def peer_facts(results: Results) -> dict[str, object]:
    """What the document holds of peers; nothing if none were asked for."""
    facts = results.setup.peers
    if facts is None:
        return {}
    return {
        "peers": {name: _facts(peer) for name, peer in results.peers.items()},
        "peers_left_out": facts.left_out,
    }


def _how(peer: Peer) -> str:
    speeds = ", ".join(f"{dtype} {speed:.1f}" for dtype, speed in peer.speeds.items())
    return f"{peer.name}: {peer.how}, against {peer.lane}; {speeds} tokens/s when warmed up"


def _facts(result: PeerResult) -> dict[str, object]:
    ours, over = result.our_speedup, result.over_generate
    return {
        "lane": result.peer.lane,
        "how": result.peer.how,
        "dtype": result.peer.dtype,
        "warm_up_tokens_per_second": result.peer.speeds,
        "prompts": len(result.records),
        "tokens": result.num_tokens,
        "seconds": result.seconds,
        "tokens_per_pass": result.tau,
        "tokens_per_second": result.tokens_per_second,
        "over_generate": over.median if over else None,
        "over_generate_quartiles": _quartiles(over),
        "our_speedup": ours.median if ours else None,
        "our_speedup_quartiles": _quartiles(ours),
        "our_speedup_of_totals": result.our_total_speedup,
        "identical": result.num_identical,
        "near_ties": sum(p.is_near_tie for p in result.partings.values()),
        "differences": [{"prompt": n, **asdict(p)} for n, p in result.partings.items()],
    }


def _row(result: PeerResult) -> list[str]:
    tau, speed, total = result.tau, result.tokens_per_second, result.our_total_speedup
    return [
        result.peer.name,
        result.peer.dtype,
        NONE if tau is None else f"{tau:.2f}",
        NONE if speed is None else f"{speed:.1f}",
        spread_cell(result.over_generate),
        spread_cell(result.our_speedup),
        NONE if total is None else f"{total:.2f}x",
        f"{result.num_identical}/{len(result.records)}" if result.records else NONE,
        str(len(result.records)),
    ]


def _quartiles(found: Spread | None) -> list[float] | None:
    return [found.low, found.high] if found else None


def _listed(lines: list[str], bullet: str) -> str:
    return "\n".join(bullet + line for line in lines)
