"""The prompts that come with SpecViz: whole, different, small, and nothing a drafter was taught."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from specviz.__main__ import main
from specviz.bench.prompts import OWN_PROMPTS, BenchPrompt, read_prompts
from specviz.cli.parser import parser
from specviz.train import prompt_parts
from specviz.train import prompts as templates
from specviz.train.prompts import made_prompts

CATEGORIES = ("chat", "code", "maths", "copying", "prose", "list", "translation")
OVERLAP_WORDS = 8
# Of SmolLM2. A byte-level tokenizer makes at most one token of a byte, so bytes bound tokens.
DEFAULT_CONTEXT = 8192
ANSWER_AND_TEMPLATE = 2048 + 128


@pytest.fixture(scope="module")
def prompts() -> tuple[BenchPrompt, ...]:
    return read_prompts(OWN_PROMPTS)


def stretches(text: str) -> set[tuple[str, ...]]:
    """Every run of eight words, whatever their case and punctuation."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + OVERLAP_WORDS]) for i in range(len(words) - OVERLAP_WORDS + 1)}


def test_there_are_a_dozen_of_each_kind_and_no_two_alike(prompts: tuple[BenchPrompt, ...]) -> None:
    assert Counter(prompt.category for prompt in prompts) == dict.fromkeys(CATEGORIES, 12)
    assert len({prompt.text for prompt in prompts}) == 84
    assert {prompt.name for prompt in prompts} == {
        f"{c}-{i:02}" for c in CATEGORIES for i in range(1, 13)
    }
    for first in prompts:
        for second in prompts:
            shared = stretches(first.text) & stretches(second.text)
            assert first is second or not shared, (first.name, second.name, shared)


def test_every_prompt_fits_the_default_context_with_the_longest_answer(
    prompts: tuple[BenchPrompt, ...],
) -> None:
    for prompt in prompts:
        assert len(prompt.text.encode()) < DEFAULT_CONTEXT - ANSWER_AND_TEMPLATE, prompt.name
        assert prompt.text == prompt.text.strip()


def test_what_is_to_be_copied_stands_in_the_prompt(prompts: tuple[BenchPrompt, ...]) -> None:
    for prompt in prompts:
        if prompt.category == "copying":
            assert 40 <= len(prompt.text.split("\n\n", 1)[1].split()) <= 120, prompt.name


def test_no_drafter_was_trained_on_any_of_them(prompts: tuple[BenchPrompt, ...]) -> None:
    texts = [
        text
        for module in (prompt_parts, templates)
        for value in vars(module).values()
        for text in _strings(value)
    ]
    texts += [made.text for made in made_prompts(4000, 1, texts[:200])]
    assert "implements binary search" in texts  # so that an empty list does not pass
    taught = set().union(*map(stretches, texts))
    for prompt in prompts:
        assert not stretches(prompt.text) & taught, prompt.name


def test_lines_are_plain_objects_with_the_same_keys() -> None:
    lines = OWN_PROMPTS.read_text(encoding="utf-8").splitlines()
    assert {tuple(json.loads(line)) for line in lines} == {("id", "category", "prompt")}


def test_they_are_measured_unless_others_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser().parse_args(["bench", "run"]).prompts == OWN_PROMPTS
    assert main(["bench", "run", "--limit", "0"]) == 2  # comes as far as choosing from them
    assert "--limit is a whole number from 1; got 0." in capsys.readouterr().err


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for part in value.values() for text in _strings(part)]
    return [t for part in value for t in _strings(part)] if isinstance(value, tuple) else []
