"""Evaluation: a flow per row, no row lost, and a pure summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from ragwright.core import (
    BudgetStopped,
    Hit,
    MeasureError,
    RetrieveError,
    Row,
    StoppedError,
    TestsetError,
)
from ragwright.experiment import (
    evaluate_retrieval,
    ranking_search,
    retrieval_flows,
    retrieval_row,
    summarise,
)
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


def test_every_row_has_a_score_whatever_happened(runner: Runner) -> None:
    found = runner.run(evaluate_retrieval(TESTSET, search, MEASURES))
    states = {r.row_id: [s.state for s in r.scores] for r in found.results}
    assert states == {
        "1": ["scored"] * 2,
        "2": ["scored"] * 2,
        "3": ["errored"] * 2,
        "4": ["not_applicable"] * 2,
    }
    assert "the index is gone" in found.results[2].scores[0].reason
    assert found.results[1].ranking == ("b", "a")
    summary = found["MRR"]
    assert (summary.mean, summary.n, summary.no_gold) == (0.75, 2, 1)
    assert summary.coverage == 2 / 3  # row 4 has no gold: no system could be scored on it
    assert summary.states == {"scored": 2, "not_applicable": 1, "errored": 1}
    assert found.notes == TESTSET.notes
    with pytest.raises(KeyError):
        found["MAP"]


def test_mapping_the_flows_gives_the_same(runner: Runner) -> None:
    whole = runner.run(evaluate_retrieval(TESTSET, search, MEASURES, seed=5))
    results = list(runner.map(retrieval_flows(TESTSET, search, MEASURES)))
    assert summarise(TESTSET, results, MEASURES, seed=5) == whole
    assert summarise(TESTSET, results[::-1], MEASURES, seed=5) == whole


def test_rows_without_a_result_are_skipped_not_lost(runner: Runner) -> None:
    results = list(runner.map(retrieval_flows(TESTSET, search, MEASURES)))
    found = summarise(TESTSET, results[:1], MEASURES)
    assert [r.row_id for r in found.results] == ["1", "2", "3", "4"]
    assert found["MRR"].states == {"scored": 1, "skipped": 3}
    assert found["MRR"].coverage == 0.25


def test_failures_kept_apart_come_back_as_errored_rows(runner: Runner) -> None:
    outcomes = list(runner.outcomes(retrieval_row(row, search, MEASURES) for row in TESTSET.rows))
    assert [outcome.state for outcome in outcomes] == ["done", "done", "failed", "done"]
    done = [outcome.unwrap() for outcome in outcomes if outcome.state == "done"]
    found = summarise(TESTSET, done, MEASURES, errors={"3": "the index is gone"})
    assert found.results[2].scores[0].reason == "the index is gone"
    assert found["MRR"] == runner.run(evaluate_retrieval(TESTSET, search, MEASURES))["MRR"]


def test_results_must_belong_to_the_testset(runner: Runner) -> None:
    results = list(runner.map(retrieval_flows(TESTSET, search, MEASURES)))
    with pytest.raises(TestsetError, match="not in the testset"):
        summarise(Testset("other", TESTSET.rows[:1]), results, MEASURES)
    with pytest.raises(TestsetError, match="two results"):
        summarise(TESTSET, [*results, results[0]], MEASURES)


def test_a_stop_is_not_a_failed_row() -> None:
    """The runner must see a stop: a row that scored it would be wrong."""
    flow = next(retrieval_flows(TESTSET, search, MEASURES))
    next(flow)
    with pytest.raises(StoppedError):
        flow.throw(BudgetStopped("spent"))


def test_an_own_search_that_is_wrong_fails_its_rows_only(runner: Runner) -> None:
    def broken(query: str) -> Flow[Sequence[Hit]]:
        found = yield from search(query)
        if query == "second":
            raise ValueError("a bug of theirs")
        return found

    found = runner.run(evaluate_retrieval(TESTSET, broken, MEASURES))
    assert "ValueError: a bug of theirs" in found.results[1].scores[0].reason
    assert found["MRR"].states["errored"] == 2
    assert found["MRR"].mean == 1.0


def test_flows_are_made_as_they_are_read() -> None:
    asked: list[str] = []

    def spy(query: str) -> Flow[Sequence[Hit]]:
        asked.append(query)
        return search(query)

    flows = retrieval_flows(TESTSET, spy, MEASURES)
    next(next(flows))
    assert asked == ["first"]


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
