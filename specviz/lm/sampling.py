"""Logits to the one distribution that drafting and verifying both use, and draws from it.

Greedy is a distribution, not a branch: temperature 0 gives a one-hot. Ties go to the lowest
id everywhere. Probabilities that decide are float64 on the CPU.
Order of settings, as in transformers: repetition penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.config import SamplingParams
from specviz.words import word

BLOCK = 256  # tokens among which `top_tokens` first looks for the largest
TINY_TEMPERATURE = 1e-5  # below it the hottest float64 softmax is one-hot but for exact ties


@dataclass(frozen=True, slots=True)
class Sampler:
    """The sampling settings of a run, and how many ids are real (rows above are padding)."""

    params: SamplingParams
    num_known_tokens: int

    @property
    def is_greedy(self) -> bool:
        """Settings under which only the likeliest token can be drawn."""
        p = self.params
        return p.temperature < TINY_TEMPERATURE or p.top_k == 1 or p.top_p == 0.0

    @property
    def is_one_hot(self) -> bool:
        """Whether the largest logit decides, as it is."""
        return self.is_greedy and self.params.repetition_penalty == 1.0

    def probs(self, logits: Tensor, path: Iterable[int]) -> Tensor:
        """(V,) logits after the tokens of `path` -> (V,) float64 probabilities on the CPU.

        Raises FloatingPointError if no logit is finite: nothing can be drawn then.
        """
        scores = self._scores(logits)
        if self.params.repetition_penalty != 1.0:
            _penalise(scores, path, self.params.repetition_penalty)
        if self.is_greedy:
            return _one_hot(int(scores.max(0).indices), len(scores))
        scores = scores / self.params.temperature
        scores = scores - scores.max()
        return _truncated(torch.softmax(scores, -1), self.params)

    def _scores(self, logits: Tensor) -> Tensor:
        scores = logits.detach().to("cpu", torch.float64, copy=True)
        scores[self.num_known_tokens :] = -torch.inf  # never-trained padding of the head
        if not bool(scores.max().isfinite()):  # one NaN makes the maximum NaN
            raise FloatingPointError(word("failure.scores"))
        return scores


class Chance(Protocol):
    """Where a lane's random draws come from."""

    def token(self, probs: Tensor, position: int) -> int:
        """A token drawn from (V,) `probs` to stand at absolute `position`."""

    def uniform(self) -> float:
        """A number in [0, 1)."""


class FreeChance:
    """Independent draws from one generator: rejection sampling."""

    def __init__(self, seed: int) -> None:
        self.rng = torch.Generator().manual_seed(seed)

    def token(self, probs: Tensor, position: int) -> int:
        del position
        cumulative = probs.cumsum(0)
        mark = self.uniform() * float(cumulative[-1])
        index = int(torch.searchsorted(cumulative, mark, right=True))
        # A mark at the very end by rounding must still fall on a token that has mass.
        return min(index, int(probs.nonzero()[-1])) if index == len(probs) else index

    def uniform(self) -> float:
        return float(torch.rand((), generator=self.rng, dtype=torch.float64))  # noqa: TID251


class CoupledChance(FreeChance):
    """One Gumbel noise vector per absolute position: whoever draws there from p draws the same.

    argmax(log p + g) is a draw from p (the Gumbel-max trick), so every lane of a seed writes the
    same text at any temperature, and a draft drawn with the same g tends to agree with it.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self._noise: dict[tuple[int, int], Tensor] = {}

    def token(self, probs: Tensor, position: int) -> int:
        return int((probs.log() + self._noise_at(position, len(probs))).argmax())

    def _noise_at(self, position: int, size: int) -> Tensor:
        key = (position, size)
        if key not in self._noise:
            if len(self._noise) > 64:
                self._noise.pop(next(iter(self._noise)))
            # Any fixed mixing of the two numbers will do: the generator scrambles its seed.
            mixed = (self.seed * 1_000_003 + position) % 2**63
            rng = torch.Generator().manual_seed(mixed)
            exponential = torch.empty(size, dtype=torch.float64).exponential_(generator=rng)
            self._noise[key] = -exponential.log()
        return self._noise[key]


def make_chance(rule: str, seed: int) -> Chance:
    return CoupledChance(seed) if rule == "coupled" else FreeChance(seed)


def favourites(logits: Tensor) -> list[int]:
    """The likeliest token of each row of (N, V) `logits`; among equals the lowest id."""
    best: list[int] = logits.max(-1).indices.tolist()
    return best


def top_tokens(values: Tensor, count: int) -> list[int]:
    """The `count` largest of (V,) `values`, best first; among equals the lowest id first."""
    ids = (values >= _reached_by(values, count)).nonzero().flatten()
    order = torch.sort(values[ids], descending=True, stable=True).indices
    best: list[int] = ids[order][:count].tolist()
    return best


def _reached_by(values: Tensor, count: int) -> Tensor:
    """A value that at least `count` tokens reach. Not the highest such value, but quickly found:
    the maxima of blocks are as many tokens as there are blocks, and few to rank."""
    num_blocks = len(values) // BLOCK
    if count > num_blocks:
        return values.topk(min(count, len(values))).values[-1]
    maxima = values[: num_blocks * BLOCK].view(num_blocks, BLOCK).amax(-1)
    return maxima.topk(count).values[-1]


def _penalise(scores: Tensor, path: Iterable[int], penalty: float) -> None:
    """CTRL (arXiv:1909.05858, section 4.1): seen tokens' scores shrink towards less likely."""
    seen = torch.tensor(sorted(set(path)), dtype=torch.long)
    values = scores[seen]
    scores[seen] = torch.where(values < 0, values * penalty, values / penalty)


def _truncated(probs: Tensor, params: SamplingParams) -> Tensor:
    keep = torch.ones_like(probs, dtype=torch.bool)
    if 0 < params.top_k < len(probs):
        keep = _mask_of(top_tokens(probs, params.top_k), len(probs))
    if params.top_p < 1.0:
        kept = torch.where(keep, probs, 0.0)
        order = torch.sort(kept, descending=True, stable=True)
        mass_before = order.values.cumsum(0) - order.values
        # The first token always stays; one is kept while the mass before it is below top_p. The
        # slack keeps a sum that reaches top_p exactly from taking one more by rounding.
        inside = mass_before < params.top_p * float(kept.sum()) - 1e-12
        inside[0] = True
        keep = keep & _mask_of(order.indices[inside], len(probs))
    if params.min_p > 0.0:
        keep = keep & (probs >= params.min_p * probs.max())
    probs = torch.where(keep, probs, 0.0)
    return probs / probs.sum()


def _mask_of(ids: list[int] | Tensor, size: int) -> Tensor:
    mask = torch.zeros(size, dtype=torch.bool)
    mask[ids] = True
    return mask


def _one_hot(index: int, size: int) -> Tensor:
    probs = torch.zeros(size, dtype=torch.float64)
    probs[index] = 1.0
    return probs
