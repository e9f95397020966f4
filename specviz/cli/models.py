"""`models`: what can be run on this machine: targets, drafters with their knobs, forward passes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TextIO

from specviz.bench.machine import Machine, describe_here, kept_weights
from specviz.cli import DONE
from specviz.config import DrafterInfo, Knob, TargetSpec
from specviz.fitting import Fit
from specviz.session import LiveSession
from specviz.views.published import words_of
from specviz.words import tell


def models(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    del options, err
    catalog = LiveSession().catalog()
    lines = [*_machine_lines(describe_here()), "", "Targets (--target NAME, or a folder of yours):"]
    lines += map(_target_line, catalog.targets)
    lines += ["", *_published_lines(catalog.fits)]
    lines += ["", "Drafters (--lanes NAME:KNOB=VALUE,NAME, ...):"]
    for info in catalog.drafters:
        lines += _drafter_lines(info)
    out.write("\n".join(lines) + "\n")
    return DONE


def _published_lines(fits: Sequence[Fit]) -> Iterator[str]:
    """Every published pair: what it is, what it takes, whether it fits here."""
    yield "Published pairs (--target NAME); memory as bf16 / int8 / nf4:"
    for one in fits:
        row = words_of(one)
        yield f"  {row.target} + {row.drafter}"
        yield f"      {tell(row.licence)}; download {row.download}; memory {row.memory}"
        yield f"      {tell(row.verdict)}"


def _machine_lines(machine: Machine) -> list[str]:
    return [
        f"Device: {machine.device} ({machine.description})",
        f"Packed bf16 pass for Llama-like targets: {machine.packed}",
        "  (where it does not run, the plain transformers pass reads instead; so it does every",
        "  other family, and --precision float32)",
        f"4-bit copies of the target that draft: {machine.int4}",
    ]


def _target_line(spec: TargetSpec) -> str:
    kept = kept_weights(spec)
    where = (
        f"fetched at its first run from {spec.source}"
        if kept is None
        else f"in the cache, {kept.num_bytes / 1e6:.0f} MB, from {kept.source}"
    )
    return f"  {spec.name}: {spec.title}, {spec.licence}; {where}"


def _drafter_lines(info: DrafterInfo) -> Iterator[str]:
    paper = f" ({info.paper})" if info.paper else ""
    yield f"  {info.name}: {info.summary}{paper}"
    for knob in info.knobs:
        yield f"      {knob.name}={_setting(knob.default)}  {_range(knob)}  {knob.help}"


def _range(knob: Knob) -> str:
    if knob.choices:
        return f"[{' | '.join(knob.choices)}]"
    return (
        "[on | off]"
        if isinstance(knob.default, bool)
        else f"[{knob.minimum:g} to {knob.maximum:g}]"
    )


def _setting(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
