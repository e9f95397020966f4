"""Xiaomi MiMo as a target: Qwen2's model under another name, with an MTP module in its files.

transformers does not know the name, and the model's own repository brings code for it, which is
not run: the layers are Qwen2's. The module is read by `drafters.mtp_files`.
"""

from __future__ import annotations

from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

MODEL_TYPE = "mimo"


class MimoConfig(Qwen2Config):  # type: ignore[misc]  # transformers is untyped here
    model_type = MODEL_TYPE


class MimoForCausalLM(Qwen2ForCausalLM):  # type: ignore[misc]
    config_class = MimoConfig
    _keys_to_ignore_on_load_unexpected = (r"model\.mtp_layers\..*",)


def register_mimo() -> None:
    """Let transformers know the name. Twice is once."""
    AutoConfig.register(MODEL_TYPE, MimoConfig, exist_ok=True)
    AutoModelForCausalLM.register(MimoConfig, MimoForCausalLM, exist_ok=True)
