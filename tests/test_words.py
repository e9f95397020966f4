"""One set of words for Python and the browser: same keys, same values, nothing missing, nothing idle.

Sources are read as text. A key counts as used where it stands in quotes, or where a quoted prefix
that ends in a dot stands (`"status." + kind`); such prefixes are for keys made from a value.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz import words
from specviz.words import FOLDER, LANGUAGES, message, names_in, table, tell, word

ROOT = Path(__file__).parents[1]
PYTHON = [*sorted((ROOT / "specviz").rglob("*.py")), ROOT / "app.py"]
SCRIPTS = sorted((ROOT / "assets").glob("*.js"))
PARTS = sorted({path.name.split(".")[0] for path in FOLDER.glob("*.json")})
QUOTED = re.compile(r"""(["'`])((?:\\.|(?!\1).)*)\1""")
KEY = re.compile(r"[a-z_0-9]+(\.[A-Za-z_0-9]+)+")
FILE_ENDS = {"js", "css", "json", "py", "md", "html", "svg", "png", "jsonl", "csv", "gz"}
TWO_WORDS = re.compile(r"[A-Za-z]{2,},? [a-z]{2,}")


def quoted(path: Path) -> set[str]:
    """The texts in quotes of a source file, comments and docstrings left out."""
    source = path.read_text("utf-8")
    if path.suffix == ".js":
        return {text for _, text in QUOTED.findall(without_comments(source))}
    tree = ast.parse(source)
    return {text for node, text in texts_of(tree) if not is_prose(node, tree)}


def texts_of(tree: ast.AST) -> Iterator[tuple[ast.Constant, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def is_prose(node: ast.Constant, tree: ast.AST) -> bool:
    """A string that stands alone as a statement: a docstring."""
    return any(isinstance(n, ast.Expr) and n.value is node for n in ast.walk(tree))


def without_comments(source: str) -> str:
    return re.sub(r"(?m)(^|\s)//.*$", "", re.sub(r"(?s)/\*.*?\*/", "", source))


def all_quoted() -> set[str]:
    return set().union(*map(quoted, [*PYTHON, *SCRIPTS]))


@pytest.fixture(scope="module")
def literals() -> set[str]:
    return all_quoted()


@pytest.mark.parametrize("part", PARTS)
def test_the_two_languages_have_the_same_keys_and_values(part: str) -> None:
    english, chinese = (
        json.loads((FOLDER / f"{part}.{name}.json").read_text("utf-8")) for name in LANGUAGES
    )
    assert sorted(english) == sorted(chinese)
    wrong = {k for k in english if names_in(english[k]) != names_in(chinese[k])}
    assert wrong == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_are_not_empty_and_have_no_stray_brace(language: Any) -> None:
    for key, text in table(language).items():
        rest = words.PLACE.sub("", text)
        assert text.strip(), key
        assert "{" not in rest, key
        assert "}" not in rest, key


def test_chinese_is_chinese() -> None:
    """A sentence of three words or more that was left in English would pass a test of keys alone."""
    same = [k for k, text in table("zh").items() if text == table("en")[k]]
    assert [k for k in same if len(re.findall(r"[A-Za-z]{3,}", table("en")[k])) > 2] == []


def test_every_key_in_the_sources_exists(literals: set[str]) -> None:
    known = set(table("en"))
    spaces = {key.split(".")[0] for key in known}
    asked = {t for t in literals if KEY.fullmatch(t) and t.split(".")[0] in spaces}
    asked = {t for t in asked if t.split(".")[-1] not in FILE_ENDS}
    assert sorted(asked - known) == []


def test_every_key_is_used(literals: set[str]) -> None:
    prefixes = tuple(t for t in literals if re.fullmatch(r"[a-z_0-9]+\.([A-Za-z_0-9]+\.)*", t))
    called = {key.removesuffix(".help"): key for key in table("en")}  # help goes with its label
    idle = [key for name, key in called.items() if not {name, key} & literals]
    assert [key for key in idle if not key.startswith(prefixes)] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_no_sentence_stands_in_a_script(path: Path) -> None:
    found = [t for t in quoted(path) if TWO_WORDS.search(t) and not _is_code(t)]
    assert found == []


def _is_code(text: str) -> bool:
    """Selectors, attribute values and the like: words of a machine, not of a person."""
    is_selector = re.fullmatch(r"[a-z]+(, [a-z]+)+", text)
    return bool(is_selector or re.search(r"[.#\[\]=:>_(){}]|sv-|specviz", text))


def test_a_text_takes_its_values() -> None:
    key = "agree.identical"
    assert word(key, n=1) == "identical to plain for 1 token"
    assert word(key, n=2) == "identical to plain for 2 tokens"
    assert "1" in word(key, "zh", n=1)


def test_messages_nest_and_plain_text_passes() -> None:
    assert tell("as it stands") == "as it stands"
    inner = message("agree.identical", n=3)
    outer = message("page.import_refused", name="x", reason=inner)
    said = "x cannot be shown. identical to plain for 3 tokens"
    assert tell(outer) == tell(json.loads(json.dumps(outer))) == said


def test_a_missing_value_or_key_is_an_error() -> None:
    with pytest.raises(KeyError):
        word("agree.identical")
    with pytest.raises(KeyError):
        word("page.no_such_key_at_all")


@pytest.mark.browser
def test_the_browser_says_what_python_says(chromium: Any) -> None:
    """Every text of both tables, filled alike, on both sides."""
    page = chromium.new_page()
    page.set_content("<p></p>")
    run = "(code) => { (new Function(code + '; globalThis.words = SpecVizWords;'))(); }"
    page.evaluate(run, words.script())
    for language in LANGUAGES:
        cases = [(key, {n: i for i, n in enumerate(sorted(names_in(text)), 1)})
                 for key, text in table(language).items()]  # fmt: skip
        said = page.evaluate(
            "([language, cases]) => { words.choose(language);"
            " return cases.map(([key, values]) => words.word(key, values)); }",
            [language, cases],
        )
        assert said == [word(key, language, **values) for key, values in cases]
    page.close()


def test_a_hint_that_names_a_key_names_its_button_too() -> None:
    """A finger has no R and no right arrow."""
    for language in LANGUAGES:
        for name, move_ in (("draft", "forward"), ("accept", "rejection")):
            button = word(f"stage.move.{move_}", language).lower()
            assert button in word(f"learn.{name}.do", language).lower()
        assert word("page.run", language) in word("page.prompt_hint", language)
