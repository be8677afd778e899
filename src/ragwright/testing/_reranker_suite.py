"""The conformance suites of rerankers and of own retrievers, as tests that a plug-in inherits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from ..core import Filter, RetrieveError
from ..flow import BatchHandler, Embed, EmbedReply, Flow, Lookup, Route, Runner, Search
from ..index import LookupHandler, SearchHandler, StoreOptions, Views, open_store
from ..models import Analyzer, Reranker
from ..retrieve import Retrieved, RetrieveOptions, Target
from ._index_corpus import PAIR, make_document, make_indexed, make_vector

QUERY = "How is the oil pressure sensor replaced?"

PASSAGES = (
    "To replace the oil pressure sensor, drain the oil and unscrew the sensor.",
    "The orchestra played until midnight.",
    "Le capteur de pression d'huile se trouve à gauche du moteur.",
    "error_code APP_w304 🙂 漢字 e\u0301cran \u202eabc",
    "x",
    "  spaces   and\nlines ",
    "",
)
"""An answer, another subject, another language, codes and marks, and hardly anything."""

RetrieverFunction: TypeAlias = Callable[[str, Target, RetrieveOptions], Flow[Retrieved]]


class RerankerSuite:
    """Inherit it and say how to make the reranker.

    For example::

        class TestMine(RerankerSuite):
            def make(self) -> Reranker:
                return MyReranker()

    Attributes:
        tolerance: Largest difference between two scores of one passage; 0 asks for equal ones.
        pointwise: A passage's score does not depend on the other passages and their order; off
            for models that read a list.
        semantic: The model is expected to put an answer before another subject.
        query: What is asked.
    """

    tolerance: float = 0.0
    pointwise: bool = True
    semantic: bool = True
    query: str = QUERY

    def make(self) -> Reranker:
        """A fresh reranker, or a shared one."""
        raise NotImplementedError("return the reranker under test")

    def _scores(self, passages: Sequence[str]) -> list[float]:
        return [float(score) for score in self.make().score(self.query, passages)]

    def _same(self, scores: Sequence[float], other: Sequence[float]) -> bool:
        return len(scores) == len(other) and all(
            abs(a - b) <= self.tolerance for a, b in zip(scores, other, strict=True)
        )

    def test_every_passage_has_a_finite_score(self) -> None:
        """There is one score for each passage, in their order, also for empty and odd ones."""
        scores = self._scores(PASSAGES)
        assert len(scores) == len(PASSAGES)
        assert all(map(math.isfinite, scores))

    def test_no_passages_are_no_scores(self) -> None:
        """An empty list of passages gives no scores and no error."""
        assert self._scores([]) == []

    def test_scores_are_the_same_twice(self) -> None:
        """Scores repeat within ``tolerance``."""
        assert self._same(self._scores(PASSAGES), self._scores(PASSAGES))

    def test_a_score_does_not_depend_on_its_neighbours(self) -> None:
        """A score is the same alone, in a batch and in reverse order, if the model is
        ``pointwise``.
        """
        if not self.pointwise:
            pytest.skip("the model reads a list")
        together = self._scores(PASSAGES)
        assert self._same(self._scores(PASSAGES[::-1])[::-1], together)
        assert self._same([self._scores([passage])[0] for passage in PASSAGES], together)

    def test_equal_passages_have_equal_scores(self) -> None:
        """Equal passages of a batch have equal scores, if the model is ``pointwise``."""
        if not self.pointwise:
            pytest.skip("the model reads a list")
        first, second = self._scores([PASSAGES[0], PASSAGES[0]])
        assert abs(first - second) <= self.tolerance

    def test_an_answer_is_put_before_another_subject(self) -> None:
        """The passage with the answer comes first, at any position of the list."""
        if not self.semantic:
            pytest.skip("the model is not expected to tell an answer from another subject")
        for passages in (PASSAGES[:2], PASSAGES[1::-1]):
            scores = dict(zip(passages, self._scores(passages), strict=True))
            assert scores[PASSAGES[0]] > scores[PASSAGES[1]]

    def test_a_long_passage_is_scored(self) -> None:
        """One of 5,000 words is neither refused nor does it spoil its neighbours."""
        long = " ".join(["The weather was fine."] * 1250)
        scores = self._scores([long, PASSAGES[0]])
        assert all(map(math.isfinite, scores))
        if self.pointwise:
            assert abs(scores[1] - self._scores([PASSAGES[0]])[0]) <= self.tolerance

    def test_the_identity_is_stable_and_the_scale_stated(self) -> None:
        """One model opened twice has one name, and says what its scores mean."""
        assert self.make().identity
        assert self.make().identity == self.make().identity
        assert self.make().scale.strip()


class RetrieverSuite:
    """Inherit it and name the retriever: a flow ``(query, target, options)``.

    It is run on an index of forty small documents with vectors (random ones, so nothing is
    asked of their ranking), and held to what every caller of retrieval relies on.

    For example::

        class TestMine(RetrieverSuite):
            def make(self) -> RetrieverFunction:
                return my_retriever
    """

    def make(self) -> RetrieverFunction:
        """The retriever under test."""
        raise NotImplementedError("return the retriever under test")

    @pytest.fixture
    def ask(self, tmp_path: Path) -> Iterator[Callable[..., Retrieved]]:
        """Calls the retriever without stored replies; keyword arguments are options."""
        with index_corpus(tmp_path) as (routes, target):

            def ask(query: str, **options: Any) -> Retrieved:
                # A runner remembers searches: the second answer would be the first one's.
                with Runner(routes) as runner:
                    return runner.run(self.make()(query, target, RetrieveOptions(**options)))

            yield ask

    def test_hits_are_ranked_from_one_and_scores_fall(self, ask: Callable[..., Retrieved]) -> None:
        """At most ``top_k`` hits, each once; without soft filters in descending order of score."""
        for top_k in (1, 3, 50):
            retrieved = ask("oil pressure sensor", top_k=top_k)
            assert isinstance(retrieved, Retrieved)
            assert 0 < len(retrieved.hits) <= top_k
            assert [hit.rank for hit in retrieved.hits] == list(range(1, len(retrieved.hits) + 1))
            scores = [hit.score for hit in retrieved.hits]
            assert scores == sorted(scores, reverse=True)
            assert all(map(math.isfinite, scores))
            assert len({hit.chunk_id for hit in retrieved.hits}) == len(retrieved.hits)

    def test_a_hit_is_the_text_of_its_span(self, ask: Callable[..., Retrieved]) -> None:
        """Citations point into the document: text, start and end agree."""
        texts = {document.id: document.text for document in map(make_document, range(40))}
        for hit in ask("brake pump", top_k=20).hits:
            assert hit.text == texts[hit.document_id][hit.start : hit.end]
            assert hit.source

    def test_hard_filters_hold(self, ask: Callable[..., Retrieved]) -> None:
        """Every hit meets the hard filters."""
        hits = ask("valve filter", top_k=20, filters=(Filter("client", ("client 3",)),)).hits
        assert hits
        assert {hit.metadata["client"] for hit in hits} == {"client 3"}
        barred = Filter("client", ("client 3", "client 0"), exclude=True)
        hits = ask("valve filter", top_k=20, filters=(barred,)).hits
        assert hits
        assert not {hit.metadata["client"] for hit in hits} & set(barred.values)

    def test_an_empty_query_is_refused(self, ask: Callable[..., Retrieved]) -> None:
        """With the error of retrieval, so that a server answers 4xx and a run goes on."""
        for query in ("", "   \n"):
            with pytest.raises(RetrieveError):
                ask(query)

    def test_odd_queries_are_answered(self, ask: Callable[..., Retrieved]) -> None:
        """Unknown words, punctuation alone and very long queries do not fail."""
        for query in ("zyxwv", "🙂 ???", "oil pump " * 2_000):
            assert isinstance(ask(query), Retrieved)

    def test_the_same_question_has_the_same_answer(self, ask: Callable[..., Retrieved]) -> None:
        """The same query gives the same hits, byte for byte."""
        assert ask("lamp fuse relay") == ask("lamp fuse relay")


class _Vectors(BatchHandler[Embed, EmbedReply]):
    """An embedder that draws a vector by the text."""

    def durable(self, request: Embed) -> bool:
        """Nothing is stored."""
        return False

    def carry(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        """One random vector of length 1 a text."""
        return [EmbedReply(np.stack([make_vector(t) for t in r.texts])) for r in requests]


@contextmanager
def index_corpus(folder: Path) -> Iterator[tuple[dict[type, Route], Target]]:
    """Routes of a runner, and the target: the suite's forty documents in a store in ``folder``."""
    store = open_store(StoreOptions(), folder)
    views = Views(store)
    try:
        store.upsert(PAIR, [make_indexed(make_document(number)) for number in range(40)])
        routes: dict[type, Route] = {
            Search: SearchHandler(views),
            Lookup: LookupHandler(views),
            Embed: _Vectors(),
        }
        name, width = PAIR.embedder, PAIR.dimensions
        yield (
            routes,
            Target(store.snapshot(PAIR), name, width, analyzer=Analyzer()),
        )
    finally:
        views.close()
        store.close()
