"""Retrieval: a flow per row, and a ranking as deep as the measures look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from ragwright.core import (
    Hit,
    MeasureError,
    RetrieveError,
    Row,
)
from ragwright.experiment import ranking_search, retrieval_row
from ragwright.flow import (
    BatchHandler,
    Flow,
    Lookup,
    LookupReply,
    Runner,
    Search,
    SearchReply,
    search_keyword,
)
from ragwright.measure import parse_measures
from ragwright.retrieve import RetrieveOptions, Target, retrieve
from ragwright.testsets import Testset

MEASURES = parse_measures("nDCG@10, MRR")

TESTSET = Testset(
    "test",
    (
        Row(id="1", user_input="first", reference_ids={"a": 1}),
        Row(id="2", user_input="second", reference_ids={"a": 1}),
        Row(id="3", user_input="broken", reference_ids={"a": 1}),
        Row(id="4", user_input="first", reference_ids={}),
    ),
    ("a note",),
)


class Canned(BatchHandler[Search, SearchReply]):
    def durable(self, request: Search) -> bool:
        return False

    def reply_to(self, requests: Sequence[Search]) -> Sequence[SearchReply | RetrieveError]:
        return [self._one(request.text) for request in requests]

    def _one(self, text: str) -> SearchReply | RetrieveError:
        if text == "broken":
            return RetrieveError("the index is gone")
        order = ("a", "b") if text == "first" else ("b", "a")
        return SearchReply(tuple((key, 1.0) for key in order))


def search(query: str) -> Flow[Sequence[Hit]]:
    found = yield from search_keyword("s", query, 10)
    return [Hit(0, 0.0, key, key, "s", "", None, 0, 1, "t") for key, _ in found]


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner({Search: Canned()}) as runner:
        yield runner


def test_a_failed_search_fails_its_row_only(runner: Runner) -> None:
    outcomes = list(runner.outcomes(retrieval_row(row, search, MEASURES) for row in TESTSET.rows))
    assert [outcome.state for outcome in outcomes] == ["done", "done", "failed", "done"]
    assert "the index is gone" in str(outcomes[2].error)
    found = {at: outcomes[at].unwrap() for at in (0, 1, 3)}
    assert found[1].ranking == ("b", "a")
    assert [score.value for score in found[1].scores] == [pytest.approx(0.6309, abs=1e-4), 0.5]
    assert {score.state for score in found[3].scores} == {"not_applicable"}


class Chunks(BatchHandler[Search | Lookup, SearchReply | LookupReply]):
    """Thirty chunks, three a document, best first by number."""

    def durable(self, request: Search | Lookup) -> bool:
        return False

    def reply_to(self, requests: Sequence[Search | Lookup]) -> Sequence[SearchReply | LookupReply]:
        return [self._one(request) for request in requests]

    def _one(self, request: Search | Lookup) -> SearchReply | LookupReply:
        if isinstance(request, Search):
            return SearchReply(tuple((f"c{n:02}", 99.0 - n) for n in range(min(30, request.k))))
        return LookupReply(
            tuple(
                Hit(0, 0.0, f"d{int(key[1:]) // 3}", key, "s", "", None, 0, 1, "t")
                for key in request.chunk_ids
            )
        )


def test_a_ranking_is_as_deep_as_the_measures_look() -> None:
    handler = Chunks()
    target, shallow = Target("s"), RetrieveOptions(top_k=2, pool=4)
    with Runner({Search: handler, Lookup: handler}) as runner:
        few = runner.run(ranking_search(target, shallow)("why"))
        many = runner.run(ranking_search(target, shallow, parse_measures("nDCG@30"))("why"))
    assert [hit.chunk_id for hit in few] == ["c00", "c01", "c02", "c03"]  # all candidates
    assert [hit.document_id for hit in many] == [f"d{n // 3}" for n in range(30)]


def test_candidates_follow_the_hits_wanted_unless_the_pool_is_set() -> None:
    counts = [RetrieveOptions(top_k=wanted).candidates for wanted in (1, 20, 21, 100)]
    assert counts == [100, 100, 105, 500]
    assert RetrieveOptions(top_k=100, pool=50).candidates == 100
    assert RetrieveOptions(top_k=10, pool=50).candidates == 50
    asked: list[int] = []

    class Counting(Chunks):
        def reply_to(
            self, requests: Sequence[Search | Lookup]
        ) -> Sequence[SearchReply | LookupReply]:
            asked.extend(request.k for request in requests if isinstance(request, Search))
            return super().reply_to(requests)

    handler = Counting()
    for options in (RetrieveOptions(top_k=100), RetrieveOptions(context_tokens=50)):
        with Runner({Search: handler, Lookup: handler}) as runner:
            runner.run(retrieve("why", Target("s"), options))
    assert asked == [500, 100]


def test_a_search_is_not_evaluated_by_measures_of_answers() -> None:
    with pytest.raises(MeasureError, match="TokenF1"):
        ranking_search(Target("s"), RetrieveOptions(), parse_measures("nDCG@10, TokenF1"))
