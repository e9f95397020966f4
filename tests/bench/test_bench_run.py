"""`bench run` as a command: a tiny model through the live session, and how it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from specviz.__main__ import main
from specviz.bench.records import PartialFile, Record
from tests.models import tiny_folder

ROOT = Path(__file__).parents[2]
PROMPTS = [
    {"turns": ["Repeat: one, two, three, four. one, two,"], "category": "copying"},
    {"prompt": "The quick brown fox", "category": "prose"},
    {"prompt": "word " * 600, "category": "prose", "question_id": "long"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def words(folder: Path, tmp_path: Path) -> list[str]:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("\n".join(map(json.dumps, PROMPTS)), encoding="utf-8")
    lanes = "prompt_lookup,prompt_lookup:max_ngram=2"
    facts = {"prompts": prompts, "target": folder, "lanes": lanes, "out": tmp_path / "report.json"}
    facts |= {"budget": 12, "precision": "float32"}
    return [
        "bench",
        "run",
        *(str(w) for name, value in facts.items() for w in (f"--{name}", value)),
    ]


def test_a_benchmark_from_prompts_to_report(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    told = capsys.readouterr()
    document = json.loads(told.out.splitlines()[-1])
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == document
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prompts.jsonl", "report.json"]
    changed = "prompt_lookup (max_ngram=2)"
    assert list(document["lanes"]) == ["autoregressive", "prompt_lookup", changed]
    for lane in document["lanes"].values():
        assert (lane["prompts"], lane["identical"], lane["tokens"]) == (2, 2, 24)
        assert lane["speedup"] > 0
    assert document["lanes"]["autoregressive"]["tau"] == 1.0
    assert document["lanes"][changed]["knobs"]["max_ngram"] == 2
    (skipped,) = document["skipped"]
    assert skipped["prompt"] == "long"
    assert "Shorten the prompt" in skipped["reason"]
    assert f"Prompt long is skipped: {skipped['reason']}" in told.err
    assert "9/9" in told.err  # the bar came to its end
    assert "prompt_lookup (max_ngram=2)  " in told.out


def test_markdown_is_printed_and_csv_written_on_request(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    changes = ["--limit", "1", "--markdown", "--lanes", "autoregressive", "--csv", str(table)]
    assert main([*words, *changes]) == 0
    told = capsys.readouterr().out
    assert "\n| autoregressive | 1.00 | 1.00x (1.00 to 1.00) |" in told
    assert json.loads(told.splitlines()[-1])["prompts"] == 1
    header, line = table.read_text(encoding="utf-8").splitlines()
    assert header.startswith("prompt,category,lane,baseline,tokens,")
    assert line.startswith("line 1,copying,autoregressive,autoregressive,12,12,")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["--prompts", "nowhere.jsonl"], "No such file or directory: nowhere.jsonl."),
        (["--prompts", "README.md"], "Line 1 of README.md is not JSON"),
        (["--limit", "0"], "--limit is a whole number from 1; got 0."),
        (["--budget", "0"], "max_new_tokens is a whole number from 1"),
        (["--lanes", "telepathy"], "one of autoregressive, draft_model"),
        (["--lanes", "all,lookahead"], "got 'all'"),
        (["--lanes", "lookahead,lookahead"], "Two lanes are the same"),
        (["--target", "gpt-9"], "--target takes a name"),
        (["--csv", "nowhere/t.csv"], "--csv takes a file in a folder that exists"),
        (["--out", "nowhere/report.json"], "--out takes a file in a folder that exists"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    words: list[str],
    changes: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*words, *changes]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert not told.out


def test_other_settings_than_those_of_the_kept_results_are_refused_before_loading(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "report.json.partial.jsonl"
    kept.write_text('{"settings": {"budget": 11}}\n', encoding="utf-8")
    assert main(words) == 2
    told = capsys.readouterr().err
    assert "report.json.partial.jsonl holds measurements with another set of prompts" in told
    assert "Loading" not in told
    assert kept.exists()


def test_nothing_measured_is_a_failure(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prompts.jsonl").write_text(json.dumps(PROMPTS[2]), encoding="utf-8")
    assert main(words) == 1
    told = capsys.readouterr()
    assert "No prompt could be measured: The prompt has" in told.err
    assert not told.out
    assert not (tmp_path / "report.json").exists()


def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Interrupted as soon as the first prompt is kept."""
    prompts = [{"prompt": f"one, two, {i}", "category": "counting"} for i in range(12)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, prompts)), encoding="utf-8")
    kept = tmp_path / "report.json.partial.jsonl"
    add = PartialFile.add

    def add_and_interrupt(file: PartialFile, records: list[Record]) -> None:
        add(file, records)
        if len(kept.read_text(encoding="utf-8").splitlines()) == 4:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(PartialFile, "add", add_and_interrupt)
    assert main(words) == 130
    told = capsys.readouterr()
    assert "Stopping after this round" in told.err
    assert told.err.endswith("The same command goes on from here; see report.json.partial.jsonl.\n")
    document = json.loads(told.out.splitlines()[-1])
    assert not document["is_complete"]
    assert 1 <= document["prompts"] < 12
    assert "stopped before the end" in told.out
    assert not (tmp_path / "report.json").exists()

    assert main(words) == 0
    told = capsys.readouterr()
    assert f"stopped: {document['prompts']} of 12 prompts are measured" in told.err
    whole = json.loads(told.out.splitlines()[-1])
    assert (whole["is_complete"], whole["prompts"]) == (True, 12)
    assert not kept.exists()
