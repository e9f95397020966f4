"""Steps that get something ready (weights, a target), run to their end while a person is told."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from specviz import words
from specviz.bench import CannotMeasureError
from specviz.trace import Progress

T = TypeVar("T")
Tell: TypeAlias = Callable[[str], None]


def finished(steps: Generator[Progress, None, T], tell: Tell) -> T:
    """What the steps return. CannotMeasureError: the weights cannot be had."""
    from specviz.lm.weights import WeightsUnavailable

    while True:
        try:
            tell(words.tell(next(steps).message))
        except StopIteration as end:
            made: T = end.value
            return made
        except WeightsUnavailable as error:
            raise CannotMeasureError(str(error)) from error
