"""Prompts of many kinds, of our own making: for training, never for evaluation.

Three sources, none of which needs a network: templates filled with subjects and numbers, texts
the target wrote earlier with a question about them, and user turns the target makes up itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from specviz.train import german
from specviz.train import prompt_parts as parts


@dataclass(frozen=True, slots=True)
class Prompt:
    kind: str  # what it asks for, for the report and the balance
    text: str


def made_prompts(count: int, seed: int, passages: Sequence[str]) -> list[Prompt]:
    """`count` different prompts, their kinds in fixed shares. Without passages, none about them."""
    random, found = Random(seed), dict[str, Prompt]()
    kinds = [kind for kind in SHARES if passages or kind not in PASSAGE_KINDS]
    weights = [SHARES[kind] for kind in kinds]
    for _ in range(20 * count):  # templates repeat themselves now and then
        kind = random.choices(kinds, weights)[0]
        text = MAKERS[kind](random, passages)
        found.setdefault(text, Prompt(kind, text))
        if len(found) == count:
            break
    return list(found.values())


def passage_prompts(count: int, seed: int) -> list[Prompt]:
    """Prompts whose answers are texts that later prompts ask about."""
    random, found = Random(seed), dict[str, Prompt]()
    for _ in range(20 * count):
        text = random.choice(PASSAGES).format(**_words(random))
        found.setdefault(text, Prompt("prose", text))
        if len(found) == count:
            break
    return list(found.values())


def _words(random: Random) -> dict[str, str | int]:
    first, second = random.sample(parts.SUBJECTS, 2)
    name, other = random.sample(parts.PEOPLE, 2)
    return {
        "subject": first,
        "second": second,
        "name": name,
        "other": other,
        "place": random.choice(parts.PLACES),
        "role": random.choice(parts.ROLES),
        "audience": random.choice(parts.AUDIENCES),
        "thing": random.choice(parts.THINGS),
        "task": random.choice(parts.CODE_TASKS),
        "language": random.choice(parts.LANGUAGES),
        "few": random.randint(3, 12),
        "some": random.randint(11, 60),
        "many": random.randint(61, 400),
        "percent": random.choice((5, 10, 15, 20, 25, 30, 40, 50)),
        "year": random.randint(1750, 2020),
    }


def _from(templates: Sequence[str]) -> Callable[[Random, Sequence[str]], str]:
    return lambda random, _: random.choice(templates).format(**_words(random))


def _translation(random: Random, _: Sequence[str]) -> str:
    if random.random() < 0.15:
        language = random.choice(("German", *parts.FOREIGN))
        return f"Translate into {language}: {random.choice(parts.ENGLISH)}"
    language = random.choices(("German", *parts.FOREIGN), (12, 2, 2, 1))[0]
    if language == "German":
        text = german.sentences(random)
    else:
        text = " ".join(random.sample(parts.FOREIGN[language], random.choice((1, 1, 2, 3))))
    return random.choice(TRANSLATIONS).format(language=language, text=text)


def _text(random: Random, passages: Sequence[str]) -> str:
    """One passage, or several in a row: people ask about articles as well as about notes."""
    return "\n\n".join(random.choices(passages, k=random.choice(PASSAGE_COUNTS)))


def _about_passage(templates: Sequence[str]) -> Callable[[Random, Sequence[str]], str]:
    def make(random: Random, passages: Sequence[str]) -> str:
        texts = [_text(random, passages) for _ in range(2)]
        return random.choice(templates).format(passage=texts[0], more=texts[1], **_words(random))

    return make


PASSAGE_COUNTS = (1, 1, 1, 2, 3)
PASSAGES = (
    "Write a short encyclopedia article about {subject}.",
    "Write a news report of about 150 words that mentions {subject} and {second}.",
    "Write a report in a local newspaper: {name} opened a shop for {thing} near {place}.",
    "Write a blog post of three paragraphs about {subject}.",
    "Write a short story in which {name} and {other} meet in {place}.",
    "Write an email in which {name} tells {other} about {subject}.",
    "Write a product review of {some} words or more about {thing}.",
    "Describe the history of {subject} in about 150 words.",
)
TRANSLATIONS = (
    "Translate {language} to English: {text}",
    "Translate this {language} text into English.\n\n{text}",
    "What does this {language} sentence mean in English? {text}",
)
SUMMARIES = (
    "Summarize: {passage}",
    "Summarize the following text in {few} sentences.\n\n{passage}",
    "{passage}\n\nWhat are the main points of this text?",
    "Give this text a title and shorten it to one paragraph:\n\n{passage}",
    "TL;DR\n\n{passage}",
)
REWRITES = (
    "Correct any mistakes in this text and write it out again:\n\n{passage}",
    "Rewrite this text for {audience}:\n\n{passage}",
    "Copy this text and replace every mention of {subject} by {second}:\n\n{passage}",
    "List all names, places and numbers in this text as JSON.\n\n{passage}",
    "Make this text friendlier:\n\n{passage}",
)
READINGS = (
    "Text 1: {passage}\n\nText 2: {more}\n\nUsing these texts, what can be said about {subject}?",
    "Answer from the text alone.\n\nText: {passage}\n\nQuestion: Who is mentioned, and why?",
    "Context: {passage}\n\nContext: {more}\n\nQuestion: what happened first?\nAnswer:",
    "{passage}\n\nWrite three questions about this text and answer them.",
    "Read this and explain why it matters.\n\n{passage}",
)
FACTS = (
    "What is the most important thing to know about {subject}?",
    "Explain {subject} to {audience}.",
    "How does {subject} affect everyday life?",
    "Who first studied {subject}, and when?",
    "What is the difference between {subject} and {second}?",
    "Why do people care about {subject}?",
    "when did {subject} become popular",
    "where does the word for {subject} come from",
    "Is it true that {subject} changed in {year}?",
    "Describe how {subject} and {second} are connected.",
    "What are common misunderstandings about {subject}?",
    "Give a detailed explanation of how {subject} came to be what it is today.",
)
LISTS = (
    "List {few} facts about {subject}.",
    "Give me {few} tips for learning about {subject}.",
    "What are the advantages and disadvantages of {subject}?",
    "Make a table that compares {subject} and {second}.",
    "Write a step-by-step guide to understanding {subject}.",
    "Suggest {few} titles for a book about {subject} and {second}.",
    "Make a packing list for a week in {place}.",
    "Write {few} quiz questions about {subject} with answers.",
    "Plan a lesson about {subject} for {audience}, point by point.",
)
PROSE = (
    "Write a story about {name}, who finds {thing} in {place}.",
    "Write a poem about {subject}.",
    "Write a persuasive essay about {subject}.",
    "Describe {place} so that the reader can smell it.",
    "Write the opening of a novel set in {place} in {year}.",
    "Write a speech for {audience} about {subject}.",
    "Write a diary entry of {name} after a day in {place}.",
    "Write a formal email: {name} asks {other} for {some} {thing}.",
    "Discuss the role of {subject} in the history of {second}.",
)
CHAT = (
    "Pretend to be {role}. Introduce yourself and say something about {subject}.",
    "You are {role}. {name} asks you about {subject}. What do you answer?",
    "I am bored and I am in {place}. What should I do?",
    "My friend {name} forgot my birthday. How should I talk about it?",
    "Hi! Can you help me understand {subject}?",
    "I have {few} hours to learn about {subject}. Where do I start?",
    "What would {role} think about {subject}?",
    "Should I buy {thing} or save the money?",
    "Write a dialogue between {role} and {name} about {subject}.",
)
CODE = (
    "Write a {language} function that {task}.",
    "Write a {language} program that {task}. Explain how it works.",
    "Show me how to write code in {language} that {task}, with an example of its use.",
    "Write a Python class with a method that {task}, and tests for it.",
    "In {language}, what is the simplest code that {task}?",
    "Fix this: my {language} function {task}, but it is too slow for {many} items.",
    "Write a regular expression in {language} that finds the {thing} in a text.",
    "Design a database table for {thing} and write {few} SQL queries on it.",
)
MATHS = (
    "{name} has {some} {thing} and buys {few} more every day. How many after {few} days?",
    "A shop sells {thing} at ${few} each. {name} pays with ${many}. How many can {name} buy?",
    "{name} shares {many} {thing} equally among {few} friends. How many are left over?",
    "A train travels {many} km in {few} hours. What is its average speed?",
    "What is {percent}% of {many}? Show your work.",
    "{name} reads {some} pages a day. The book has {many} pages. How many days does it take?",
    "Solve for x: {few}x + {some} = {many}",
    "{name} is {few} years older than {other}. Together they are {some}. How old is each?",
    "The price of {many} dollars falls by {percent}% and then rises by {percent}%. What is it now?",
    "A rectangle is {few} m wide and {some} m long. What are its area and perimeter?",
    "{name} earns ${some} an hour and works {few} hours a day, five days a week. {other} earns "
    "{percent}% more. How much do they earn together in a week?",
    "If {few} machines make {few} {thing} in {few} minutes, how long do {many} machines need for "
    "{many} {thing}?",
    "Compute {many} times {few} plus {some}.",
)
REASONING = (
    "{name} is taller than {other}, and {other} is taller than Max. Who is the shortest? Why?",
    "All {thing} in the box are red. {name} takes one from the box. What colour is it?",
    "Which word does not belong: {subject}, {second}, {thing}? Explain.",
    "{name} says that {subject} cause {second}. How could one test this claim?",
    "What would happen if there were no {subject}?",
    "Find the next number: {few}, {some}, {many}. Explain your reasoning.",
)
MAKERS: dict[str, Callable[[Random, Sequence[str]], str]] = {
    "facts": _from(FACTS),
    "list": _from(LISTS),
    "prose": _from(PROSE),
    "chat": _from(CHAT),
    "code": _from(CODE),
    "maths": _from(MATHS),
    "reasoning": _from(REASONING),
    "translation": _translation,
    "summary": _about_passage(SUMMARIES),
    "rewriting": _about_passage(REWRITES),
    "reading": _about_passage(READINGS),
}
PASSAGE_KINDS = ("summary", "rewriting", "reading")
SHARES = {
    "facts": 15, "list": 7, "prose": 9, "chat": 7, "code": 9, "maths": 15, "reasoning": 5,
    "translation": 12, "summary": 10, "rewriting": 3, "reading": 10,
}  # fmt: skip
