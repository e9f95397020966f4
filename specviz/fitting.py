"""Which published pairs fit a machine, in what form, and why the others do not.

What a machine has is measured elsewhere (`lm.room`) and given here as numbers, so that every
verdict is a function of numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from specviz.catalogue import PAIRS, Memory, Pair, memory_of
from specviz.shapes import Form
from specviz.words import Message, message

TOKENS = 4096  # of text in all lanes together, for which there must be room
WORKING_BYTES = int(0.9 * 2**30)  # the device's own context, activations, logits of 60 rows
# A step on a CPU reads all weights once: above this it takes most of a second, where it took a
# twentieth of one for the default target.
MAX_CPU_READ_BYTES = 4 * 10**9
PACKED_FAMILIES = ("llama", "qwen2", "mimo")  # of the catalogue's, those the packed pass reads

# What a card of so many GB is best used for, best first: target, drafter's repository, form.
CARD_PRESETS: dict[int, tuple[tuple[str, str, Form], ...]] = {
    24: (("qwen3-8b", "AngelSlim/Qwen3-8B_eagle3", "bfloat16"),),
    12: (
        ("qwen3-4b", "AngelSlim/Qwen3-4B_eagle3", "bfloat16"),
        ("qwen3-8b", "AngelSlim/Qwen3-8B_eagle3", "nf4"),
    ),
    8: (
        ("qwen3-4b", "AngelSlim/Qwen3-4B_eagle3", "nf4"),
        ("qwen3-1.7b", "AngelSlim/Qwen3-1.7B_eagle3", "bfloat16"),
    ),
}


@dataclass(frozen=True, slots=True)
class Room:
    """What a machine has for models. None: not known."""

    device: str  # "cuda" or "cpu"
    free_bytes: int | None  # of the device's memory
    disk_bytes: int | None  # where weights are kept
    is_packed: bool = False  # CPU: the packed bfloat16 pass runs here
    is_quantising: bool = False  # there are kernels for quantised layers


@dataclass(frozen=True, slots=True)
class Fit:
    """A verdict on one pair. `form` and `memory` are of the best form that fits, or if none does
    of the smallest that was tried."""

    pair: Pair
    device: str
    form: Form
    memory: Memory
    why_not: Message | None  # None: it fits

    @property
    def needed_bytes(self) -> int:
        return self.memory.total + WORKING_BYTES


def fits_on(room: Room, pairs: Iterable[Pair] = PAIRS) -> tuple[Fit, ...]:
    return tuple(fit(pair, room) for pair in pairs)


def fit(pair: Pair, room: Room) -> Fit:
    """The pair in the most exact form for which there is room."""
    forms = _forms(pair, room)
    tried = [Fit(pair, room.device, form, memory_of(pair, form, TOKENS), None) for form in forms]
    found = next((one for one in tried if _has_room(one, room)), tried[-1])
    return replace(found, why_not=_why_not(found, room))


def best_target(fits: Sequence[Fit], room: Room) -> str | None:
    """The target to begin with: of the cards' pairs the best that fits a GPU and anybody may have.

    None on a CPU, where the default target is the one that decodes at a speed worth watching.
    """
    if room.device != "cuda":
        return None
    able = {(f.pair.target.name, f.pair.drafter.repository): f for f in fits if f.why_not is None}
    for wanted in CARD_PRESETS.values():
        for target, drafter, form in wanted:
            found = able.get((target, drafter))
            if found is not None and found.form == form and not found.pair.is_gated:
                return target
    return None


def _forms(pair: Pair, room: Room) -> tuple[Form, ...]:
    """What could be tried here, the most exact first."""
    if room.device == "cuda":  # on a CPU four bits are far slower than sixteen
        return ("bfloat16", "nf4") if room.is_quantising else ("bfloat16",)
    is_packed = room.is_packed and pair.target.shape.family in PACKED_FAMILIES
    return ("bfloat16",) if is_packed else ("float32",)


def _has_room(one: Fit, room: Room) -> bool:
    return room.free_bytes is not None and one.needed_bytes <= room.free_bytes


def _why_not(one: Fit, room: Room) -> Message | None:
    pair = one.pair
    if room.free_bytes is None:
        return message("fit.unknown")
    if not _has_room(one, room):
        sizes = {"needed": gib(one.needed_bytes), "free": gib(room.free_bytes)}
        return message("fit.memory", form=one.form, **sizes)
    if room.device == "cpu" and one.memory.weights > MAX_CPU_READ_BYTES:
        return message("fit.cpu", size=gib(one.memory.weights))
    if room.disk_bytes is not None and pair.download_bytes > room.disk_bytes:
        sizes = {"needed": gib(pair.download_bytes), "free": gib(room.disk_bytes)}
        return message("fit.disk", **sizes)
    return None


def gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"
