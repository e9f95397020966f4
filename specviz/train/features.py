"""What the target's hidden states were on the corpus: read once, kept on disk, one file a shard.

A row of a shard's file belongs to one token and holds, in bfloat16 side by side: the residual
stream entering layers 2, L // 2 and L - 3 (what EAGLE-3 reads) and the state after the final norm
(what the head, EAGLE-1, Medusa and MTP read). Logits are not kept: they would be 85 times as
large, and the head gives them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from specviz.lm.base import FeatureTap
from specviz.lm.batched import BatchedLM
from specviz.lm.folder import config_of
from specviz.train.data import Example, Made, example_shards
from specviz.train.shards import loaded, one_thread
from specviz.train.workers import worked

BATCH_TOKENS = 4096  # padding included
MIN_LAYERS = 4  # of a target: low, middle and high are boundaries inside it


def stored_taps(num_layers: int) -> tuple[FeatureTap, ...]:
    """Low, middle, high, normed; arXiv:2503.01840 names the first three. ValueError: too few."""
    if num_layers < MIN_LAYERS:
        raise ValueError(
            f"This target has {num_layers} layers; training reads states inside a target of "
            f"{MIN_LAYERS} or more."
        )
    low_mid_high = (2, num_layers // 2, num_layers - 3)
    return (*(FeatureTap("input", layer) for layer in low_mid_high), FeatureTap("normed"))


def features_path(shard: Path) -> Path:
    return shard.with_suffix(".features")


def build_features(target: Path, corpus: Path, num_workers: int) -> Iterator[Made]:
    """Read the shards that have no features yet. Closing the iterator ends the workers.

    ValueError: there is no corpus, or the target has too few layers.
    """
    stored_taps(config_of(target).num_hidden_layers)
    shards = example_shards(corpus)
    if not shards:
        raise ValueError(f"{corpus} holds no corpus; make one with `python -m specviz train data`.")
    sizes = {shard: _num_tokens(shard) for shard in shards}
    missing = lacking_features(corpus)
    done = sum(sizes[shard] for shard in shards if shard not in missing)
    total, num_tokens = sum(sizes.values()), 0
    yield Made("features", done, total, num_tokens)
    for step in worked(_read_shard, [(target, shard) for shard in missing], num_workers):
        num_tokens += step.amount
        yield Made("features", done + num_tokens, total, num_tokens)


def lacking_features(corpus: Path) -> list[Path]:
    """Shards whose features are still to be read."""
    return [shard for shard in example_shards(corpus) if not features_path(shard).exists()]


def features_of(example: Example, width: int) -> Tensor:
    """(T, width) bf16, straight from the disk."""
    file = features_path(example.shard)
    num_rows = file.stat().st_size // (2 * width)
    rows = torch.from_file(str(file), shared=False, size=num_rows * width, dtype=torch.bfloat16)
    return rows.view(num_rows, width)[example.start : example.start + len(example.tokens)]


def _read_shard(job: tuple[Path, Path]) -> Iterator[int]:
    """Write the shard's features; the number of tokens of each batch as it is read."""
    target, shard = job
    with one_thread():
        lm, data = loaded(target), load_file(shard)
        taps = stored_taps(lm.num_layers)
        ends: list[int] = data["ends"].tolist()
        spans = list(zip([0, *ends[:-1]], ends, strict=True))
        out = torch.empty(ends[-1], len(taps) * lm.hidden_size, dtype=torch.bfloat16)
        for batch in _batches(spans):
            _read_batch(lm, data["tokens"], batch, taps, out)
            yield sum(end - start for start, end in batch)
        draft = features_path(shard).with_suffix(".part")
        out.view(torch.uint16).numpy().tofile(draft)
        draft.rename(features_path(shard))


def _read_batch(
    lm: BatchedLM,
    stored: Tensor,
    batch: Sequence[tuple[int, int]],
    taps: Sequence[FeatureTap],
    out: Tensor,
) -> None:
    """Fill the rows of `out` that belong to the spans of `stored` in `batch`."""
    tokens = torch.zeros(len(batch), max(end - start for start, end in batch), dtype=torch.long)
    for row, (start, end) in enumerate(batch):
        tokens[row, : end - start] = stored[start:end]
    _, features = lm.read(tokens.to(lm.device), taps)
    assert features is not None, "taps were asked for"
    for row, (start, end) in enumerate(batch):
        out[start:end] = features[row, : end - start].to("cpu")


def _num_tokens(shard: Path) -> int:
    with safe_open(shard, framework="pt") as file:
        return int(file.get_tensor("ends")[-1])


def _batches(spans: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Spans of about a length together, as many as fit with their padding."""
    batch: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda s: s[0] - s[1]):
        longest = max((e - s for s, e in batch), default=span[1] - span[0])
        if batch and longest * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch
