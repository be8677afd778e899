"""Rows that share a document are no independent observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ragwright.core import GoldSpan, Row, Score, TestsetError
from ragwright.experiment import (
    RowResult,
    Testset,
    clusters_of_results,
    clusters_of_rows,
    compare_evaluations,
    evaluation_of,
    result_body,
    result_of,
    retrieval_row,
    score_run,
    summarise,
)
from ragwright.flow import Flow, Runner, RunnerOptions
from ragwright.measure import parse_measures

MEASURES = parse_measures("nDCG@10")


def row(name: str, *gold: str, **fields: object) -> Row:
    made = Row(name, f"question {name}?", reference_ids=dict.fromkeys(gold, 1))
    return replace(made, **fields) if fields else made  # type: ignore[arg-type]


def result(name: str, value: float, **shared: tuple[str, ...]) -> RowResult:
    return RowResult(name, (), (Score("nDCG@10", "scored", value),), shared=shared)


def test_a_chain_of_shared_documents_is_one_cluster() -> None:
    rows = [
        row("1", "a", "b"),
        row("2", "b", "c"),
        row("3", "c"),
        row("4", "d"),
        row("5", reference_spans=(GoldSpan("d", 0, 3),)),
        row("6"),
        row("7"),
        row("8", "e"),
    ]
    found = clusters_of_rows(rows)
    assert found.keys() == {str(at) for at in range(1, 9)}
    assert found["1"] == found["2"] == found["3"]
    assert found["4"] == found["5"]
    assert len(set(found.values())) == 5
    # a document of no use to both joins nothing
    graded = replace(rows[7], reference_ids={"e": 1, "a": 0})
    assert clusters_of_rows([*rows[:7], graded])["8"] != found["1"]


def test_without_shared_documents_rows_stand_for_themselves() -> None:
    assert clusters_of_rows([row("1", "a"), row("2", "b"), row("3")]) == {}
    assert clusters_of_rows([]) == {}
    # nearly all are about one document: that is what is measured, and no sample
    assert clusters_of_rows([row(str(at), "manual") for at in range(9)] + [row("x", "y")]) == {}


def test_where_everything_hangs_together_the_first_document_counts() -> None:
    rows = [row(str(at), f"a{at // 2}", "z") for at in range(8)]
    assert len(set(clusters_of_rows(rows).values())) == 4


def test_shared_documents_widen_the_interval_of_an_evaluation() -> None:
    """20 documents with 1 to 8 rows each: row by row the interval misses the mean too often."""
    caught = {"rows": 0, "documents": 0}
    for seed in range(60):
        draw = np.random.default_rng(seed)
        rows, results = [], []
        for document, size in enumerate(draw.integers(1, 9, 20)):
            level = draw.uniform(0.2, 0.8)
            for at in range(size):
                rows.append(row(f"{document}/{at}", f"d{document}"))
                value = float(np.clip(level + draw.normal(0, 0.05), 0, 1))
                results.append(result(rows[-1].id, value))
        shared = summarise(Testset("t", tuple(rows)), results, MEASURES, seed=seed)["nDCG@10"]
        alone = evaluation_of(results, MEASURES, seed=seed)["nDCG@10"]
        assert (shared.clusters, shared.interval, alone.clusters) == (20, "clusters", None)
        for name, found in (("documents", shared), ("rows", alone)):
            assert found.low is not None
            assert found.high is not None
            caught[name] += found.low <= 0.5 <= found.high
    assert caught["documents"] >= 51  # 85 of 100; 95 are due
    assert caught["rows"] <= 45


def test_rankings_keep_what_their_rows_share() -> None:
    asked = row("1", "a", persona_name="engineer", metadata={"topic": "pumps"})

    def search(query: str) -> Flow[Sequence[str]]:
        yield from ()
        return ["a"]

    with Runner({}, RunnerOptions()) as runner:
        found = runner.run(retrieval_row(asked, search, MEASURES))
    assert found.row is None
    assert found.shared == {
        "topic": ("pumps",),
        "persona_name": ("engineer",),
        "document": ("a",),
    }
    assert result_of(result_body(found)) == found


def test_runs_of_rankings_are_compared_by_cluster() -> None:
    a = [result(str(at), 0.1, document=(f"d{at // 3}",), topic=("x",)) for at in range(12)]
    b = [replace(one, scores=(Score("nDCG@10", "scored", 0.9),)) for one in a]
    bare = [replace(one, shared={}) for one in b]
    first, second, lost = (evaluation_of(rows, MEASURES) for rows in (a, b, bare))
    assert compare_evaluations(first, second)["nDCG@10"].clusters == 4
    # what one of the two knows is not forgotten because the other does not know it
    assert compare_evaluations(first, lost)["nDCG@10"].clusters == 4
    assert len(set(clusters_of_results([*a, *bare], "topic").values())) == 1
    assert clusters_of_results([*a, *b], "row") == {}
    for results, by in (([*a, *b], "nonsense"), (bare, "document"), (bare, "topic")):
        with pytest.raises(TestsetError, match="to be clustered by"):
            clusters_of_results(results, by)


def test_queries_of_a_trec_run_share_documents() -> None:
    qrels = {
        "q1": {"a": 1, "x": 0},
        "q2": {"a": 2},
        "q3": {"b": 1, "x": 0},
        "q4": {"c": 1},
    }
    run = {query: (("a", 1.0),) for query in qrels}
    assert score_run(run, qrels, MEASURES)["nDCG@10"].clusters == 3
