"""One command's training, from a corpus to a network that can be exported: phases in a row.

Everything that can be wrong with what a person gave is said before the first step. Files are
written by `recipe` (states) and `export` (the drafter).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import torch

from specviz.config import TargetSpec
from specviz.drafters.training import FrozenTarget
from specviz.lm.checkpoints import DrafterCheckpoint, draft_ids, load_checkpoint
from specviz.lm.device import pick_device
from specviz.lm.folder import config_of, tensors_of, tokenizer_of
from specviz.lm.packed_loading import why_not_llama_like
from specviz.train.batches import BatchMaker, num_batches
from specviz.train.data import Example, load_corpus
from specviz.train.features import lacking_features
from specviz.train.plan import check_target
from specviz.train.recipe import STATE, Training, load_weights, read_state
from specviz.train.recipes import DEFAULT_BATCH_TOKENS, RECIPES, Phase, Recipe, Schedule
from specviz.train.vocab import Vocabulary, coverage, kept_vocab


@dataclass(frozen=True, slots=True)
class Order:
    """What a person asked for."""

    method: str
    spec: TargetSpec
    target: Path  # its folder
    data: Path
    state: Path  # where the training's state lives
    num_steps: int | None = None  # of all phases together; None: the recipe's epochs
    num_epochs: float | None = None
    learning_rate: float | None = None
    batch_tokens: int | None = None
    seed: int = 0
    vocab_size: int | None = None
    continued: Path | None = None  # a checkpoint to go on from
    first_phase: int = 0  # the checkpoint has been through those before it
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the network's constructor


class Course:
    """The recipe's phases on one corpus. ValueError: something asked for cannot be."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.recipe: Recipe = RECIPES[order.method]
        config = config_of(order.target)
        if (reason := why_not_llama_like(config)) is not None:
            raise ValueError(f"No drafter can be trained for this target: {reason}.")
        check_target(order.target, order.data)
        self._check_first_phase()
        self.examples = load_corpus(order.data)
        if lacking := lacking_features(order.data):
            raise ValueError(
                f"{len(lacking)} shards of {order.data} have no features yet; run `python -m "
                "specviz train data` with this --out again: it goes on where it stopped."
            )
        self.tokenizer = tokenizer_of(order.target)
        self.checkpoint = None if order.continued is None else load_checkpoint(order.continued)
        self.vocab = self._vocab(config.vocab_size)
        self.frozen = FrozenTarget(order.target, config, tensors_of(order.target), self.vocab.ids)
        self.device = pick_device()

    @property
    def learned(self) -> list[Example]:
        return [example for example in self.examples if not example.is_held_out]

    @property
    def num_phases(self) -> int:
        return len(self.recipe.phases)

    @property
    def is_started(self) -> bool:
        return any((self.folder(i) / STATE).exists() for i in range(self.num_phases))

    def folder(self, phase: int) -> Path:
        """Of a phase's state. A state that lies in the given folder itself is the last phase's."""
        state = self.order.state
        is_last = phase == self.num_phases - 1
        if self.num_phases == 1 or (is_last and (state / STATE).exists()):
            return state
        return state / f"phase-{phase + 1}"

    def first_phase(self) -> int:
        """The last phase that has a state: those before it are over. With none, the one asked for."""
        begun = [i for i in range(self.num_phases) if (self.folder(i) / STATE).exists()]
        return begun[-1] if begun else self.order.first_phase

    def training(self, phase: int) -> Training:
        """A phase, where it stands. Its network is new, or the checkpoint's, or the phase's before."""
        net = self.net(self.recipe.phases[phase])
        state = self.folder(phase) / STATE
        if not state.exists():
            if phase > self.order.first_phase:
                before = self.folder(phase - 1) / STATE
                load_weights(net, read_state(before), before)
            elif self.checkpoint is not None:
                net.adopt(self.checkpoint.tensors)
        net.to(self.device)
        config = self.frozen.config
        maker = BatchMaker(
            net.taps,
            num_layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            device=self.device,
        )
        return Training(net, self.examples, maker, self.schedule(phase), self.folder(phase))

    def net(self, phase: Phase) -> Any:
        """A Trainee that is an nn.Module. ValueError: it has no such argument."""
        module, name = self.recipe.net.split(":")
        build = getattr(import_module(f"specviz.drafters.{module}"), name)
        known = [parameter for parameter in signature(build).parameters if parameter != "frozen"]
        if unknown := [name for name in self.order.arguments if name not in known]:
            raise ValueError(
                f"--set takes arguments of the {self.order.method} network "
                f"({', '.join(known) or 'it has none'}); got {unknown[0]!r}."
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.order.seed)
            return build(self.frozen, **{**self.order.arguments, **phase.arguments})

    def schedule(self, phase: int) -> Schedule:
        order, own = self.order, self.recipe.phases[phase]
        phases = self.recipe.phases[order.first_phase :]
        batch_tokens = order.batch_tokens or DEFAULT_BATCH_TOKENS
        share = own.epochs / sum(p.epochs for p in phases)
        if order.num_steps is not None:
            num_steps = round(order.num_steps * share)
        else:
            epochs = own.epochs if order.num_epochs is None else order.num_epochs * share
            per_epoch = num_batches(self.learned, batch_tokens=batch_tokens, seed=order.seed)
            num_steps = round(epochs * per_epoch)
        num_steps = max(1, num_steps)
        rate = own.learning_rate
        if order.learning_rate is not None:  # of the first phase; later ones keep their proportion
            rate *= order.learning_rate / phases[0].learning_rate
        return Schedule(
            num_steps,
            learning_rate=rate,
            batch_tokens=batch_tokens,
            warmup_steps=min(50, num_steps // 4),
            seed=order.seed,
            eval_every=max(1, min(200, num_steps // 5)),
        )

    def _check_first_phase(self) -> None:
        first = self.order.first_phase
        if not 0 <= first < self.num_phases:
            raise ValueError(
                f"{self.recipe.title} is trained in {self.num_phases} phases; there is no phase "
                f"{first + 1} to begin with."
            )
        if first > 0 and self.order.continued is None:
            raise ValueError(
                f"To begin with phase {first + 1}, give the checkpoint that has been through those "
                "before it, as --from."
            )

    def _vocab(self, vocab_size: int) -> Vocabulary:
        """The corpus's, or that of the checkpoint to go on from."""
        held: DrafterCheckpoint | None = self.checkpoint
        if held is not None and "d2t" in held.tensors:
            ids = draft_ids(held, vocab_size=vocab_size, num_known_tokens=vocab_size)
            return Vocabulary(ids, coverage(self.learned, ids))
        known = min(len(self.tokenizer), vocab_size)
        return kept_vocab(self.order.data, self.learned, self.order.vocab_size, known)


def use_threads(count: int | None) -> None:
    """So many threads of torch for what comes; None: as many as it likes."""
    if count is not None:
        torch.set_num_threads(count)
