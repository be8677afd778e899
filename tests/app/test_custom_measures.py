"""Measures of the user: a function of a row, and a column of the rows file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import ragwright

from ragwright import evaluate
from ragwright.core import MeasureError, PluginError, Row
from ragwright.measure import gate, parse_measure, parse_rule

CODE = """
def politeness(row):
    if not row.response:
        return None
    if row.response == "boom":
        raise ValueError("no boom please")
    return "please" in row.response

politeness.low, politeness.high = 0, 1

def length(row):
    return len(row.response or "")

def text(row):
    return "long"

length.low, length.higher_is_better = 0, False
number = 3
"""
ROWS = [
    {"id": "a", "question": "Q?", "response": "please wait", "stars": 4, "good": True},
    {"id": "b", "question": "Q?", "response": "no", "stars": "2.5", "good": "no"},
    {"id": "c", "question": "Q?", "response": "boom", "stars": "many"},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mymeasures.py").write_text(CODE, "utf-8")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("text", ["mymeasures:politeness", "a.b:C.d", "Column(stars)"])
def test_the_text_parses_back_without_an_import(text: str) -> None:
    measure = parse_measure(f" {text} ")
    assert str(measure) == text
    assert parse_measure(str(measure)) == measure
    assert measure.known_scale is None


def test_python_scores_by_a_function_and_by_columns(folder: Path) -> None:
    named = "mymeasures:politeness, mymeasures:text, Column(stars), Column(good)"
    found = evaluate(str(folder / "rows.jsonl"), named)
    polite, text, stars, good = zip(*(row.scores for row in found.results), strict=True)
    assert [score.value for score in polite] == [1.0, 0.0, None]
    assert (polite[2].state, "no boom please" in polite[2].reason) == ("errored", True)
    assert {score.state for score in text} == {"errored"}
    assert "'long'" in text[0].reason
    assert [score.value for score in stars] == [4.0, 2.5, None]
    assert stars[2].state == "errored"
    assert "'stars'" in stars[2].reason
    assert [score.value for score in good] == [1.0, 0.0, None]
    assert good[2].state == "not_applicable"
    assert "'good'" in good[2].reason
    assert not any("not read" in note for note in found.notes)
    assert [s.scale and s.scale.ends for s in found.summaries] == [(0.0, 1.0), None, None, None]


def test_the_command_scores_by_a_module_of_its_folder(folder: Path) -> None:
    done = ragwright(
        folder, "score", "rows.jsonl", "--measures", "TokenF1,mymeasures:length", "--json"
    )
    assert "mymeasures:length" in done.stdout
    wrong = ragwright(folder, "score", "rows.jsonl", "--measures", "mymeasures:lenght", code=1)
    assert "has no 'lenght'" in wrong.stderr


def test_a_gate_takes_the_direction_of_the_function(folder: Path) -> None:
    rows = [Row(str(at), "Q?", response="x" * at) for at in range(1, 21)]
    found = evaluate(rows, "mymeasures:length")
    scales = {summary.measure: summary.scale for summary in found.summaries}
    rule = parse_rule("mymeasures:length<=5", scales)
    assert str(rule) == "mymeasures:length<=5"
    assert gate(found.summaries, [rule]).state == "failed"
    met = parse_rule("mymeasures:length<=15", scales)
    assert gate(found.summaries, [met]).state == "passed"
    with pytest.raises(MeasureError, match="gets worse"):
        parse_rule("mymeasures:length>=5", scales)
    assert parse_rule("Column(stars)>=-3.5").bound == -3.5


def test_a_gate_on_a_file_says_that_the_direction_is_not_known(folder: Path) -> None:
    rows = [{"id": str(at), "user_input": "Q?", "mymeasures:length": 12.0 + at} for at in range(12)]
    (folder / "scores.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    rule = ("--rule", "mymeasures:length>=10")
    shown = ragwright(folder, "gate", "scores.jsonl", *rule).stdout
    assert "which values of mymeasures:length are better is not known here" in shown
    assert "higher values pass" in shown


@pytest.mark.parametrize("text", ["mymeasures:none", "no_such_module:x", "mymeasures:number"])
def test_an_unknown_function_is_one_error(folder: Path, text: str) -> None:
    with pytest.raises((PluginError, MeasureError), match=text.split(":")[0]):
        evaluate(str(folder / "rows.jsonl"), text)
