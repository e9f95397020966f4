"""EAGLE-1 and EAGLE-2: one layer guesses the target's next hidden state, and the target's own head
turns it into tokens (Li et al. 2024, arXiv:2401.15077 and arXiv:2406.16858).

Both decode with the same weights. EAGLE-1 fills a tree whose shape is fixed; EAGLE-2 spends the
same rows where the drafter is confident. A row pairs the feature of token i with token i + 1;
rows of committed tokens carry the target's true features, rows of a draft the drafter's own
guesses, which are forgotten after the round. Training is in `eagle_net`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from specviz.config import Exactness
from specviz.drafters.base import DraftContext, Outcome, Proposal, TargetKit
from specviz.drafters.draft_rows import (
    CapturedRows,
    DraftNetwork,
    DraftRows,
    called_rows,
    rows_of,
)
from specviz.drafters.growth import DynamicShape, grow_dynamic, nothing
from specviz.drafters.knobs import knob
from specviz.drafters.parts import (
    HEAD,
    described,
    embedding_of,
    known_ids,
    layer_of,
    layer_shapes,
    optional_shapes,
    own_or_target_head,
    placed,
    without_copies,
)
from specviz.drafters.published import check_config, check_width, in_one_form
from specviz.drafters.static_growth import (
    Node,
    RankedTree,
    StaticTree,
    grow_chosen,
    grow_ranked,
    likeliest_paths,
)
from specviz.lm.base import FeatureTap
from specviz.lm.checkpoints import DrafterCheckpoint, Shape, check_tensors, kind_of
from specviz.lm.draft_cache import DraftCache
from specviz.lm.linear import best_linear
from specviz.words import word

# T = committed tokens, n = rows of a pass, F = width of the target's features, H = hidden size,
# Vd = draft vocabulary, V = the target's

# [depth][rank]: how often that guess is the target's token, where a checkpoint's config.json does
# not tell: each rank two fifths of the one above, at any depth.
ASSUMED_RATES = tuple(tuple(0.5 * 0.4**rank for rank in range(10)) for _ in range(6))


@dataclass(frozen=True, slots=True)
class EagleConfig:
    budget: int = knob(16, 2, 64, help="Rows the target reads in a round, the root included")


@dataclass(frozen=True, slots=True)
class DynamicConfig:
    top_k: int = knob(6, 1, 10, help="Children of a node, and nodes of a level that get children")
    depth: int = knob(4, 1, 8, help="Levels of the tree: passes of the drafter in a round")
    budget: int = knob(16, 2, 64, help="Rows the target reads in a round, the root included")


class FeatureDrafter:
    """What EAGLE-1, 2 and 3 have in common: true rows for the text, a tree behind them."""

    exactness: ClassVar[Exactness] = "exact"

    def __init__(
        self,
        network: DraftNetwork,
        taps: tuple[FeatureTap, ...],
        num_tree_rows: int,
        kit: TargetKit,
    ) -> None:
        """num_tree_rows: rows of a tree the network reads at most."""
        self.network, self.taps = network, taps
        self.description = network.description
        self.num_tree_rows = num_tree_rows
        self.num_features, self.recorder = len(taps) * kit.hidden_size, kit.recorder
        self.rows: DraftRows | None = None
        self._is_settled = False

    def start(self, context: DraftContext) -> None:
        capacity = len(context.tokens) + context.max_depth + 1 + self.num_tree_rows
        self.rows = rows_of(self.network, capacity, self.num_features, self.recorder)
        with torch.inference_mode():
            try:
                self._catch_up(context)
            except RuntimeError as error:  # older cards lack some kernel of the fast rows
                if not isinstance(self.rows, CapturedRows):
                    raise
                self.rows = called_rows(self.network, capacity, error)
                self._catch_up(context)

    @torch.inference_mode()
    def settle(self, context: DraftContext) -> None:
        """Once: what can be captured, and if it cannot the reason in the description."""
        assert self.rows is not None, "start comes first"
        if self._is_settled:
            return
        self._is_settled = True
        if self.rows.num_true and context.max_depth > 0:
            self.rows.rehearse(lambda: self._draws(context) or self.grow(context))
        if (reason := self.rows.why_called) is not None:
            self.description = word("drafts.called", network=self.description, reason=reason)

    @torch.inference_mode()
    def propose(self, context: DraftContext) -> Proposal:
        assert self.rows is not None, "start comes first"
        self.rows.laps.start()
        self._catch_up(context)
        if not self.rows.num_true or context.max_depth < 1:  # the root alone, or no room for more
            return nothing(context.tokens[-1])
        proposal = self.grow(context)
        self.rows.forget()
        return proposal

    def observe(self, outcome: Outcome) -> None:
        """Nothing: the next proposal is told all committed tokens and their true features."""

    def grow(self, context: DraftContext) -> Proposal:
        """A tree behind the true rows."""
        raise NotImplementedError

    def _draws(self, context: DraftContext) -> bool:
        """Whether a tree is left to chance: then nothing may be drawn beforehand."""
        del context
        return False

    def _catch_up(self, context: DraftContext) -> None:
        assert self.rows is not None, "start comes first"
        if context.features is not None:
            self.rows.catch_up(context.tokens, context.features)


class DynamicDrafter(FeatureDrafter):
    """A tree where the drafter is confident."""

    def __init__(
        self,
        config: DynamicConfig,
        network: DraftNetwork,
        taps: tuple[FeatureTap, ...],
        kit: TargetKit,
    ) -> None:
        super().__init__(network, taps, config.top_k * (config.depth - 1), kit)
        self.shape = DynamicShape(config.top_k, config.depth, config.budget)

    def grow(self, context: DraftContext) -> Proposal:
        assert self.rows is not None, "start comes first"
        return grow_dynamic(self.rows, self.shape, context.tokens[-1], context.max_depth)


class StaticDrafter(FeatureDrafter):
    """A tree of a fixed shape. Greedy: the likeliest tokens. Else they are drawn without
    replacement, as published."""

    def __init__(
        self,
        shape: StaticTree,
        network: DraftNetwork,
        taps: tuple[FeatureTap, ...],
        kit: TargetKit,
    ) -> None:
        num_inner = len(shape.num_children) - 1  # the root is no row of the drafter
        super().__init__(network, taps, num_inner, kit)
        self.shape, self.vocab_size = shape, kit.vocab_size
        self.ranked = RankedTree(shape, network.ids)

    def grow(self, context: DraftContext) -> Proposal:
        assert self.rows is not None, "start comes first"
        root, depth = context.tokens[-1], context.max_depth
        if not self._draws(context):
            return grow_ranked(self.rows, self.ranked, root, depth)
        drawn = Drawn(context, self.rows.ids, self.vocab_size)
        grown = grow_chosen(self.rows, self.shape, drawn, root, depth)
        return Proposal(
            grown.tree,
            grown.probs,
            drawn.child_probs(len(grown.tree)),
            candidates=grown.candidates,
            step_seconds=grown.seconds,
        )

    def _draws(self, context: DraftContext) -> bool:
        return not context.sampling.is_greedy


class Eagle(StaticDrafter):
    Config: ClassVar[type] = EagleConfig
    title: ClassVar[str] = "EAGLE-1"
    summary: ClassVar[str] = "One layer guesses the next hidden states; a fixed tree of guesses."
    paper: ClassVar[str] = "Li et al. 2024, arXiv:2401.15077"

    def __init__(self, config: EagleConfig, kit: TargetKit) -> None:
        checkpoint = kit.trained("eagle")
        rates = checkpoint.config.get("hit_rates") or ASSUMED_RATES
        shape = StaticTree(likeliest_paths(rates, config.budget - 1))
        super().__init__(shape, EagleNetwork(checkpoint, kit), (FeatureTap("normed"),), kit)


class Eagle2(DynamicDrafter):
    Config: ClassVar[type] = DynamicConfig
    title: ClassVar[str] = "EAGLE-2"
    summary: ClassVar[str] = "EAGLE-1's layer, and a tree that grows where it is confident."
    paper: ClassVar[str] = "Li et al. 2024, arXiv:2406.16858"

    def __init__(self, config: DynamicConfig, kit: TargetKit) -> None:
        network = EagleNetwork(kit.trained("eagle"), kit)
        super().__init__(config, network, (FeatureTap("normed"),), kit)


class Drawn:
    """Children drawn without replacement from the drafter's distribution under the run's own
    settings, which is then what they are verified against."""

    def __init__(self, context: DraftContext, ids: Tensor, vocab_size: int) -> None:
        self.context, self.ids, self.vocab_size = context, ids, vocab_size
        self.rows: dict[int, Tensor] = {}

    def __call__(
        self, logits: Tensor, nodes: Sequence[Node], counts: Sequence[int]
    ) -> list[list[tuple[int, float]]]:
        return [
            self._children(own, node, count)
            for own, node, count in zip(logits, nodes, counts, strict=True)
        ]

    def _children(self, logits: Tensor, node: Node, count: int) -> list[tuple[int, float]]:
        path = self.context.tokens + node.tokens
        scores = torch.full((self.vocab_size,), -torch.inf, device=logits.device)
        scores[self.ids] = logits.float()  # what it cannot draft has no chance
        probs = self.context.sampling.probs(scores, path)
        self.rows[node.row] = probs
        left, chosen = probs.clone(), list[tuple[int, float]]()
        for _ in range(min(count, int((probs > 0).sum()))):
            token = self.context.chance.token(left, len(path))
            chosen.append((token, float(probs[token])))
            left[token] = 0.0
        return chosen

    def child_probs(self, num_rows: int) -> Tensor:
        """(N, V) float64; zeros for rows without children."""
        probs = torch.zeros(num_rows, self.vocab_size, dtype=torch.float64)
        for row, own in self.rows.items():
            probs[row] = own
        return probs


class EagleNetwork:
    """EAGLE-1's tensors: fc and one layer without an input norm; the head is the target's unless
    the file has one, and so is the form of what it puts out: a state after the final norm."""

    def __init__(self, checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
        checkpoint = in_one_form(checkpoint)
        _check(checkpoint, kit)
        checkpoint = without_copies(checkpoint, kit)
        tensors = placed(checkpoint.tensors, kit)
        self.ids = known_ids(checkpoint, kit)
        self.layer = layer_of(checkpoint, tensors)
        self.embed = embedding_of(tensors, kit)
        self._fc = best_linear(tensors["fc.weight"], tensors.get("fc.bias"))
        self._head = own_or_target_head(checkpoint, tensors, self.ids, kit)
        self.description = described(tensors, self.ids)

    def fused(self, features: Tensor) -> Tensor:
        return features

    def read(
        self, tokens: Tensor, features: Tensor, depths: Tensor, visible: Tensor, cache: DraftCache
    ) -> Tensor:
        x = self._fc(torch.cat((self.embed(tokens), features), dim=-1))
        return self.layer.run(x, x, depths, visible, cache)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(hidden)


def _check(checkpoint: DrafterCheckpoint, kit: TargetKit) -> None:
    """ValueError: these are not the weights of such a drafter for this target."""
    size, fc = kit.hidden_size, checkpoint.tensors.get("fc.weight")
    check_config(checkpoint, kit)
    required: dict[str, Shape] = layer_shapes(size, size) | {"fc.weight": (size, 2 * size)}
    table = checkpoint.tensors.get("d2t")
    num_ids = kit.vocab_size if table is None else len(table)
    optional: dict[str, Shape] = optional_shapes(kit) | {
        "fc.bias": (size,),
        HEAD: (num_ids, size),  # in files that were made from the authors' own
    }
    if kind_of(checkpoint.tensors) == "EAGLE-1" and fc is not None:
        check_width(checkpoint, kit, columns=fc.shape[-1], parts=2)
    check_tensors(checkpoint, required, optional, "EAGLE-1")
