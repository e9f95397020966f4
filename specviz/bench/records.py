"""What was measured of each (prompt, lane), and the file that keeps it until the report is whole.

The file is JSON Lines: what is measured and where, then the records of one prompt after another.
A prompt is written when all its lanes are done, in one piece, so that ratios within a prompt never
mix two sittings. The file is not the report: it goes when the report is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specviz.metrics import DepthAcceptance, Tally, TimeSplit


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a lane's answer leaves that of its baseline."""

    position: int  # 0-based index into the answer
    top_two_gap: float  # of the baseline's logits there
    is_near_tie: bool


@dataclass(frozen=True, slots=True)
class Record:
    """One lane on one prompt: what its rounds add up to, or why it has none."""

    prompt: str
    category: str
    lane: str
    commit: str  # of the code that measured
    failure: str = ""
    tally: Tally = Tally()
    prefill_seconds: float = 0.0  # the target's and the drafter's, before the lane's clock starts
    num_draft_steps: int = 0  # forward passes of the drafter, where it makes any
    draft_step_seconds: float = 0.0  # of all of them
    parting: Parting | None = None  # None: identical as far as both answers go
    whole_seconds: float | None = None  # of a peer: its whole call; its tally has no other seconds


class PartialFile:
    """Finished prompts beside the report to be."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, settings: Mapping[str, Any]) -> list[Record]:
        """What an earlier sitting measured. ValueError: any of these settings was another then."""
        if not self.path.exists():
            return []
        head, *lines = self.path.read_text(encoding="utf-8").split("\n")
        lines = lines[:-1]  # after the last line feed: nothing, or a line that was cut off
        try:
            before = json.loads(head)["settings"]
            records = [record_from(json.loads(line)) for line in lines]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{self.path.name} holds no measurements that can be read; delete it to begin anew."
            ) from error
        now = json.loads(json.dumps(settings))
        if changed := [name for name in now if before.get(name) != now[name]]:
            raise ValueError(
                f"{self.path.name} holds measurements with another {_listed(changed)}; "
                "repeat the command they came from, name another --out, or delete the file."
            )
        return records

    def begin(self, settings: Mapping[str, Any], records: Sequence[Record]) -> None:
        """A new file with these records; the old one stays until the new one is whole."""
        new = self.path.with_name(f"{self.path.name}.new")
        head = json.dumps({"settings": settings})
        new.write_text(f"{head}\n{_lines(records)}", encoding="utf-8")
        new.replace(self.path)

    def add(self, records: Sequence[Record]) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(_lines(records))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def record_from(raw: Mapping[str, Any]) -> Record:
    """A record from its JSON. KeyError, TypeError: it is none."""
    tally, parting = raw["tally"], raw["parting"]
    depths = tuple(DepthAcceptance(**depth) for depth in tally["depths"])
    whole = Tally(**{**tally, "depths": depths, "time": TimeSplit(**tally["time"])})
    found = None if parting is None else Parting(**parting)
    return Record(**{**raw, "tally": whole, "parting": found})


def _listed(names: Sequence[str]) -> str:
    """The settings by name, as people say them."""
    words = {
        "prompts": "set of prompts",
        "lanes": "choice of lanes",
        "is_chat": "--raw",
        "peers": "--peers",
    }
    return " and another ".join(words.get(name, name) for name in names)


def _lines(records: Sequence[Record]) -> str:
    return "".join(json.dumps(asdict(r), allow_nan=False) + "\n" for r in records)
