"""The whole of `bench engine --quick` on a tiny model, and the report's own arithmetic."""

from __future__ import annotations

import contextlib
import io
import json
from statistics import median
from typing import Any

import pytest

from specviz.__main__ import main
from specviz.bench.engine import FULL
from specviz.bench.engine_report import equality_facts
from specviz.bench.passes import Equality, ReadShape
from tests.models import tiny_folder


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What it prints, as one text."""
    folder = tiny_folder(tmp_path_factory.mktemp("model") / "tiny")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["bench", "engine", "--quick", "--target", str(folder)]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def document(printed: str) -> Any:
    return json.loads(printed.splitlines()[-1])


def test_the_document_names_what_was_measured_where_and_with_what(document: Any) -> None:
    assert document["target"]["source"] == "local folder tiny"
    assert document["target"]["dtype"] in ("bfloat16", "float32")
    assert document["machine"]
    assert {"python", "torch", "transformers"} <= set(document["versions"])
    assert document["settings"]["num_tokens"] == 8
    assert document["date"].endswith("+00:00")


def test_the_headline_numbers_follow_from_the_measurements(document: Any) -> None:
    ratios = document["plain_vs_transformers_each"]
    assert len(ratios) == document["settings"]["num_alternations"]
    assert document["plain_vs_transformers"] == median(ratios)
    reads = {cost["num_rows"]: cost for cost in document["reads"]["64"]}
    assert document["read16_over_read1"] == reads[16]["over_one_row"]
    assert document["read32_over_read1"] == reads[32]["over_one_row"]
    assert reads[1]["over_one_row"] == 1
    assert all(cost["milliseconds"] > 0 for cost in reads.values())
    assert 0 < document["trace_overhead"] < 1
    assert document["dump_overhead"] > 0
    speeds = document["transformers_tokens_per_second_by_dtype"]
    assert document["transformers_dtype"] == max(speeds, key=lambda dtype: speeds[dtype])


def test_people_and_scripts_are_told_the_same(document: Any, printed: str) -> None:
    share = document["bitwise_equal"]
    rows = document["compared_rows"]
    assert rows == sum(shape["rows"] for shape in document["equality"].values()) > 0
    assert share * rows == sum(shape["equal"] for shape in document["equality"].values())
    assert f"16: {document['read16_over_read1']:.2f}" in printed
    assert f"{document['plain_vs_transformers']:.2f} times as fast" in printed


def test_the_headline_counts_passes_of_up_to_32_rows_only() -> None:
    """Larger passes are shown, but the packed layers promise nothing of them."""
    facts = equality_facts(
        (
            Equality(ReadShape(7, 0), num_compared=10, num_equal=9, num_flips=1),
            Equality(ReadShape(31, 0), num_compared=30, num_equal=30, num_flips=0),
            Equality(ReadShape(21, 2), num_compared=100, num_equal=0, num_flips=50),
        )
    )
    assert facts["bitwise_equal"] == 39 / 40
    assert facts["argmax_flips"] == 1
    assert facts["compared_rows"] == 40
    assert facts["equality"]["tree of 64, 21 deep"] == {"rows": 100, "equal": 0, "flips": 50}  # type: ignore[index]


def test_no_two_shapes_share_a_name() -> None:
    """Two trees of 31 rows once shared a key of the document, and one of them was lost."""
    assert len({shape.name for shape in FULL.shapes}) == len(FULL.shapes)
