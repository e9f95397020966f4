"""Tiny random models and a tiny real tokenizer, for everyone's tests. Nothing is downloaded.

MICRO (vocabulary 11) can have its joint distributions enumerated; TINY (vocabulary 97, grouped
heads) is the everyday model. Weights are drawn wide, so that what a row attends to decides its
logits: with the usual narrow start every mask would look right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from specviz.lm.plain import PlainLM

WIDE = 0.2  # standard deviation of random weights; the usual 0.02 hides errors of the mask

TINY_SHAPE = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": WIDE,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
MICRO_SHAPE = TINY_SHAPE | {
    "vocab_size": 11,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
}

_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
_LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}

# One entry per family or per trait that could break reading a tree: (class prefix, overrides).
FAMILIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama_tied": ("Llama", {"tie_word_embeddings": True}),
    "llama_llama3_rope": ("Llama", {"rope_parameters": _LLAMA3}),
    "llama_linear_rope": ("Llama", {"rope_parameters": _LINEAR}),
    "llama_yarn_rope": ("Llama", {"rope_parameters": _YARN}),
    "llama_padded": ("Llama", {"vocab_size": 104}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "mistral": ("Mistral", {"sliding_window": 4096, "head_dim": 16}),
    "gemma2": (
        "Gemma2",
        {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 128, "pad_token_id": 0},
    ),
    "gemma3": (
        "Gemma3Text",
        {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 128, "pad_token_id": 0}
        | {"num_hidden_layers": 3, "layer_types": ["sliding_attention"] * 2 + ["full_attention"]},
    ),
    "phi3": ("Phi3", {"sliding_window": None, "pad_token_id": 0}),
    "gpt_neox": ("GPTNeoX", {}),
    "olmo2": ("Olmo2", {}),
    "granite": ("Granite", {"embedding_multiplier": 12.0, "logits_scaling": 4.0}),
    "cohere": ("Cohere", {"logit_scale": 0.25}),
}


def family_config(name: str, **overrides: Any) -> Any:
    """A TINY configuration of one of FAMILIES."""
    prefix, traits = FAMILIES[name]
    return getattr(transformers, f"{prefix}Config")(**(TINY_SHAPE | traits | overrides))


def random_model(config: Any, *, seed: int = 0, attention: str = "sdpa") -> Any:
    """A transformers model with random weights, float32, in eval mode. Global randomness is kept."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(
            config, attn_implementation=attention, dtype=torch.float32
        )
        for name, weight in model.named_parameters():
            if weight.ndim == 1:  # biases start at zero and norms at one: move both
                torch.nn.init.normal_(weight, 1.0 if "norm" in name else 0.0, WIDE)
    return model.eval()


def micro(seed: int = 0) -> PlainLM:
    """MICRO: Llama, vocabulary 11, 1 layer, hidden 32, context 64."""
    return PlainLM(random_model(transformers.LlamaConfig(**MICRO_SHAPE), seed=seed), 64)


def tiny(seed: int = 0, *, attention: str = "sdpa", **overrides: Any) -> PlainLM:
    """TINY: Llama, vocabulary 97, 2 layers, hidden 64, 4 query and 2 key heads, context 128."""
    config = family_config("llama", **overrides)
    return PlainLM(
        random_model(config, seed=seed, attention=attention), config.max_position_embeddings
    )


CORPUS = (
    "The quick brown fox jumps over the lazy dog. The capital of France is Paris.\n",
    "def add(first, second):\n    return first + second\n",
    "Repeat after me: one, two, three, four. Once more: one, two, three, four.\n",
    "Caf\u00e9 cr\u00e8me, \u65e5\u672c\u8a9e, and the end of it all, there and then.\n",
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # ids 0, 1, 2
TOKENIZER_SIZE = 320  # 3 special tokens, 256 bytes, 61 merges


def tiny_tokenizer(*, chat: bool = True) -> PreTrainedTokenizerFast:
    """A real byte-level BPE tokenizer trained on a few lines, with a chat template or without."""
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENIZER_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(CORPUS, trainer)
    start, _, end = SPECIAL_TOKENS
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=engine, bos_token=start, eos_token=end, pad_token=end
    )
    tokenizer.chat_template = CHAT_TEMPLATE if chat else None
    return tokenizer


def spm_tokenizer() -> PreTrainedTokenizerFast:
    """A BPE tokenizer in the sentencepiece manner: U+2581 for a space, <0xF0> for a lone byte.

    It puts a BOS before every text, as Llama 2's does.
    """
    specials = ["<unk>", "<s>", "</s>"]
    letters = sorted(set("".join(CORPUS[:3])) - {" ", "\n"})
    pieces = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *letters]
    merges = [("\u2581", "t"), ("h", "e"), ("\u2581t", "he")]
    pieces += [left + right for left, right in merges]
    bpe = models.BPE(
        vocab={piece: i for i, piece in enumerate(pieces)},
        merges=merges,
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    engine = Tokenizer(bpe)
    engine.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    engine.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    engine.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=engine, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def write_folder(folder: Path, model: Any, tokenizer: Any = None) -> Path:
    """The model (and its tokenizer) as a transformers checkpoint folder, safetensors."""
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def tiny_folder(folder: Path, *, seed: int = 0, chat: bool = True, **overrides: Any) -> Path:
    """A TINY Llama with the tiny tokenizer's vocabulary, both saved to `folder`.

    Context 512; the vocabulary is padded to 328 rows, as real checkpoints do. EOS is <|im_end|>.
    """
    shape = {"vocab_size": TOKENIZER_SIZE + 8, "max_position_embeddings": 512}
    ids = {"bos_token_id": 0, "eos_token_id": 2}
    config = family_config("llama", **(shape | ids | overrides))
    return write_folder(folder, random_model(config, seed=seed), tiny_tokenizer(chat=chat))


def edit_config(folder: Path, **changes: Any) -> None:
    """Change values of a written config.json; None removes a key."""
    path = folder / "config.json"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
