"""Every sentence of the page, and its example prompts. No logic, no layout."""

from __future__ import annotations

from typing import NamedTuple

TITLE = "SpecViz"
PURPOSE = (
    "Speculative decoding as it happens: cheap drafts, one check by the big model, several tokens "
    "per pass, every round drawn from what a real engine did."
)
DEFAULT_PROMPT = "Explain how rainbows form, step by step."


class Example(NamedTuple):
    title: str
    prompt: str


EXAMPLES = (
    Example("Chat", DEFAULT_PROMPT),
    Example("Code", "Write a Python function that returns the n-th Fibonacci number with a loop."),
    Example(
        "Copying",
        "Copy this text exactly, twice: The lighthouse on the cliff turns its lamp at dusk. "
        "The lamp on the cliff warns the ships at dusk. The ships turn at dusk.",
    ),
    Example("List", "List the planets from the sun outwards, one per line, each with one fact."),
    Example(
        "Maths",
        "A train covers 60 km in its first hour and 45 km in its second. "
        "What is its average speed? Show each step.",
    ),
    Example("Prose", "Write a short story about a lighthouse keeper who finds a letter."),
)

PROMPT_LABEL = "Prompt"
PROMPT_HINT = "Ask the model something. Shift+Enter runs it."
RUN = "Run"
STOP = "Stop"
TARGET_LABEL = "Target: the model whose text you get"
LANES_LABEL = "Lanes: each decodes the same prompt, drafting in its own way"
NO_PLAIN_LANE = (
    "Without the plain lane there is no 1× line: speed-ups and the check for identical text "
    "need it in the same run."
)
SETTINGS_LABEL = "Settings: sampling, length, drafters"

TEMPERATURE_LABEL = "Temperature"
TEMPERATURE_HELP = "0 always takes the likeliest token; 1 samples as the model was trained."
TOP_K_LABEL = "Top-k"
TOP_K_HELP = "Keep the k likeliest tokens. 0 keeps all."
TOP_P_LABEL = "Top-p"
TOP_P_HELP = "Keep the smallest set of tokens whose probabilities reach this. 1 keeps all."
MIN_P_LABEL = "Min-p"
MIN_P_HELP = "Drop tokens below this share of the likeliest one. 0 drops none."
PENALTY_LABEL = "Repetition penalty"
PENALTY_HELP = "Above 1 makes tokens already in the text less likely. 1 is off."
RULE_LABEL = "Verification rule"
RULE_HELP = (
    "Rejection: keep a draft with probability min(1, p/q). Coupled: all lanes share their luck, "
    "so every lane writes the same text at any temperature. Both are exact."
)
RULE_CHOICES = (("Rejection sampling", "rejection"), ("Coupled sampling", "coupled"))
PRECISION_LABEL = "Precision"
PRECISION_HELP = (
    "Rounding can turn a near-tie when the number of rows in a pass changes. "
    "float32 is the exact reference, and slower."
)
PRECISION_CHOICES = (("Automatic", "auto"), ("float32, exact reference", "float32"))
BUDGET_LABEL = "New tokens, at most"
BUDGET_HELP = "The answer ends here unless the model stops first."
SEED_LABEL = "Seed"
SEED_HELP = "The same seed gives the same run."
FORM_LABEL = "Prompt form"
FORM_HELP = "Chat wraps the prompt as a question to the assistant; raw continues it as it stands."
FORM_CHOICES = (("Chat", True), ("Raw text", False))
STOP_STRINGS_LABEL = "Stop strings"
STOP_STRINGS_HELP = "One per line; the answer ends at the first that appears."

RECORDED_LABEL = "Recorded runs"
METHODS_LABEL = "What each lane does, and where it comes from"

SENDING = "Sending your run to the engine."
STOPPED = "Stopped. Everything up to here stays on the stage."
LOST = "The server has been silent for {seconds} seconds, so this run counts as interrupted."
REFUSED = "The server did not take this run: too many visitors are waiting. Try again in a minute."
CRASHED = (
    "The run ended with an internal error ({kind}). What was produced stays on the stage; "
    "the server's log has the details."
)
NO_SUCH_RECORDING = "There is no recorded run of that name; choose one from the list."
LIVE = "Live"
RECORDED = "Recorded {date} on {machine}"
UNREADABLE = "The recorded run {name} cannot be shown: {reason}"

MODEL_STARTING = "Preparing the model."
MODEL_READY = "The model is ready."

_API_FIELDS = (
    "settings may hold any of: lanes (a list of drafter names; all by default), knobs (a drafter's "
    "name to its settings), target, is_chat, temperature, top_k, top_p, min_p, "
    "repetition_penalty, verification (rejection or coupled), precision (auto, bfloat16 or float32), "
    "max_new_tokens, seed, stop_strings (a list)."
)
RUN_API = (
    "Run a prompt and stream what the page's stage receives: JSON envelopes numbered by seq, each "
    f"with the items that are new; the one with last true ends the run. {_API_FIELDS} A value out "
    "of range gives one envelope whose failure item says what was expected."
)
TRACE_API = (
    "Run a prompt and return its whole trace as JSON Lines, the format the app records and "
    f"replays; until it is complete the answer is empty. {_API_FIELDS}"
)
