"""A stand-in for the Hub's `spaces` package as ZeroGPU has it: imported before torch, and CUDA promised
but out of reach in the process that imports it."""

from __future__ import annotations

import os
import sys

from tests.space.lending import GPU

__all__ = ["GPU", "gradio_auto_wrap"]

assert "torch" not in sys.modules, "spaces must be imported before torch"
import torch  # noqa: E402 - as the real one does, to take CUDA away

_here = os.getpid()
_is_available = torch.cuda.is_available


def gradio_auto_wrap(task: object) -> object:
    """Gradio offers each handler of a page."""
    return task


def _refuse(*args: object) -> None:
    if os.getpid() == _here:
        raise RuntimeError("CUDA was touched in the process that has no GPU")


torch.cuda.is_available = lambda: os.getpid() == _here or _is_available()
torch.cuda.init = torch.cuda._lazy_init = _refuse
