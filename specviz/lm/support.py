"""Which models are refused at load, and why. One sentence each, for people.

A refusal by `config.json` comes before the weights are read. What a config cannot tell is found
by trying: a small tree must read as its paths do one token at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

from specviz.lm.base import FeatureTap, LanguageModel
from specviz.tree import DraftTree


class StockLM(LanguageModel, Protocol):
    """A language model that can also show what it is built on."""

    def stock_logits(self, tokens: Sequence[int]) -> Tensor:
        """(T, V) by the unmodified model's forward: no mask, positions or cache of ours."""


DEFAULT_CONTEXT = 4096  # tokens, when the model could hold more
FULL_TYPES = {"full_attention"}
WINDOWED_TYPES = {"sliding_attention", "chunked_attention"}
LENGTH_DEPENDENT_ROPE = {"dynamic", "longrope"}
SPREAD_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}  # of the logits' spread
FAILURES = (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError)
HALF_TOLERANCE = 3e-2  # bfloat16 and float16, and inputs rounded to 8 bits


def default_context(config: Any) -> int:
    """Tokens a run may hold when nobody asks: what the model was made for, at most 4096."""
    return min(_made_for(config) or DEFAULT_CONTEXT, DEFAULT_CONTEXT)


def refusal(config: Any, context: int) -> str | None:
    """Why a model with this config cannot verify trees of up to `context` tokens, or None."""
    name = str(config.model_type)
    if config.is_encoder_decoder:
        return f"{name} is an encoder-decoder; a decoder-only language model is needed."
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return f"{name} is not a causal language model that transformers knows."
    text = config.get_text_config()
    made_for = _made_for(config)
    if context < 2 or (made_for is not None and context > made_for):
        return f"{name} holds 2 to {made_for} tokens; a context of {context} was asked for."
    return (
        _state_refusal(config, text)
        or _window_refusal(text, context)
        or _rope_refusal(text, context)
    )


def _made_for(config: Any) -> int | None:
    value = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(value) if value and value > 0 else None  # XLNet says -1 for no limit


def _state_refusal(config: Any, text: Any) -> str | None:
    """A running state cannot be rolled back to an accepted path; a cache of rows can."""
    kinds = set(getattr(text, "layer_types", None) or ()) - FULL_TYPES - WINDOWED_TYPES
    is_stateful = getattr(MODEL_FOR_CAUSAL_LM_MAPPING[type(config)], "_is_stateful", False)
    if not kinds and not is_stateful:
        return None
    what = ", ".join(sorted(kinds)) or "recurrent layers"
    return (
        f"{config.model_type} has layers that are not plain attention ({what}): they could not "
        "forget rejected draft tokens. Choose a model with attention in every layer."
    )


def _window_refusal(text: Any, context: int) -> str | None:
    kinds = getattr(text, "layer_types", None)
    if kinds is not None and not WINDOWED_TYPES & set(kinds):
        return None
    sizes = [getattr(text, "sliding_window", None), getattr(text, "attention_chunk_size", None)]
    if "local" in getattr(text, "attention_layers", ()):  # GPT-Neo
        sizes.append(text.window_size)
    window = min((size for size in sizes if size), default=None)
    if window is None or window >= context:
        return None
    return (
        f"{text.model_type} attends to a window of {window} tokens, shorter than the context of "
        f"{context} in use; ask for a context of at most {window}."
    )


def _rope_refusal(text: Any, context: int) -> str | None:
    """Some rotary scalings change with the length, so cached keys would depend on its history."""
    rope = getattr(text, "rope_parameters", None) or {}
    for part in (rope, *(value for value in rope.values() if isinstance(value, dict))):
        kind = part.get("rope_type")
        limit = part.get("original_max_position_embeddings") or _made_for(text)
        if kind in LENGTH_DEPENDENT_ROPE and limit is not None and context > limit:
            return (
                f"{text.model_type} rotates positions differently past {limit} tokens ({kind} "
                f"scaling); ask for a context of at most {limit} instead of {context}."
            )
    return None


Check = TypeVar("Check", bound=LanguageModel)


def _failure_is_a_reason(check: Callable[[Check], str | None]) -> Callable[[Check], str | None]:
    """A model that raises where others answer is refused with what it raised."""

    @functools.wraps(check)
    def checked(lm: Check) -> str | None:
        try:
            return check(lm)
        except FAILURES as error:
            what = (str(error) or "no reason given").splitlines()[0]
            return (
                f"This model cannot be read in the way a tree needs: {type(error).__name__}: {what}"
            )

    return checked


@_failure_is_a_reason
def check_stock(lm: StockLM) -> str | None:
    """Why this path cannot be trusted on this model, or None: it must agree with a bare forward."""
    tokens = _probe_tokens(lm.vocab_size, 8)
    cache = lm.new_cache(len(tokens))
    lm.prefill(tokens[:3], cache)
    ours = lm.read(DraftTree.chain(tokens[3], tokens[4:]), cache).logits
    gap = _relative_gap(ours, lm.stock_logits(tokens)[3:])
    if gap <= _tolerance(lm):
        return None
    return (
        f"A cached pass reads differently from the model's own (the scores differ by {gap:.1%} of "
        "their range), so its answers could not be trusted. Choose another model."
    )


@_failure_is_a_reason
def check_tree_reading(lm: LanguageModel) -> str | None:
    """Why trees cannot be trusted on this model, or None: a tree against its paths, row by row."""
    tree = _probe_tree(lm.vocab_size)
    prefix = _probe_tokens(lm.vocab_size, 3)
    cache = lm.new_cache(len(prefix) + len(tree))
    lm.prefill(prefix, cache)
    together = lm.read(tree, cache).logits
    alone = _row_by_row(lm, prefix, tree)
    gap = _relative_gap(together, alone)
    if gap <= _tolerance(lm):
        return None
    return (
        f"This model reads a tree differently from its paths (the scores differ by {gap:.1%} of "
        "their range), so its answers could not be trusted. Choose another model."
    )


@_failure_is_a_reason
def check_head(lm: LanguageModel) -> str | None:
    """Why `head` cannot be trusted on this model, or None: it must give the pass's own logits."""
    output = lm.read(_probe_tree(lm.vocab_size), lm.new_cache(16), (FeatureTap("normed"),))
    assert output.features is not None
    gap = _relative_gap(lm.head(output.features), output.logits)
    if gap <= _tolerance(lm):
        return None
    return (
        "This model turns hidden states into scores in a way that is not known here "
        f"(off by {gap:.1%} of their range). Choose another model."
    )


def _probe_tokens(vocab_size: int, count: int) -> list[int]:
    """Ids spread over the vocabulary; any will do."""
    return [(7 + 31 * i) % vocab_size for i in range(count)]


def _probe_tree(vocab_size: int) -> DraftTree:
    """Two branches of different depth and a row that only looks ahead."""
    a, b, c, d, e = (i % vocab_size for i in (3, 5, 2, 8, 1))
    return DraftTree((a, b, c, d, e, a, c), (-1, 0, 0, 1, 3, 2, 4), num_lookahead_rows=1)


def _row_by_row(lm: LanguageModel, prefix: list[int], tree: DraftTree) -> Tensor:
    """(N, V): every path of the tree, read one token at a time."""
    start = lm.new_cache(len(prefix) + len(tree))
    for token in prefix:
        lm.read(DraftTree.chain(token), start)
        start.keep((0,))
    logits: dict[int, Tensor] = {}
    for leaf in (row for row in range(len(tree)) if row not in tree.parents):
        cache = start.clone()
        for row in tree.path(leaf):
            logits[row] = lm.read(DraftTree.chain(tree.tokens[row]), cache).logits[-1]
            cache.keep((0,))
    return torch.stack([logits[row] for row in range(len(tree))])


def _relative_gap(ours: Tensor, truth: Tensor) -> float:
    """Largest difference as a share of the spread of the true logits; NaN counts as infinite."""
    truth = truth.double()
    gap = (ours.double() - truth).abs().max() / (truth.max() - truth.min()).clamp(min=1e-9)
    return float(gap) if bool(torch.isfinite(gap)) else float("inf")


def _tolerance(lm: LanguageModel) -> float:
    """By the coarsest numbers a pass goes through: those it says, else its compute dtype."""
    return SPREAD_TOLERANCE.get(getattr(lm, "coarsest", lm.dtype), HALF_TOLERANCE)
