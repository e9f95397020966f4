"""The sizes of published decoders, as their config.json has them, and how many bytes they take.

One function counts for every entry of the catalogue, for a person's own folder and for drafters:
weights by how they are kept, keys and values by tokens. Standard library only; nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Form: TypeAlias = Literal["float32", "bfloat16", "int8", "nf4", "fp4"]  # how layers are kept
DraftMethod: TypeAlias = Literal["eagle", "eagle3", "medusa", "mtp", "draft_model"]

# Bytes of a weight in a layer's matrices. Four bits with double quantisation: a scale of 8 bits
# for 64 weights, and one of 32 bits for 256 such scales.
BYTES_PER_WEIGHT: dict[Form, float] = {
    "float32": 4.0,
    "bfloat16": 2.0,
    "int8": 1.0,  # and one float32 per output row, counted below
    "nf4": 0.5 + 1 / 64 + 4 / (64 * 256),
    "fp4": 0.5 + 1 / 64 + 4 / (64 * 256),
}
DRAFT_VOCABULARY = 32_000  # rows of a published EAGLE-3 head
TAPPED_LAYERS = 3  # hidden states that EAGLE-3 reads


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """A dense decoder of the Llama kind: what its config.json says."""

    family: str  # model_type
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocab_size: int
    has_tied_embeddings: bool
    max_context: int
    has_qkv_bias: bool = False
    has_qk_norm: bool = False

    @property
    def query_width(self) -> int:
        return self.num_heads * self.head_size

    @property
    def kv_width(self) -> int:
        return self.num_kv_heads * self.head_size

    @property
    def num_layer_weights(self) -> int:
        """Weights in the matrices of one layer: what is quantised."""
        attention = 2 * self.hidden_size * (self.query_width + self.kv_width)
        return attention + 3 * self.hidden_size * self.intermediate_size

    @property
    def num_layer_rows(self) -> int:
        """Output rows of those matrices: each has a scale of its own in 8 bits."""
        attention = self.query_width + 2 * self.kv_width + self.hidden_size
        return attention + 2 * self.intermediate_size + self.hidden_size

    @property
    def num_vectors(self) -> int:
        """Norms and biases, all layers and the final norm."""
        biases = self.query_width + 2 * self.kv_width if self.has_qkv_bias else 0
        qk_norms = 2 * self.head_size if self.has_qk_norm else 0
        return self.num_layers * (2 * self.hidden_size + biases + qk_norms) + self.hidden_size

    @property
    def num_embedding_weights(self) -> int:
        """Embedding and head, once if they are one."""
        return self.vocab_size * self.hidden_size * (1 if self.has_tied_embeddings else 2)

    @property
    def num_parameters(self) -> int:
        layers = self.num_layers * self.num_layer_weights
        return layers + self.num_vectors + self.num_embedding_weights


def shape_of(config: Mapping[str, Any]) -> DecoderShape:
    """The shape that a config.json tells. ValueError: it is not of a dense Llama-like decoder."""
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        family = str(config["model_type"])
        return DecoderShape(
            family=family,
            num_layers=int(config["num_hidden_layers"]),
            hidden_size=hidden,
            intermediate_size=int(config["intermediate_size"]),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_size=int(config.get("head_dim") or hidden // heads),
            vocab_size=int(config["vocab_size"]),
            has_tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            max_context=int(config.get("max_position_embeddings") or 0),
            has_qkv_bias=family == "qwen2" or bool(config.get("attention_bias", False)),
            has_qk_norm=family == "qwen3",
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"config.json gives no sizes of a dense decoder ({error}); so its memory is not known."
        ) from error


def weight_bytes(shape: DecoderShape, form: Form) -> int:
    """Bytes of the weights. Embedding, head and norms are never quantised: bfloat16 there."""
    matrices = shape.num_layers * shape.num_layer_weights * BYTES_PER_WEIGHT[form]
    scales = 4 * shape.num_layers * shape.num_layer_rows if form == "int8" else 0
    rest = shape.num_embedding_weights + shape.num_vectors
    return round(matrices) + scales + rest * (4 if form == "float32" else 2)


def cache_bytes(shape: DecoderShape, num_tokens: int, form: Form) -> int:
    """Bytes of keys and values of so many tokens, in the compute dtype."""
    return 2 * shape.num_layers * shape.kv_width * num_tokens * (4 if form == "float32" else 2)


def drafter_parameters(method: DraftMethod, target: DecoderShape, num_heads: int = 5) -> int:
    """Parameters of a published drafter for `target`, the embedding it borrows left out.

    EAGLE-1: fc and one layer. EAGLE-3: fc, a layer that reads two states, and a head of its own.
    Medusa: `num_heads` heads of a square matrix, its bias and a vocabulary each. MTP: a layer and
    the matrix that joins two states. A draft model has a shape of its own: see `weight_bytes`.
    """
    hidden, layer = target.hidden_size, target.num_layer_weights
    if method == "eagle":
        return 2 * hidden * hidden + layer
    if method == "eagle3":
        wider = hidden * (target.query_width + 2 * target.kv_width)  # q, k and v read two states
        return TAPPED_LAYERS * hidden * hidden + layer + wider + DRAFT_VOCABULARY * hidden
    if method == "medusa":
        return num_heads * (hidden * hidden + hidden + target.vocab_size * hidden)
    assert method == "mtp", f"{method} has a shape of its own"
    return 2 * hidden * hidden + layer
