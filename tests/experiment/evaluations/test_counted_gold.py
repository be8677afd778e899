"""Gold spans are counted wherever a row has some, with answers or without; else documents."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from ragwright.core import Answer, Counted, GoldSpan, Hit, Row, Score, make_plain
from ragwright.experiment import (
    RowResult,
    answer_and_score_row,
    compare_evaluations,
    evaluation_of,
    read_plain,
    retrieval_row,
)
from ragwright.flow import Flow, Runner, RunnerOptions
from ragwright.measure import parse_measures

MEASURES = parse_measures(
    "HitRate@1, HitRate@3, MRR@10, MRR, nDCG@5, Recall@4, Precision@3, MAP, Recall(rel=2)@3, "
    "SpanPrecision@3, SpanIoU@3"
)
PLACES = st.tuples(
    st.sampled_from("abc"), st.integers(0, 60), st.integers(1, 40)
)  # document, start, length


@st.composite
def gold_spans(draw: st.DrawFn) -> tuple[GoldSpan, ...]:
    places = draw(st.lists(PLACES, max_size=4))
    return tuple(GoldSpan(name, start, start + length) for name, start, length in places)


@st.composite
def searched(draw: st.DrawFn) -> tuple[Row, list[Hit]]:
    """A row with spans, graded documents, both or neither, and the hits of its question."""
    grades = draw(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3), max_size=4))
    row = Row("r", "why?", reference_ids=grades, reference_spans=draw(gold_spans()))
    hits = [
        Hit(rank, 1.0, name, f"{name}:{start}", name, "", None, start, start + length, "text")
        for rank, (name, start, length) in enumerate(draw(st.lists(PLACES, max_size=8)), 1)
    ]
    return row, hits


@settings(deadline=None, max_examples=300)
@given(searched())
def test_rankings_and_answers_are_scored_alike(case: tuple[Row, list[Hit]]) -> None:
    row, hits = case
    ranked, answered = both_roads(row, hits)
    assert ranked.scores == answered.scores
    assert read_plain(RowResult, make_plain(ranked)).scores == ranked.scores
    kinds = {score.counted for score in ranked.scores if score.value is not None}
    if row.reference_spans:
        assert kinds <= {"spans", "documents"}
        assert all(
            score.counted == "spans"
            for score in ranked.scores
            if score.value is not None and score.measure != "MAP"
        )
    else:
        assert kinds <= {"documents"}


def test_spans_of_one_document_are_told_apart() -> None:
    """Every hit lies in the gold document, and none in the gold part of it."""
    row = Row("r", "why?", reference_spans=(GoldSpan("a", 500, 600),))
    hits = [Hit(1, 1.0, "a", "a:0", "a", "", None, 0, 100, "text")]
    for result in both_roads(row, hits):
        scores = {score.measure: score for score in result.scores}
        assert (scores["HitRate@1"].value, scores["HitRate@1"].counted) == (0.0, "spans")
        assert scores["MAP"].no_gold  # it counts documents alone, and the row names none


@pytest.mark.parametrize("of_spans", [0, 3, 6])
def test_a_summary_says_what_was_counted(of_spans: int) -> None:
    results = [_result(str(n), "spans" if n < of_spans else "documents") for n in range(6)]
    found = evaluation_of(results, parse_measures("HitRate@1"))["HitRate@1"]
    wanted = {"spans": of_spans, "documents": 6 - of_spans}
    assert dict(found.counted) == {name: count for name, count in wanted.items() if count}


def test_runs_that_counted_different_gold_get_no_verdict() -> None:
    measures = parse_measures("HitRate@1")
    old = evaluation_of([_result(str(n), "documents") for n in range(40)], measures)
    new = evaluation_of([_result(str(n), "spans", 0.0) for n in range(40)], measures)
    found = compare_evaluations(old, new)["HitRate@1"]
    assert found.verdict == "no change proven"
    assert "the first run counted documents and the second spans in every row" in found.text
    assert found.counted == ("spans", "documents")
    same = compare_evaluations(new, new)["HitRate@1"]
    assert (same.counted, same.incomparable) == (("spans",), "")


def both_roads(row: Row, hits: Sequence[Hit]) -> tuple[RowResult, RowResult]:
    """A row scored by its ranking alone, and with an answer from the same passages."""

    def search(query: str) -> Flow[Sequence[Hit]]:
        yield from ()
        return hits

    def answer(row: Row) -> Flow[Answer]:
        yield from ()
        return Answer(row.user_input, "an answer", hits=tuple(hits))

    with Runner({}, RunnerOptions()) as runner:
        ranked = runner.run(retrieval_row(row, search, MEASURES))
        return ranked, runner.run(answer_and_score_row(row, answer, MEASURES))


def _result(row: str, counted: Counted, value: float = 1.0) -> RowResult:
    return RowResult(row, ("a",), (Score("HitRate@1", "scored", value, counted=counted),))
