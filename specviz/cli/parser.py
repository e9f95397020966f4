"""The words of the command line. What they do stands in the command's own file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from specviz.bench.prompts import OWN_PROMPTS
from specviz.cli import BAD_INPUT
from specviz.cli.train_words import add_train
from specviz.config import MAX_NEW_TOKENS_LIMIT, PLAIN_DRAFTER, PRECISIONS, LaneSpec, Request
from specviz.presets import DEFAULT_TARGET

DEFAULTS = Request("-", (LaneSpec(PLAIN_DRAFTER),))
PURPOSE = "Speculative decoding on real models, every round recorded as it happened."
EXAMPLES = """examples:
  python -m specviz run "Why is the sky blue?" --lanes autoregressive,lookahead --out race.jsonl.gz
  python -m specviz run "Count to ten" --lanes draft_model:num_draft_tokens=4:is_adaptive=on
  python -m specviz replay race.jsonl.gz
  python -m specviz train data --target ~/models/my-model --out my-corpus
  python -m specviz train eagle3 --target ~/models/my-model --data my-corpus --out drafters/eagle3
"""
LANES_HELP = (
    "drafters, separated by commas; a drafter's knobs follow it, each as :NAME=VALUE, so one "
    "drafter can run in two lanes: draft_model:num_draft_tokens=2,draft_model:num_draft_tokens=6. "
    "`models` lists drafters and knobs"
)
RAW_HELP = "continue the prompt as it stands, without chat template"
TARGET_HELP = (
    "a target by name (see `models`), the folder of a transformers checkpoint, or a repository of "
    "the Hub as owner/name"
)


class Parser(argparse.ArgumentParser):
    """Complains in one sentence, without the usage around it."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{message.rstrip('.')}. See {self.prog} --help.\n")


def parser() -> Parser:
    words = Parser(
        prog="python -m specviz",
        description=PURPOSE,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = words.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="decode one prompt in one or more lanes"))
    _add_replay(commands.add_parser("replay", help="show a recorded run: no torch, no model"))
    _add_bench(commands.add_parser("bench", help="measure on this machine"))
    add_train(commands.add_parser("train", help="train a drafter for a target, on its own answers"))
    commands.add_parser("models", help="list what can be run here, and how")
    return words


def _add_run(words: argparse.ArgumentParser) -> None:
    words.description = "Decode one prompt in one or more lanes on one device, as a fair race."
    words.add_argument("prompt", help="the prompt, or - to read it from standard input")
    words.add_argument("--lanes", default="autoregressive,draft_model", help=LANES_HELP)
    words.add_argument("--out", type=Path, metavar="FILE", help="record here (.jsonl, .jsonl.gz)")
    _add_models(words)
    words.add_argument("--raw", action="store_true", help=RAW_HELP)
    words.add_argument(
        "--max-new-tokens",
        type=int,
        default=DEFAULTS.max_new_tokens,
        metavar="N",
        help=f"the answer ends here at the latest (1 to {MAX_NEW_TOKENS_LIMIT}; "
        "default: %(default)s)",
    )
    _add_adaptive(words)
    words.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end at this text; repeatable"
    )
    _add_sampling(words)
    _add_server(words)


def _add_server(words: argparse.ArgumentParser) -> None:
    group = words.add_argument_group("somebody else's server")
    group.add_argument(
        "--server",
        metavar="URL",
        help="ask this OpenAI-compatible server (vLLM, SGLang or llama.cpp, speculating on its own) "
        "and tell what can be seen of it; $SPECVIZ_SERVER_KEY is sent as its key",
    )
    group.add_argument(
        "--model", default="", metavar="NAME", help="the server's model (default: its first)"
    )


def _add_models(words: argparse.ArgumentParser) -> None:
    words.add_argument(
        "--target", default=DEFAULT_TARGET.name, metavar="NAME|FOLDER", help=TARGET_HELP
    )
    words.add_argument(
        "--draft",
        metavar="FOLDER|OWNER/NAME",
        help="a checkpoint of your own to draft with, or a repository of the Hub",
    )
    words.add_argument(
        "--drafters",
        action="append",
        default=[],
        metavar="[METHOD=]PLACE",
        help="trained drafters of your own: a folder with one for each method in it, a drafter's own "
        "folder or weight file, or a repository of the Hub as owner/name; repeatable",
    )
    words.add_argument(
        "--precision",
        choices=PRECISIONS,
        default=DEFAULTS.precision,
        help="float32 is the exact reference, and slower; int8, nf4 and fp4 keep a large target's "
        "layers in fewer bits (default: %(default)s)",
    )


def _add_adaptive(words: argparse.ArgumentParser) -> None:
    words.add_argument(
        "--adaptive-budget",
        action="store_true",
        help="a tree's budget that no knob sets becomes the width where the next row stops paying, "
        "by what reads of several rows cost on this machine",
    )


def _add_sampling(words: argparse.ArgumentParser) -> None:
    group = words.add_argument_group("sampling")
    for name, kind, meaning in (
        ("temperature", float, "0 always takes the likeliest token"),
        ("top_k", int, "keep the k likeliest tokens; 0 keeps all"),
        ("top_p", float, "keep the smallest set of tokens of this probability; 1 keeps all"),
        ("min_p", float, "drop tokens below this share of the likeliest; 0 drops none"),
        ("repetition_penalty", float, "above 1 makes tokens of the text less likely; 1 is off"),
    ):
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            default=getattr(DEFAULTS.sampling, name),
            metavar="N",
            help=f"{meaning} (default: %(default)s)",
        )
    group.add_argument(
        "--verification",
        choices=("rejection", "coupled"),
        default=DEFAULTS.verification,
        help="rejection sampling, or coupled sampling, where all lanes write the same text at any "
        "temperature (default: %(default)s)",
    )
    _add_seed(group)


def _add_seed(words: argparse._ActionsContainer) -> None:
    words.add_argument(
        "--seed",
        type=int,
        default=DEFAULTS.seed,
        metavar="N",
        help="same seed, same run (default: %(default)s)",
    )


def _add_replay(words: argparse.ArgumentParser) -> None:
    words.description = "Show the text and the summary of a recorded run. Needs no torch."
    words.add_argument("file", type=Path, metavar="FILE", help="a trace, gzipped or not")


def _add_bench(words: argparse.ArgumentParser) -> None:
    kinds = words.add_subparsers(dest="bench", required=True, metavar="WHAT")
    engine = kinds.add_parser(
        "engine", help="plain decoding, reads of several rows, the trace's cost"
    )
    engine.description = (
        "Measure the engine alone, in one process with everything interleaved: plain decoding "
        "against transformers' generate, reads of several rows against one, what recording costs, "
        "and how many rows of a tree read equal one-row decoding bit for bit. Run it on an idle "
        "machine. The last line of the output is one JSON document."
    )
    engine.add_argument(
        "--target", default=DEFAULT_TARGET.name, metavar="NAME|FOLDER", help=TARGET_HELP
    )
    engine.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes; too few rounds to quote"
    )
    _add_bench_run(kinds.add_parser("run", help="drafters against plain decoding on many prompts"))
    _add_bench_compare(kinds.add_parser("compare", help="two reports of `bench run`"))
    _add_bench_gpu(kinds.add_parser("gpu", help="the engine on a GPU, on weights it makes itself"))


def _add_bench_run(words: argparse.ArgumentParser) -> None:
    words.description = (
        "Decode many prompts greedily in several lanes, each alone, interleaved prompt by prompt, "
        "and compare each with plain decoding, which is always measured too. Run it on an idle "
        "machine. Ctrl-C keeps what was measured: with --out, the same command goes on from there. "
        "The last line of the output is one JSON document."
    )
    words.add_argument(
        "--prompts",
        type=Path,
        default=OWN_PROMPTS,
        metavar="FILE",
        help="JSON Lines: `turns` (the first is used) or `prompt`; `category` and `id` or "
        "`question_id` if there are any (default: SpecViz's own, seven categories of twelve)",
    )
    words.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="so many prompts, balanced over their categories; the same on every machine",
    )
    words.add_argument(
        "--budget",
        type=int,
        default=DEFAULTS.max_new_tokens,
        metavar="TOKENS",
        help="an answer ends here at the latest (default: %(default)s)",
    )
    words.add_argument(
        "--lanes",
        default="all",
        help=f"all: every drafter that can run on the target (the default); or {LANES_HELP}",
    )
    _add_models(words)
    words.add_argument("--raw", action="store_true", help=RAW_HELP)
    _add_seed(words)
    words.add_argument(
        "--out",
        type=Path,
        metavar="REPORT.json",
        help="write the document here; until it is whole, what was measured is kept beside it",
    )
    words.add_argument(
        "--peers",
        action="store_true",
        help="also measure transformers in this process on the same weights: generate, its assisted "
        "generation and its prompt lookup, with as many drafts as the lanes have",
    )
    words.add_argument(
        "--csv", type=Path, metavar="FILE", help="write a line for each prompt and lane here"
    )
    words.add_argument(
        "--markdown", action="store_true", help="print the tables as Markdown, for a README"
    )


def _add_bench_gpu(words: argparse.ArgumentParser) -> None:
    words.description = (
        "Measure what the engine makes of a GPU, within eight minutes and without a network, on "
        "models with random weights in the shape of real ones: captured passes against the plain "
        "path, the share of bandwidth that plain decoding reaches, what reads of several rows cost, "
        "and what a round costs at a stated acceptance. Run it on an idle machine. The last line of "
        "the output is one JSON document."
    )
    words.add_argument(
        "--miniature", action="store_true", help="tiny models, in seconds, on a CPU too"
    )
    words.add_argument("--out", type=Path, metavar="REPORT.json", help="write the document here")


def _add_bench_compare(words: argparse.ArgumentParser) -> None:
    words.description = (
        "Put two reports side by side that `bench run --out` wrote: what differs between them, and "
        "each lane's tau, speed-up and the ratio of B to A over the prompts both measured. Nothing "
        "is measured. The last line of the output is one JSON document."
    )
    words.add_argument("a", type=Path, metavar="A.json", help="the report that is compared with")
    words.add_argument("b", type=Path, metavar="B.json", help="the report that is compared")
    words.add_argument("--markdown", action="store_true", help="print the table as Markdown")
