"""What is written can be read back: tables, JSON, CSV, JUnit XML."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ragwright.core import Score
from ragwright.experiment import RowResult
from ragwright.measure import GateOutcome, aggregate, compare_rows, gate
from ragwright.report import (
    comparison_json,
    comparison_table,
    gate_json,
    gate_junit,
    gate_table,
    measures_block,
    rows_junit,
    summary_csv,
    summary_json,
    summary_table,
    text_table,
)

WORDS = "the share\n- of what?"


def plain(row: str, scores: tuple[Score, ...]) -> RowResult:
    return RowResult(row, (), scores)


ROWS = [
    plain("r1", (Score("MRR", "scored", 0.5), Score("KF1", "scored", 0.123456789, detail=WORDS))),
    plain(
        "r2",
        (
            Score("MRR", "errored", reason="the\x00 <index> & is gone\ud800"),
            Score("KF1", "judge_invalid", reason="=no score"),
        ),
    ),
    plain("=r3", (Score("MRR", "scored", 1.0), Score("KF1", "abstained", reason="no answer"))),
    plain("r4", (Score("MRR", "skipped", reason="stopped"), Score("KF1", "scored", 0.4))),
]
SUMMARIES = [aggregate([row.scores[at] for row in ROWS]) for at in (0, 1)]


def test_the_summary_for_people() -> None:
    text = summary_table(SUMMARIES, notes=("a note",), run="run-1")
    lines = text.splitlines()
    assert lines[0].split()[:2] == ["measure", "mean"]
    assert lines[2].startswith("MRR (0-1)")
    assert "0.7500" in lines[2]
    assert "50.0%" in lines[2]
    missing = "without a score: errored 1, skipped 1; mean 0.3750 to 0.8750 whatever their scores"
    assert f"MRR: {missing}" in lines
    assert lines[-2:] == ["run: run-1", "note: a note"]
    nothing = summary_table([aggregate([Score("MRR", "errored", reason="why")])])
    assert "nan" not in nothing
    assert nothing.splitlines()[2].split()[2:4] == ["-", "-"]


def test_the_summary_for_programs() -> None:
    found = summary_json(
        SUMMARIES, run="run-1", notes=["n"], slices={"persona_name": {"engineer": SUMMARIES}}
    )
    again = json.loads(json.dumps(found, allow_nan=False))
    mrr = again["measures"]["MRR"]
    assert {"mean", "median", "n", "coverage", "low", "high", "states", "seed"} <= mrr.keys()
    assert (mrr["mean"], mrr["states"]) == (0.75, {"scored": 2, "errored": 1, "skipped": 1})
    assert again["run"] == "run-1"
    assert again["slices"]["persona_name"]["engineer"]["KF1"]["n"] == 2
    assert "slices" not in summary_json(SUMMARIES)


def test_csv_reads_back() -> None:
    mrr, kf1 = csv.DictReader(io.StringIO(summary_csv(SUMMARIES)))
    assert float(mrr["mean"]) == 0.75
    assert (mrr["errored"], mrr["judge_invalid"], kf1["judge_invalid"]) == ("1", "0", "1")


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode("utf-8"))


def test_rows_as_junit() -> None:
    root = parsed(rows_junit(ROWS))
    suite = root[0]
    counts = {"tests": "8", "failures": "0", "errors": "2", "skipped": "2"}
    assert {key: suite.get(key) for key in counts} == counts
    assert {key: root.get(key) for key in counts} == counts
    cases = suite.findall("testcase")
    assert (cases[0].get("classname"), cases[0].get("name")) == ("MRR", "r1")
    assert cases[0].findtext("system-out") == "0.5"
    assert cases[1].findtext("system-out") == f"0.123457\n{WORDS}"
    error = cases[2].find("error")
    assert error is not None
    assert error.get("type") == "errored"
    assert error.get("message") == "the\ufffd <index> & is gone\ufffd"


def side(*values: float) -> dict[str, list[Score]]:
    return {str(at): [Score("MRR", "scored", value)] for at, value in enumerate(values)}


def test_a_gate_in_every_form() -> None:
    good = aggregate([Score("KF1", "scored", at / 40) for at in range(40)])
    outcome = gate([SUMMARIES[0], good], ["MRR>=0.7", "KF1>=0.9", "KF1>=0.2"])
    root = parsed(gate_junit(outcome))
    assert [root.get(k) for k in ("tests", "failures", "errors")] == ["3", "1", "1"]
    error, failure = root.find(".//error"), root.find(".//failure")
    assert error is not None
    assert failure is not None
    assert "coverage" in (error.get("message") or "")
    assert failure.get("type") == "failed"
    assert failure.text is None
    assert gate_table(outcome).endswith("gate: failed")
    hinted = replace(outcome.checks[0], hint="ask <people>")
    told = parsed(gate_junit(GateOutcome("untrusted", (hinted,)))).find(".//error")
    assert told is not None
    assert told.text == "to do: ask <people>"
    found = json.loads(json.dumps(gate_json(outcome)))
    assert found["outcome"] == "failed"
    assert [check["state"] for check in found["checks"]] == ["untrusted", "failed", "passed"]


def test_a_comparison_in_both_forms() -> None:
    a, b = side(*[0.5] * 40), side(*[0.5 + at / 100 for at in range(40)])
    b["new"] = [Score("MRR", "scored", 1.0), Score("KF1", "scored", 1.0)]
    found = compare_rows(a, b)
    text = comparison_table(found, names=("old", "new"))
    assert text.startswith("MRR: better, +0.1950")
    assert "new - old" in text
    assert "rows only in new, left out: new" in text
    assert "measures of only one run, left out: KF1" in text
    body = json.loads(json.dumps(comparison_json(found), allow_nan=False))
    assert body["measures"]["MRR"]["verdict"] == "better"
    assert body["measures"]["MRR"]["text"] == found["MRR"].text
    assert (body["only_a"], body["only_b"], body["missing"]) == ([], ["new"], ["KF1"])


def test_slices_stand_below_each_other() -> None:
    text = measures_block({"engineer": SUMMARIES, "": SUMMARIES[:1]}, "persona").text()
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["engineer", "engineer", "(none)"]


LONG = "Rubric(how-well-the-answer-suits-a-reader-who-never-saw-the-manual-of-the-machine)"


@pytest.mark.parametrize("name", ["MRR", LONG])
def test_tables_fit_a_hundred_columns(name: str) -> None:
    summary = aggregate(
        [Score(name, "scored", float(at % 2)) for at in range(40)]
        + [Score(name, "judge_invalid", reason="x")]
    )
    path = "runs/of/a/long/path/that/nobody/would/type/twice/and/that/has/no/place/to/break.jsonl"
    shown = [
        summary_table([summary] * 2, notes=[f"{path} and {path} again"], run="r"),
        measures_block({path: [summary], "": [summary]}, "topic").text(),
        text_table([["rule", "outcome", "because"], [path, "passed", f"{path} was good"]]),
        text_table([["measure", path, path, "n"], [name, "0.1234", "0.4321", "9"]], right=(1, 2)),
    ]
    for text in shown:
        lines = text.splitlines()
        assert max(len(line) for line in lines if not line.startswith("note")) <= 100, text
    assert "0.1234" in shown[3]
    assert "judge_invalid 1" in shown[0]


def test_a_table_that_fits_is_not_touched() -> None:
    rows = [["name", "value"], ["a long one " * 7, "1.0"]]
    assert text_table(rows).splitlines()[2] == f"{'a long one ' * 7}  1.0"


def test_words_of_a_head_are_cut_only_where_nothing_else_fits() -> None:
    cells = {
        "measure": "Contains (0-1)",
        "before": "1.0000",
        "after": "0.6667",
        "after - before": "-0.3333",
        "95 % interval": "-0.7152 .. 0.0195",
        "p (Holm)": "0.2500",
        "wins/ties/losses": "0/8/4",
        "n": "12",
        "both answered": "+0.0000",
        "coverage": "66.7%",
    }
    rows = [list(cells), list(cells.values())]
    table = text_table(rows, right=(1, 2, 3, 5, 7, 8, 9))
    assert max(map(len, table.splitlines())) <= 100
    shown = table.split()
    assert {"wins/ties/losses", "answered", "coverage", "before", "(Holm)"} <= set(shown)


def test_rows_without_gold_stand_apart() -> None:
    scores = [
        Score("MRR", "scored", 1.0),
        Score("MRR", "scored", 0.5),
        Score("MRR", "not_applicable", reason="no gold", no_gold=True),
        Score("MRR", "not_applicable", reason="no ranking"),
    ]
    lines = summary_table([aggregate(scores)]).splitlines()
    missing = "without a score: not_applicable 1; mean 0.5000 to 0.8333 whatever their scores"
    assert lines[-2:] == [f"MRR: {missing}", "MRR: without gold, not counted: 1 of 4 rows"]


def test_where_less_is_better_the_table_says_so() -> None:
    shown = summary_table([aggregate([Score("EditDistance", "scored", 0.5)])])
    assert "EditDistance (0-1, lower is better)" in shown
