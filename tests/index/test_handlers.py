"""Searches and look-ups as the runner sends them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import (
    Chunk,
    Document,
    Filter,
    FilterError,
    RetrieveError,
    SnapshotGoneError,
    Span,
)
from ragwright.flow import Lookup, LookupReply, Search, SearchReply
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    SqliteStore,
    ViewHandler,
    Views,
)
from ragwright.models import Analyzer

PAIR = IndexSpec("whole", Analyzer().spec, "random", 8)


def item(name: str, text: str) -> IndexedDocument:
    chunk = Chunk(f"{name}:0-{len(text)}", name, 0, Span(0, len(text)), text)
    vector = np.random.default_rng(list(name.encode())).standard_normal((1, 8))
    vector = vector.astype(np.float32)
    return IndexedDocument(Document(name, name, text), (chunk,), vector / np.linalg.norm(vector))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "store.sqlite")
    store.upsert(PAIR, [item(f"d{n}", f"common word{n}") for n in range(30)])
    yield store
    store.close()


def dense(snapshot: str, seed: int, k: int = 5) -> Search:
    vector = np.random.default_rng(seed).standard_normal(8).astype(np.float32)
    return Search(snapshot, "dense", k, vector=vector.tobytes())


def test_a_condition_and_its_opposite_are_two_requests(store: SqliteStore) -> None:
    """In one batch, on one view: neither is answered with what the other was."""
    snapshot = store.snapshot(PAIR)
    some = Filter("document_id", ("d1", "d2", "d3"))
    plain = dense(snapshot, 1, k=99)
    one = replace(plain, filters=(some,))
    other = replace(plain, filters=(replace(some, exclude=True),))
    assert len({one, other}) == 2
    handler = ViewHandler(Views(store))
    for asked in ([one, other], [other, one]):
        found = {}
        for request, reply in zip(asked, handler.reply_to(asked), strict=True):
            assert isinstance(reply, SearchReply)
            found[request] = {name.partition(":")[0] for name, _ in reply.candidates}
        assert found[one] == {"d1", "d2", "d3"}
        assert found[other] == {f"d{n}" for n in range(30)} - found[one]


def test_mixed_requests_get_their_own_replies(store: SqliteStore) -> None:
    snapshot = store.snapshot(PAIR)
    view = store.view(PAIR)
    handler = ViewHandler(Views(store))
    requests = [
        dense(snapshot, 1),
        Search(snapshot, "keyword", 3, text="word7"),
        dense(snapshot, 2, k=9),
        dense(snapshot, 3),
        Search(snapshot, "keyword", 3, text="common", filters=(Filter("nofield", ("x",)),)),
        Search(snapshot, "dense", 5, vector=np.full(8, np.nan, np.float32).tobytes()),
        Search(snapshot, "dense", 5, vector=b"123"),
        Search("none@0", "keyword", 3, text="word7"),
    ]
    replies = handler.reply_to(requests)
    for at in (0, 2, 3):
        vector = np.frombuffer(requests[at].vector, np.float32)[None, :]
        assert replies[at] == SearchReply(view.dense(vector, requests[at].k)[0])
    assert replies[1] == view.keyword_reply("word7", 3)
    assert isinstance(replies[4], FilterError)
    assert isinstance(replies[5], RetrieveError)
    assert isinstance(replies[6], RetrieveError)
    assert isinstance(replies[7], SnapshotGoneError)


def test_lookups_find_what_searches_found(store: SqliteStore) -> None:
    views = Views(store)
    snapshot = store.snapshot(PAIR)
    reply = ViewHandler(views).reply_to([dense(snapshot, 4)])[0]
    assert isinstance(reply, SearchReply)
    ids = tuple(key for key, _ in reply.candidates)
    found = ViewHandler(views).reply_to([Lookup(snapshot, ids), Lookup(snapshot, ("absent",))])
    assert isinstance(found[0], LookupReply)
    assert tuple(hit.chunk_id for hit in found[0].hits) == ids
    assert isinstance(found[1], RetrieveError)


def test_a_pinned_snapshot_answers_while_the_store_moves_on(store: SqliteStore) -> None:
    views = Views(store)
    pinned = views.current(PAIR).snapshot
    store.upsert(PAIR, [item("new", "common newcomer")])
    assert views.current(PAIR).snapshot != pinned
    handler = ViewHandler(views)
    asked = [Search(name, "keyword", 3, text="newcomer") for name in (pinned, store.snapshot(PAIR))]
    old, new = handler.reply_to(asked)
    assert isinstance(old, SearchReply)
    assert old.candidates == ()
    assert [(term.token, term.chunks) for term in old.terms] == [("newcom", 0)]
    assert isinstance(new, SearchReply)
    assert len(new.candidates) == 1


def test_views_keep_only_a_few_open(store: SqliteStore) -> None:
    views = Views(store, keep=2)
    opened = []
    for n in range(3):
        store.upsert(PAIR, [item(f"more{n}", "common")])
        opened.append(views.current(PAIR))
    kept = [views.view(view.snapshot) is view for view in opened[::-1]]
    assert kept == [True, True, False]
