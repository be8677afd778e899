"""Scoring given rows: results that can be stored, scored again, sliced, compared."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import pytest

from ragwright import evaluate
from ragwright.core import GoldSpan, MeasureError, Row, Score, TestsetError, make_plain
from ragwright.experiment import (
    Evaluation,
    RowResult,
    cluster_of,
    compare_evaluations,
    compute_results,
    evaluation_of,
    read_plain,
    slices,
)
from ragwright.measure import parse_measures
from ragwright.testsets import Testset

MEASURES = parse_measures("TokenF1, KPrecision")


def row(at: int, **more: object) -> Row:
    given: dict[str, object] = {
        "id": str(at),
        "user_input": f"question {at}",
        "response": "red" if at % 2 else "blue",
        "reference": "red",
        "retrieved_contexts": ("it is red",),
        "persona_name": "engineer" if at % 3 else "marketing",
        "reference_ids": {f"d{at % 4}": 1},
        "metadata": {"topic": ("x", "y") if at == 1 else "x"},
    }
    return Row(**{**given, **more})  # type: ignore[arg-type]


ROWS = [row(at) for at in range(12)]


@pytest.fixture
def evaluation() -> Evaluation:
    return evaluate(Testset("given", tuple(ROWS)), MEASURES)


def test_given_rows_are_scored(evaluation: Evaluation) -> None:
    assert evaluation["TokenF1"].mean == 0.5
    assert [r.row_id for r in evaluation.results] == [r.id for r in ROWS]
    assert evaluation.results[3].row == ROWS[3]


def test_results_survive_the_store(evaluation: Evaluation) -> None:
    spanned = RowResult(
        "s",
        ("d",),
        (Score("MRR", "scored", 1.0, counted="documents"),),
        row(1, reference_spans=(GoldSpan("d", 0, 3, "red"),)),
    )
    for result in (*evaluation.results, spanned, RowResult("bare", ("d1", "d2"), ())):
        assert read_plain(RowResult, json.loads(json.dumps(make_plain(result)))) == result


def test_every_slice_has_its_own_numbers(evaluation: Evaluation) -> None:
    found = {s.value: s for s in slices(evaluation.results, ROWS, "persona_name", MEASURES)}
    assert list(found) == ["engineer", "marketing"]
    assert [found[name].summaries[0].n for name in found] == [8, 4]
    assert found["marketing"].notes == ("fewer than 20 scored rows: TokenF1, KPrecision",)
    topics = slices(evaluation.results, ROWS, "topic", MEASURES)
    assert [(s.value, s.summaries[0].n) for s in topics] == [("x", 12), ("y", 1)]
    with pytest.raises(TestsetError, match="no row has a value in"):
        slices(evaluation.results, ROWS, "nobody", MEASURES)


def test_rows_without_the_field_are_a_slice_of_their_own(evaluation: Evaluation) -> None:
    rows = [row(at, persona_name="engineer" if at < 6 else "") for at in range(12)]
    found = slices(evaluation.results, rows, "persona_name", MEASURES)
    assert [(s.value, s.summaries[0].n) for s in found] == [("engineer", 6), ("", 6)]


def test_rows_that_share_a_document_are_one_cluster(evaluation: Evaluation) -> None:
    clusters = [cluster_of(row, "document") for row in ROWS]
    found = evaluation_of(evaluation.results, MEASURES, clusters=clusters)
    assert found["TokenF1"].clusters == 4
    assert found["TokenF1"].interval == "clusters"
    assert cluster_of(row(1, reference_ids={}), "document") != cluster_of(
        row(2, reference_ids={}), "document"
    )
    assert cluster_of(ROWS[0], "persona_name") == ("marketing",)
    with pytest.raises(TestsetError, match="for clustering"):
        cluster_of(ROWS[0], "nobody")


def test_runs_are_compared_row_by_row(evaluation: Evaluation) -> None:
    better = [row(at, response="red") for at in range(12)]
    results = compute_results(better, MEASURES)
    other = evaluation_of(results, MEASURES)
    shared = compare_evaluations(evaluation, other)["TokenF1"]
    assert (shared.wins, shared.ties, shared.clusters) == (6, 6, 4)  # four documents, 12 rows
    assert "on 12 rows in 4 clusters" in shared.text
    found = compare_evaluations(evaluation, other, clusters={})["TokenF1"]
    assert (found.wins, found.ties, found.p) == (6, 6, 2 / 64)
    assert found.verdict == "no change proven"  # two measures: 4 / 64 after Holm
    alone = [
        evaluation_of([replace(r, scores=r.scores[:1]) for r in run.results], MEASURES[:1])
        for run in (evaluation, other)
    ]
    assert compare_evaluations(*alone, clusters={})["TokenF1"].verdict == "better"
    strange = evaluate([row(0, user_input="something else")], MEASURES)
    with pytest.raises(MeasureError, match="no row in common"):
        compare_evaluations(evaluation, strange)


@pytest.mark.slow
def test_rows_pass_in_bounded_memory() -> None:
    """Rows are made, scored and given away one at a time; values alone stay."""
    passage = "the wall is red " * 20

    rows = (row(at, retrieved_contexts=(passage,)) for at in range(5000))
    seen: list[int] = [0]

    def each(result: RowResult) -> None:
        seen[0] += 1

    tracemalloc.start()
    found = evaluation_of(compute_results(rows, MEASURES[:1]), MEASURES[:1], each=each)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found["TokenF1"].n, found.results, seen[0]) == (5000, (), 5000)
    # 8 bytes a value and the blocks of the bootstrap, which do not grow with the rows
    assert peak < 40_000_000


def test_offline_measures_need_no_runner(evaluation: Evaluation) -> None:
    assert tuple(compute_results(ROWS, MEASURES)) == evaluation.results
    with pytest.raises(MeasureError, match="needs a model"):
        compute_results(ROWS, parse_measures("QADistance"))
