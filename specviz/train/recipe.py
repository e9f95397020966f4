"""The one training loop: every method's network goes through it.

AdamW under bf16 autocast, a short warm-up, a cosine to a tenth, clipped gradients; held-out
acceptance now and then; a state on disk every few minutes, from which a run goes on exactly as
if it had not stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specviz.train.batches import BatchMaker, batches
from specviz.train.data import Example
from specviz.train.simulate import Simulated, simulate

EVAL_EXAMPLES = 48
MAX_BAD_STEPS = 5  # in a row, before a run is given up


@dataclass(frozen=True, slots=True)
class Schedule:
    num_steps: int
    learning_rate: float = 8e-4
    batch_tokens: int = 2400  # padding included
    warmup_steps: int = 50
    clip: float = 0.5
    seed: int = 0
    eval_every: int = 200
    save_seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class Report:
    """Told after every step."""

    step: int
    losses: dict[str, float]
    learning_rate: float
    simulated: Simulated | None  # at the steps that evaluate


class DivergedError(Exception):
    """The loss is no number any more; the sentence says what to try."""


class Training:
    """A network on its way. `folder` holds its state; an existing one is gone on from."""

    def __init__(
        self,
        net: Any,  # a Trainee that is an nn.Module
        examples: Sequence[Example],
        maker: BatchMaker,
        schedule: Schedule,
        folder: Path,
    ) -> None:
        self.net, self.maker, self.schedule, self.folder = net, maker, schedule, folder
        self.learned = [e for e in examples if not e.is_held_out]
        held_out = [e for e in examples if e.is_held_out and e.is_greedy]
        self.held_out = held_out[:: max(1, len(held_out) // EVAL_EXAMPLES)][:EVAL_EXAMPLES]
        if not self.learned or not self.held_out:
            raise ValueError(
                f"The corpus is too small: {len(self.learned)} examples to learn from, "
                f"{len(self.held_out)} greedy ones held out. Make a larger one."
            )
        self.parameters = [p for p in net.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=schedule.learning_rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.random = torch.Generator().manual_seed(schedule.seed)
        self.step, self.num_bad = 0, 0
        self._resume()

    @property
    def state_path(self) -> Path:
        return self.folder / "training.pt"

    def run(self) -> Iterator[Report]:
        """Train to the end of the schedule. DivergedError: the loss stopped being a number."""
        schedule = self.schedule
        source = batches(
            self.learned,
            batch_tokens=schedule.batch_tokens,
            seed=schedule.seed,
            first=self.step,
        )
        last_save = time.monotonic()
        while self.step < schedule.num_steps:
            losses = self._learn(next(source))
            self.step += 1
            is_last = self.step == schedule.num_steps
            is_due = self.step % schedule.eval_every == 0 or is_last
            if is_last or time.monotonic() - last_save > schedule.save_seconds:
                self.save()
                last_save = time.monotonic()
            yield Report(self.step, losses, self._rate(), self.evaluate() if is_due else None)

    @torch.no_grad()
    def evaluate(self) -> Simulated:
        self.net.eval()
        found: list[Tensor] = []
        for start in range(0, len(self.held_out), 8):
            with self._autocast():
                batch = self.maker.batch(self.held_out[start : start + 8])
                found.append(self.net.ranks(batch).cpu())
        self.net.train()
        return simulate(torch.cat(found))

    def save(self) -> None:
        """Everything the next step depends on, in one move."""
        state = {
            "net": {n: p for n, p in self.net.named_parameters() if p.requires_grad},
            "optimizer": self.optimizer.state_dict(),
            "random": self.random.get_state(),
            "step": self.step,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.state_path.with_suffix(".part")
        torch.save(state, draft)
        draft.rename(self.state_path)

    def _resume(self) -> None:
        if not self.state_path.exists():
            return
        state = torch.load(self.state_path, map_location="cpu", weights_only=True)
        missing = self.net.load_state_dict(state["net"], strict=False)
        if missing.unexpected_keys:
            raise ValueError(
                f"{self.state_path} is of another network ({missing.unexpected_keys[0]}); "
                "choose another folder."
            )
        self.optimizer.load_state_dict(state["optimizer"])
        self.random.set_state(state["random"])
        self.step = state["step"]

    def _learn(self, examples: Sequence[Example]) -> dict[str, float]:
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        with self._autocast():
            losses = self.net.losses(self.maker.batch(examples), self.random)
        self.optimizer.zero_grad(set_to_none=True)
        losses["loss"].backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.schedule.clip)
        if torch.isfinite(norm) and torch.isfinite(losses["loss"]):
            self.optimizer.step()
            self.num_bad = 0
        else:
            self.num_bad += 1
        if self.num_bad >= MAX_BAD_STEPS:
            raise DivergedError(
                f"The loss has been no number for {MAX_BAD_STEPS} steps, at step {self.step}. Lower "
                "the learning rate; the last saved state is kept."
            )
        return {name: float(value.detach()) for name, value in losses.items()}

    def _rate(self) -> float:
        schedule = self.schedule
        if self.step < schedule.warmup_steps:
            return schedule.learning_rate * (self.step + 1) / schedule.warmup_steps
        done = (self.step - schedule.warmup_steps) / max(
            1, schedule.num_steps - schedule.warmup_steps
        )
        return schedule.learning_rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.maker.device.type, dtype=torch.bfloat16)
