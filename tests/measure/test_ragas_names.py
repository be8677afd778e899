"""Names of ragas mean the measure of the same definition, or an error names the nearest one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from judge_fakes import ROW, SETUP, Said, Says, run, shown, verdict

from ragwright.core import MeasureError, Score
from ragwright.experiment import RowResult, evaluation_of
from ragwright.flow import Chat
from ragwright.measure import parse_measure, score_row
from ragwright.report import summary_table


def scored(measure: str, says: Says, **row: object) -> Score:
    flow = score_row(replace(ROW, **row), [parse_measure(measure)], SETUP)  # type: ignore[arg-type]
    (found,) = run(flow, says)
    return found


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("faithfulness", "Claims"),
        ("answer_relevancy", "QuestionSimilarity"),
        ("ResponseRelevancy", "QuestionSimilarity"),
        ("context_recall", "JudgedRecall(reference)"),
        ("context_precision", "JudgedAveragePrecision"),
        ("context_precision@3", "JudgedAveragePrecision@3"),
        ("answer_correctness", "AnswerCorrectness"),
        ("Faithfulness", "Faithfulness"),  # ours, a grade from 1 to 5
    ],
)
def test_a_name_is_read_by_its_definition(theirs: str, ours: str) -> None:
    assert str(parse_measure(theirs)) == ours


@pytest.mark.parametrize("name", ["noise_sensitivity", "semantic_similarity", "context_relevancy"])
def test_a_name_without_a_measure_of_its_definition_is_refused(name: str) -> None:
    with pytest.raises(MeasureError, match=f"the definition of ragas' {name}") as caught:
        parse_measure(name)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("near: ")


def test_the_header_says_ours_and_theirs() -> None:
    measure = parse_measure("faithfulness")
    found = evaluation_of([RowResult("1", (), (Score("Claims", "scored", 1.0),))], [measure])
    assert "Claims (0-1; faithfulness in ragas)" in summary_table(found.summaries)


@pytest.mark.parametrize(
    ("verdicts", "value"),
    [((1, 0, 1), (1 + 2 / 3) / 2), ((0, 1), 0.5), ((0, 0), 0.0), ((1, 1), 1.0)],
)
def test_average_precision_of_the_verdicts(verdicts: tuple[int, ...], value: float) -> None:
    passages = tuple(f"text {at}" for at in range(len(verdicts)))

    def by(request: Chat) -> Said:
        text = str(shown(request))
        at = next(at for at, passage in enumerate(passages) if f"'{passage}'" in text)
        return verdict(verdicts[at])

    found = scored("context_precision", Says(by=by), retrieved_contexts=passages)
    assert found.value == pytest.approx(value)


def claims_by(lists: Mapping[str, list[str]], held: frozenset[str]) -> Says:
    """A judge that lists the claims of an answer, and holds those that are named."""

    def by(request: Chat) -> Said:
        texts = shown(request)
        claims = [text for name, text in texts.items() if name.startswith("claim ")]
        if not claims:
            return json.dumps({"claims": lists[texts["answer"]]})
        entries = [
            {"claim": n, "reasoning": "so", "supported": claim in held}
            for n, claim in enumerate(claims, 1)
        ]
        return json.dumps({"verdicts": entries})

    return Says(by=by)


def test_context_recall_counts_the_claims_of_the_reference() -> None:
    says = claims_by({"the gold": ["a1", "a2", "a3", "a4"]}, frozenset({"a1", "a2", "a3"}))
    found = scored("context_recall", says, reference="the gold", response="something else")
    assert found.value == 0.75
    assert scored("context_recall", says, reference="").no_gold


def test_answer_correctness_weighs_claims_and_likeness() -> None:
    lists = {"one two": ["r1", "r2", "w1"], "one three": ["g1", "g2"]}
    says = claims_by(lists, frozenset({"r1", "r2", "g1"}))
    found = scored("answer_correctness", says, response="one two", reference="one three")
    f1 = 2 / (2 + (1 + 1) / 2)  # TP 2, FP 1, FN 1
    assert found.parts["F1 of claims"] == pytest.approx(f1)
    assert found.parts["similarity"] == pytest.approx(0.5)  # one word of two in common
    assert found.value == pytest.approx(0.75 * f1 + 0.25 * 0.5)
    assert "missing: g2" in found.detail


def test_answer_correctness_without_claims() -> None:
    says = claims_by({"x": [], "y": []}, frozenset())
    found = scored("answer_correctness", says, response="x", reference="y")
    assert found.state == "not_applicable"
    says = claims_by({"x": [], "y": ["g"]}, frozenset())
    found = scored("answer_correctness", says, response="x", reference="y")
    assert found.parts["F1 of claims"] == 0.0
