"""Two runs row by row: numbers of two judges, or of other gold, are not numbers of one measure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragwright import evaluate
from ragwright.core import Counted, MeasureError, Row, Score
from ragwright.experiment import (
    Evaluation,
    RowResult,
    compare_evaluations,
    evaluation_of,
    find_scored_differently,
)
from ragwright.measure import gate, parse_measures

JUDGED: dict[str, Any] = {
    "judge": {"model": "kind"},
    "judge_prompts": "p1",
    "rubrics": {"Faithfulness": "r1", "AnswerRelevance": "r2"},
}


def evaluation(value: float, measure: str = "Faithfulness", **manifest: Any) -> Evaluation:
    results = [
        RowResult(str(at), (), (Score(measure, "scored", value + at % 2),)) for at in range(24)
    ]
    found = evaluation_of(results, parse_measures(measure))
    return Evaluation(found.name, found.summaries, found.results, manifest=manifest)


@pytest.mark.parametrize(
    ("other", "part"),
    [
        ({"judge": {"model": "harsh"}}, "judge.model"),
        ({"judge": {"model": "kind", "temperature": 1.0}}, "judge.temperature"),
        ({"rubrics": {"Faithfulness": "r9", "AnswerRelevance": "r2"}}, "rubrics.Faithfulness"),
        ({"judge_prompts": "p2"}, "prompts"),
    ],
)
def test_another_judge_gets_no_verdict_and_passes_no_gate(other: dict[str, Any], part: str) -> None:
    kind, harsh = evaluation(4, **JUDGED), evaluation(1, **{**JUDGED, **other})
    for a, b in ((kind, harsh), (harsh, kind)):
        found = compare_evaluations(a, b)
        one = found["Faithfulness"]
        assert one.verdict == "no change proven"
        assert f"scored by two judges, which differ in {part}." in one.text
        outcome = gate(b.summaries, ["Faithfulness>=baseline-0.5"], against=found)
        assert outcome.state == "untrusted"
        assert part in outcome.checks[0].reason
    assert compare_evaluations(kind, evaluation(1, **JUDGED))["Faithfulness"].verdict == "worse"


SAME = [
    (JUDGED, {"judge": {"model": "kind", "repeat": 3}}),
    (JUDGED, {"judge": {"model": "kind", "rejection_cues": ["no"]}}),
    (JUDGED, {"rubrics": {"Faithfulness": "r1", "AnswerRelevance": "r9"}}),
    (JUDGED, {"answer": {"model": "other"}}),
]


@pytest.mark.parametrize("other", SAME, ids=["repeats", "cues", "another rubric", "the answerer"])
def test_what_changes_no_judgment_is_no_judge(other: tuple[dict[str, Any], dict[str, Any]]) -> None:
    base, change = other
    sides = evaluation(4, **base), evaluation(1, **{**base, **change})
    assert find_scored_differently(*sides) == {}


def test_of_what_was_not_written_down_nothing_is_known() -> None:
    assert find_scored_differently(evaluation(4, **JUDGED), evaluation(4)) == {}


def test_other_models_measure_other_distances_and_words_are_words() -> None:
    near, far = ({"judge": {"embedder": name}} for name in ("small", "large"))
    a, b = evaluation(0.2, "QADistance", **near), evaluation(0.1, "QADistance", **far)
    assert find_scored_differently(a, b)["QADistance"].endswith("judge.embedder")
    assert find_scored_differently(a, a) == {}
    words = evaluation(0, "TokenF1", **near), evaluation(0, "TokenF1", **far)
    assert find_scored_differently(*words) == {}


def hits(counted: Counted, value: float) -> list[RowResult]:
    score = Score("HitRate@1", "scored", value, counted=counted)
    return [RowResult(str(at), ("a",), (score,)) for at in range(40)]


def test_runs_that_counted_different_gold_get_no_verdict() -> None:
    measures = parse_measures("HitRate@1")
    sides = hits("documents", 1.0), hits("spans", 0.0)
    old, new = (evaluation_of(side, measures) for side in sides)
    assert (dict(old["HitRate@1"].counted), dict(new["HitRate@1"].counted)) == (
        {"documents": 40},
        {"spans": 40},
    )
    found = compare_evaluations(old, new)["HitRate@1"]
    assert found.verdict == "no change proven"
    assert "the first run counted documents and the second spans in every row" in found.text
    assert found.counted == ("spans", "documents")
    same = compare_evaluations(new, new)["HitRate@1"]
    assert (same.counted, same.incomparable) == (("spans",), "")


def test_runs_are_compared_row_by_row() -> None:
    def said(always: str) -> Evaluation:
        rows = [
            Row(
                str(at),
                f"question {at}",
                always or ("red" if at % 2 else "blue"),
                "red",
                ("it is red",),
                reference_ids={f"d{at % 4}": 1},
            )
            for at in range(12)
        ]
        return evaluate(rows, "TokenF1, KPrecision")

    mixed, red = said(""), said("red")
    shared = compare_evaluations(mixed, red)["TokenF1"]
    assert (shared.wins, shared.ties, shared.clusters) == (6, 6, 4)  # four documents, 12 rows
    assert "on 12 rows in 4 clusters" in shared.text
    found = compare_evaluations(mixed, red, clusters={})["TokenF1"]
    assert (found.wins, found.ties, found.p) == (6, 6, 2 / 64)
    assert found.verdict == "no change proven"  # two measures: 4 / 64 after Holm
    alone = [
        evaluation_of(
            [replace(r, scores=r.scores[:1]) for r in run.results], parse_measures("TokenF1")
        )
        for run in (mixed, red)
    ]
    assert compare_evaluations(*alone, clusters={})["TokenF1"].verdict == "better"
    strange = evaluate([Row("0", "something else", "red", "red")], "TokenF1")
    with pytest.raises(MeasureError, match="no row in common"):
        compare_evaluations(mixed, strange)
