"""Rows asked and scored: rankings, gold counted as spans or documents, replies, results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, strategies as st

from ragwright import evaluate
from ragwright.answer import resolve_citations
from ragwright.core import (
    Answer,
    GoldSpan,
    Hit,
    MeasureError,
    RetrieveError,
    Row,
    Score,
    TestsetError,
    make_plain,
    text_hash,
)
from ragwright.experiment import (
    RowResult,
    add_answer,
    add_reply,
    answer_and_score_row,
    clusters_of_rows,
    compute_results,
    ranking_search,
    read_plain,
    retrieval_row,
    slices,
)
from ragwright.flow import (
    BatchHandler,
    Flow,
    Lookup,
    LookupReply,
    Runner,
    Search,
    SearchReply,
    SystemReply,
)
from ragwright.measure import parse_measures, score_rows
from ragwright.retrieve import RetrieveOptions, Target, retrieve

# -- rankings ----------------------------------------------------------------------------------


def hit(name: str, start: int = 0, end: int = 1, rank: int = 0) -> Hit:
    return Hit(rank, 1.0, name, f"{name}:{start}", "s", "", None, start, end, "text")


class Chunks(BatchHandler[Search | Lookup, SearchReply | LookupReply]):
    """Thirty chunks, three a document, best first by number."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def durable(self, request: Search | Lookup) -> bool:
        return False

    def reply_to(
        self, requests: Sequence[Search | Lookup]
    ) -> Sequence[SearchReply | LookupReply | RetrieveError]:
        return [self._one(request) for request in requests]

    def _one(self, request: Search | Lookup) -> SearchReply | LookupReply | RetrieveError:
        if isinstance(request, Search):
            self.asked.append(request.k)
            if request.text == "broken":
                return RetrieveError("the index is gone")
            return SearchReply(tuple((f"c{n:02}", 99.0 - n) for n in range(min(30, request.k))))
        found = ((f"d{int(key[1:]) // 3}", key) for key in request.chunk_ids)
        return LookupReply(
            tuple(Hit(0, 0.0, name, key, "s", "", None, 0, 1, "t") for name, key in found)
        )


def test_a_failed_search_fails_its_row_only_and_rankings_keep_what_rows_share() -> None:
    gold = {"d1": 1}
    rows = [
        Row("1", "first", reference_ids=gold, persona_name="me", metadata={"topic": "pumps"}),
        Row("2", "broken", reference_ids=gold),
        Row("3", "first"),
    ]
    measures = parse_measures("nDCG@2, MRR")
    handler, search = Chunks(), ranking_search(Target("s"), RetrieveOptions(), measures)
    with Runner({Search: handler, Lookup: handler}) as runner:
        outcomes = list(runner.outcomes(retrieval_row(row, search, measures) for row in rows))
    assert [outcome.state for outcome in outcomes] == ["done", "failed", "done"]
    assert "the index is gone" in str(outcomes[1].error)
    first, last = (outcomes[at].unwrap() for at in (0, 2))
    assert first.ranking[:2] == ("d0", "d1")
    assert [score.value for score in first.scores] == [pytest.approx(0.6309, abs=1e-4), 0.5]
    assert {score.state for score in last.scores} == {"not_applicable"}
    shared = {"topic": ("pumps",), "persona_name": ("me",), "document": ("d1",)}
    assert first.shared == {**shared, "user_input": (text_hash("first"),)}
    assert first.row is None
    assert read_plain(RowResult, make_plain(first)) == first


def test_a_ranking_is_as_deep_as_the_measures_look() -> None:
    handler, target = Chunks(), Target("s")
    shallow = RetrieveOptions(top_k=2, pool=4)
    with Runner({Search: handler, Lookup: handler}) as runner:
        few = runner.run(ranking_search(target, shallow)("why"))
        many = runner.run(ranking_search(target, shallow, parse_measures("nDCG@30"))("why"))
        handler.asked.clear()
        for options in (RetrieveOptions(top_k=100), RetrieveOptions(context_tokens=50)):
            runner.run(retrieve("why", target, options))
    assert [hit.chunk_id for hit in few] == ["c00", "c01", "c02", "c03"]  # all candidates
    assert [hit.document_id for hit in many] == [f"d{n // 3}" for n in range(30)]
    # Candidates follow the hits wanted, unless the pool is set.
    assert handler.asked == [500, 100]
    counts = [RetrieveOptions(top_k=wanted).candidates for wanted in (1, 20, 21, 100)]
    assert counts == [100, 100, 105, 500]
    assert RetrieveOptions(top_k=100, pool=50).candidates == 100
    assert RetrieveOptions(top_k=10, pool=50).candidates == 50


# -- gold spans are counted wherever a row has some, with answers or without; else documents ----

MEASURES = parse_measures(
    "HitRate@1, HitRate@3, MRR@10, MRR, nDCG@5, Recall@4, Precision@3, MAP, Recall(rel=2)@3, "
    "SpanPrecision@3, SpanIoU@3"
)
PLACES = st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(1, 40)).map(
    lambda place: (place[0], place[1], place[1] + place[2])
)


@st.composite
def searched(draw: st.DrawFn) -> tuple[Row, list[Hit]]:
    """A row with spans, graded documents, both or neither, and the hits of its question."""
    grades = draw(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3), max_size=4))
    gold = tuple(GoldSpan(*place) for place in draw(st.lists(PLACES, max_size=4)))
    hits = draw(st.lists(PLACES, max_size=8))
    return Row("r", "why?", reference_ids=grades, reference_spans=gold), [
        hit(*place, rank=rank) for rank, place in enumerate(hits, 1)
    ]


def both_roads(row: Row, hits: Sequence[Hit]) -> tuple[RowResult, RowResult]:
    """A row scored by its ranking alone, and with an answer from the same passages."""

    def search(query: str) -> Flow[Sequence[Hit]]:
        yield from ()
        return hits

    def answer(row: Row) -> Flow[Answer]:
        yield from ()
        return Answer(row.user_input, "an answer", hits=tuple(hits))

    with Runner({}) as runner:
        ranked = runner.run(retrieval_row(row, search, MEASURES))
        return ranked, runner.run(answer_and_score_row(row, answer, MEASURES))


OUTSIDE = Row("r", "why?", reference_spans=(GoldSpan("a", 500, 600),)), [hit("a", 0, 100, 1)]
"""A hit in the gold document, and none in the gold part of it."""


@given(searched())
@example(OUTSIDE)
def test_rankings_and_answers_are_scored_alike(case: tuple[Row, list[Hit]]) -> None:
    row, hits = case
    ranked, answered = both_roads(row, hits)
    assert ranked.scores == answered.scores
    assert read_plain(RowResult, make_plain(ranked)).scores == ranked.scores
    valued = [score for score in ranked.scores if score.value is not None]
    spans = row.reference_spans
    assert all(
        score.counted == ("spans" if spans and score.measure != "MAP" else "documents")
        for score in valued
    )
    if case is OUTSIDE:
        scores = {score.measure: score for score in ranked.scores}
        assert (scores["HitRate@1"].value, scores["HitRate@1"].counted) == (0.0, "spans")
        assert scores["MAP"].no_gold  # it counts documents alone, and the row names none


# -- replies of systems, and our own answers ---------------------------------------------------

SPANS = (
    GoldSpan("d1", 10, 30, "the first  evidence."),
    GoldSpan("d2", 0, 20, "The other proof here"),
)


@pytest.mark.parametrize(
    ("passage", "place"),
    [
        ("Before. The first evidence. After.", ("d1", 10, 30)),
        ("it says the first evi", ("d1", 10, 30)),  # a border of a chunk cuts the evidence
        ("her proof here. And", ("d2", 0, 20)),
        ("first evidence", ("d1", 10, 30)),  # more than half of it
        ("the", None),
        ("Nothing.", None),
    ],
)
def test_passages_are_placed_in_the_gold(passage: str, place: tuple[str, int, int] | None) -> None:
    row = Row("1", "q", reference_spans=SPANS)
    (found,) = add_reply(row, SystemReply("x", (passage,))).retrieved_spans
    if place is None:
        assert found.document_id.startswith("passage ")
    else:
        assert (found.document_id, found.start, found.end) == place


def scored(row: Row, measures: str) -> list[float | None]:
    (scores,) = score_rows([row], parse_measures(measures))
    return [score.value for score in scores]


def test_gold_passages_become_gold_spans_and_ids_are_compared_where_that_is_asked_for() -> None:
    row = Row("1", "q", reference_contexts=("one fact here", "another fact there"))
    both = add_reply(row, SystemReply("x", ("so one fact here.", "another fact there, yes")))
    assert scored(both, "Recall@5, nDCG@5") == [1.0, 1.0]
    half = add_reply(row, SystemReply("x", ("nothing", "another fact there")))
    assert scored(half, "Recall@5, MRR@5") == [0.5, 0.5]
    by_id = SystemReply("x", ("rewritten",), ("d2",))
    found = add_reply(Row("1", "q", reference_spans=SPANS), by_id, "ids")
    assert scored(found, "Recall@5") == [0.5]


def test_rows_of_a_system_are_dependent_only_if_they_have_the_same_gold_passages() -> None:
    texts = ["one fact", "another fact", "one fact"]
    rows = [Row(f"r{at}", f"q{at}", reference_contexts=(text,)) for at, text in enumerate(texts)]
    clusters = clusters_of_rows([add_reply(row, SystemReply("x", ("no",))) for row in rows])
    assert clusters["r0"] == clusters["r2"] != clusters["r1"]


def test_every_form_of_a_resolved_mark_is_taken_out_of_the_answer() -> None:
    hits = [hit(f"d{n}", rank=n) for n in (1, 2, 3)]
    text = "A [1-3]. B [1 and 2]. C 【3†source】. D [7]. E [2, 7]. F `x[2]`. G[3]"
    citations, _ = resolve_citations(text, hits)
    row = add_answer(Row("1", "q"), Answer("q", text, citations=citations))
    assert row.response == "A. B. C. D [7]. E [2, 7]. F `x[2]`. G"


# -- results of given rows: stored, sliced, and made one at a time ---------------------------------

PLAIN = parse_measures("TokenF1, KPrecision")
GIVEN = [
    Row(
        str(at),
        f"question {at}",
        "red" if at % 2 else "blue",
        "red",
        ("it is red",),
        persona_name="engineer" if at % 3 else "marketing",
        reference_ids={f"d{at % 4}": 1},
        metadata={"topic": ("x", "y") if at == 1 else "x"},
    )
    for at in range(12)
]
SCORED = evaluate(GIVEN, PLAIN)


def test_given_rows_are_scored_without_a_runner_and_survive_the_store() -> None:
    assert SCORED["TokenF1"].mean == 0.5
    assert [r.row for r in SCORED.results] == GIVEN
    assert tuple(compute_results(GIVEN, PLAIN)) == SCORED.results
    with pytest.raises(MeasureError, match="needs a model"):
        compute_results(GIVEN, parse_measures("QADistance"))
    span = replace(GIVEN[1], reference_spans=(GoldSpan("d", 0, 3, "red"),))
    spanned = RowResult("s", ("d",), (Score("MRR", "scored", 1.0, counted="documents"),), span)
    for result in (*SCORED.results, spanned, RowResult("bare", ("d1", "d2"), ())):
        assert read_plain(RowResult, json.loads(json.dumps(make_plain(result)))) == result


def test_every_slice_has_its_own_numbers() -> None:
    def counts(by: str, rows: list[Row] = GIVEN) -> list[tuple[str, int]]:
        found = slices(SCORED.results, rows, by, PLAIN)
        return [(s.value, s.summaries[0].n) for s in found]

    assert counts("persona_name") == [("engineer", 8), ("marketing", 4)]
    [_, marketing] = slices(SCORED.results, GIVEN, "persona_name", PLAIN)
    assert marketing.notes == ("fewer than 20 scored rows: TokenF1, KPrecision",)
    assert counts("topic") == [("x", 12), ("y", 1)]
    half = [replace(r, persona_name="engineer" if int(r.id) < 6 else "") for r in GIVEN]
    assert counts("persona_name", half) == [("engineer", 6), ("", 6)]
    # A column of the user keeps its meaning, although gold documents link rows under this name.
    named = [replace(r, metadata={"document": f"manual {int(r.id) % 2}"}) for r in GIVEN]
    assert counts("document", named) == [("manual 0", 6), ("manual 1", 6)]
    with pytest.raises(TestsetError, match="no row has a value in"):
        counts("nobody")
