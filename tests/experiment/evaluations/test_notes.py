"""Why rows lack scores stands below the table, not only in the rows."""

from __future__ import annotations

from ragwright import evaluate
from ragwright.core import Row, Score
from ragwright.experiment import RowResult
from ragwright.experiment.evaluations import summarise
from ragwright.flow import Runner
from ragwright.measure import parse_measures
from ragwright.testsets import Testset


def noted(*scores: Score) -> tuple[str, ...]:
    results = [RowResult(str(at), (), (score,)) for at, score in enumerate(scores)]
    rows = Testset("x", tuple(Row(result.row_id, "?") for result in results))
    measures = parse_measures([scores[0].measure])
    with Runner({}) as runner:
        return summarise(results, rows, measures, (runner, None)).notes


def test_equal_reasons_are_counted_once() -> None:
    rows = [
        {"user_input": "?", "response": "", "retrieved_contexts": ["x"], "reference": "x"},
        {"user_input": "?", "response": "", "retrieved_contexts": ["y"]},
    ]
    found = evaluate(rows, "KPrecision, KPrecision(content), TokenF1")
    reason = "the response contains no words"
    assert found.notes == (
        f"not_applicable (KPrecision 2, KPrecision(content) 2): {reason}",
    )  # the missing reference is no fault of the system


def test_what_a_judge_said_does_not_part_equal_faults() -> None:
    faults = [
        Score("Faithfulness", "judge_invalid", reason=f"no usable judgment: two scores: «{n} 4»")
        for n in range(3)
    ]
    failed = Score("Faithfulness", "errored", reason="ModelError: " + "x" * 500)
    first, second = noted(*faults, failed)
    assert first == "judge_invalid (Faithfulness 3): no usable judgment: two scores"
    assert second.startswith("errored (Faithfulness 1): ModelError")
    assert len(second) < 220


def test_only_the_most_frequent_reasons_are_told() -> None:
    scores = [Score("TokenF1", "errored", reason=f"fault {n // 2}") for n in range(40)]
    scores += [Score("TokenF1", "errored", reason="often")] * 9
    told = noted(*scores)
    assert len(told) == 5
    assert told[0] == "errored (TokenF1 9): often"


def unanswerable(response: str, **fields: object) -> dict[str, object]:
    row = {"user_input": "Who?", "response": response, "answerable": False}
    return {**row, "retrieved_contexts": ["Rome is the capital of Italy."], **fields}


def test_repeated_short_answers_that_no_cue_recognises_are_named() -> None:
    missed = [unanswerable("Non lo so."), unanswerable("non lo so"), unanswerable("Boh.")]
    found = evaluate([*missed, unanswerable("I don't know.")], "RejectionRate")
    assert found["RejectionRate"].mean == 0.25
    cues, warning = found.notes
    assert "`judge.rejection_cues`" in cues
    assert "2 short answers" in warning
    assert '"Non lo so." (2 rows)' in warning
    assert "`judge.rejection_cues`" in warning


def test_repeated_answers_with_words_of_the_passages_are_not_named() -> None:
    rows = [unanswerable("Rome."), unanswerable("Rome."), unanswerable("I don't know.")]
    assert len(evaluate(rows, "RejectionRate").notes) == 1
    assert evaluate(rows, "KPrecision").notes == ()
