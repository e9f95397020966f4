"""Are a checkpoint's files whole, safe to read, and of the model they should be of?

Reads headers and sizes only, so it takes milliseconds whatever the model's size, and never
unpickles: a target's weights are safetensors, or were rewritten as such (`safe_copy`). Loading is
not done here.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specviz.presets import LlamaShape

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"
PICKLED_INDEX = "pytorch_model.bin.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_LFS_POINTER = b"version https://git-lfs"
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit


def check_folder(folder: Path) -> None:
    """Raise ValueError, naming the file and the fix, unless a model can be loaded from `folder`."""
    if not folder.is_dir():
        raise ValueError(
            f"There is no folder {folder}: give the folder of a transformers checkpoint, "
            f"with config.json and {WEIGHTS}."
        )
    read_json(folder / "config.json")
    for path in sorted(folder.glob("tokenizer*.json")):
        read_json(path)
    tensor_shapes(folder)


def has_only_pickles(folder: Path) -> bool:
    """Whether its weights are there, under their usual names, and none of them as safetensors."""
    is_safe = (folder / WEIGHTS).exists() or (folder / INDEX).exists()
    return not is_safe and any((folder / name).exists() for name in (PICKLED, PICKLED_INDEX))


def check_shape(folder: Path, shape: LlamaShape) -> None:
    """Raise ValueError unless config and tensors are those of a llama model of this `shape`."""
    config = read_json(folder / "config.json")
    expected = {
        "model_type": "llama",
        "num_hidden_layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "vocab_size": shape.vocab_size,
        "tie_word_embeddings": shape.has_tied_embeddings,
    }
    for key, value in expected.items():
        if config.get(key) != value:
            raise ValueError(f"config.json says {key} is {config.get(key)!r}, not {value!r}.")
    tensors, wanted = tensor_shapes(folder), shape.tensors()
    for name in sorted(tensors.keys() | wanted.keys()):
        if tensors.get(name) != wanted.get(name):
            raise ValueError(
                f"Tensor {name} has shape {tensors.get(name, 'none: it is missing')}; "
                f"expected {wanted.get(name, 'no such tensor')}."
            )


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Tensor name -> shape over all weight files of `folder`, whose sizes are checked.

    ValueError if a file is missing, cut, empty, a Git LFS pointer, or only pickles are there.
    """
    if (folder / INDEX).exists():
        return _sharded(folder)
    if not (folder / WEIGHTS).exists():
        raise ValueError(_no_weights(folder))
    return safetensors_shapes(folder / WEIGHTS)


def safetensors_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Tensor name -> shape of one safetensors file; ValueError unless it is whole."""
    size = readable_size(path)
    with path.open("rb") as file:
        prefix = file.read(8)
        (header_bytes,) = struct.unpack("<Q", prefix) if len(prefix) == 8 else (0,)
        if not 2 <= header_bytes <= _MAX_HEADER_BYTES:
            raise ValueError(f"{path.name} is not a safetensors file: fetch it again.")
        if 8 + header_bytes > size:
            raise ValueError(_cut(path, size, f"at least {8 + header_bytes:,}"))
        entries = _header(path, file.read(header_bytes))
    end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if size != 8 + header_bytes + end:
        raise ValueError(_cut(path, size, f"{8 + header_bytes + end:,}"))
    return {name: tuple(entry["shape"]) for name, entry in entries.items()}


def shards_of(folder: Path, index: str) -> list[Path]:
    """The files that an index names, beside it. ValueError: it names none, or some elsewhere."""
    homes = read_json(folder / index).get("weight_map")
    if not isinstance(homes, dict) or not homes:
        raise ValueError(f"{index} has no weight_map: fetch it again.")
    names = sorted({str(name) for name in homes.values()})
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"{index} names {name!r}: expected a file beside it.")
    return [folder / name for name in names]


def read_json(path: Path) -> dict[str, Any]:
    """The object a JSON file holds; ValueError, naming the file and the fix, if it holds none."""
    readable_size(path)
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:  # malformed JSON and malformed UTF-8 alike
        raise ValueError(f"{path.name} is not readable JSON: fetch it again.") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no JSON object: fetch it again.")
    return value


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cut_short(folder: Path, error: Exception) -> str:
    return (
        f"The weights in {folder} cannot be read ({first_line(error)}); "
        "a file may be cut short or missing: fetch them again."
    )


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")


def _sharded(folder: Path) -> dict[str, tuple[int, ...]]:
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"{INDEX} has no weight_map: fetch it again.")
    shapes: dict[str, tuple[int, ...]] = {}
    for shard in sorted({str(name) for name in weight_map.values()}):
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise ValueError(f"{INDEX} names {shard!r}: expected a safetensors file beside it.")
        held = safetensors_shapes(folder / shard)
        for tensor in (name for name, home in weight_map.items() if home == shard):
            if tensor not in held:
                raise ValueError(f"{shard} lacks {tensor}, which {INDEX} promises: fetch it again.")
        shapes |= held
    return shapes


def readable_size(path: Path) -> int:
    """Bytes of a file; ValueError if it is missing, empty or a Git LFS pointer."""
    if not path.is_file():
        raise ValueError(f"{path.name} is missing from {path.parent}: copy or fetch it again.")
    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty (0 bytes): fetch it again.")
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ValueError(
                f"{path.name} is a Git LFS pointer, not the file itself: run `git lfs pull` in "
                "its folder, or download the file."
            )
    return size


def _header(path: Path, raw: bytes) -> Mapping[str, Any]:
    try:
        header = json.loads(raw)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        for entry in entries.values():
            int(entry["data_offsets"][1]), tuple(entry["shape"])
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise ValueError(f"{path.name} has a broken header: fetch it again.") from error
    return entries


def _cut(path: Path, size: int, expected: str) -> str:
    return f"{path.name} has {size:,} bytes, {expected} expected: it was cut off; fetch it again."


def _no_weights(folder: Path) -> str:
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLES)
    if pickles:
        return (
            f"{folder.name} has its weights as {pickles[0]}, a pickle, which can run code when it "
            f"is read, so it is refused: convert it to {WEIGHTS}, or give the model's name on the Hub, "
            "from where such files are fetched and rewritten."
        )
    return f"{WEIGHTS} is missing from {folder}: copy or fetch it again."
