"""Published pairs as rows of a table: for the page and for the command line."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.catalogue import memory_of
from specviz.fitting import TOKENS, WORKING_BYTES, Fit, gib
from specviz.shapes import Form
from specviz.words import Message, message

SHOWN: tuple[Form, ...] = ("bfloat16", "int8", "nf4")


@dataclass(frozen=True, slots=True)
class PairWords:
    target: str  # as it is asked for, its title and family
    drafter: str  # repository and method
    licence: Message | str  # of both, and whether an owner must let one in
    download: str
    memory: str  # with drafter, cache and working memory
    verdict: Message  # fits, or why not


def words_of(one: Fit) -> PairWords:
    pair = one.pair
    target, drafter = pair.target, pair.drafter
    licence = " / ".join(dict.fromkeys((target.licence, drafter.licence)))
    memory = [memory_of(pair, form, TOKENS).total + WORKING_BYTES for form in SHOWN]
    return PairWords(
        target=f"{target.name} ({target.title}, {target.shape.family})",
        drafter=f"{drafter.repository} ({drafter.method})",
        licence=message("models.gated", licence=licence) if pair.is_gated else licence,
        download=gib(pair.download_bytes),
        memory=" / ".join(gib(size).removesuffix(" GiB") for size in memory) + " GiB",
        verdict=_verdict(one),
    )


def _verdict(one: Fit) -> Message:
    if one.why_not is None:
        return message("models.fits", form=one.form)
    return message("models.no_fit", reason=one.why_not)
