"""Lanes of tables and tiny models run on one thread: on a busy machine more would cost minutes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models import one_thread


@pytest.fixture(autouse=True)
def single(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("default_model"):
        yield
    else:
        with one_thread():
            yield
