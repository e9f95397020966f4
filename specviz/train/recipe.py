"""The one training loop: every method's network goes through it.

Muon and AdamW under bf16 autocast, a short warm-up, a cosine to a tenth, clipped gradients; held-out
acceptance now and then; a state on disk every few minutes, from which a run goes on exactly as
if it had not stopped.
"""

from __future__ import annotations

import json
import math
import pickle
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specviz.train.batches import BatchMaker, batches
from specviz.train.data import Example
from specviz.train.optimizer import MatrixOptimizer
from specviz.train.recipes import Schedule
from specviz.train.simulate import Simulated, acceptance, simulate

STATE, HISTORY = "training.pt", "training.json"
EVAL_EXAMPLES = 48
MAX_BAD_STEPS = 5  # in a row, before a run is given up
WINDOW_STEPS = 50  # whose mean loss is compared with the best such mean
MAX_RISE = 2.0  # times the best, and one more: that far a mean may rise


@dataclass(frozen=True, slots=True)
class Report:
    """Told after every step."""

    step: int
    losses: dict[str, float]
    learning_rate: float
    simulated: Simulated | None  # at the steps that evaluate


@dataclass(slots=True)
class History:
    """What a run cost and reached so far, kept beside its state."""

    seconds: float | None = 0.0  # of learning, evaluation left out; None: not known
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    def add(self, step: int, simulated: Simulated) -> None:
        self.evaluations.append({"step": step, **acceptance(simulated)})


class DivergedError(Exception):
    """The loss is no number any more, or has grown; the sentence says what to try."""


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
        self.optimizer = MatrixOptimizer(net)
        self.random = torch.Generator().manual_seed(schedule.seed)
        self.step, self.num_bad = 0, 0
        self.recent: deque[float] = deque(maxlen=WINDOW_STEPS)
        self.best = math.inf
        self.history = History()
        self._resume()

    @property
    def state_path(self) -> Path:
        return self.folder / STATE

    @property
    def history_path(self) -> Path:
        return self.folder / HISTORY

    def run(self) -> Iterator[Report]:
        """Train to the end of the schedule. Closing the iterator keeps what `save` kept.

        DivergedError: the loss is no number any more, or far above what it was.
        """
        schedule = self.schedule
        source = batches(
            self.learned,
            batch_tokens=schedule.batch_tokens,
            seed=schedule.seed,
            first=self.step,
        )
        last_save = time.monotonic()
        while self.step < schedule.num_steps:
            started = time.perf_counter()
            losses = self._learn(next(source))
            self.step += 1
            if self.history.seconds is not None:
                self.history.seconds += time.perf_counter() - started
            is_last = self.step == schedule.num_steps
            is_due = self.step % schedule.eval_every == 0 or is_last
            simulated = self.evaluate() if is_due else None
            if simulated is not None:
                self.history.add(self.step, simulated)
            if is_last or time.monotonic() - last_save > schedule.save_seconds:
                self.save()
                last_save = time.monotonic()
            yield Report(self.step, losses, self._rate(), simulated)

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
        self.history_path.write_text(json.dumps(asdict(self.history), indent=1) + "\n")

    def _resume(self) -> None:
        if not self.state_path.exists():
            return
        state = read_state(self.state_path)
        load_weights(self.net, state, self.state_path)
        try:
            self.optimizer.load_state_dict(state["optimizer"])
        except ValueError as error:
            raise ValueError(
                f"{self.state_path} was trained with another optimizer, so it cannot go on from "
                "there. Export it, and give the export as --from to a new folder."
            ) from error
        self.random.set_state(state["random"])
        self.step = state["step"]
        self.history = _history(self.history_path)

    def _learn(self, examples: Sequence[Example]) -> dict[str, float]:
        with self._autocast():
            losses = self.net.losses(self.maker.batch(examples), self.random)
        self.optimizer.zero_grad()
        losses["loss"].backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.schedule.clip)
        if torch.isfinite(norm) and torch.isfinite(losses["loss"]):
            self.optimizer.step(self._rate())
            self.num_bad = 0
            self._watch(float(losses["loss"].detach()))
        else:
            self.num_bad += 1
        if self.num_bad >= MAX_BAD_STEPS:
            raise DivergedError(
                f"The loss has been no number for {MAX_BAD_STEPS} steps, at step {self.step}. Lower "
                "the learning rate; the last saved state is kept."
            )
        return {name: float(value.detach()) for name, value in losses.items()}

    def _watch(self, loss: float) -> None:
        """DivergedError: the mean loss of late is far above the best there was."""
        self.recent.append(loss)
        if len(self.recent) < WINDOW_STEPS:
            return
        mean = sum(self.recent) / WINDOW_STEPS
        self.best = min(self.best, mean)
        if mean > MAX_RISE * self.best + 1.0:
            raise DivergedError(
                f"The loss rose from {self.best:.2f} to {mean:.2f}, at step {self.step}. Lower the "
                "learning rate; the last saved state is kept."
            )

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


def read_state(path: Path) -> dict[str, Any]:
    """What `Training.save` wrote. ValueError: it is cut short, or something else."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path} cannot be read as a state of training; it may be cut short. Remove it to start "
            "anew."
        ) from error
    if not isinstance(state, dict) or not {"net", "optimizer", "random", "step"} <= state.keys():
        raise ValueError(f"{path} is no state of training; choose another folder.")
    return state


def load_weights(net: nn.Module, state: dict[str, Any], path: Path) -> None:
    """A state's weights into `net`. ValueError: it is of another network."""
    wanted = {name: p.shape for name, p in net.named_parameters() if p.requires_grad}
    held = {name: tensor.shape for name, tensor in state["net"].items()}
    for name in sorted(wanted.keys() | held.keys()):
        if wanted.get(name) != held.get(name):
            raise ValueError(
                f"{path} is of another network ({name} differs); choose another folder, or the "
                "arguments it was trained with."
            )
    net.load_state_dict(state["net"], strict=False)


def kept_steps(folder: Path) -> tuple[int, History] | None:
    """Steps and history of the state in a folder; None: there is none."""
    path = folder / STATE
    if not path.exists():
        return None
    return int(read_state(path)["step"]), _history(folder / HISTORY)


def _history(path: Path) -> History:
    """Without the file, as for a state that came from elsewhere, what it cost is not known."""
    return History(**json.loads(path.read_text())) if path.exists() else History(seconds=None)
