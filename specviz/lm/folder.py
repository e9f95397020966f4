"""The parts of a checkpoint folder, or a ValueError that says in one sentence what is wrong.

Only local files are read, weights only as safetensors, and no code of the folder is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from specviz.lm.checkpoint_files import cut_short, first_line
from specviz.lm.mimo import register_mimo


def config_of(folder: Path) -> Any:
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"{folder} has no config.json: give the folder of a transformers checkpoint."
        )
    register_mimo()
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, StrictDataclassError) as error:
        raise ValueError(f"config.json in {folder} cannot be read: {first_line(error)}.") from error


def tokenizer_of(folder: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises no narrower one
        raise ValueError(
            f"The tokenizer in {folder} cannot be read ({first_line(error)}); "
            "fetch the checkpoint again, with all its files."
        ) from error


def generation_config_of(folder: Path) -> Any:
    """None if the checkpoint has none."""
    if not (folder / "generation_config.json").is_file():
        return None
    try:
        return GenerationConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"generation_config.json in {folder} cannot be read: {first_line(error)}."
        ) from error


def tensors_of(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's safetensors files, in bfloat16."""
    require_safetensors(folder)
    tensors: dict[str, Tensor] = {}
    try:
        for file in sorted(folder.glob("*.safetensors")):
            with safe_open(file, framework="pt") as shard:
                tensors |= {name: shard.get_tensor(name).bfloat16() for name in shard.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(cut_short(folder, error)) from error
    return tensors


def require_safetensors(folder: Path) -> None:
    if not any(folder.glob("*.safetensors")):
        raise ValueError(
            f"{folder} holds no .safetensors file; other weight formats can run code when they are "
            "opened and are not read. Convert the checkpoint to safetensors."
        )


def lacking(folder: Path, names: list[str]) -> str:
    return (
        f"The weights in {folder} lack {len(names)} tensors of the model, {names[0]} among them; "
        "fetch the checkpoint again."
    )
