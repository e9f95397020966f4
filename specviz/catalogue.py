"""Published targets with drafters for them: what each is, what it may be used for, what it weighs.

Sizes are those of the published config.json files; bytes follow from them (`shapes`). Which pairs
fit a machine is `fitting`, fetching is `lm.weights`. Licences are repeated here so that a person
knows before a download, and are no advice: the model page has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.shapes import (
    DecoderShape,
    DraftMethod,
    Form,
    cache_bytes,
    drafter_parameters,
    weight_bytes,
)

TOKENIZER_BYTES = 20_000_000  # room for everything of a checkpoint but its weights
OPEN, UNKNOWN = "Apache-2.0", "see its model page"


@dataclass(frozen=True, slots=True)
class PublishedTarget:
    name: str  # as --target takes it
    title: str
    repository: str
    shape: DecoderShape
    licence: str
    is_gated: bool = False  # its owner must let an account in first


@dataclass(frozen=True, slots=True)
class PublishedDrafter:
    repository: str
    method: DraftMethod
    licence: str = UNKNOWN
    is_gated: bool = False
    shape: DecoderShape | None = None  # of a draft model; the others follow their target's
    has_own_embedding: bool = False  # the file repeats the target's embedding


@dataclass(frozen=True, slots=True)
class Pair:
    target: PublishedTarget
    drafter: PublishedDrafter

    @property
    def name(self) -> str:
        return f"{self.target.name} + {self.drafter.repository}"

    @property
    def is_gated(self) -> bool:
        return self.target.is_gated or self.drafter.is_gated

    @property
    def download_bytes(self) -> int:
        """Of both: published checkpoints are 16-bit, whatever they are kept as here."""
        target = weight_bytes(self.target.shape, "bfloat16") + TOKENIZER_BYTES
        return target + self.drafter_bytes

    @property
    def drafter_bytes(self) -> int:
        shape = self.target.shape
        if self.drafter.shape is not None:
            return weight_bytes(self.drafter.shape, "bfloat16")
        own = shape.vocab_size * shape.hidden_size if self.drafter.has_own_embedding else 0
        return 2 * (drafter_parameters(self.drafter.method, shape) + own)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes a pair takes while it decodes, by what takes them."""

    weights: int
    cache: int  # keys and values of the target
    drafter: int
    drafter_cache: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.drafter + self.drafter_cache


def drafters_of(target: str) -> dict[str, PublishedDrafter]:
    """By method, the first of the catalogue's for the target of this name."""
    found: dict[str, PublishedDrafter] = {}
    for pair in PAIRS:
        if pair.target.name == target:
            found.setdefault(pair.drafter.method, pair.drafter)
    return found


def memory_of(pair: Pair, form: Form, num_tokens: int) -> Memory:
    """With `num_tokens` of text in all lanes together; less where the target holds less."""
    shape, drafter = pair.target.shape, pair.drafter
    tokens = min(num_tokens, shape.max_context)
    of_drafter = 0
    if drafter.shape is not None:
        of_drafter = cache_bytes(drafter.shape, min(tokens, drafter.shape.max_context), "bfloat16")
    elif drafter.method != "medusa":  # one layer like the target's; heads keep nothing
        of_drafter = cache_bytes(shape, tokens, "bfloat16") // shape.num_layers
    return Memory(
        weights=weight_bytes(shape, form),
        cache=cache_bytes(shape, tokens, form),
        drafter=pair.drafter_bytes,
        drafter_cache=of_drafter,
    )


def _llama(*sizes: int, context: int, is_tied: bool = False) -> DecoderShape:
    """sizes: layers, hidden, inner, heads, key heads, vocabulary."""
    layers, hidden, inner, heads, kv_heads, vocab = sizes
    return DecoderShape(
        *("llama", layers, hidden, inner, heads, kv_heads, hidden // heads, vocab),
        has_tied_embeddings=is_tied,
        max_context=context,
    )


def _qwen3(
    layers: int, hidden: int, inner: int, heads: int, *, has_tied_embeddings: bool
) -> DecoderShape:
    return DecoderShape(
        *("qwen3", layers, hidden, inner, heads, 8, 128, 151_936),
        has_tied_embeddings=has_tied_embeddings,
        max_context=40_960,
        has_qk_norm=True,
    )


def _qwen_target(size: str, shape: DecoderShape) -> PublishedTarget:
    return PublishedTarget(
        f"qwen3-{size.lower()}", f"Qwen3 {size}", f"Qwen/Qwen3-{size}", shape, OPEN
    )


_VICUNA_LICENCE = "LLaMA, non-commercial"
_VICUNA_7B = _llama(32, 4096, 11_008, 32, 32, 32_000, context=2048)
_LLAMA_68M = _llama(2, 768, 3072, 12, 12, 32_000, context=2048)
_LLAMA2 = _llama(32, 4096, 11_008, 32, 32, 32_000, context=4096)
_LLAMA3 = _llama(32, 4096, 14_336, 32, 8, 128_256, context=131_072)

SMOLLM2 = PublishedTarget(
    "smollm2-1.7b-instruct",
    "SmolLM2 1.7B Instruct",
    "HuggingFaceTB/SmolLM2-1.7B-Instruct",
    _llama(24, 2048, 8192, 32, 32, 49_152, context=8192, is_tied=True),
    OPEN,
)
QWEN3_1_7B = _qwen_target("1.7B", _qwen3(28, 2048, 6144, 16, has_tied_embeddings=True))
QWEN3_4B = _qwen_target("4B", _qwen3(36, 2560, 9728, 32, has_tied_embeddings=True))
QWEN3_8B = _qwen_target("8B", _qwen3(36, 4096, 12_288, 32, has_tied_embeddings=False))
QWEN3_14B = _qwen_target("14B", _qwen3(40, 5120, 17_408, 40, has_tied_embeddings=False))
QWEN3_32B = _qwen_target("32B", _qwen3(64, 5120, 25_600, 64, has_tied_embeddings=False))
LLAMA_3_1_8B = PublishedTarget(
    "llama-3.1-8b-instruct",
    "Llama 3.1 8B Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
    _LLAMA3,
    "Llama 3.1 licence",
    is_gated=True,
)
LLAMA_3_8B = PublishedTarget(
    "llama-3-8b-instruct",
    "Llama 3 8B Instruct",
    "meta-llama/Meta-Llama-3-8B-Instruct",
    _llama(32, 4096, 14_336, 32, 8, 128_256, context=8192),
    "Llama 3 licence",
    is_gated=True,
)
DEEPSEEK_R1_8B = PublishedTarget(
    "deepseek-r1-distill-llama-8b",
    "DeepSeek R1 Distill Llama 8B",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    _LLAMA3,
    UNKNOWN,
)
LLAMA_2_7B = PublishedTarget(
    "llama-2-7b-chat",
    "Llama 2 7B Chat",
    "meta-llama/Llama-2-7b-chat-hf",
    _LLAMA2,
    "Llama 2 licence",
    is_gated=True,
)
VICUNA_7B = PublishedTarget(
    "vicuna-7b-v1.3", "Vicuna 7B v1.3", "lmsys/vicuna-7b-v1.3", _VICUNA_7B, _VICUNA_LICENCE
)
VICUNA_13B = PublishedTarget(
    "vicuna-13b-v1.3",
    "Vicuna 13B v1.3",
    "lmsys/vicuna-13b-v1.3",
    _llama(40, 5120, 13_824, 40, 40, 32_000, context=2048),
    _VICUNA_LICENCE,
)
QWEN2_7B = PublishedTarget(
    "qwen2-7b-instruct",
    "Qwen2 7B Instruct",
    "Qwen/Qwen2-7B-Instruct",
    DecoderShape(
        *("qwen2", 28, 3584, 18_944, 28, 4, 128, 152_064),
        has_tied_embeddings=False,
        max_context=32_768,
        has_qkv_bias=True,
    ),
    OPEN,
)
MIMO_7B = PublishedTarget(
    "mimo-7b-rl",
    "MiMo 7B RL",
    "XiaomiMiMo/MiMo-7B-RL",
    DecoderShape(
        *("mimo", 36, 4096, 11_008, 32, 8, 128, 151_680),
        has_tied_embeddings=False,
        max_context=32_768,
        has_qkv_bias=True,
    ),
    "MIT",
)

_QWEN3_0_6B = PublishedDrafter(
    "Qwen/Qwen3-0.6B",
    "draft_model",
    OPEN,
    shape=_qwen3(28, 1024, 3072, 16, has_tied_embeddings=True),
)
_SMOLLM2_135M = PublishedDrafter(
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "draft_model",
    OPEN,
    shape=_llama(30, 576, 1536, 9, 3, 49_152, context=8192, is_tied=True),
)
_LLAMA_3_2_1B = PublishedDrafter(
    "meta-llama/Llama-3.2-1B-Instruct",
    "draft_model",
    "Llama 3.2 licence",
    is_gated=True,
    shape=_llama(16, 2048, 8192, 32, 8, 128_256, context=131_072, is_tied=True),
)


def _eagle3(
    repository: str, licence: str = UNKNOWN, *, has_own_embedding: bool = False
) -> PublishedDrafter:
    return PublishedDrafter(repository, "eagle3", licence, has_own_embedding=has_own_embedding)


def _eagle(
    repository: str, licence: str = UNKNOWN, *, has_own_embedding: bool = False
) -> PublishedDrafter:
    return PublishedDrafter(repository, "eagle", licence, has_own_embedding=has_own_embedding)


PAIRS: tuple[Pair, ...] = (
    Pair(SMOLLM2, _SMOLLM2_135M),
    Pair(QWEN3_1_7B, _eagle3("AngelSlim/Qwen3-1.7B_eagle3")),
    Pair(QWEN3_4B, _eagle3("AngelSlim/Qwen3-4B_eagle3")),
    Pair(QWEN3_4B, _QWEN3_0_6B),
    Pair(QWEN3_8B, _eagle3("AngelSlim/Qwen3-8B_eagle3")),
    Pair(QWEN3_8B, _eagle3("Tengyunw/qwen3_8b_eagle3", "MIT")),
    Pair(QWEN3_8B, _eagle3("RedHatAI/Qwen3-8B-speculator.eagle3", has_own_embedding=True)),
    Pair(QWEN3_8B, _QWEN3_0_6B),
    Pair(QWEN3_14B, _eagle3("AngelSlim/Qwen3-14B_eagle3")),
    Pair(QWEN3_14B, _eagle3("RedHatAI/Qwen3-14B-speculator.eagle3", has_own_embedding=True)),
    Pair(QWEN3_32B, _eagle3("AngelSlim/Qwen3-32B_eagle3")),
    Pair(QWEN3_32B, _eagle3("RedHatAI/Qwen3-32B-speculator.eagle3", has_own_embedding=True)),
    Pair(LLAMA_3_1_8B, _eagle3("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", OPEN)),
    Pair(
        LLAMA_3_1_8B,
        _eagle3("lmsys/SGLang-EAGLE3-Llama-3.1-8B-Instruct-SpecForge", has_own_embedding=True),
    ),
    Pair(
        LLAMA_3_1_8B,
        _eagle3("RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3", has_own_embedding=True),
    ),
    Pair(LLAMA_3_1_8B, _LLAMA_3_2_1B),
    Pair(DEEPSEEK_R1_8B, _eagle3("yuhuili/EAGLE3-DeepSeek-R1-Distill-LLaMA-8B")),
    Pair(LLAMA_3_8B, _eagle("yuhuili/EAGLE-LLaMA3-Instruct-8B", has_own_embedding=True)),
    Pair(QWEN2_7B, _eagle("yuhuili/EAGLE-Qwen2-7B-Instruct", OPEN, has_own_embedding=True)),
    Pair(LLAMA_2_7B, _eagle("yuhuili/EAGLE-llama2-chat-7B")),
    Pair(VICUNA_7B, _eagle("yuhuili/EAGLE-Vicuna-7B-v1.3")),
    Pair(VICUNA_7B, PublishedDrafter("FasterDecoding/medusa-vicuna-7b-v1.3", "medusa")),
    Pair(VICUNA_7B, PublishedDrafter("double7/vicuna-68m", "draft_model", OPEN, shape=_LLAMA_68M)),
    Pair(VICUNA_13B, _eagle3("yuhuili/EAGLE3-Vicuna1.3-13B", OPEN)),
    Pair(MIMO_7B, PublishedDrafter("XiaomiMiMo/MiMo-7B-RL", "mtp", "MIT")),
)
