"""Numbers of two judges are not numbers of one measure."""

from __future__ import annotations

from typing import Any

import pytest

from ragwright.core import Score
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


@pytest.mark.parametrize(
    "other",
    [
        {"judge": {"model": "kind", "repeat": 3}},
        {"judge": {"model": "kind", "rejection_cues": ["no"]}},
        {"rubrics": {"Faithfulness": "r1", "AnswerRelevance": "r9"}},
        {"answer": {"model": "other"}},
    ],
)
def test_what_changes_no_judgment_is_no_other_judge(other: dict[str, Any]) -> None:
    a, b = evaluation(4, **JUDGED), evaluation(1, **{**JUDGED, **other})
    assert find_scored_differently(a, b) == {}


def test_other_models_measure_other_distances_and_words_are_words() -> None:
    sides: list[dict[str, Any]] = [{"judge": {"embedder": name}} for name in ("small", "large")]
    near, far = sides
    a, b = evaluation(0.2, "QADistance", **near), evaluation(0.1, "QADistance", **far)
    assert find_scored_differently(a, b)["QADistance"].endswith("judge.embedder")
    assert find_scored_differently(a, a) == {}
    words = evaluation(0, "TokenF1", **near), evaluation(0, "TokenF1", **far)
    assert find_scored_differently(*words) == {}


def test_of_a_file_without_settings_nothing_is_known() -> None:
    assert find_scored_differently(evaluation(4, **JUDGED), evaluation(1)) == {}
    # before prompts and rubrics were written down
    older: dict[str, Any] = {"judge": {"model": "kind"}}
    assert find_scored_differently(evaluation(4, **JUDGED), evaluation(4, **older)) == {}
