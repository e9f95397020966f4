"""Models that are ready to run: fetched and loaded once, shared by all runs, one target at a time.

Loading another target drops the one before it, copies included, so that memory holds one model.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from specviz.catalogue import drafters_of
from specviz.config import Precision, TargetSpec
from specviz.drafters import NEEDS_WEIGHTS
from specviz.drafters.base import CopySpec, TargetKit
from specviz.drafters.inside import is_inside, load_drafter
from specviz.drafters.probe import Agreement
from specviz.fitting import WORKING_BYTES, gib
from specviz.lm.base import LanguageModel
from specviz.lm.checkpoints import DrafterCheckpoint, check_target, tokenizer_sha256
from specviz.lm.device import pick_device
from specviz.lm.graphs import Recorder, best_recorder
from specviz.lm.load_steps import LoadSteps
from specviz.lm.loading import (
    LoadedLM,
    form_of,
    load_copy,
    load_target,
    load_tuned,
    needed_bytes,
    why_not_copied_in_int4,
)
from specviz.lm.low_rank import updates_of
from specviz.lm.quantised import QUANTISED
from specviz.lm.reads import Curve, kept_or_measured
from specviz.lm.room import free_bytes
from specviz.lm.vocabulary import check_same_tokens
from specviz.lm.weights import fetch, fetch_drafter
from specviz.presets import SHIPPED_DRAFTERS
from specviz.shapes import Form
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
    read_costs: Curve
    drafters_root: Path | None = None
    copies: dict[CopySpec, LanguageModel] = field(default_factory=dict)
    checkpoints: dict[str, DrafterCheckpoint] = field(default_factory=dict)
    head_parts: dict[bytes, Tensor] = field(default_factory=dict)
    own_draft: LanguageModel | None = None
    made: dict[str, LanguageModel] = field(default_factory=dict)  # of trained weights, by method
    fetched: dict[str, Path] = field(default_factory=dict)  # published drafters, by method
    tuned: dict[str, LanguageModel] = field(default_factory=dict)
    # Of drafters whose weights do not tell their target, by drafter and knobs.
    agreements: dict[object, Agreement] = field(default_factory=dict)
    recorder: Recorder | None = field(init=False)  # of drafters; None: nothing is captured here

    def __post_init__(self) -> None:
        self.recorder = best_recorder(self.loaded.lm.device)

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
        return TargetKit.of(
            lm,
            num_known_tokens=self.loaded.text.num_known_tokens,
            head_rows=self._head_rows,
            copy=self._copy,
            has_quantised_copy=why_not_copied_in_int4(self.loaded) is None,
            draft_lm=self._own_draft,
            recorder=self.recorder,
            trained=self._trained,
            made=self.made,
        )

    def _copy(self, spec: CopySpec) -> LanguageModel:
        if spec not in self.copies:
            count = spec.num_layers if spec.kind == "truncated" else None
            self.copies[spec] = load_copy(self.loaded, count)
        return self.copies[spec]

    def _own_draft(self) -> LanguageModel | None:
        folder = self.draft_folder or self.fetched.get("draft_model")
        if self.own_draft is None and folder is not None:
            # Only a target is worth quantising: a draft is small, and wrong oftener.
            precision = "auto" if self.loaded.form in QUANTISED else self.precision
            draft = load_target(folder, precision, self.loaded.lm.device)
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
        """The owner's own drafter, then the one that is shipped, then the published one."""
        shipped = SHIPPED_DRAFTERS / self.spec.name
        for root in (self.drafters_root, shipped):
            if root is not None and (root / method).is_dir():
                return root / method
        if method in self.fetched:
            return self.fetched[method]
        if is_inside(method, self.loaded.folder):
            return self.loaded.folder
        names = {"method": method, "target": self.spec.title}
        raise Refusal(message("refusal.untrained_method", **names))

    def has(self, method: str) -> bool:
        """Whether a drafter of the owner's, or a shipped one, would be taken for `method`."""
        if method == "draft_model" and self.draft_folder is not None:
            return True
        roots = (self.drafters_root, SHIPPED_DRAFTERS / self.spec.name)
        is_here = any(root is not None and (root / method).is_dir() for root in roots)
        return is_here or is_inside(method, self.loaded.folder)

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
        form = form_of(checkpoint.folder, precision, self.device)
        self._weigh(spec, checkpoint.folder, form)
        source = recognised(checkpoint.source, "source.")
        yield Progress("load", message("progress.load", title=spec.title, source=source))
        self._drop()
        loaded = yield from self._loaded(spec, checkpoint.folder, form)
        yield Progress("load", message("progress.read_costs", title=spec.title))
        self._ready = ReadyTarget(
            spec=spec,
            precision=precision,
            source=checkpoint.source,
            loaded=loaded,
            draft_folder=self.draft_folder,
            read_costs=kept_or_measured(loaded.lm, spec.name, form),
            drafters_root=self.drafters_root,
        )
        return self._ready

    def bring_drafters(
        self, target: ReadyTarget, drafters: Iterable[str]
    ) -> Generator[Progress, None, None]:
        """Fetch what is published for the target, for those of the lanes' drafters that need it and
        find nothing nearer. WeightsUnavailable: why it cannot be had."""
        published = drafters_of(target.spec.name)
        for drafter in drafters:
            method = NEEDS_WEIGHTS.get(drafter, drafter)
            if method in published and method not in target.fetched and not target.has(method):
                checkpoint = yield from fetch_drafter(published[method])
                target.fetched[method] = checkpoint.folder

    def _weigh(self, spec: TargetSpec, folder: Path, form: Form) -> None:
        """Refusal, while the model before it is still loaded, if there can be no room."""
        free, needed = free_bytes(self.device), needed_bytes(folder, form)
        if free is None or needed is None:
            return
        if self._ready is not None:
            old = self._ready.loaded  # it goes before the new one comes
            free += max(0, (needed_bytes(old.folder, old.form) or 0) - WORKING_BYTES)
        if needed - WORKING_BYTES > free:
            sizes = {"needed": gib(needed), "free": gib(free)}
            told = message("refusal.memory_short", title=spec.title, form=form, **sizes)
            raise Refusal(told)

    def _loaded(
        self, spec: TargetSpec, folder: Path, form: Form
    ) -> Generator[Progress, None, LoadedLM]:
        """The target, loaded in steps that can be told and ended where the library loads it."""
        try:
            return (yield from self._load_in_steps(spec, folder, form))
        except (torch.OutOfMemoryError, MemoryError):
            pass  # only now is the error gone, which holds the frames, and they what was loaded
        self._drop()
        raise Refusal(message("refusal.memory_out", title=spec.title, form=form))

    def _load_in_steps(
        self, spec: TargetSpec, folder: Path, form: Form
    ) -> Generator[Progress, None, LoadedLM]:
        device = self.device
        if device.type == "cpu" and form not in QUANTISED:  # quick, or in no steps
            return load_target(folder, form, device)
        steps = LoadSteps(lambda: load_target(folder, form, device))
        with closing(steps.run()) as ticks:
            for done, count in ticks:
                shown = {"title": spec.title, "done": f"{done:,}", "count": f"{count:,}"}
                yield Progress("load", message("progress.load_part", **shown))
        return steps.result()

    def _drop(self) -> None:
        self._ready = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
