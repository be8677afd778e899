"""Encodings of chunks in the store: exact scores through a history of writes, and gaps."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Chunk, Document, Filter, RetrieveError, Span, StoreError
from ragwright.flow import Search
from ragwright.index import IndexedDocument, IndexSpec, LanceStore, SqliteStore, Views
from ragwright.models import Analyzer

PAIR = IndexSpec("whole", Analyzer().spec)
ENCODER = "model/1"
Vector = dict[int, float]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    yield opened
    opened.close()


def item(name: str, parity: str = "") -> IndexedDocument:
    """A document of two chunks."""
    pieces = [f"{name} first. ", f"{name} second."]
    text, cut = "".join(pieces), len(pieces[0])
    spans = (Span(0, cut), Span(cut, len(text)))
    chunks = tuple(
        Chunk(f"{name}:{at}", name, at, span, piece)
        for at, (span, piece) in enumerate(zip(spans, pieces, strict=True))
    )
    return IndexedDocument(Document(name, name, text, metadata={"parity": parity}), chunks)


def vector(rng: random.Random) -> Vector:
    """A random sparse vector; the first terms are in most of them."""
    numbers = {int(rng.paretovariate(0.5)) % 500 for _ in range(30)}
    return {number: rng.random() * 3 for number in numbers}


def encoded(values: Mapping[int, float]) -> bytes:
    terms = sorted(values)
    weights = np.array([values[term] for term in terms], np.float32)
    return np.array(terms, np.uint32).tobytes() + weights.tobytes()


def fill(store: SqliteStore, rng: random.Random, vectors: dict[str, Vector]) -> int:
    """Encode what is missing by random vectors; the number of documents."""
    stamps = store.stamps_without(PAIR, ENCODER)
    encodings = {}
    for stamp, texts in store.stamped_texts(PAIR, stamps):
        name = texts[0].split()[0]
        own = [vector(rng) for _ in texts]
        vectors.update((f"{name}:{at}", each) for at, each in enumerate(own))
        encodings[stamp] = tuple(map(encoded, own))
    store.put_encodings(ENCODER, encodings)
    return len(encodings)


def naive(vectors: Mapping[str, Vector], query: Vector, k: int) -> list[tuple[str, float]]:
    scores = {
        name: sum(query[term] * weight for term, weight in own.items() if term in query)
        for name, own in vectors.items()
    }
    ranked = sorted(scores.items(), key=lambda pair: (-round(pair[1], 6), pair[0]))
    return [pair for pair in ranked if pair[1] > 0][:k]


def searched(
    store: SqliteStore, query: Vector, k: int = 1000, filters: tuple[Filter, ...] = ()
) -> tuple[tuple[str, float], ...]:
    view = store.view(PAIR)
    request = Search(
        view.snapshot, "sparse", k, vector=encoded(query), encoder=ENCODER, filters=filters
    )
    return view.encoded(request).candidates


def test_scores_are_exact_through_a_history_of_writes(store: SqliteStore) -> None:
    rng = random.Random(1)
    vectors: dict[str, Vector] = {}
    for step in range(4):
        names = [f"d{step}{number}" for number in range(15)]
        store.upsert(PAIR, [item(name, "odd" if step % 2 else "even") for name in names])
        gone = [f"d{step - 1}{number}" for number in (3, 4)] if step else []
        store.remove(gone, PAIR)
        for name in gone:
            del vectors[f"{name}:0"], vectors[f"{name}:1"]
        assert fill(store, rng, vectors) == 15
        query = vector(rng)
        found = searched(store, query)
        expected = naive(vectors, query, 1000)
        assert [name for name, _ in found] == [name for name, _ in expected]
        assert dict(found) == pytest.approx(dict(expected), abs=2e-5)
        assert searched(store, query, 7) == found[:7]
    even = searched(store, query, filters=(Filter("parity", ("even",)),))
    assert even == tuple(pair for pair in found if pair[0][1] in "02")
    # A query of terms that no chunk has, and one of terms beyond all of them.
    assert searched(store, {499: 0.0, 10**6: 1.0}) == ()


def test_a_chunk_without_terms_is_not_found_and_bad_bytes_are_refused(store: SqliteStore) -> None:
    store.upsert(PAIR, [item("a"), item("b")])
    [first, second] = store.stamps_without(PAIR, ENCODER)
    store.put_encodings(ENCODER, {first: (b"", encoded({1: 1.0})), second: (b"", b"")})
    assert searched(store, {1: 2.0}) == (("a:1", 2.0),)
    view = store.view(PAIR)
    bad = Search(view.snapshot, "sparse", 5, vector=b"1234567", encoder=ENCODER)
    with pytest.raises(RetrieveError, match="7 bytes are not a sparse vector"):
        view.encoded(bad)


def test_what_is_missing_is_counted_and_named(store: SqliteStore) -> None:
    store.upsert(PAIR, [item("a"), item("b")])
    [first, second] = store.stamps_without(PAIR, ENCODER)
    store.put_encodings(ENCODER, {first: (encoded({1: 1.0}), b""), 99: (b"",)})
    size = store.encoding_size(PAIR, ENCODER)
    assert (size.documents, size.missing, size.chunks, size.bytes) == (1, 1, 2, 8)
    with pytest.raises(RetrieveError, match="2 chunks of this index have no data") as caught:
        searched(store, {1: 1.0})
    assert "ragwright ingest" in str(caught.value.hint)
    store.put_encodings(ENCODER, {second: (b"",)})
    with pytest.raises(StoreError, match="1 encoding for 2 chunks"):
        searched(store, {1: 1.0})
    store.put_encodings(ENCODER, {second: (b"", encoded({1: 3.0}))})
    assert [name for name, _ in searched(store, {1: 1.0})] == ["b:1", "a:0"]


def test_a_damaged_side_is_made_anew(store: SqliteStore, tmp_path: Path) -> None:
    store.upsert(PAIR, [item("a")])
    [stamp] = store.stamps_without(PAIR, ENCODER)
    store.put_encodings(ENCODER, {stamp: (encoded({1: 1.0}), b"")})
    found = searched(store, {1: 1.0})
    [side] = (tmp_path / "views").rglob("*.side")
    side.write_bytes(b"damaged")
    again = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    assert searched(again, {1: 1.0}) == found == (("a:0", 1.0),)
    again.close()


def test_purging_a_document_leaves_no_side_of_it(store: SqliteStore, tmp_path: Path) -> None:
    store.upsert(PAIR, [item("a"), item("b")])
    fill(store, random.Random(2), {})
    searched(store, {1: 1.0})
    assert list((tmp_path / "views").rglob("*.side"))
    store.remove(["a"], purge=True)
    assert not list((tmp_path / "views").rglob("*.side"))
    assert {name[0] for name, _ in searched(store, dict.fromkeys(range(500), 1.0))} == {"b"}


def test_unknown_channels_and_stores_without_them_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    lance = LanceStore(tmp_path / "lance")
    lance.upsert(PAIR, [item("a")])
    with pytest.raises(StoreError, match="keeps no data for further search channels"):
        lance.stamps_without(PAIR, ENCODER)
    view = Views(lance).view(lance.snapshot(PAIR))
    with pytest.raises(StoreError, match="keeps no data for further search channels"):
        view.encoded(Search("s", "sparse", 5, encoder="m"))
    lance.close()


def test_a_channel_that_does_not_exist_is_named(store: SqliteStore) -> None:
    store.upsert(PAIR, [item("a")])
    view = store.view(PAIR)
    with pytest.raises(RetrieveError, match="there is no search channel 'sparze'"):
        view.encoded(Search(view.snapshot, "sparze", 5, encoder="m"))
