"""The late-interaction channel of a view, beside MaxSim computed naively."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragwright.core import Chunk, Document, Filter, Relaxation, RetrieveError, SoftFilter, Span
from ragwright.flow import Search, SearchReply
from ragwright.index import IndexedDocument, IndexSpec, SearchHandler, SqliteStore, Views
from ragwright.models import Analyzer, TokenVectors, passage_form, query_form, read_passage

PAIR = IndexSpec("whole", Analyzer().spec)
ENCODER = "late:test"
WIDTH = 8


def tokens(count: int, seed: int) -> TokenVectors:
    rows = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(rows, np.zeros((count, 2), np.int32))


def document(number: int) -> IndexedDocument:
    name = f"d{number:03d}"
    kept = {"half": number % 2, "tenth": number % 10}
    whole = Document(name, name, f"text {number}", metadata=kept)
    return IndexedDocument(whole, (Chunk(name, name, 0, Span(0, len(whole.text)), whole.text),))


FORMS = {f"d{number:03d}": passage_form(tokens(1 + number % 40, number)) for number in range(80)}
QUERY = query_form(tokens(6, 1000))


def encode_missing(store: SqliteStore) -> None:
    """Store the encodings of all documents that have none."""
    names = {f"text {int(name[1:])}": form for name, form in FORMS.items()}
    stamps = store.stamps_without(PAIR, ENCODER)
    found = dict(store.stamped_texts(PAIR, stamps))
    store.put_encodings(
        ENCODER, {stamp: tuple(names[text] for text in texts) for stamp, texts in found.items()}
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Eighty encoded documents of one chunk."""
    opened = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    opened.upsert(PAIR, [document(number) for number in range(80)])
    encode_missing(opened)
    yield opened
    opened.close()


def search(store: SqliteStore, k: int = 100, **more: Any) -> SearchReply:
    """The reply of the channel on the present state."""
    request = Search(
        store.snapshot(PAIR), "late", k, vector=more.pop("vector", QUERY), encoder=ENCODER, **more
    )
    [reply] = SearchHandler(Views(store)).carry([request])
    if isinstance(reply, Exception):
        raise reply
    return reply


def naive(names: Sequence[str]) -> list[tuple[str, float]]:
    """Chunk ids and scores, best first, from the stored 8-bit vectors."""
    query = tokens(6, 1000).vectors.astype(np.float64)
    scored = []
    for name in names:
        scales, numbers = read_passage(FORMS[name])
        products = query @ (scales[:, None].astype(np.float64) * numbers).T
        scored.append((name, float(products.max(axis=1).sum())))
    return sorted(scored, key=lambda pair: -pair[1])


def same(reply: SearchReply, expected: Sequence[tuple[str, float]]) -> bool:
    """True for the same chunks in the same order, with scores equal to 4 digits."""
    ids = [key for key, _ in reply.candidates] == [key for key, _ in expected]
    scores = np.array([score for _, score in reply.candidates])
    return ids and bool(np.abs(scores - [score for _, score in expected]).max() < 1.1e-4)


def test_every_chunk_is_scored_as_naively(store: SqliteStore) -> None:
    assert same(search(store), naive(list(FORMS)))
    assert same(search(store, 5), naive(list(FORMS))[:5])


def test_only_the_named_chunks_are_scored(store: SqliteStore) -> None:
    names = [f"d{number:03d}" for number in (3, 77, 20, 41)]
    assert same(search(store, among=tuple(names)), naive(names))


def test_hard_filters_apply_to_all_chunks_and_to_named_ones(store: SqliteStore) -> None:
    odd = [name for name in FORMS if int(name[1:]) % 2]
    half = (Filter("half", (1,)),)
    assert same(search(store, filters=half), naive(odd))
    tenth = [name for name in FORMS if name.endswith("7")]
    assert same(search(store, filters=(Filter("tenth", (7,)),)), naive(tenth))
    assert same(search(store, among=("d003", "d004"), filters=half), naive(["d003"]))


def test_soft_filters_rank_first_among_named_chunks_too(store: SqliteStore) -> None:
    relax = Relaxation((SoftFilter(Filter("half", (1,)), 1.0),), None, True)
    names = ("d002", "d003", "d004", "d005")
    reply = search(store, among=names, relax=relax)
    odd, even = naive(["d003", "d005"]), naive(["d002", "d004"])
    assert [key for key, _ in reply.candidates] == [key for key, _ in (*odd, *even)]
    assert reply.rungs == (1, 1, 0, 0)


def test_changed_and_removed_documents_take_their_vectors_with_them(store: SqliteStore) -> None:
    store.remove(["d003"], PAIR)
    assert same(search(store), naive([name for name in FORMS if name != "d003"]))
    assert store.encoding_size(PAIR, ENCODER).chunks == 79
    store.upsert(PAIR, [document(3)])
    with pytest.raises(RetrieveError, match="1 chunk of this index has no data") as caught:
        search(store)
    assert "ragwright ingest" in str(caught.value.hint)
    encode_missing(store)
    assert same(search(store), naive(list(FORMS)))


def test_forgotten_documents_leave_no_vector_on_disk(tmp_path: Path, store: SqliteStore) -> None:
    search(store)  # the view is packed and saved
    _, numbers = read_passage(FORMS["d039"])
    secret = numbers.tobytes()

    def on_disk() -> int:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return sum(secret in path.read_bytes() for path in files)

    assert len(secret) == 40 * WIDTH
    assert on_disk() >= 2
    store.remove(["d039"], purge=True)
    assert on_disk() == 0


def test_a_restored_state_has_its_vectors_again(store: SqliteStore) -> None:
    store.keep_state(PAIR, "before")
    [state] = store.kept_states()
    store.remove(["d003"], PAIR)
    store.restore(PAIR, state.number)
    assert same(search(store), naive(list(FORMS)))


def test_a_chunk_without_vectors_comes_last(store: SqliteStore) -> None:
    none = TokenVectors(np.zeros((0, WIDTH), np.float32), np.zeros((0, 2), np.int32))
    store.upsert(PAIR, [document(80)])
    [stamp] = store.stamps_without(PAIR, ENCODER)
    store.put_encodings(ENCODER, {stamp: (passage_form(none),)})
    lengths = np.linalg.norm(tokens(6, 1000).vectors, axis=1).sum()
    assert same(search(store), [*naive(list(FORMS)), ("d080", -lengths)])


def test_vectors_of_another_length_are_refused(store: SqliteStore) -> None:
    wider = TokenVectors(np.ones((2, WIDTH + 1), np.float32), np.zeros((2, 2), np.int32))
    with pytest.raises(RetrieveError, match="9 dimensions, those of the index 8"):
        search(store, vector=query_form(wider))
