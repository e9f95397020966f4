"""Models that are ready to run: fetched and loaded once, shared by all runs, one target at a time.

Loading another target drops the one before it, copies included, so that memory holds one model.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from specviz.config import Precision, TargetSpec
from specviz.drafters.base import CopySpec, TargetKit
from specviz.drafters.inside import is_inside, load_drafter
from specviz.drafters.probe import Agreement
from specviz.lm.base import LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint, check_target, tokenizer_sha256
from specviz.lm.device import pick_device
from specviz.lm.loading import (
    LoadedLM,
    load_copy,
    load_target,
    load_tuned,
    why_not_copied_in_int4,
)
from specviz.lm.low_rank import updates_of
from specviz.lm.vocabulary import check_same_tokens
from specviz.lm.weights import fetch
from specviz.presets import SHIPPED_DRAFTERS
from specviz.trace import Progress
from specviz.words import Refusal, message, recognised

HEAD_CHUNK = 64  # hidden dimensions whose column of the head is asked for at once


@dataclass(slots=True)
class ReadyTarget:
    """A loaded target with the copies and tuned models that lanes have asked for so far."""

    spec: TargetSpec
    precision: Precision
    source: str
    loaded: LoadedLM
    draft_folder: Path | None
    drafters_root: Path | None = None
    copies: dict[CopySpec, LanguageModel] = field(default_factory=dict)
    checkpoints: dict[str, DrafterCheckpoint] = field(default_factory=dict)
    head_parts: dict[bytes, Tensor] = field(default_factory=dict)
    own_draft: LanguageModel | None = None
    tuned: dict[str, LanguageModel] = field(default_factory=dict)
    # Of drafters whose weights do not tell their target, by drafter and knobs.
    agreements: dict[object, Agreement] = field(default_factory=dict)

    def backbone(self, name: str) -> LanguageModel:
        """The model that decodes: "" the target itself, else the one tuned for the method `name`.

        ValueError: there is none here, or it is another target's.
        """
        if not name:
            return self.loaded.lm
        if name not in self.tuned:
            updates = updates_of(self._trained(name))
            if not updates:
                raise Refusal(message("refusal.no_backbone", method=name))
            self.tuned[name] = load_tuned(self.loaded, updates)
        return self.tuned[name]

    def kit(self) -> TargetKit:
        lm = self.loaded.lm
        return TargetKit(
            vocab_size=lm.vocab_size,
            num_known_tokens=self.loaded.text.num_known_tokens,
            hidden_size=lm.hidden_size,
            num_layers=lm.num_layers,
            max_context=lm.max_context,
            dtype=lm.dtype,
            device=lm.device,
            embed=lm.embed,
            head=lm.head,
            head_rows=self._head_rows,
            copy=self._copy,
            has_quantised_copy=why_not_copied_in_int4(self.loaded) is None,
            draft_lm=self._own_draft,
            trained=self._trained,
        )

    def _copy(self, spec: CopySpec) -> LanguageModel:
        if spec not in self.copies:
            count = spec.num_layers if spec.kind == "truncated" else None
            self.copies[spec] = load_copy(self.loaded, count)
        return self.copies[spec]

    def _own_draft(self) -> LanguageModel | None:
        if self.own_draft is None and self.draft_folder is not None:
            draft = load_target(self.draft_folder, self.precision, self.loaded.lm.device)
            check_same_tokens(self.loaded.tokenizer, draft.tokenizer)
            self.own_draft = draft.lm
        return self.own_draft

    def _trained(self, method: str) -> DrafterCheckpoint:
        if method not in self.checkpoints:
            folder = self._folder_of(method)
            checkpoint, lm = load_drafter(method, folder), self.loaded.lm
            check_target(
                checkpoint,
                hidden_size=lm.hidden_size,
                num_layers=lm.num_layers,
                vocab_size=lm.vocab_size,
                tokenizer_sha256=tokenizer_sha256(self.loaded.tokenizer),
            )
            self.checkpoints[method] = checkpoint
        return self.checkpoints[method]

    def _folder_of(self, method: str) -> Path:
        """The owner's own drafter before the one that is shipped."""
        shipped = SHIPPED_DRAFTERS / self.spec.name
        for root in (self.drafters_root, shipped):
            if root is not None and (root / method).is_dir():
                return root / method
        if is_inside(method, self.loaded.folder):
            return self.loaded.folder
        names = {"method": method, "target": self.spec.title}
        raise Refusal(message("refusal.untrained_method", **names))

    def _head_rows(self, ids: Tensor) -> Tensor:
        key = ids.cpu().numpy().tobytes()
        if key not in self.head_parts:
            self.head_parts[key] = head_rows(self.loaded.lm, ids)
        return self.head_parts[key]


def head_rows(lm: LanguageModel, ids: Tensor) -> Tensor:
    """(n, H) rows of the head, compute dtype: a unit vector's logits are one column of it, and no
    rounding is in a product with 1. So it does not matter how the model keeps its head."""
    units = torch.eye(lm.hidden_size, dtype=lm.dtype, device=lm.device)
    ids = ids.to(lm.device)
    columns = [lm.head(chunk)[:, ids] for chunk in torch.split(units, HEAD_CHUNK)]
    return torch.cat(columns).T.to(lm.dtype).contiguous()


class ModelStore:
    def __init__(self, draft_folder: Path | None = None, drafters_root: Path | None = None) -> None:
        self.draft_folder = draft_folder
        self.drafters_root = drafters_root
        self.device: torch.device = pick_device()
        self._ready: ReadyTarget | None = None

    def get(self, spec: TargetSpec, precision: Precision) -> Generator[Progress, None, ReadyTarget]:
        """Progress while there is any, then the target. ValueError, WeightsUnavailable: why not."""
        if self._ready is not None and (self._ready.spec, self._ready.precision) == (
            spec,
            precision,
        ):
            return self._ready
        checkpoint = yield from fetch(spec)
        source = recognised(checkpoint.source, "source.")
        yield Progress("load", message("progress.load", title=spec.title, source=source))
        self._ready = None
        gc.collect()
        loaded = load_target(checkpoint.folder, precision, self.device)
        self._ready = ReadyTarget(
            spec, precision, checkpoint.source, loaded, self.draft_folder, self.drafters_root
        )
        return self._ready
