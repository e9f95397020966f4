"""What the target's hidden states were on the corpus: read once, kept on disk, one file a shard.

A row of a shard's file belongs to one token and holds, in bfloat16 side by side: the residual
stream entering layers 2, L // 2 and L - 3 (what EAGLE-3 reads) and the state after the final norm
(what the head, EAGLE-1, Medusa and MTP read). Logits are not kept: they would be 85 times as
large, and the head gives them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from specviz.lm.base import FeatureTap
from specviz.lm.batched import BatchedLM
from specviz.train.data import Example, example_shards

BATCH_TOKENS = 4096  # padding included


def stored_taps(num_layers: int) -> tuple[FeatureTap, ...]:
    """Low, middle, high, normed; arXiv:2503.01840 names the first three."""
    low_mid_high = (2, num_layers // 2, num_layers - 3)
    return (*(FeatureTap("input", layer) for layer in low_mid_high), FeatureTap("normed"))


def features_path(shard: Path) -> Path:
    return shard.with_suffix(".features")


def build_features(target: Path, corpus: Path, num_workers: int) -> Iterator[tuple[int, int]]:
    """Read the shards that have no features yet; (shards done, shards in all) after each."""
    shards = example_shards(corpus)
    missing = [(target, shard) for shard in shards if not features_path(shard).exists()]
    done = len(shards) - len(missing)
    yield done, len(shards)
    if not missing:
        return
    with get_context("spawn").Pool(
        min(num_workers, len(missing)), torch.set_num_threads, (1,)
    ) as pool:
        for _ in pool.imap_unordered(_read_shard, missing):
            done += 1
            yield done, len(shards)


def features_of(example: Example, width: int) -> Tensor:
    """(T, width) bf16, straight from the disk."""
    file = features_path(example.shard)
    num_rows = file.stat().st_size // (2 * width)
    rows = torch.from_file(str(file), shared=False, size=num_rows * width, dtype=torch.bfloat16)
    return rows.view(num_rows, width)[example.start : example.start + len(example.tokens)]


def _read_shard(job: tuple[Path, Path]) -> None:
    target, shard = job
    lm = BatchedLM(target, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    taps, data = stored_taps(lm.num_layers), load_file(shard)
    ends: list[int] = data["ends"].tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    out = torch.empty(ends[-1], len(taps) * lm.hidden_size, dtype=torch.bfloat16)
    for batch in _batches(spans):
        tokens = torch.zeros(len(batch), max(end - start for start, end in batch), dtype=torch.long)
        for row, (start, end) in enumerate(batch):
            tokens[row, : end - start] = data["tokens"][start:end]
        _, features = lm.read(tokens.to(lm.device), taps)
        assert features is not None, "taps were asked for"
        for row, (start, end) in enumerate(batch):
            out[start:end] = features[row, : end - start].to("cpu")
    draft = features_path(shard).with_suffix(".part")
    out.view(torch.uint16).numpy().tofile(draft)
    draft.rename(features_path(shard))


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
