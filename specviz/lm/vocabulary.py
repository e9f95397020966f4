"""Whether two models speak the same tokens. A draft id must mean the same to the target.

Sizes alone prove nothing: heads are padded differently for one tokenizer, and two tokenizers can
have equally many ids. What is compared is the text of each id.
"""

from __future__ import annotations

from typing import Any

MAX_TAIL = 128  # ids one tokenizer may have beyond the other: added tokens, never drafted


def check_same_tokens(target: Any, draft: Any) -> None:
    """ValueError with an example pair if a draft token would not be the target's own."""
    ours, theirs = target.get_vocab(), draft.get_vocab()
    names = {token: name for name, token in ours.items()}
    for name, token in sorted(theirs.items(), key=lambda item: item[1]):
        if token in names and names[token] != name:
            raise ValueError(
                f"The draft model speaks other tokens than the target: id {token} is {name!r} in "
                f"the draft and {names[token]!r} in the target. Choose a draft with the same "
                "tokenizer."
            )
    shared = len(set(ours) & set(theirs))
    if max(len(ours), len(theirs)) - shared > MAX_TAIL:
        raise ValueError(
            f"The draft's tokenizer has {len(theirs):,} tokens and the target's {len(ours):,}, of "
            f"which they share {shared:,}. Choose a draft with the same tokenizer."
        )
