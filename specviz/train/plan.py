"""What a corpus will hold, before any of it is made: stages, shards, and the file that says so."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Stage = Literal["passages", "turns", "answers"]
STAGES: tuple[Stage, ...] = ("passages", "turns", "answers")
ANSWER_CAPS = ((128, 0.5), (224, 0.35), (448, 0.15))  # longest answer in tokens, share of prompts
TURN_TOKENS = 48  # of a user turn the target makes up
PASSAGE_TOKENS = 224
LONGEST = {  # tokens that a prompt of a stage may be answered with, on average
    "passages": PASSAGE_TOKENS,
    "turns": TURN_TOKENS,
    "answers": round(sum(cap * share for cap, share in ANSWER_CAPS)),
}


@dataclass(frozen=True, slots=True)
class CorpusPlan:
    """What a corpus is made from: the same plan on the same machine makes the same corpus."""

    num_prompts: int
    seed: int = 0
    shard_prompts: int = 768
    num_passages: int = 768
    own_share: float = 0.25  # of the prompts the target makes up itself

    def __post_init__(self) -> None:
        if self.num_prompts < 1:
            raise ValueError(f"A corpus has at least 1 prompt; got {self.num_prompts}.")


def plan_for(folder: Path, num_prompts: int, seed: int) -> CorpusPlan:
    """A plan of so many prompts; shards and passages as in the corpus that `folder` holds already,
    if it holds one. A small corpus gets fewer passages to ask about."""
    default = CorpusPlan(num_prompts, seed)
    held = _held(folder)
    return CorpusPlan(
        num_prompts,
        seed,
        shard_prompts=held.get("shard_prompts", default.shard_prompts),
        num_passages=held.get("num_passages", min(default.num_passages, max(8, num_prompts // 8))),
    )


def keep_plan(target: Path, folder: Path, plan: CorpusPlan) -> None:
    """Write plan.json. ValueError: the folder holds a corpus of another plan or target."""
    wanted = {**asdict(plan), "target_config_sha256": _config_sha256(target)}
    wanted.pop("num_prompts")  # a corpus may grow
    held = _held(folder)
    if held and held != wanted:
        raise ValueError(
            f"{folder} holds a corpus of another plan or target; choose another folder, or the same "
            "settings again."
        )
    (folder / "plan.json").write_text(json.dumps(wanted, indent=1) + "\n")


def check_target(target: Path, folder: Path) -> None:
    """ValueError: the corpus in `folder` was written by another target."""
    written_by = _held(folder).get("target_config_sha256")
    if written_by is not None and written_by != _config_sha256(target):
        raise ValueError(
            f"The corpus in {folder} was written by another target than {target.name}: a drafter "
            "learns from its own target's answers. Make one with `python -m specviz train data`."
        )


def shard_path(folder: Path, stage: Stage, index: int) -> Path:
    return folder / f"{stage}-{index:04}.safetensors"


def shard_sizes(plan: CorpusPlan) -> dict[Stage, list[int]]:
    """How many prompts each shard of a stage is planned to hold."""
    own = round(plan.num_prompts * plan.own_share)
    counts: dict[Stage, int] = {
        "passages": plan.num_passages,
        "turns": 2 * own,  # some turn out empty, cut off or twice the same
        "answers": plan.num_prompts,
    }
    size = plan.shard_prompts
    return {
        stage: [min(size, n - start) for start in range(0, n, size)] for stage, n in counts.items()
    }


def _held(folder: Path) -> dict[str, Any]:
    path = folder / "plan.json"
    held: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return held


def _config_sha256(target: Path) -> str:
    return hashlib.sha256((target / "config.json").read_bytes()).hexdigest()
