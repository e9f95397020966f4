"""Models with random weights in the shape of real ones, made on the device: what to measure speed on.

What they write means nothing; what a pass over them costs is what a pass over trained weights costs.
Nothing is read from disk or fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, models
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from specviz.lm.checkpoints import DrafterCheckpoint
from specviz.lm.plain import PlainLM

SEED = 0
EPS = 1e-5
SPREAD = 0.02  # standard deviation of weights, as models start with


@dataclass(frozen=True, slots=True)
class LlamaShape:
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    vocab_size: int
    is_tied: bool = False  # the head is the embedding


LLAMA_8B = LlamaShape(4096, 14336, 32, 32, 8, 128_256)
SMOLLM2_135M = LlamaShape(576, 1536, 30, 9, 3, 49_152, is_tied=True)


def random_llama(
    shape: LlamaShape,
    *,
    device: torch.device,
    dtype: torch.dtype,
    form: Literal["whole", "nf4"],
    context: int,
) -> PlainLM:
    """`form`: layers as they are, or quantised by bitsandbytes; head and embedding stay whole."""
    config = LlamaConfig(
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        vocab_size=shape.vocab_size,
        max_position_embeddings=context,
        tie_word_embeddings=shape.is_tied,
        rms_norm_eps=EPS,
        pad_token_id=None,
    )
    with torch.random.fork_rng(range(torch.cuda.device_count())), device:
        torch.manual_seed(SEED)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    if form == "nf4":
        _quantise(model.get_decoder(), dtype)
    return PlainLM(model, context)


def random_eagle3(lm: PlainLM, shape: LlamaShape, num_draft_tokens: int) -> DrafterCheckpoint:
    """An EAGLE-3 drafter in the authors' names, as wide as its target, with a draft vocabulary
    spread evenly over the target's."""
    size, rng = shape.hidden_size, torch.Generator(lm.device).manual_seed(SEED)
    head_size = size // shape.num_heads

    def wide(*sizes: int) -> Tensor:
        weight = torch.empty(sizes, dtype=lm.dtype, device=lm.device)
        return weight.normal_(0.0, SPREAD, generator=rng)

    tensors = {
        "fc.weight": wide(size, 3 * size),
        "midlayer.self_attn.q_proj.weight": wide(size, 2 * size),
        "midlayer.self_attn.k_proj.weight": wide(shape.num_kv_heads * head_size, 2 * size),
        "midlayer.self_attn.v_proj.weight": wide(shape.num_kv_heads * head_size, 2 * size),
        "midlayer.self_attn.o_proj.weight": wide(size, size),
        "midlayer.mlp.gate_proj.weight": wide(shape.intermediate_size, size),
        "midlayer.mlp.up_proj.weight": wide(shape.intermediate_size, size),
        "midlayer.mlp.down_proj.weight": wide(size, shape.intermediate_size),
        "lm_head.weight": wide(num_draft_tokens, size),
        "d2t": torch.arange(num_draft_tokens) * shape.vocab_size // num_draft_tokens
        - torch.arange(num_draft_tokens),
    }
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    for name in ("norm", *(f"midlayer.{norm}" for norm in norms)):
        tensors[f"{name}.weight"] = torch.ones(size, dtype=lm.dtype, device=lm.device)
    config = {
        "hidden_size": size,
        "num_attention_heads": shape.num_heads,
        "rms_norm_eps": EPS,
        "max_position_embeddings": lm.max_context,
    }
    return DrafterCheckpoint(Path("random"), config, tensors)


def numbered_tokenizer(size: int) -> Any:
    """A tokenizer whose tokens are called by their ids, for text that nobody reads."""
    engine = Tokenizer(models.WordLevel({f"<{i}>": i for i in range(size)}, unk_token="<0>"))
    engine.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=engine)


def read_bytes(lm: PlainLM) -> int:
    """Of all weights that a pass over one row reads: not a table of which it looks up one row."""
    table = lm.model.get_input_embeddings().weight
    head = lm.model.get_output_embeddings().weight
    weights = {id(weight): weight for weight in lm.model.parameters()}
    if head is not table:
        del weights[id(table)]
    return sum(weight.numel() * weight.element_size() for weight in weights.values())


def _quantise(decoder: nn.Module, dtype: torch.dtype) -> None:
    """Every linear layer below becomes nf4, its scales quantised once more, where it lies."""
    import bitsandbytes as bnb

    for parent in list(decoder.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is not nn.Linear:
                continue
            small = bnb.nn.Linear4bit(
                layer.in_features, layer.out_features, bias=False, compute_dtype=dtype
            )
            place = layer.weight.device
            small.weight = bnb.nn.Params4bit(
                layer.weight.detach(), requires_grad=False, quant_type="nf4"
            )
            setattr(parent, name, small.to(place))
