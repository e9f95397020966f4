"""Prompts of our own making: many kinds in their shares, no two the same, every time the same."""

from __future__ import annotations

from collections import Counter
from random import Random

from specviz.train.german import sentence
from specviz.train.prompts import (
    MAKERS,
    PASSAGE_KINDS,
    SHARES,
    made_prompts,
    passage_prompts,
)

PASSAGES = [f"A text about {number} whales that Maya saw." for number in range(300)]


def test_kinds_stand_in_their_shares() -> None:
    prompts = made_prompts(3000, 5, PASSAGES)
    counts, total = Counter(prompt.kind for prompt in prompts), sum(SHARES.values())
    assert counts.keys() == SHARES.keys() == MAKERS.keys()
    for kind, share in SHARES.items():
        # Kinds with few different texts run dry a little; none may vanish or take over.
        assert 0.6 * share / total < counts[kind] / 3000 < 1.4 * share / total, kind


def test_no_two_prompts_are_the_same_and_no_hole_stays_open() -> None:
    prompts = made_prompts(2000, 5, PASSAGES) + passage_prompts(200, 5)
    texts = [prompt.text for prompt in prompts]
    assert len(set(texts)) == len(texts) == 2200
    assert not any("{" in text or "}" in text for text in texts)


def test_a_seed_makes_its_own_prompts_again() -> None:
    assert made_prompts(50, 1, PASSAGES) == made_prompts(50, 1, PASSAGES)
    assert made_prompts(50, 1, PASSAGES) != made_prompts(50, 2, PASSAGES)


def test_without_passages_none_are_asked_about() -> None:
    assert not {prompt.kind for prompt in made_prompts(500, 1, [])} & set(PASSAGE_KINDS)


def test_german_sentences_hardly_ever_repeat_and_end_as_sentences_do() -> None:
    """Fourteen fixed sentences were learned by heart; translations of others fared badly."""
    random = Random(3)
    found = [sentence(random) for _ in range(1000)]
    assert len(set(found)) > 990
    assert all(not text[0].islower() and text.endswith(".") and "  " not in text for text in found)


def test_texts_to_ask_about_differ_in_length() -> None:
    about = [p.text for p in made_prompts(500, 1, PASSAGES) if p.kind == "summary"]
    assert {text.count("whales that Maya saw") for text in about} == {1, 2, 3}
