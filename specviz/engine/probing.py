"""Probing drafters whose weights do not say which target they are for, once for each that is loaded.

A warning becomes part of the lane's description, so page, command line and trace all tell it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from specviz.config import LaneSpec
from specviz.drafters import NEEDS_WEIGHTS
from specviz.drafters.base import Drafter, backbone_of
from specviz.drafters.eagle3_dialect import verifier_of
from specviz.drafters.probe import Agreement, first_agreement, probe_tokens
from specviz.engine.store import ReadyTarget
from specviz.presets import hub_name
from specviz.trace import Progress
from specviz.words import Refusal, message, recognised, word

DRAFT_MODEL = "draft_model"


def probe_all(
    target: ReadyTarget, lanes: Sequence[LaneSpec], drafters: Sequence[Drafter]
) -> Generator[Progress, None, None]:
    """Progress for each that is probed; all must be started afterwards. The result is kept, and a
    drafter that was hardly ever right, or names another target, says so of itself."""
    for lane, drafter in zip(lanes, drafters, strict=True):
        if (told := _other_target(target, lane.drafter)) is not None:
            drafter.description = word("drafts.other_target", network=drafter.description, **told)
            title = recognised(drafter.title, "drafter.")
            yield Progress("load", message("progress.other_target", title=title, **told))
        if not _is_unproven(target, lane.drafter):
            continue
        key = (lane.drafter, lane.knobs)
        if key not in target.agreements:
            title = recognised(drafter.title, "drafter.")
            yield Progress("load", message("progress.probe", title=title))
            target.agreements[key] = _agreement(target, drafter)
        found = target.agreements[key]
        if found.is_suspicious:
            counts = {"right": str(found.num_right), "asked": str(found.num_asked)}
            drafter.description = word("drafts.suspect", network=drafter.description, **counts)
            title = recognised(drafter.title, "drafter.")
            yield Progress("load", message("progress.suspect", title=title, **counts))


def _is_unproven(target: ReadyTarget, drafter: str) -> bool:
    """Ours name the target they were trained for, and were checked against it."""
    checkpoint = target.checkpoints.get(NEEDS_WEIGHTS.get(drafter, drafter))
    if checkpoint is None:
        return drafter == DRAFT_MODEL and target.own_draft is not None
    return "specviz_target" not in checkpoint.config


def _other_target(target: ReadyTarget, drafter: str) -> dict[str, str] | None:
    """The target that the drafter names and the one that is here, if both are known and differ.

    By the last part of a name: the same weights lie in several accounts. A folder of one's own may
    be called anything.
    """
    checkpoint = target.checkpoints.get(NEEDS_WEIGHTS.get(drafter, drafter))
    named, here = (
        verifier_of({} if checkpoint is None else checkpoint.config),
        hub_name(target.spec),
    )
    if not named or not here or _bare(named) == _bare(here):
        return None
    return {"verifier": named, "target": here}


def _bare(name: str) -> str:
    """ "meta-llama/Meta-Llama-3.1-8B" -> "llama-3.1-8b", as it is called elsewhere."""
    return name.rstrip("/").rpartition("/")[2].lower().removeprefix("meta-")


def _agreement(target: ReadyTarget, drafter: Drafter) -> Agreement:
    lm, text = target.backbone(backbone_of(drafter)), target.loaded.text
    try:
        tokens, start = probe_tokens(target.loaded.tokenizer, lm.max_context)
        return first_agreement(drafter, lm, tokens, start, text.num_known_tokens)
    except (Refusal, FloatingPointError):  # too long a text for it, no text, or no numbers
        return Agreement(0, 0)  # its lane says so, if it is any matter there
