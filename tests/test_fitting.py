"""Which pairs fit machines that are given as numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.catalogue import PAIRS
from specviz.fitting import CARD_PRESETS, Fit, Room, best_target, fit, fits_on
from specviz.presets import DEFAULT_TARGET, PUBLISHED
from specviz.words import tell

GIB = 2**30


def card(free_gib: float) -> Room:
    return Room("cuda", int(free_gib * GIB), 500 * GIB, is_quantising=True)


def of(repository: str, room: Room) -> Fit:
    return fit(next(p for p in PAIRS if p.drafter.repository == repository), room)


@pytest.mark.parametrize(
    ("free_gib", "form"),
    [  # Qwen3 8B with EAGLE-3: 15.26 + 0.74 + 0.58 + 0.9 = 17.5 GiB, in four bits 7.9
        (18.0, "bfloat16"),
        (17.0, "nf4"),
        (8.0, "nf4"),
    ],
)
def test_the_most_exact_form_with_room_is_taken(free_gib: float, form: str) -> None:
    found = of("AngelSlim/Qwen3-8B_eagle3", card(free_gib))
    assert (found.form, found.why_not) == (form, None)


def test_what_does_not_fit_says_how_much_is_lacking() -> None:
    found = of("AngelSlim/Qwen3-8B_eagle3", card(7.0))
    assert found.why_not is not None
    assert tell(found.why_not) == "it needs 7.9 GiB as nf4, and 7.0 GiB are free"
    assert of("AngelSlim/Qwen3-8B_eagle3", replace(card(8), is_quantising=False)).why_not


def test_a_disk_can_be_too_small() -> None:
    found = of("AngelSlim/Qwen3-4B_eagle3", replace(card(24), disk_bytes=5 * GIB))
    assert found.why_not is not None
    assert "its download is 7.9 GiB, and 5.0 GiB are free" in tell(found.why_not)


def test_a_cpu_is_offered_what_it_can_read_in_time() -> None:
    room = Room("cpu", 64 * GIB, None, is_packed=True)
    able = {f.pair.target.name for f in fits_on(room) if f.why_not is None}
    assert able == {"smollm2-1.7b-instruct"}  # 3.4 GB a step; Qwen3 is read in float32 there
    why = of("AngelSlim/Qwen3-1.7B_eagle3", room).why_not
    assert why is not None
    assert "choose a GPU" in tell(why)
    assert not any(f.why_not is None for f in fits_on(replace(room, free_bytes=None)))


@pytest.mark.parametrize(
    ("free_gib", "target"),
    [
        (139.0, "qwen3-8b"),
        (23.0, "qwen3-8b"),
        (11.5, "qwen3-4b"),
        (7.5, "qwen3-4b"),
        (3.0, None),
    ],
)
def test_the_best_pair_of_a_card_is_the_one_to_begin_with(
    free_gib: float, target: str | None
) -> None:
    room = card(free_gib)
    assert best_target(fits_on(room), room) == target


def test_a_cpu_begins_with_the_default_target() -> None:
    room = Room("cpu", 64 * GIB, None, is_packed=True)
    assert best_target(fits_on(room), room) is None


@pytest.mark.parametrize("size", CARD_PRESETS)
def test_a_cards_presets_fit_it(size: int) -> None:
    """A card of so many GB has about 7 % less once its driver and the desktop had theirs."""
    for target, drafter, form in CARD_PRESETS[size]:
        found = next(
            f
            for f in fits_on(card(0.93 * size * 1e9 / GIB))
            if (f.pair.target.name, f.pair.drafter.repository) == (target, drafter)
        )
        assert found.why_not is None
        assert found.form == form


def test_published_targets_have_names_of_their_own() -> None:
    names = [DEFAULT_TARGET.name, *(spec.name for spec in PUBLISHED)]
    assert len(set(names)) == len(names)
