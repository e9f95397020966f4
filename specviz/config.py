"""What a run is asked to do, and what can be asked for. Plain frozen dataclasses.

Every value that reaches the engine from a person (page, command line, API) passes through
`validate` once; behind it the code trusts its own types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

from specviz.fitting import Fit
from specviz.words import Message, Refusal, message

KnobValue: TypeAlias = int | float | bool | str
Precision: TypeAlias = Literal["auto", "bfloat16", "float32", "int8", "nf4", "fp4"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
VerificationRule: TypeAlias = Literal["rejection", "coupled"]
Exactness: TypeAlias = Literal["exact", "lossy"]

PLAIN_DRAFTER = "autoregressive"  # the drafter that drafts nothing: plain decoding
BUDGET_KNOB = "budget"  # of lanes that draft trees: rows the target reads in a round
WIDTH_KNOB = "top_k"  # of lanes whose trees grow: children of a node; with 1 it is a chain
MAX_NEW_TOKENS_LIMIT = 2048
MAX_PROMPT_CHARACTERS = 100_000
MAX_LANES = 12  # every method at once, a tuned model's plain lane, and two methods twice


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How logits become the one distribution that drafting and verifying both use."""

    temperature: float = 0.0  # 0 is greedy: a one-hot distribution
    top_k: int = 0  # keep the k most likely tokens; 0 keeps all
    top_p: float = 1.0  # nucleus: keep the smallest set whose mass reaches this
    min_p: float = 0.0  # drop tokens below this share of the most likely one
    repetition_penalty: float = 1.0  # CTRL-style, on every token already in the row's own path

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, 0.0, 100.0)
        _check("top_k", self.top_k, 0, 1_000_000)
        _check("top_p", self.top_p, 0.0, 1.0)
        _check("min_p", self.min_p, 0.0, 1.0)
        _check("repetition_penalty", self.repetition_penalty, 0.1, 10.0)


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """One lane of a run: a drafter by its registry name, and the knobs that differ from default."""

    drafter: str
    knobs: tuple[tuple[str, KnobValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    prompt: str
    lanes: tuple[LaneSpec, ...]
    target: str = "smollm2-135m-instruct"
    is_chat: bool = True  # wrap the prompt in the target's chat template
    precision: Precision = "auto"
    sampling: SamplingParams = field(default_factory=SamplingParams)
    verification: VerificationRule = "rejection"
    max_new_tokens: int = 128
    stop_strings: tuple[str, ...] = ()
    seed: int = 0
    is_adaptive: bool = False  # budgets nobody set follow from what reads cost on this machine

    def __post_init__(self) -> None:
        _check("max_new_tokens", self.max_new_tokens, 1, MAX_NEW_TOKENS_LIMIT)
        _check("seed", self.seed, 0, 2**63 - 1)
        choose(message("field.precision"), self.precision, PRECISIONS)
        choose(message("field.verification"), self.verification, ("rejection", "coupled"))
        _check_switch(message("field.is_adaptive"), self.is_adaptive)
        if not isinstance(self.prompt, str) or not self.prompt.strip("\u200b \t\r\n"):
            raise Refusal(message("refusal.prompt_empty"))
        if (count := len(self.prompt)) > MAX_PROMPT_CHARACTERS:
            limit = f"{MAX_PROMPT_CHARACTERS:,}"
            raise Refusal(message("refusal.prompt_too_long", count=f"{count:,}", limit=limit))
        if not 1 <= (count := len(self.lanes)) <= MAX_LANES:
            raise Refusal(message("refusal.num_lanes", limit=MAX_LANES, count=count))
        if len(set(self.lanes)) != len(self.lanes):
            raise Refusal(message("refusal.same_lanes"))
        if any(not stop for stop in self.stop_strings):
            raise Refusal(message("refusal.empty_stop_string"))


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting of a drafter, as a control: derived from its Config, never written twice."""

    name: str
    help: str
    default: KnobValue
    minimum: float = 0  # of a number; a switch or a choice has no range
    maximum: float = 0
    choices: tuple[str, ...] = ()

    def validated(self, value: object) -> KnobValue:
        """`value` as this knob's own type; Refusal says what was expected and what came."""
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise Refusal(message("refusal.switch", name=self.name, value=shown(value)))
            return value
        if self.choices:
            choose(self.name, value, self.choices)
            return str(value)
        whole = isinstance(self.default, int)
        ok = isinstance(value, (int, float)) and not isinstance(value, bool)
        if ok and self.minimum <= value <= self.maximum:  # type: ignore[operator]
            number = float(value)  # type: ignore[arg-type]
            if not whole or number.is_integer():  # a slider may hand 4.0 over for 4, or 1 for 1.0
                return int(number) if whole else number
        raise _out_of_range(self.name, value, self.minimum, self.maximum, is_whole=whole)


@dataclass(frozen=True, slots=True)
class DrafterInfo:
    """What the page and the command line may say of a drafter."""

    name: str
    title: str
    summary: str
    paper: str
    knobs: tuple[Knob, ...] = ()
    exactness: Exactness = "exact"


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """A target model that can be asked for by name."""

    name: str
    title: str
    licence: str
    source: str  # where its weights come from, for people
    path: str = ""  # a folder with a transformers checkpoint; empty: fetched by name
    repository: str = ""  # on the Hub, of a target that is fetched from there alone
    is_gated: bool = False  # its owner must let an account in first
    has_chat_template: bool = True  # a base model has none: its prompts are raw text


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything a page can offer: what to run, and on what."""

    targets: tuple[TargetSpec, ...]
    drafters: tuple[DrafterInfo, ...]
    untrained: frozenset[tuple[str, str]] = frozenset()  # (target, drafter) without weights here
    fits: tuple[Fit, ...] = ()  # published pairs: which of them fit this machine, and why not
    precisions: tuple[Precision, ...] = ("auto", "bfloat16", "float32")  # that can be had here

    def can_run(self, target: str, drafter: str) -> bool:
        return (target, drafter) not in self.untrained


def checked(request: Request, catalog: Catalog) -> Request:
    """The request with every name known to `catalog` and every knob in range.

    Knobs left at their default are dropped, so equal lanes compare equal. Refusal otherwise.
    """
    choose(message("field.target"), request.target, tuple(t.name for t in catalog.targets))
    infos = {info.name: info for info in catalog.drafters}
    lanes = tuple(_checked_lane(lane, infos) for lane in request.lanes)
    for lane in lanes:
        if not catalog.can_run(request.target, lane.drafter):
            names = {"drafter": lane.drafter, "target": request.target}
            raise Refusal(message("refusal.untrained", **names))
    return replace(request, lanes=lanes)


def lane_names(specs: Sequence[LaneSpec]) -> list[str]:
    """Drafter names, with the changed knobs where one drafter runs in several lanes."""
    drafters = [spec.drafter for spec in specs]
    names = []
    for spec in specs:
        changed = ", ".join(f"{name}={value}" for name, value in spec.knobs)
        is_shared = drafters.count(spec.drafter) > 1 and changed
        names.append(f"{spec.drafter} ({changed})" if is_shared else spec.drafter)
    return names


def _checked_lane(lane: LaneSpec, infos: dict[str, DrafterInfo]) -> LaneSpec:
    choose(message("field.lane_drafter"), lane.drafter, tuple(infos))
    knobs = {knob.name: knob for knob in infos[lane.drafter].knobs}
    for name, _ in lane.knobs:
        choose(message("field.knob_of", drafter=lane.drafter), name, tuple(knobs) or ("none",))
    values = {name: knobs[name].validated(value) for name, value in lane.knobs}
    changed = sorted((n, v) for n, v in values.items() if v != knobs[n].default)
    return LaneSpec(lane.drafter, tuple(changed))


def choose(name: Message | str, value: object, choices: tuple[str, ...]) -> None:
    """Refusal unless `value` is one of `choices`; `name` is what is chosen."""
    if value not in choices:
        names = ", ".join(choices)
        raise Refusal(message("refusal.choice", name=name, choices=names, value=shown(value)))


def shown(value: object) -> Message | str:
    """What somebody sent, as a refusal quotes it: a long one is cut."""
    return message("refusal.nothing") if value is None else f"{value!r:.60}"


def _check(name: str, value: object, low: float, high: float) -> None:
    whole = isinstance(low, int) and isinstance(high, int)  # NaN fails every comparison below
    ok = isinstance(value, int) if whole else isinstance(value, (int, float))
    if isinstance(value, bool) or not ok or not low <= value <= high:  # type: ignore[operator]
        raise _out_of_range(message("field." + name), value, low, high, is_whole=whole)


def _check_switch(name: Message, value: object) -> None:
    if not isinstance(value, bool):
        raise Refusal(message("refusal.true_or_false", name=name, value=shown(value)))


def _out_of_range(
    name: Message | str, value: object, low: float, high: float, *, is_whole: bool
) -> Refusal:
    key = "refusal.whole_number" if is_whole else "refusal.number"
    return Refusal(
        message(key, name=name, low=_number(low), high=_number(high), value=shown(value))
    )


def _number(value: float) -> str:
    """A limit in full: 9223372036854775807 is not 9.22337e+18."""
    return str(value) if isinstance(value, int) else f"{value:g}"
