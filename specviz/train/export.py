"""A trained network as a drafter people can use: weights, config, provenance, model card.

Figures in it are measured on held-out text without decoding, and are called so: what a lane
reaches is the benchmark's to say.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specviz.lm.checkpoints import save_checkpoint, tokenizer_sha256
from specviz.lm.device import describe_machine, library_versions
from specviz.train.batches import answer_tokens_seen
from specviz.train.card import card
from specviz.train.course import Course
from specviz.train.data import describe
from specviz.train.recipe import Training, kept_steps
from specviz.train.simulate import Simulated, acceptance

PROVENANCE = "provenance.json"  # beside the weights
STATIC_TREES = ("medusa", "eagle")  # methods whose tree is built from measured hit rates


def export(
    course: Course, training: Training, simulated: Simulated, out: Path, command: str
) -> dict[str, Any]:
    """Write the drafter into `out`; its provenance. OSError: it cannot be written."""
    config, tensors = training.net.export()
    config["specviz_target"] = target_facts(course)
    if course.order.method in STATIC_TREES:
        config["hit_rates"] = simulated.hit_rates
    provenance = provenance_of(course, training, simulated, command)
    save_checkpoint(out, config, tensors)
    (out / PROVENANCE).write_text(json.dumps(provenance, indent=1) + "\n", "utf-8")
    num_parameters = sum(t.numel() for t in tensors.values() if t.is_floating_point())
    (out / "CARD.md").write_text(card(course, provenance, num_parameters), "utf-8")
    return provenance


def target_facts(course: Course) -> dict[str, Any]:
    """What a target must be for the drafter to fit it."""
    config = course.frozen.config
    return {
        "name": course.order.spec.name,
        "architecture": (config.architectures or [config.model_type])[0],
        "hidden_size": config.hidden_size,
        "num_layers": config.num_hidden_layers,
        "vocab_size": config.vocab_size,
        "tokenizer_sha256": tokenizer_sha256(course.tokenizer),
    }


def provenance_of(
    course: Course, training: Training, simulated: Simulated, command: str
) -> dict[str, Any]:
    phases = [_phase_facts(course, i, training) for i in range(course.num_phases)]
    order = course.order
    return {
        "command": command,
        "git_commit": commit_here(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(course.device),
        "versions": library_versions(),
        "seed": order.seed,
        "arguments": dict(order.arguments),
        "continued_from": None if order.continued is None else _origin(order.continued),
        "corpus": describe(order.data),
        "draft_vocabulary": {"size": len(course.vocab.ids), "coverage": course.vocab.coverage},
        "phases": [facts for facts in phases if facts is not None],
        "held_out": acceptance(simulated),
    }


def _origin(checkpoint: Path) -> dict[str, Any]:
    """What is known of a checkpoint that training went on from: its own provenance, if it has one."""
    file = checkpoint / PROVENANCE
    known = json.loads(file.read_text("utf-8")) if file.is_file() else None
    return {"name": checkpoint.name, "provenance": known}


def _phase_facts(course: Course, phase: int, last: Training) -> dict[str, Any] | None:
    """None: nothing of this phase is kept."""
    folder = course.folder(phase)
    if folder == last.folder:
        step, schedule, history = last.step, last.schedule, last.history
    else:
        done = kept_steps(folder)
        if done is None:
            return None
        (step, history), schedule = done, course.schedule(phase)
    seen = answer_tokens_seen(
        course.learned, batch_tokens=schedule.batch_tokens, seed=schedule.seed, num_steps=step
    )
    return {
        "arguments": dict(course.recipe.phases[phase].arguments),
        "schedule": asdict(schedule),
        "steps": step,
        "answer_tokens_seen": seen,
        "seconds": None if history.seconds is None else round(history.seconds),
        "evaluations": history.evaluations,
    }


def commit_here() -> str:
    """The commit this code runs from, marked if files differ from it; "" outside a checkout."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()
