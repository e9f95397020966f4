"""What is known of a served run, as plain data: who answers, what arrives, what the server counts.

Times are seconds since the question was sent, as this machine saw them: the network is in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from specviz.metrics import Tally
from specviz.trace import EndReason, Failure, Progress
from specviz.words import Message

ServerKind: TypeAlias = Literal["vllm", "sglang", "llamacpp", "other"]


@dataclass(frozen=True, slots=True)
class ServedStart:
    address: str  # of the server, without the API's path; a password in it is left out
    kind: ServerKind
    model: str  # as the server names it


@dataclass(frozen=True, slots=True)
class ServedStep:
    """Tokens that arrived together. Mostly one pass of the target; more where a server or the way
    here falls behind, as nothing on the wire tells passes apart."""

    index: int
    seconds: float
    text: str
    num_tokens: int | None  # None: this server does not count them


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What the server itself says of its drafts."""

    tally: Tally | None = None  # rounds, tokens, drafted, accepted
    is_shared: bool = False  # it also counted what it did for others in the meantime
    mean_length: float | None = None  # tokens per pass lately, where no counts are given
    mean_rate: float | None = None  # accepted of drafted, likewise
    by_position: tuple[int, ...] = ()  # accepted drafts at depth 1, 2, ...
    missing: Message | None = None  # why nothing of the above is known


@dataclass(frozen=True, slots=True)
class ServedEnd:
    reason: EndReason
    num_tokens: int | None
    seconds: float  # until the last token
    first_seconds: float | None  # until the first one; None: none came
    counts: ServerCounts


ServedEvent: TypeAlias = Progress | ServedStart | ServedStep | ServedEnd | Failure
