"""Reading prompts, and a sample that is balanced and the same everywhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from specviz.bench.prompts import BenchPrompt, balanced, fingerprint, read_prompts


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "prompts.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def of_categories(**sizes: int) -> list[BenchPrompt]:
    return [
        BenchPrompt(f"{category}{i}", category, "x")
        for category, size in sizes.items()
        for i in range(size)
    ]


def test_the_first_turn_or_the_prompt_is_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"question_id": 81, "category": "writing", "turns": ["First.", "Second."]},
        "",
        {"prompt": "Alone, und f\u00fcr sich."},
        {"prompt": "Never read.", "turns": ["Turns go first."], "category": 7},
    )
    assert read_prompts(path) == (
        BenchPrompt("81", "writing", "First."),
        BenchPrompt("line 3", "unsorted", "Alone, und f\u00fcr sich."),
        BenchPrompt("line 4", "7", "Turns go first."),
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "prompts.jsonl holds no prompts; write one JSON object per line."),
        (["  ", ""], "prompts.jsonl holds no prompts"),
        ([{"prompt": "x"}, "{broken"], "Line 2 of prompts.jsonl is not JSON"),
        (["[1]"], "Line 1 of prompts.jsonl is no JSON object."),
        ([{"question": "x"}], 'Line 1 of prompts.jsonl has no text in "turns"'),
        ([{"turns": []}], 'has no text in "turns"'),
        ([{"turns": [7]}], 'has no text in "turns"'),
        ([{"prompt": " \n"}], 'has no text in "turns"'),
        ([{"prompt": "x", "question_id": 1}] * 2, "Line 2 of prompts.jsonl repeats the id '1'."),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(
    tmp_path: Path, lines: list[Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match="prompts.jsonl") as found:
        read_prompts(written(tmp_path, *lines))
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read_prompts(path)


@pytest.mark.parametrize(
    ("limit", "counts"),
    [
        (1, {"a": 1}),
        (7, {"a": 3, "b": 2, "c": 2}),
        (12, {"a": 5, "b": 2, "c": 5}),  # b has no more to give
        (100, {"a": 20, "b": 2, "c": 9}),
        (None, {"a": 20, "b": 2, "c": 9}),
    ],
)
def test_a_sample_takes_as_many_of_each_category_as_there_are(
    limit: int | None, counts: dict[str, int]
) -> None:
    sample = balanced(of_categories(a=20, b=2, c=9), limit)
    assert Counter(prompt.category for prompt in sample) == counts
    assert len(set(sample)) == len(sample)


def test_a_category_is_sampled_evenly_and_categories_take_turns() -> None:
    """Taking the first of each would measure only what a file begins with."""
    names = [prompt.name for prompt in balanced(of_categories(a=20, b=9), 6)]
    assert names == ["a3", "b1", "a10", "b4", "a16", "b7"]


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_is_a_count(limit: int) -> None:
    with pytest.raises(ValueError, match=f"--limit is a whole number from 1; got {limit}"):
        balanced(of_categories(a=2), limit)


def test_a_fingerprint_tells_samples_apart() -> None:
    prompts = of_categories(a=2)
    assert fingerprint(prompts) == fingerprint(tuple(prompts))
    others = [prompts[:1], prompts[::-1], [prompts[0], BenchPrompt("a1", "a", "y")]]
    assert len({fingerprint(p) for p in (prompts, *others)}) == 4
