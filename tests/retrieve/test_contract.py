"""What every caller of retrieval relies on, on an index of forty small documents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import Filter, RetrieveError
from ragwright.flow import Runner
from ragwright.retrieve import Retrieved, RetrieveOptions, retrieve
from ragwright.testing import index_corpus, make_document


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., Retrieved]]:
    """Search without stored replies; keyword arguments are options."""
    with index_corpus(tmp_path) as (routes, target):

        def ask(query: str, **options: Any) -> Retrieved:
            # A runner remembers searches: the second answer would be the first one's.
            with Runner(routes) as runner:
                return runner.run(retrieve(query, target, RetrieveOptions(**options)))

        yield ask


def test_hits_are_ranked_from_one_and_scores_fall(ask: Callable[..., Retrieved]) -> None:
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


def test_a_hit_is_the_text_of_its_span(ask: Callable[..., Retrieved]) -> None:
    """Citations point into the document: text, start and end agree."""
    texts = {document.id: document.text for document in map(make_document, range(40))}
    for hit in ask("brake pump", top_k=20).hits:
        assert hit.text == texts[hit.document_id][hit.start : hit.end]
        assert hit.source


def test_hard_filters_hold(ask: Callable[..., Retrieved]) -> None:
    """Every hit meets the hard filters."""
    hits = ask("valve filter", top_k=20, filters=(Filter("client", ("client 3",)),)).hits
    assert hits
    assert {hit.metadata["client"] for hit in hits} == {"client 3"}
    barred = Filter("client", ("client 3", "client 0"), exclude=True)
    hits = ask("valve filter", top_k=20, filters=(barred,)).hits
    assert hits
    assert not {hit.metadata["client"] for hit in hits} & set(barred.values)


def test_an_empty_query_is_refused(ask: Callable[..., Retrieved]) -> None:
    """With the error of retrieval, so that a server answers 4xx and a run goes on."""
    for query in ("", "   \n"):
        with pytest.raises(RetrieveError):
            ask(query)


def test_odd_queries_are_answered(ask: Callable[..., Retrieved]) -> None:
    """Unknown words, punctuation alone and very long queries do not fail."""
    for query in ("zyxwv", "🙂 ???", "oil pump " * 2_000):
        assert isinstance(ask(query), Retrieved)


def test_the_same_question_has_the_same_answer(ask: Callable[..., Retrieved]) -> None:
    """The same query gives the same hits, byte for byte."""
    assert ask("lamp fuse relay") == ask("lamp fuse relay")
