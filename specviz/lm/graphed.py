"""A plain model made faster on a GPU, if it can be: the same weights behind captured passes.

What is captured is compared with the plain path before it is used, and where anything stands in
the way the plain model is given back, with the reason in its `path`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from specviz.lm.base import LanguageModel
from specviz.lm.checkpoint_files import first_line
from specviz.lm.graphs import EagerRecorder, GraphRecorder, Recorder, why_no_graphs
from specviz.lm.lean import LeanBody, why_not_lean
from specviz.lm.plain import PlainLM
from specviz.lm.static import MAX_ROWS, Body, StaticLM, keys_for
from specviz.lm.static_cache import CacheShape
from specviz.lm.stock import StockBody, cache_shape
from specviz.tree import DraftTree
from specviz.words import word

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}  # of the logits' spread
HALF_TOLERANCE = 3e-2  # bfloat16 and float16
PREFIX = (7, 38, 69)
TREES = (
    DraftTree.chain(3),
    DraftTree((3, 5, 2, 8, 1, 3, 2), (-1, 0, 0, 1, 3, 2, 4)),
    DraftTree.chain(4, range(5, 5 + MAX_ROWS - 1)),
)


def captured(plain: PlainLM) -> LanguageModel:
    """`graphed` but on a CPU, which launches no kernels, and for which there are other paths."""
    return plain if plain.device.type == "cpu" else graphed(plain)


def graphed(plain: PlainLM, recorder: Recorder | None = None) -> LanguageModel:
    """The model's captured twin, or `plain` itself and why.

    recorder: what captures; None: CUDA graphs, where they exist.
    """
    reason = why_no_graphs(plain.device) if recorder is None else None
    found = reason or _twin(plain, recorder)
    if isinstance(found, str):
        plain.path = word("path.no_graphs", path=plain.path, reason=found)
        return plain
    return found


def _twin(plain: PlainLM, recorder: Recorder | None) -> StaticLM | str:
    shape = cache_shape(plain)
    if isinstance(shape, str):
        return shape
    made: StaticLM | str = ""
    for make, path in _bodies(plain):
        made = _tried(plain, make, shape, recorder, path)
        if isinstance(made, StaticLM):
            break
    return made


def _bodies(plain: PlainLM) -> list[tuple[Callable[[], Body], str]]:
    """What may read the model, the fastest first, and how each is called."""
    name = type(plain.model).__name__
    stock = word("path.stock_body", model=name)
    if (reason := why_not_lean(plain.model)) is not None:
        return [(lambda: StockBody(plain), word("path.not_lean", path=stock, reason=reason))]
    # A pass may stand behind all of the context, so there are a few positions more.
    num_positions = keys_for(plain.max_context + MAX_ROWS)
    return [
        (lambda: LeanBody(plain.model, num_positions), word("path.lean_body", model=name)),
        (lambda: StockBody(plain), stock),
    ]


def _tried(
    plain: PlainLM,
    make: Callable[[], Body],
    shape: CacheShape,
    recorder: Recorder | None,
    path: str,
) -> StaticLM | str:
    names = {"body": path, "rows": MAX_ROWS}
    is_called = isinstance(recorder, EagerRecorder)
    path = word("path.called", **names) if is_called else word("path.graphs", **names)
    try:
        lm = StaticLM(plain, make(), shape, recorder or GraphRecorder(plain.device), path)
        gap = largest_gap(lm, plain)
    except RuntimeError as error:  # what cannot be captured says so in many ways
        return word("path.no_capture", text=first_line(error))
    return lm if gap <= TOLERANCE.get(plain.dtype, HALF_TOLERANCE) else word("path.unlike_plain")


def largest_gap(lm: LanguageModel, plain: LanguageModel) -> float:
    """How far the logits of both lie apart over trees of all sizes, as a share of their spread;
    infinite if one of them is no number."""
    largest = 0.0
    for tree in TREES:
        read: list[Any] = []
        for model in (lm, plain):
            cache = model.new_cache(len(PREFIX) + len(tree))
            model.prefill([token % model.vocab_size for token in PREFIX], cache)
            known = DraftTree(tuple(t % model.vocab_size for t in tree.tokens), tree.parents)
            read.append(model.read(known, cache).logits.double())
        ours, truth = read
        spread = (truth.max() - truth.min()).clamp_min(1e-9)
        gap = float((ours - truth).abs().max() / spread)
        largest = max(largest, gap if gap == gap else float("inf"))
    return largest
