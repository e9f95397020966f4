"""Is a folder's tokenizer the one it should be? Asked once, when a checkpoint has been fetched."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer

from specviz.presets import TokenizerFacts


def check_tokenizer(folder: Path, facts: TokenizerFacts) -> None:
    """Raise ValueError, with the first fact that does not hold, unless all of `facts` do."""
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    eos = (tokenizer.eos_token, tokenizer.eos_token_id)
    if eos != (facts.eos_token, facts.eos_id):
        raise ValueError(f"The tokenizer's end of text is {eos}.")
    for text, expected in facts.encodings:
        ids = tuple(tokenizer(text, add_special_tokens=False).input_ids)
        if ids != expected:
            raise ValueError(f"The tokenizer reads {text!r} as {ids}; expected {expected}.")
        if tokenizer.decode(ids) != text:
            raise ValueError(f"The tokenizer turns {text!r} into {tokenizer.decode(ids)!r}.")
    if not tokenizer.chat_template:
        raise ValueError("The tokenizer has no chat template.")
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    )
    ids = tuple(tokenizer(chat, add_special_tokens=False).input_ids)
    if ids != facts.chat_of_hi:
        raise ValueError(f"The chat template turns 'Hi' into {chat!r}, which is not expected.")
