"""The plain forward path: any dense decoder of transformers, unmodified, by public arguments.

A tree is read in one pass with a 4-D additive mask, position ids and a cache. Nothing is patched:
hidden states are read by forward hooks that live for one pass. What cannot be read this way is
refused at load with a reason (`support`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from specviz.lm.attention import additive_mask, causal_rows, visible_rows
from specviz.lm.base import FeatureTap, KVCache, LMOutput
from specviz.lm.checkpoint_files import cut_short
from specviz.lm.folder import config_of, lacking, require_safetensors
from specviz.lm.low_rank import Updates, tuned
from specviz.lm.plain_cache import PlainCache
from specviz.lm.spread import check_places
from specviz.lm.support import check_head, check_stock, check_tree_reading, default_context, refusal
from specviz.tree import DraftTree
from specviz.words import word

PREFILL_ROWS = 256  # rows per pass of a prompt: bounds the mask and the activations

# N = rows of a pass, L = cached tokens before it, V = vocabulary, H = hidden size, F = tapped width.


class PlainLM:
    """`lm.base.LanguageModel` over a transformers causal language model."""

    def __init__(self, model: Any, max_context: int) -> None:
        self.model = model.eval().requires_grad_(False)
        self.decoder: nn.Module = model.get_decoder()
        config = model.config.get_text_config()
        self._lm_head: nn.Module = model.get_output_embeddings()
        self._scaling = HeadScaling(config)
        self._embedding_multiplier = float(getattr(config, "embedding_multiplier", 1.0))
        self.vocab_size = int(self._lm_head.out_features)
        self.hidden_size = int(config.hidden_size)
        self.num_layers = int(config.num_hidden_layers)
        self.num_parameters = int(model.num_parameters())
        self.max_context = max_context
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        # LLM.int8 rounds the inputs of its layers as well.
        self.coarsest: torch.dtype = (
            torch.int8 if getattr(model, "is_loaded_in_8bit", False) else model.dtype
        )
        kind = config._attn_implementation
        self.path = word("path.plain", model=type(model).__name__, kind=kind)

    def new_cache(self, capacity: int) -> PlainCache:
        return PlainCache(self.num_layers, capacity)

    def settle(self, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> None:
        """Nothing: any cache can be read into at any time."""

    @torch.no_grad()
    def prefill(
        self, tokens: Sequence[int], cache: KVCache, taps: Sequence[FeatureTap] = ()
    ) -> Tensor | None:
        parts = []
        for start in range(0, len(tokens), PREFILL_ROWS):
            chunk = tokens[start : start + PREFILL_ROWS]
            visible, offsets = causal_rows(len(chunk)), range(len(chunk))
            with tapped(self.decoder, self.num_layers, taps) as found:
                self.decoder(**self._inputs(chunk, offsets, visible, cache))
            cache.keep(range(len(chunk)))
            parts.append(side_by_side(found, taps))
        if not taps:
            return None
        if not parts:
            width = self.hidden_size * len(taps)
            return torch.empty(0, width, dtype=self.dtype, device=self.device)
        return torch.cat([part for part in parts if part is not None])

    @torch.no_grad()
    def read(self, tree: DraftTree, cache: KVCache, taps: Sequence[FeatureTap] = ()) -> LMOutput:
        with tapped(self.decoder, self.num_layers, taps) as found:
            inputs = self._inputs(tree.tokens, tree.depths, visible_rows(tree), cache)
            logits = self.model(**inputs).logits[0].to(self.device)
        return LMOutput(logits, side_by_side(found, taps))

    @torch.no_grad()
    def stock_logits(self, tokens: Sequence[int]) -> Tensor:
        """(T, V) by a bare forward: no mask, positions or cache of ours."""
        ids = torch.tensor([tokens], device=self.device)
        logits: Tensor = self.model(input_ids=ids, use_cache=False).logits[0]
        return logits

    def embed(self, tokens: Tensor) -> Tensor:
        table = self.model.get_input_embeddings()
        rows: Tensor = table(tokens.to(self.device))
        # Gemma's table scales by itself; Granite scales after it.
        return rows if self._embedding_multiplier == 1.0 else rows * self._embedding_multiplier

    def head(self, hidden: Tensor) -> Tensor:
        # Of a model that lies on several devices the head is on the last one.
        return self._scaling(self._lm_head(hidden)).to(hidden.device)

    def _inputs(
        self, tokens: Sequence[int], depths: Sequence[int], visible: Tensor, cache: KVCache
    ) -> dict[str, Any]:
        """The public arguments of one pass over N rows, and room for them in the cache."""
        assert isinstance(cache, PlainCache), "a cache made by this model's new_cache"
        cache.begin_pass(len(tokens))
        positions = torch.tensor([depths], device=self.device) + cache.length
        # Models with layer types hand a ready 4-D mask to every type, so one mask serves all.
        mask = additive_mask(visible, cache.length, dtype=self.dtype, device=self.device)
        return {
            "input_ids": torch.tensor([tokens], device=self.device),
            "attention_mask": mask,
            "position_ids": positions,
            "cache": cache.states,
            "use_cache": True,
        }


class HeadScaling:
    """What a family does to its logits after the head's matrix."""

    def __init__(self, config: Any) -> None:
        self._divisor = getattr(config, "logits_scaling", None)  # Granite
        self._factor = getattr(config, "logit_scale", None)  # Cohere
        self._cap = getattr(config, "final_logit_softcapping", None)  # Gemma 2

    def __call__(self, logits: Tensor) -> Tensor:
        if self._divisor is not None:
            logits = logits / self._divisor
        if self._factor is not None:
            logits = logits * self._factor
        if self._cap is not None:
            logits = torch.tanh(logits / self._cap) * self._cap
        return logits


def load_plain(
    folder: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
    context: int | None = None,
    updates: Updates | None = None,
    settings: Mapping[str, Any] | None = None,
) -> PlainLM:
    """The checkpoint in `folder` on the plain path, checked on a small tree.

    Only local safetensors files are read; no code of the folder is run. `context`: tokens, prompt
    and answer together (None: as many as the model was made for, at most 4096). `updates` are added
    to the weights. `settings`: how else transformers is to load it, as fewer layers or quantised
    ones. ValueError says in one sentence why a folder cannot be used.
    """
    config = config_of(folder)
    context = default_context(config) if context is None else context
    reason = refusal(config, context)
    if reason is not None:
        raise ValueError(reason)
    model = _weights_of(folder, dtype, settings or {})
    if "device_map" not in (settings or {}):  # quantised layers may not be moved once made
        model = model.to(device)
    if updates:
        model.load_state_dict(tuned(model.state_dict(), updates))
    check_places(model)
    lm = PlainLM(model, context)
    reason = check_stock(lm) or check_head(lm) or check_tree_reading(lm)
    if reason is not None:
        raise ValueError(reason)
    return lm


def _weights_of(folder: Path, dtype: torch.dtype, settings: Mapping[str, Any]) -> Any:
    require_safetensors(folder)
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **settings,
        )
    except torch.OutOfMemoryError:
        raise  # no fault of the files
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        raise ValueError(cut_short(folder, error)) from error
    # transformers fills what is missing with random numbers and goes on.
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(lacking(folder, missing))
    return model


@contextmanager
def tapped(
    decoder: nn.Module, num_layers: int, taps: Sequence[FeatureTap]
) -> Iterator[dict[FeatureTap, Tensor]]:
    """While open, each pass leaves the tapped hidden states, (1, N, H) each, in the dictionary."""
    found: dict[FeatureTap, Tensor] = {}
    layers = _layers_of(decoder, num_layers)
    handles = [_hook(decoder, layers, tap, found) for tap in dict.fromkeys(taps)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _hook(
    decoder: nn.Module, layers: nn.ModuleList, tap: FeatureTap, found: dict[FeatureTap, Tensor]
) -> Any:
    def note_input(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        del module
        found[tap] = args[0] if args else kwargs["hidden_states"]

    def note_output(module: nn.Module, args: Any, output: Any) -> None:
        del module, args
        found[tap] = output if isinstance(output, Tensor) else output[0]

    if tap.side == "normed":  # what a decoder returns is the output of its final norm
        return decoder.register_forward_hook(note_output)
    if not 0 <= tap.layer < len(layers):
        raise ValueError(
            f"This model has layers 0 to {len(layers) - 1}; layer {tap.layer} was asked for."
        )
    layer = layers[tap.layer]
    if tap.side == "input":
        return layer.register_forward_pre_hook(note_input, with_kwargs=True)
    return layer.register_forward_hook(note_output)


def _layers_of(decoder: nn.Module, num_layers: int) -> nn.ModuleList:
    """The list of decoder layers, by whatever name the family gives it."""
    for module in decoder.modules():
        if isinstance(module, nn.ModuleList) and len(module) == num_layers:
            return module
    raise ValueError(f"{type(decoder).__name__} has no list of {num_layers} layers to read from.")


def side_by_side(found: dict[FeatureTap, Tensor], taps: Sequence[FeatureTap]) -> Tensor | None:
    """(N, F): the taps in the order asked for."""
    if not taps:
        return None
    first = found[taps[0]]  # layers may lie on several devices
    return torch.cat([found[tap][0].to(first.device) for tap in taps], -1)
