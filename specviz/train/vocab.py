"""The draft vocabulary: the few tokens a drafter guesses from, chosen once for a corpus.

Every drafter trained on one corpus guesses from the same tokens, so their heads' rows of the
target are shared, and what a checkpoint calls row i means the same in all of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specviz.train.batches import answer_counts, choose_vocab, covered
from specviz.train.data import Example

FILE = "vocab.json"
DEFAULT_SIZE = 8192


@dataclass(frozen=True, slots=True)
class Vocabulary:
    ids: Tensor  # (Vd,) ascending
    coverage: float  # share of the answer tokens to learn from that are in it


def kept_vocab(
    folder: Path, learned: Sequence[Example], size: int | None, num_known_tokens: int
) -> Vocabulary:
    """The corpus's vocabulary, chosen at the first call. ValueError: it has another size."""
    path = folder / FILE
    if path.exists():
        held = json.loads(path.read_text())
        if size is not None and min(size, num_known_tokens) != held["size"]:
            raise ValueError(
                f"The drafters of {folder} guess from {held['size']} tokens ({FILE}); leave "
                "--vocab-size out, or use a copy of the corpus for another size."
            )
        return Vocabulary(torch.tensor(held["ids"]), held["coverage"])
    ids, share = choose_vocab(learned, min(size or DEFAULT_SIZE, num_known_tokens))
    share = round(share, 5)
    facts = {"size": len(ids), "coverage": share, "ids": ids.tolist()}
    path.write_text(json.dumps(facts) + "\n")
    return Vocabulary(ids, share)


def coverage(examples: Sequence[Example], ids: Tensor) -> float:
    """Share of the examples' answer tokens that are among `ids`."""
    return covered(answer_counts(examples), set(ids.tolist()))
