"""The words of `train`: `data`, and one command for each method that has a recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

from specviz.presets import DEFAULT_TARGET

TARGET_HELP = "a target by name (see `models`), or the folder of a Llama-like checkpoint"
DEFAULT_PROMPTS = 16_000


def add_train(words: argparse.ArgumentParser) -> None:
    from specviz.train.recipes import DEFAULT_BATCH_TOKENS, RECIPES

    words.description = (
        "Train drafters for a target: first `data`, the corpus all methods learn from, then any of "
        "the methods. Every command goes on where it stopped."
    )
    kinds = words.add_subparsers(dest="train", required=True, metavar="WHAT")
    _add_data(kinds.add_parser("data", help="prompts, the target's answers, its hidden states"))
    for method, recipe in RECIPES.items():
        _add_method(kinds.add_parser(method, help=recipe.title), recipe.how, DEFAULT_BATCH_TOKENS)


def _add_data(words: argparse.ArgumentParser) -> None:
    words.description = (
        "Make a corpus: prompts of many kinds, answered by the target itself, and the hidden states "
        "drafters learn from. It takes hours on a CPU and 4.6 kB a token on disk for the default "
        "target. Ctrl-C loses the shards under way; the same command goes on."
    )
    _add_target(words)
    words.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="of the corpus")
    words.add_argument(
        "--prompts",
        type=_count,
        default=DEFAULT_PROMPTS,
        metavar="N",
        help="to answer; a corpus may grow later (default: %(default)s, some 2 million tokens)",
    )
    words.add_argument(
        "--workers",
        type=_count,
        metavar="N",
        help="processes side by side, each with the target (default: one per core, one on a GPU)",
    )
    _add_seed(words)


def _add_method(words: argparse.ArgumentParser, how: str, batch_tokens: int) -> None:
    words.description = (
        f"{how} Ends with the drafter in --out: weights, config, provenance, model card."
    )
    _add_target(words)
    words.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="what `train data` wrote"
    )
    words.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="of the trained drafter"
    )
    words.add_argument(
        "--state", type=Path, metavar="FOLDER", help="of the training (default: OUT/training)"
    )
    words.add_argument(
        "--steps", type=_count, metavar="N", help="of all phases together; or use --epochs"
    )
    words.add_argument(
        "--epochs",
        type=_positive,
        metavar="N",
        help="passes over the corpus (default: the recipe's)",
    )
    words.add_argument(
        "--learning-rate",
        type=_positive,
        metavar="RATE",
        help="at its peak (default: the recipe's)",
    )
    words.add_argument(
        "--batch-tokens",
        type=_count,
        default=batch_tokens,
        metavar="N",
        help="of a step, padding included (default: %(default)s)",
    )
    words.add_argument(
        "--vocab-size",
        type=_count,
        metavar="N",
        help="tokens drafters guess from, chosen at a corpus's first training (default: 8192)",
    )
    words.add_argument(
        "--from",
        dest="continued",
        type=Path,
        metavar="CHECKPOINT",
        help="start from this drafter, ours or a published one, instead of anew",
    )
    words.add_argument(
        "--first-phase",
        type=_count,
        default=1,
        metavar="N",
        help="of the recipe; a later one needs --from a drafter that has been through those before "
        "it (default: %(default)s)",
    )
    words.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the network, such as num_layers=4; repeatable",
    )
    words.add_argument("--threads", type=_count, metavar="N", help="of torch on a CPU")
    words.add_argument(
        "--export-only",
        action="store_true",
        help="train no further: write the drafter from the state there is",
    )
    _add_seed(words)


def _add_target(words: argparse.ArgumentParser) -> None:
    words.add_argument(
        "--target", default=DEFAULT_TARGET.name, metavar="NAME|FOLDER", help=TARGET_HELP
    )


def _add_seed(words: argparse.ArgumentParser) -> None:
    words.add_argument(
        "--seed", type=int, default=0, metavar="N", help="same seed, same result (default: 0)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value
