"""Rows that share a document are no independent observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ragwright.core import GoldSpan, Hit, Row, Score, TestsetError, make_plain, text_hash
from ragwright.experiment import (
    RowResult,
    cluster_of,
    clusters_of_results,
    clusters_of_rows,
    compare_evaluations,
    evaluation_of,
    read_plain,
    retrieval_row,
    score_run,
)
from ragwright.experiment.evaluations import list_shared_values
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


@pytest.mark.slow
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
        clusters = clusters_of_rows(rows).values()
        shared = evaluation_of(results, MEASURES, seed=seed, clusters=clusters)["nDCG@10"]
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

    def search(query: str) -> Flow[Sequence[Hit]]:
        yield from ()
        return [Hit(0, 0.0, "a", "a:0-1", "s", "", None, 0, 1, "t")]

    with Runner({}, RunnerOptions()) as runner:
        found = runner.run(retrieval_row(asked, search, MEASURES))
    assert found.row is None
    assert found.shared == {
        "topic": ("pumps",),
        "persona_name": ("engineer",),
        "document": ("a",),
        "user_input": (text_hash("question 1?"),),
    }
    assert read_plain(RowResult, make_plain(found)) == found


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
        with pytest.raises(TestsetError, match="for clustering"):
            clusters_of_results(results, by)


def test_queries_of_a_trec_run_share_documents() -> None:
    qrels = {
        "q1": {"a": 1, "x": 0},
        "q2": {"a": 2},
        "q3": {"b": 1, "x": 0},
        "q4": {"c": 1},
    }
    run = dict.fromkeys(qrels, (("a", 1.0),))
    assert score_run(run, qrels, MEASURES)["nDCG@10"].clusters == 3


def asked_twice() -> list[Row]:
    """Eight questions without gold, each for two personas."""
    return [
        Row(f"{at} for {name}", f"question  {at}?", persona_name=name, response="x")
        for at in range(8)
        for name in ("engineer", "marketing")
    ]


def test_one_question_for_several_personas_is_one_observation() -> None:
    rows = asked_twice()
    found = clusters_of_rows(rows)
    assert len(set(found.values())) == 8
    assert found["3 for engineer"] == found["3 for marketing"]
    alone = rows[::2]
    assert clusters_of_rows(alone) == {}
    values = [0.9 if at < 6 else 0.1 for at in range(8)]

    def run(of: list[Row], kept: bool) -> list[RowResult]:
        return [
            RowResult(
                one.id,
                (),
                (Score("nDCG@10", "scored", values[int(one.id[0])]),),
                one if kept else None,
                shared={} if kept else list_shared_values(one),
            )
            for one in of
        ]

    def zero(results: list[RowResult]) -> list[RowResult]:
        return [replace(r, scores=(Score("nDCG@10", "scored", 0.0),)) for r in results]

    once, *both = (
        compare_evaluations(*(evaluation_of(side, MEASURES) for side in (zero(of), of)))["nDCG@10"]
        for of in (run(alone, True), run(rows, True), run(rows, False))
    )
    assert (once.n, once.clusters) == (8, None)
    for found_both in both:
        assert (found_both.n, found_both.clusters) == (16, 8)
        assert found_both.p == pytest.approx(once.p)
        assert found_both.difference == pytest.approx(once.difference)


def test_questions_hold_rows_together_where_documents_no_longer_do() -> None:
    # nearly all are about one document: it joins nothing, the questions still do
    rows = [
        replace(row(f"{at} for {name}", "manual"), user_input=f"What is {at}?")
        for at in range(6)
        for name in "ab"
    ]
    assert len(set(clusters_of_rows(rows).values())) == 6
    # most rows ask one question: they are one observation all the same
    alike = [
        replace(row(str(at)), user_input="What  IS it?" if at else "what is it?") for at in range(5)
    ]
    assert len(set(clusters_of_rows([*alike, row("x")]).values())) == 2
    # rows that ask nothing share nothing
    assert clusters_of_rows([Row(str(at), "") for at in range(4)]) == {}
    assert cluster_of(alike[0], "document") == cluster_of(alike[1], "document")
    assert cluster_of(alike[0], "user_input") == cluster_of(alike[1], "user_input")


def test_what_a_newer_run_knows_of_its_questions_holds_for_an_older_one() -> None:
    new = [
        RowResult(r.id, (), result("", 0.5).scores, shared=list_shared_values(r))
        for r in asked_twice()
    ]
    old = [replace(one, shared={"persona_name": one.shared["persona_name"]}) for one in new]
    assert len(set(clusters_of_results([*old, *new]).values())) == 8


def spans(rows: int, documents: int) -> list[Row]:
    """Rows whose gold is another part of few documents, two rows for each part."""
    return [
        Row(
            f"q{at}",
            f"question {at}?",
            reference_spans=(
                GoldSpan(f"d{at // 2 % documents}", at // 2 * 100 + at % 2, at // 2 * 100 + 90),
            ),
        )
        for at in range(rows)
    ]


def compared_spans(rows: list[Row], by: str = "") -> tuple[int | None, str]:
    sides = [
        [
            RowResult(
                r.id,
                (),
                (Score("nDCG@10", "scored", value + at % 5 / 50),),
                shared=list_shared_values(r),
            )
            for at, r in enumerate(rows)
        ]
        for value in (0.1, 0.6)
    ]
    clusters = clusters_of_results([*sides[0], *sides[1]], by)
    first, second = (evaluation_of(side, MEASURES) for side in sides)
    found = compare_evaluations(first, second, clusters=clusters)["nDCG@10"]
    return found.clusters, clusters.note


@pytest.mark.parametrize("documents", [1, 2, 3])
def test_few_documents_are_clustered_by_passage_and_say_so(documents: int) -> None:
    rows = spans(24, documents)
    assert len(set(clusters_of_rows(rows).values())) == 12
    clusters, note = compared_spans(rows)
    assert clusters == 12
    assert "clustered by gold passage" in note
    assert f"in {documents} document" in note
    assert "--cluster" in note
    assert compared_spans(rows, "passage") == (12, "")
    assert compared_spans(rows, "row") == (None, "")
    if documents > 1:
        assert compared_spans(rows, "document") == (documents, "")
    assert cluster_of(rows[3], "passage") == "101-190 d" + str(1 % documents)


def test_many_documents_stay_clusters() -> None:
    assert compared_spans(spans(80, 20)) == (20, "")
    assert compared_spans(spans(80, 19))[0] == 40


def test_passages_need_gold_spans() -> None:
    whole = [row(f"whole {at}", f"d{at % 3}") for at in range(12)]
    assert compared_spans(whole) == (3, "")
    assert compared_spans([*spans(12, 3), *whole])[0] == 3  # a part of the gold is documents
    with pytest.raises(TestsetError, match="'passage' for clustering"):
        compared_spans(whole, "passage")
