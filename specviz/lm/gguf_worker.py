"""Worker: a GGUF file of the SmolLM2 family into a plain bfloat16 checkpoint folder.

Run as `python -m specviz.lm.gguf_worker GGUF FOLDER` by `sources`. The weights come out as the
quantised file has them, dequantised; they are not the original ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from specviz.lm.child import end_with_parent


def main(gguf: Path, folder: Path) -> None:
    end_with_parent()
    tokenizer = _tokenizer(gguf)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    # The file keeps 1e-5 as float32; written out in full it would look like another model's.
    model.config.rms_norm_eps = float(f"{model.config.rms_norm_eps:.6g}")
    del model.config._model_name_or_path  # a training run's name, not where this came from
    model.save_pretrained(folder)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(folder)


def _tokenizer(gguf: Path) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # transformers takes vocabulary and merges from the file but not its splitting rule, "smollm":
    # every digit alone, then GPT-2's rule. Without it, spaces before a digit split otherwise than
    # in training, as in every indented line of code that starts with a number.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    for key in ("is_local", "local_files_only"):  # how this call was made, not what it loaded
        tokenizer.init_kwargs.pop(key, None)
    return tokenizer


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
