"""Encodings of chunks on the disk, and stores that keep none; the rest is in the index suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Chunk, Document, Span, StoreError
from ragwright.flow import Search
from ragwright.index import IndexedDocument, IndexSpec, LanceStore, SqliteStore, Store, View
from ragwright.models import Analyzer, TokenVectors, passage_form, query_form, read_passage

PAIR = IndexSpec("whole", Analyzer().spec)
ENCODER = "model/1"
WIDTH = 8


def sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "store.sqlite", views=folder / "views")


def lance(folder: Path) -> Store:
    return LanceStore(folder / "store.lance")


KINDS = [
    sqlite,
    pytest.param(
        lance,
        marks=pytest.mark.slow,
    ),
]


def document(number: int) -> IndexedDocument:
    name = f"d{number:03d}"
    text = f"text {number}"
    return IndexedDocument(
        Document(name, name, text), (Chunk(name, name, 0, Span(0, len(text)), text),)
    )


def terms(values: dict[int, float]) -> bytes:
    weights = np.array(list(values.values()), np.float32)
    return np.array(list(values), np.uint32).tobytes() + weights.tobytes()


def tokens(count: int, seed: int) -> TokenVectors:
    rows = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(rows, np.zeros((count, 2), np.int32))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    yield opened
    opened.close()


def searched(store: Store, channel: str, query: bytes) -> tuple[tuple[str, float], ...]:
    view = store.view(PAIR)
    request = Search(view.snapshot, channel, 1000, vector=query, encoder=ENCODER)
    return view.encoded(request).candidates


def test_a_damaged_side_is_made_anew(store: SqliteStore, tmp_path: Path) -> None:
    store.upsert(PAIR, [document(0)])
    [stamp] = store.stamps_without(PAIR, ENCODER)
    store.put_encodings(ENCODER, {stamp: (terms({1: 1.0}),)})
    found = searched(store, "sparse", terms({1: 1.0}))
    [side] = (tmp_path / "views").rglob("*.side")
    side.write_bytes(b"damaged")
    again = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    assert searched(again, "sparse", terms({1: 1.0})) == found == (("d000", 1.0),)
    again.close()


@pytest.mark.parametrize("opened", KINDS)
@pytest.mark.parametrize("channel", ["sparse", "late"])
def test_forgotten_documents_leave_no_encoding_on_disk(
    tmp_path: Path, opened: Callable[[Path], Store], channel: str
) -> None:
    """Not in the store, a saved view or postings, nor in a kept state."""
    store = opened(tmp_path)
    store.upsert(PAIR, [document(number) for number in range(4)])
    encodings = [passage_form(tokens(40, number)) for number in range(4)]
    query, secret = query_form(tokens(2, 9)), read_passage(encodings[3])[1].tobytes()
    if channel == "sparse":
        weights = np.random.default_rng(1).random((4, 40))
        numbered = [dict(enumerate(row.tolist(), 100 * at)) for at, row in enumerate(weights)]
        encodings, query = [terms(each) for each in numbered], terms({1: 1.0, 302: 1.0})
        secret = encodings[3]
    for stamp, [text] in store.stamped_texts(PAIR, store.stamps_without(PAIR, ENCODER)):
        store.put_encodings(ENCODER, {stamp: (encodings[int(text[-1])],)})
    store.keep_state(PAIR)
    assert "d003" in dict(searched(store, channel, query))

    def on_disk() -> int:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return sum(secret in path.read_bytes() for path in files)

    assert on_disk()
    store.remove(["d003"], purge=True)
    assert on_disk() == 0
    assert not list((tmp_path / "views").rglob("*.side"))
    assert "d003" not in dict(searched(store, channel, query))
    store.close()


class WithoutEncodings(SqliteStore):
    """Stands for a store of a plug-in that keeps no encodings."""

    stamps_without = Store.stamps_without

    def view(self, pair: IndexSpec, snapshot: str | None = None) -> View:
        view = super().view(pair, snapshot)
        view.encoded = View.encoded.__get__(view)  # type: ignore[method-assign]
        return view


def test_stores_without_encodings_say_so(tmp_path: Path) -> None:
    store = WithoutEncodings(tmp_path / "store.sqlite", views=tmp_path / "views")
    store.upsert(PAIR, [document(0)])
    with pytest.raises(StoreError, match="keeps no data for further search channels"):
        store.stamps_without(PAIR, ENCODER)
    with pytest.raises(StoreError, match="keeps no data for further search channels"):
        searched(store, "sparse", terms({1: 1.0}))
    store.close()
