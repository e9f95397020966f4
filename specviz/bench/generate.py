"""The baseline that everyone knows: `generate` of transformers, greedy, on the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16")


class Generate:
    """A stock model with its key-value cache, in one dtype."""

    def __init__(self, folder: Path, dtype: str, device: torch.device) -> None:
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        self.dtype = dtype
        self.device = device
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, dtype), local_files_only=True
        )
        self.model.to(device).eval()
        # No end token: both sides are to write the same number of tokens.
        self.model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0)

    def answer(
        self, prompt: Sequence[int], num_tokens: int, **options: Any
    ) -> tuple[tuple[int, ...], float]:
        """Exactly `num_tokens` new tokens, and the seconds they took, prefill included.

        `options` are more of `generate`'s own.
        """
        import torch

        from specviz.lm.device import Stopwatch

        tokens = torch.tensor([list(prompt)], device=self.device)
        watch = Stopwatch(self.device)
        output = self.model.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=num_tokens, **options
        )
        seconds = watch.lap()
        answer = tuple(output[0, len(prompt) :].tolist())
        if len(answer) != num_tokens:
            raise ValueError(f"generate wrote {len(answer)} tokens; {num_tokens} were asked for.")
        return answer, seconds


def fastest(
    folder: Path, device: torch.device, prompt: Sequence[int], num_tokens: int, num_tries: int
) -> tuple[Generate, dict[str, float]]:
    """The model in its faster dtype, and each dtype's tokens per second (median, warmed up)."""
    models = [Generate(folder, dtype, device) for dtype in DTYPES]
    seconds: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    for model in models:
        model.answer(prompt, num_tokens)
    for _ in range(num_tries):
        for model in models:
            seconds[model.dtype].append(model.answer(prompt, num_tokens)[1])
    speeds = {dtype: num_tokens / median(times) for dtype, times in seconds.items()}
    return max(models, key=lambda model: speeds[model.dtype]), speeds
