"""The model card of a trained drafter, written from its provenance alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specviz.config import PLAIN_DRAFTER
from specviz.train.course import Course


def card(course: Course, provenance: dict[str, Any], num_parameters: int) -> str:
    """Markdown: what it is, how it was trained, on what, its figures, limits, licence, use."""
    sections = (
        ("", _what(course, provenance, num_parameters)),
        ("How it was trained", _how(course, provenance)),
        ("Data", _data(provenance)),
        ("Figures", _figures(provenance)),
        ("Limits", _limits(course)),
        (
            "Licence",
            [f"The target's own: {course.order.spec.licence}."],
        ),
        ("Use", _use(course)),
    )
    written = [
        "\n".join([*([f"## {title}", ""] if title else []), *lines]) for title, lines in sections
    ]
    return "\n\n".join(written) + "\n"


def _what(course: Course, provenance: dict[str, Any], num_parameters: int) -> Iterator[str]:
    spec, recipe = course.order.spec, course.recipe
    lanes = " and ".join(f"`{name}`" for name in recipe.drafters)
    vocab = provenance["draft_vocabulary"]
    judge = "tuned model that belongs to it" if course.order.method == "mtp" else "target"
    yield f"# {recipe.title} for {spec.title}"
    yield ""
    yield (
        f"A drafter for speculative decoding: it guesses what {spec.title} will write, and the "
        f"{judge} checks the guesses, so the text stays that model's own. Weights of {lanes} in "
        f"SpecViz: {num_parameters / 1e6:.1f} million parameters in bfloat16. It guesses from "
        f"{vocab['size']:,} of the target's tokens, which are {vocab['coverage']:.1%} of the answer "
        "tokens it was trained on."
    )


def _how(course: Course, provenance: dict[str, Any]) -> Iterator[str]:
    yield course.recipe.how
    lineage = _lineage(provenance)
    if origin := lineage[0]["continued_from"]:
        yield f"Training went on from `{origin['name']}`, of which no provenance is known."
    if num_before := sum(len(each["phases"]) for each in lineage[:-1]):
        first = f"first {num_before} phases" if num_before > 1 else "first phase"
        yield f"The {first} made the checkpoint that the last training went on from."
    yield ""
    yield "| phase | steps | answer tokens seen | learning rate | batch tokens | training time |"
    yield "|---|---|---|---|---|---|"
    for number, phase in enumerate((p for each in lineage for p in each["phases"]), 1):
        schedule = phase["schedule"]
        yield (
            f"| {number} | {phase['steps']:,} | {phase['answer_tokens_seen']:,} "
            f"| {schedule['learning_rate']:g} | {schedule['batch_tokens']:,} "
            f"| {_duration(phase['seconds'])} |"
        )
    yield ""
    yield f"On {provenance['machine']}. Command, commit, versions and seed: `provenance.json`."


def _lineage(provenance: dict[str, Any]) -> list[dict[str, Any]]:
    """This training and those it went on from, the oldest first."""
    before = (provenance["continued_from"] or {}).get("provenance")
    return [*(_lineage(before) if before else ()), provenance]


def _data(provenance: dict[str, Any]) -> Iterator[str]:
    corpus = provenance["corpus"]
    yield (
        f"{corpus['examples']:,} answers of the target itself, greedy and sampled, to prompts of "
        f"SpecViz's own making: {corpus['answer_tokens']:,} answer tokens. {corpus['held_out']:,} of "
        "them, chosen by a hash of the prompt, are held out. No benchmark's prompts are among them. "
        f"The corpus is not shipped; its recipe is, and its SHA-256 is `{corpus['sha256'][:16]}…`."
    )
    yield ""
    yield "| kind | answer tokens |"
    yield "|---|---|"
    for kind, count in corpus["answer_tokens_by_kind"].items():
        yield f"| {kind} | {count:,} |"


def _figures(provenance: dict[str, Any]) -> Iterator[str]:
    held_out = provenance["held_out"]
    yield (
        f"Simulated on {held_out['places']:,} places of held-out greedy answers: the guesses are "
        "compared with what the target says there, without decoding. They are not speeds; "
        "`python -m specviz bench run` measures those. tau counts the target's own token."
    )
    yield ""
    yield "| depth | first guess right, if all before it were |"
    yield "|---|---|"
    for depth, rate in enumerate(held_out["conditional"], 1):
        yield f"| {depth} | {rate:.3f} |"
    yield ""
    yield f"- tau of a chain of {len(held_out['conditional'])}: {held_out['chain_tau']:.2f}"
    yield f"- tau of the best static tree of {held_out['tree_rows']} rows: {held_out['tree_tau']:.2f}"


def _limits(course: Course) -> Iterator[str]:
    yield (
        f"It fits {course.order.spec.title} alone: loading checks sizes and tokenizer. Outside the "
        "kinds of text above, in other languages and at high temperatures it should be expected to guess "
        "less well; that costs speed, never correctness."
    )
    if course.order.method == "mtp":
        yield (
            "The target itself is tuned here: its lane writes what the tuned model writes, and is "
            "compared with a plain lane of the tuned model."
        )


def _use(course: Course) -> Iterator[str]:
    method, spec = course.order.method, course.order.spec
    target = "" if not spec.path else " --target FOLDER"
    lanes = ",".join((PLAIN_DRAFTER, *course.recipe.drafters))
    yield f"With this folder as `drafters/{method}`:"
    yield ""
    yield "```sh"
    yield (
        f'python -m specviz run "Why is the sky blue?"{target} --drafters drafters --lanes {lanes}'
    )
    yield "```"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "not recorded"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
