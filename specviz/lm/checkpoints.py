"""Trained drafters as files: config.json and weights, in one file or several, read and written.

How weights are read is in `drafter_files`; ours are written as safetensors. What a tensor means is
the drafter's own business; here files are whole, or a sentence says what is wrong. A checkpoint of
ours names the target it was trained for. It is known by its sizes and its tokenizer, never by its
bytes: one target comes from several sources, rounded differently.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specviz.lm.checkpoint_files import INDEX, WEIGHTS, read_json
from specviz.lm.drafter_files import read_tensors

MAX_FILE_BYTES = 9_500_000  # a repository with larger files could not be pushed everywhere
_HEADER_BYTES = 200  # of one tensor in a file's header: name, type, shape, place
Shape = tuple[int | None, ...]  # None: any size
# What only one method's tensors are called.
MARKS = {
    "MTP": re.compile(r"\b(eh_proj|mtp_layers\.0\.input_proj|mtp\.fc)\.weight$"),
    "EAGLE-3": re.compile(r"\b(midlayer|layers\.0)\.hidden_norm\.weight$"),
    "Medusa": re.compile(
        r"^(medusa_heads?\.)?(\d+\.\d+\.linear|blocks\.\d+\.layers\.\d+)\.weight$"
    ),
}


@dataclass(frozen=True, slots=True)
class DrafterCheckpoint:
    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]  # as stored: bf16 weights, whole numbers as they are


def load_checkpoint(place: Path) -> DrafterCheckpoint:
    """Of a folder, or of one weight file with config.json beside it.

    ValueError: a file is missing, cut short, not what its index promises, or no bare tensors.
    """
    if not place.exists():
        raise ValueError(
            f"There is no folder {place}: give the folder of a drafter, with config.json and "
            f"{WEIGHTS}."
        )
    folder = place.parent if place.is_file() else place
    config = read_json(folder / "config.json")
    return DrafterCheckpoint(folder, config, read_tensors(place))


def save_checkpoint(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write config.json and the weights, real numbers as bf16, in files of at most MAX_FILE_BYTES.

    A single tensor larger than that gets a file of its own. Other files of the folder stay;
    weights of an earlier save are replaced once all new ones are written.
    """
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    stored = {name: _stored(tensor) for name, tensor in tensors.items()}
    shards = list(_shards(stored))
    names = [WEIGHTS]
    if len(shards) > 1:
        names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
        _write_json(part / INDEX, _index(dict(zip(names, shards, strict=True))))
    for name, shard in zip(names, shards, strict=True):
        save_file(shard, part / name, metadata={"format": "pt"})
    _write_json(part / "config.json", dict(config))
    folder.mkdir(exist_ok=True)
    for old in (*folder.glob("model*.safetensors"), folder / INDEX):
        old.unlink(missing_ok=True)
    for new in part.iterdir():
        new.replace(folder / new.name)
    part.rmdir()


def check_target(
    checkpoint: DrafterCheckpoint,
    *,
    hidden_size: int,
    num_layers: int,
    vocab_size: int,
    tokenizer_sha256: str,
) -> None:
    """ValueError, naming what differs, if the checkpoint says it was trained for another target.

    Published checkpoints do not say; their shapes are checked where they are used.
    """
    trained_for = checkpoint.config.get("specviz_target")
    if trained_for is None:
        return
    given = {
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "vocab_size": vocab_size,
        "tokenizer_sha256": tokenizer_sha256,
    }
    for fact, here in given.items():
        there = trained_for.get(fact)
        if there != here:
            raise ValueError(
                f"The drafter in {checkpoint.folder} was trained for another target than this "
                f"one ({trained_for.get('name', 'unnamed')}): {fact} is {_short(there)} there and "
                f"{_short(here)} here. Train one for this target, or choose another drafter."
            )


def tokenizer_sha256(tokenizer: Any) -> str:
    """Of a tokenizer's ids and the token each one stands for, however its files are written."""
    by_id = sorted((token, name) for name, token in tokenizer.get_vocab().items())
    return hashlib.sha256(json.dumps(by_id).encode()).hexdigest()


def check_tensors(
    checkpoint: DrafterCheckpoint,
    required: Mapping[str, Shape],
    optional: Mapping[str, Shape],
    method: str,
) -> None:
    """ValueError, naming one, if tensors are missing, unknown or of another shape."""
    known, held = {**required, **optional}, checkpoint.tensors
    whose = f"The {method} drafter in {checkpoint.folder}"
    kind = kind_of(held)
    hint = f" It looks like {kind}: choose that instead." if kind not in (None, method) else ""
    if missing := sorted(required.keys() - held.keys()):
        raise ValueError(f"{whose} lacks {len(missing)} tensors, {missing[0]} among them.{hint}")
    if extra := sorted(held.keys() - known.keys()):
        raise ValueError(
            f"{whose} holds {len(extra)} tensors that {method} has no use for, {extra[0]} among "
            f"them; it is of another kind.{hint}"
        )
    for name, tensor in held.items():
        shape, wanted = tuple(tensor.shape), known[name]
        if len(shape) != len(wanted) or any(
            size not in (have, None) for have, size in zip(shape, wanted, strict=True)
        ):
            said = " x ".join("any" if size is None else str(size) for size in wanted)
            came = " x ".join(map(str, shape))
            raise ValueError(f"{whose} has {name} of {came}; {said} fits this target.")


def kind_of(names: Iterable[str]) -> str | None:
    """Which method's drafter has tensors of these names, as far as they tell."""
    found = tuple(names)
    for kind, mark in MARKS.items():
        if any(mark.search(name) for name in found):
            return kind
    is_fused = any(name.endswith("fc.weight") for name in found)
    has_input_norm = any(name.endswith("input_layernorm.weight") for name in found)
    return "EAGLE-1" if is_fused and not has_input_norm else None


def draft_ids(checkpoint: DrafterCheckpoint, *, vocab_size: int, num_known_tokens: int) -> Tensor:
    """(Vd,) ascending ids of the target that the drafter chooses from, known ones only.

    d2t holds offsets: target id = place + d2t[place]. Without it: all. ValueError: d2t is damaged,
    was never filled, holds ids instead, or is not the table that t2d was made with.
    """
    offsets = checkpoint.tensors.get("d2t")
    if offsets is None:
        return torch.arange(num_known_tokens)
    if offsets.is_floating_point() or offsets.ndim != 1 or len(offsets) == 0:
        raise ValueError(f"d2t in {checkpoint.folder} is not a list of whole numbers.")
    ids = torch.arange(len(offsets)) + offsets.long()
    marked = _marked(checkpoint.tensors.get("t2d"))
    if not _are_ids(ids, vocab_size) or (marked is not None and not torch.equal(ids, marked)):
        raise ValueError(_wrong_table(checkpoint, vocab_size, marked))
    if len(ids) < num_known_tokens and not bool(offsets.any()):
        raise ValueError(
            f"d2t in {checkpoint.folder} is all zeros for {len(ids)} of {num_known_tokens} tokens: "
            "it was never filled, and the drafter would name wrong tokens. Fetch another export."
        )
    return ids[ids < num_known_tokens]


def _marked(t2d: Tensor | None) -> Tensor | None:
    """Ascending ids whose place in the mask is set; None if there is none, or it was never filled."""
    return None if t2d is None or not bool(t2d.any()) else t2d.bool().nonzero().flatten()


def _are_ids(ids: Tensor, vocab_size: int) -> bool:
    """Ascending, and all of the vocabulary."""
    return not bool((ids.diff() <= 0).any()) and 0 <= int(ids[0]) <= int(ids[-1]) < vocab_size


def _wrong_table(checkpoint: DrafterCheckpoint, vocab_size: int, marked: Tensor | None) -> str:
    table, folder = checkpoint.tensors["d2t"].long(), checkpoint.folder
    if _are_ids(table, vocab_size) and (marked is None or torch.equal(table, marked)):
        return (
            f"d2t in {folder} holds the target's ids themselves, where offsets are expected "
            "(target id = place + d2t): subtract from each its place, or fetch another export."
        )
    if marked is not None and _are_ids(torch.arange(len(table)) + table, vocab_size):
        return (
            f"d2t in {folder} names {len(table)} tokens and t2d marks {len(marked)}, not the same "
            "ones: the two are of different exports. Fetch the drafter again."
        )
    return (
        f"d2t in {folder} does not name ascending ids from 0 to {vocab_size - 1}; it is damaged, "
        "or of another target."
    )


def _stored(tensor: Tensor) -> Tensor:
    kept = tensor.bfloat16() if tensor.is_floating_point() else tensor
    return kept.detach().to("cpu").contiguous().clone()


def _num_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size() + _HEADER_BYTES


def _shards(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    room = MAX_FILE_BYTES - _HEADER_BYTES
    for name, tensor in tensors.items():
        if shard and _num_bytes(tensor) > room:
            yield shard
            shard, room = {}, MAX_FILE_BYTES - _HEADER_BYTES
        shard[name] = tensor
        room -= _num_bytes(tensor)
    yield shard


def _index(shards: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Any]:
    held = [tensor for shard in shards.values() for tensor in shard.values()]
    total = sum(tensor.numel() * tensor.element_size() for tensor in held)
    weight_map = {name: file for file, shard in shards.items() for name in shard}
    return {"metadata": {"total_size": total}, "weight_map": weight_map}


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:12]}…"
