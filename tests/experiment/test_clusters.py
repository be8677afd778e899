"""Rows that share a document or a question are no independent observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ragwright.core import GoldSpan, Row, Score, TestsetError
from ragwright.experiment import (
    RowResult,
    clusters_of_results,
    clusters_of_rows,
    compare_evaluations,
    evaluation_of,
    list_shared_values,
    score_run,
)
from ragwright.measure import parse_measures

MEASURES = parse_measures("nDCG@10")


def row(name: str, *gold: str, asked: str = "") -> Row:
    return Row(name, asked or f"question {name}?", reference_ids=dict.fromkeys(gold, 1))


def result(name: str, value: float, **shared: tuple[str, ...]) -> RowResult:
    return RowResult(name, (), (Score("nDCG@10", "scored", value),), shared=shared)


def span(at: int, document: str) -> Row:
    place = at // 2 * 100
    gold = GoldSpan(document, place + at % 2, place + 90)
    return Row(f"q{at}", f"question {at}?", reference_spans=(gold,))


def spans(rows: int, documents: int) -> list[Row]:
    """Rows whose gold is another part of few documents, two rows for each part."""
    return [span(at, f"d{at // 2 % documents}") for at in range(rows)]


CHAIN = [row("1", "a", "b"), row("2", "b", "c"), row("3", "c"), row("4", "d")]
CHAIN += [Row("5", "five?", reference_spans=(GoldSpan("d", 0, 3),)), row("6"), row("7")]
NO_USE = replace(row("8", "e"), reference_ids={"e": 1, "a": 0})
MANUAL = [row(str(at), "manual") for at in range(9)]
PEOPLE = [
    row(f"{at} for {who}", "manual", asked=f"What is {at}?") for at in range(6) for who in "ab"
]
TOGETHER = [row(str(at), f"a{at // 2}", "z") for at in range(8)]
SAID = ["what is it?", *["What  IS it?"] * 4]
ALIKE = [row(str(at), asked=said) for at, said in enumerate(SAID)]


CASES: dict[str, tuple[list[Row], int]] = {
    "a chain of shared documents is one": ([*CHAIN, row("8", "e")], 5),
    "a document of no use to both joins nothing": ([*CHAIN, NO_USE], 5),
    "without shared documents rows stand alone": ([row("1", "a"), row("2", "b"), row("3")], 0),
    "no rows": ([], 0),
    "nearly all about one document: that is what is measured": ([*MANUAL, row("x", "y")], 0),
    "where everything hangs together the first document counts": (TOGETHER, 4),
    "questions hold rows together where documents no longer do": (PEOPLE, 6),
    "most rows ask one question": ([*ALIKE, row("x")], 2),
    "rows that ask nothing share nothing": ([Row(str(at), "") for at in range(4)], 0),
    "one document is clustered by passage": (spans(24, 1), 12),
    "few documents are clustered by passage": (spans(24, 3), 12),
}


@pytest.mark.parametrize(("rows", "count"), CASES.values(), ids=CASES)
def test_rows_have_their_clusters(rows: list[Row], count: int) -> None:
    found = clusters_of_rows(rows)
    assert found.keys() == ({row.id for row in rows} if count else set())
    assert len(set(found.values())) == count
    if rows[:7] == CHAIN:
        assert found["1"] == found["2"] == found["3"]
        assert found["4"] == found["5"]
        assert found["8"] not in {found[other] for other in "1234567"}


def test_a_cluster_is_named_by_its_field() -> None:
    asked = clusters_of_rows(ALIKE, "user_input")
    assert asked["0"] == asked["1"]
    mine = replace(row("1"), persona_name="me")
    assert clusters_of_rows([mine], "persona_name") == {"1": ("me",)}
    with pytest.raises(TestsetError, match="for clustering"):
        clusters_of_rows([row("1")], "nobody")


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
            caught[name] += (found.low or 1) <= 0.5 <= (found.high or 0)
    assert caught["documents"] >= 51  # 85 of 100; 95 are due
    assert caught["rows"] <= 45


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
    qrels = {"q1": {"a": 1, "x": 0}, "q2": {"a": 2}, "q3": {"b": 1, "x": 0}, "q4": {"c": 1}}
    run = dict.fromkeys(qrels, (("a", 1.0),))
    assert score_run(run, qrels, MEASURES)["nDCG@10"].clusters == 3


TWICE = [
    Row(f"{at} for {name}", f"question  {at}?", persona_name=name, response="x")
    for at in range(8)
    for name in ("engineer", "marketing")
]
"""Eight questions without gold, each for two personas."""


def test_one_question_for_several_personas_is_one_observation() -> None:
    def runs(of: Sequence[Row], kept: bool) -> list[list[RowResult]]:
        """All rows at 0, and six questions of eight at 0.9."""
        return [
            [
                RowResult(
                    one.id,
                    (),
                    (Score("nDCG@10", "scored", high if int(one.id[0]) < 6 else low),),
                    one if kept else None,
                    shared={} if kept else list_shared_values(one),
                )
                for one in of
            ]
            for high, low in ((0.0, 0.0), (0.9, 0.1))
        ]

    once, *both = (
        compare_evaluations(*(evaluation_of(side, MEASURES) for side in sides))["nDCG@10"]
        for sides in (runs(TWICE[::2], True), runs(TWICE, True), runs(TWICE, False))
    )
    assert (once.n, once.clusters) == (8, None)
    for found in both:
        assert (found.n, found.clusters) == (16, 8)
        assert (found.p, found.difference) == pytest.approx((once.p, once.difference))
    # What a newer run knows of its questions holds for an older one.
    new = [result(one.id, 0.5, **list_shared_values(one)) for one in TWICE]
    old = [replace(one, shared={"persona_name": one.shared["persona_name"]}) for one in new]
    assert len(set(clusters_of_results([*old, *new]).values())) == 8


def compared(rows: list[Row], by: str = "") -> tuple[int | None, str]:
    sides = [
        [result(r.id, value + at % 5 / 50, **list_shared_values(r)) for at, r in enumerate(rows)]
        for value in (0.1, 0.6)
    ]
    clusters = clusters_of_results([*sides[0], *sides[1]], by)
    first, second = (evaluation_of(side, MEASURES) for side in sides)
    found = compare_evaluations(first, second, clusters=clusters)["nDCG@10"]
    return found.clusters, clusters.note


@pytest.mark.parametrize("documents", [1, 2, 3])
def test_few_documents_are_clustered_by_passage_and_say_so(documents: int) -> None:
    rows = spans(24, documents)
    clusters, note = compared(rows)
    assert clusters == 12
    for said in ("clustered by gold passage", f"in {documents} document", "--cluster"):
        assert said in note
    assert compared(rows, "passage") == (12, "")
    assert compared(rows, "row") == (None, "")
    if documents > 1:
        assert compared(rows, "document") == (documents, "")


def test_many_documents_stay_clusters_and_passages_need_gold_spans() -> None:
    assert compared(spans(80, 20)) == (20, "")
    assert compared(spans(80, 19))[0] == 40
    whole = [row(f"whole {at}", f"d{at % 3}") for at in range(12)]
    assert compared(whole) == (3, "")
    assert compared([*spans(12, 3), *whole])[0] == 3  # a part of the gold is documents
    with pytest.raises(TestsetError, match="'passage' for clustering"):
        compared(whole, "passage")
