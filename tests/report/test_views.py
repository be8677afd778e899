"""What is written can be read back: tables, JSON, CSV, JUnit XML."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

from ragwright.core import Score
from ragwright.experiment import RowResult
from ragwright.measure import GateOutcome, aggregate, compare_rows, gate
from ragwright.report import (
    answers_block,
    comparison_json,
    comparison_table,
    failing_text,
    gate_json,
    gate_junit,
    gate_table,
    measures_block,
    print_result,
    summary_json,
    summary_table,
    text_table,
)

WORDS = "the share\n- of what?"
BROKEN = Score("MRR", "errored", reason="the\x00 <index> & is gone\ud800")


def scored(measure: str, value: float, detail: str = "") -> Score:
    return Score(measure, "scored", value, detail=detail)


SCORES = [
    ("r1", scored("MRR", 0.5), scored("KF1", 0.123456789, WORDS)),
    ("r2", BROKEN, Score("KF1", "judge_invalid", reason="=no score")),
    ("=r3", scored("MRR", 1.0), Score("KF1", "abstained", reason="no answer")),
    ("r4", Score("MRR", "skipped", reason="stopped"), scored("KF1", 0.4)),
]
ROWS = [RowResult(name, (), tuple(scores)) for name, *scores in SCORES]
SUMMARIES = [aggregate([row.scores[at] for row in ROWS]) for at in (0, 1)]
NO_GOLD = [scored("MRR", 1.0), scored("MRR", 0.5)]
NO_GOLD += [Score("MRR", "not_applicable", reason="no gold", no_gold=True)]
NO_GOLD += [Score("MRR", "not_applicable", reason="no ranking")]


def test_the_summary_for_people() -> None:
    lines = summary_table(SUMMARIES, notes=("a note",), run="run-1").splitlines()
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
    missing = "without a score: not_applicable 1; mean 0.5000 to 0.8333 whatever their scores"
    lines = summary_table([aggregate(NO_GOLD)]).splitlines()
    assert lines[-2:] == [f"MRR: {missing}", "MRR: without gold, not counted: 1 of 4 rows"]
    less = summary_table([aggregate([scored("EditDistance", 0.5)])])
    assert "EditDistance (0-1, lower is better)" in less
    sliced = measures_block({"engineer": SUMMARIES, "": SUMMARIES[:1]}, "persona").text()
    firsts = [line.split()[0] for line in sliced.splitlines()[2:]]
    assert firsts == ["engineer", "engineer", "(none)"]


def test_the_summary_for_programs() -> None:
    slices = {"persona_name": {"engineer": SUMMARIES}}
    found = summary_json(SUMMARIES, run="run-1", notes=["n"], slices=slices)
    again = json.loads(json.dumps(found, allow_nan=False))
    mrr = again["measures"]["MRR"]
    assert {"mean", "median", "n", "coverage", "low", "high", "states", "seed"} <= mrr.keys()
    assert (mrr["mean"], mrr["states"]) == (0.75, {"scored": 2, "errored": 1, "skipped": 1})
    assert again["run"] == "run-1"
    assert again["slices"]["persona_name"]["engineer"]["KF1"]["n"] == 2
    assert "slices" not in summary_json(SUMMARIES)


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode("utf-8"))


def test_a_gate_in_every_form() -> None:
    good = aggregate([scored("KF1", at / 40) for at in range(40)])
    outcome = gate([SUMMARIES[0], good], ["MRR>=0.7", "KF1>=0.9", "KF1>=0.2"])
    root = parsed(gate_junit(outcome))
    assert [root.get(k) for k in ("tests", "failures", "errors")] == ["3", "1", "1"]
    error, failure = root.find(".//error"), root.find(".//failure")
    assert error is not None
    assert failure is not None
    assert "coverage" in (error.get("message") or "")
    assert (failure.get("type"), failure.text) == ("failed", None)
    assert gate_table(outcome).endswith("gate: failed")
    hinted = replace(outcome.checks[0], hint="ask <people>")
    told = parsed(gate_junit(GateOutcome("untrusted", (hinted,))))
    assert told.findtext(".//error") == "to do: ask <people>"
    found = json.loads(json.dumps(gate_json(outcome)))
    assert found["outcome"] == "failed"
    assert [check["state"] for check in found["checks"]] == ["untrusted", "failed", "passed"]


def test_an_answer_that_only_cites_otherwise_is_shown_once() -> None:
    cited, failed = (
        SimpleNamespace(row_id="1", user_input="Who?", kinds=(kind,), a="Ada.", b=b)
        for kind, b in (("lost citations", "Ada."), ("now fails", None))
    )
    changes: Any = [cited, failed]
    rows = answers_block(changes, 2).rows
    assert [row[2:4] for row in rows] == [("Ada.", "the same text"), ("Ada.", "-")]


def test_a_comparison_in_both_forms() -> None:
    a = {str(at): [scored("MRR", 0.5)] for at in range(40)}
    b = {str(at): [scored("MRR", 0.5 + at / 100)] for at in range(40)}
    b["new"] = [scored("MRR", 1.0), scored("KF1", 1.0)]
    found = compare_rows(a, b)
    text = comparison_table(found, names=("old", "new"))
    assert text.startswith("MRR: better, +0.1950")
    assert re.search(r"^measure +old +new +difference", text, re.MULTILINE)
    assert "rows only in new, left out: new" in text
    assert "measures of only one run, left out: KF1" in text
    assert "eval --measures" in text
    body = json.loads(json.dumps(comparison_json(found), allow_nan=False))
    assert body["measures"]["MRR"]["verdict"] == "better"
    assert body["measures"]["MRR"]["text"] == found["MRR"].text
    assert (body["only_a"], body["only_b"], body["missing"]) == ([], ["new"], ["KF1"])


def test_a_narrow_table_breaks_no_word_number_or_id() -> None:
    head = ("run", "retrieve.rerank.model", "mean", "95 % interval", "wins/ties/losses", "question")
    run = "20261129-073203-082de1"
    cells = (run, "lexical", "0.937 [0.89, 0.97]", "-0.8400 to 0.8400", "1/11/0", "Who is it? " * 9)
    for width in (40, 60, 80, 100):
        lines = text_table([head, cells], width=width).splitlines()
        assert max(map(len, lines)) <= width
        for kept in ("lexical", "0.937 [0.89, 0.97]", "-0.8400 to 0.8400", "1/11/0", run):
            assert any(kept in line for line in lines), (width, kept)
    assert text_table([head, cells], width=100).splitlines()[1].split() == ["rerank.", "losses"]


def test_a_sentence_breaks_no_interval() -> None:
    text = "MRR: no change proven (95 % interval -0.84 to 0.84) on 12 rows, p = 0.75."
    for width in range(20, 80):
        lines = print_result([text], (), width=width).splitlines()
        for kept in ("-0.84 to 0.84", "p = 0.75", "95 %"):
            assert any(kept in line for line in lines), (width, kept)


def test_wrong_answers_come_before_abstentions_each_once() -> None:
    low = [
        RowResult("1", (), (Score("MRR", "abstained"), Score("KF1", "abstained"))),
        RowResult("2", (), (scored("MRR", 0.5), scored("KF1", 1.0))),
        RowResult("3", (), (scored("MRR", 0.0), scored("KF1", 0.2))),
    ]
    summaries = [aggregate([row.scores[at] for row in low]) for at in (0, 1)]
    lines = failing_text(low, gate(summaries, ["MRR>=0.9", "KF1>=0.99"])).splitlines()
    assert [" ".join(line.split()) for line in lines[3:]] == [
        "3 MRR 0.000, KF1 0.200",
        "2 MRR 0.500",
        "1 MRR abstained, KF1 abstained",
    ]


def test_long_names_of_runs_keep_the_end_that_differs() -> None:
    names = "the-settings-of-the-service-manual-v1", "the-settings-of-the-service-manual-v2"
    found = compare_rows({"1": [scored("MRR", 0.5)]}, {"1": [scored("MRR", 1.0)]})
    lines = comparison_table(found, names=names).splitlines()
    assert any(
        line.split()[1:3] == ["…-the-service-manual-v1", "…-the-service-manual-v2"]
        for line in lines
    )
