"""Models that are ready to run: fetched and loaded once, shared by all runs, one target at a time.

Loading another target drops the one before it, copies included, so that memory holds one model.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from specviz.config import Precision, TargetSpec
from specviz.drafters.base import CopySpec, TargetKit
from specviz.lm.base import LanguageModel
from specviz.lm.device import pick_device
from specviz.lm.loading import LoadedLM, load_copy, load_target, why_not_copied_in_int4
from specviz.lm.vocabulary import check_same_tokens
from specviz.lm.weights import fetch
from specviz.trace import Progress


@dataclass(slots=True)
class ReadyTarget:
    """A loaded target with the copies that drafters have asked for so far."""

    spec: TargetSpec
    precision: Precision
    source: str
    loaded: LoadedLM
    draft_folder: Path | None
    copies: dict[CopySpec, LanguageModel] = field(default_factory=dict)
    own_draft: LanguageModel | None = None

    def kit(self) -> TargetKit:
        lm = self.loaded.lm
        return TargetKit(
            vocab_size=lm.vocab_size,
            num_known_tokens=self.loaded.text.num_known_tokens,
            hidden_size=lm.hidden_size,
            num_layers=lm.num_layers,
            max_context=lm.max_context,
            embed=lm.embed,
            head=lm.head,
            copy=self._copy,
            has_quantised_copy=why_not_copied_in_int4(self.loaded) is None,
            draft_lm=self._own_draft,
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


class ModelStore:
    def __init__(self, draft_folder: Path | None = None) -> None:
        self.draft_folder = draft_folder
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
        yield Progress("load", f"Loading {spec.title} ({checkpoint.source}).")
        self._ready = None
        gc.collect()
        loaded = load_target(checkpoint.folder, precision, self.device)
        self._ready = ReadyTarget(spec, precision, checkpoint.source, loaded, self.draft_folder)
        return self._ready
