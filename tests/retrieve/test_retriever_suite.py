"""Our own retrieval, and one written by a stranger, held to the suite for retrievers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import Hit, RetrieveError
from ragwright.flow import Flow, Runner, lookup, search_keyword
from ragwright.retrieve import Retrieved, RetrieveOptions, Target, retrieve
from ragwright.testing import RetrieverFunction, RetrieverSuite, index_corpus


class TestOurs(RetrieverSuite):
    def make(self) -> RetrieverFunction:
        return retrieve


def strangers(query: str, target: Target, options: RetrieveOptions) -> Flow[Retrieved]:
    """What the guide shows: keyword search, written from the verbs alone."""
    if not query.strip():
        raise RetrieveError("the query is empty")
    found = yield from search_keyword(
        target.snapshot, query[: options.max_query_chars], options.top_k, options.filters
    )
    stored = (yield from lookup(target.snapshot, [key for key, _ in found])).hits
    hits = [
        Hit(
            rank,
            score,
            hit.document_id,
            hit.chunk_id,
            hit.source,
            hit.title,
            hit.page,
            hit.start,
            hit.end,
            hit.text,
            metadata=hit.metadata,
        )
        for rank, ((_, score), hit) in enumerate(zip(found, stored, strict=True), 1)
    ]
    return Retrieved(query, tuple(hits), "own")


class TestAStranger(RetrieverSuite):
    def make(self) -> RetrieverFunction:
        return strangers


def test_the_suite_refuses_a_retriever_without_the_check_of_the_query(tmp_path: Path) -> None:
    def careless(query: str, target: Target, options: RetrieveOptions) -> Flow[Retrieved]:
        return (yield from strangers(query.strip() or "oil", target, options))

    class Careless(RetrieverSuite):
        def make(self) -> RetrieverFunction:
            return careless

    with (
        index_corpus(tmp_path) as (routes, target),
        Runner(routes) as runner,
        pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"),
    ):
        Careless().test_an_empty_query_is_refused(
            lambda query: runner.run(careless(query, target, RetrieveOptions()))
        )
