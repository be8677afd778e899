"""The conformance suite of rerankers, as tests that a plug-in inherits; a small index."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ..flow import BatchHandler, Embed, EmbedReply, Lookup, Route, Search
from ..index import LookupHandler, SearchHandler, StoreOptions, Views, open_store
from ..models import Analyzer, Reranker
from ..retrieve import Target
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
