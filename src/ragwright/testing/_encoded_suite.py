"""Part of the index suite: channels with data of their own, beside scores computed naively."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ..core import (
    Chunk,
    Document,
    Filter,
    Relaxation,
    RetrieveError,
    SoftFilter,
    Span,
    StoreError,
    ranked,
)
from ..flow import Search, SearchReply
from ..index import IndexedDocument, IndexSpec, SearchHandler, Store, Views
from ..models import Analyzer, TokenVectors, passage_form, query_form, read_passage

_PAIR = IndexSpec("encoded", Analyzer().spec)
_SPARSE, _LATE = "sparse:test", "late:test"
_WIDTH = 8

Ranking = Sequence[tuple[str, float]]
SparseVector = dict[int, float]


def sparse_form(values: Mapping[int, float]) -> bytes:
    """A sparse vector in the form of its channel."""
    terms = sorted(values)
    weights = np.array([values[term] for term in terms], np.float32)
    return np.array(terms, np.uint32).tobytes() + weights.tobytes()


def _sparse_vector(seed: object) -> SparseVector:
    """A random sparse vector; the first terms are in most of them."""
    rng = random.Random(str(seed))  # noqa: S311
    return {int(rng.paretovariate(0.5)) % 500: rng.random() * 3 for _ in range(30)}


def _tokens(count: int, seed: int) -> TokenVectors:
    rows = np.random.default_rng(seed).standard_normal((count, _WIDTH)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return TokenVectors(rows, np.zeros((count, 2), np.int32))


def _document(number: int) -> IndexedDocument:
    """A document of two chunks."""
    name = f"d{number:03d}"
    pieces = [f"{name} first. ", f"{name} second."]
    text, cut = "".join(pieces), len(pieces[0])
    spans = (Span(0, cut), Span(cut, len(text)))
    chunks = tuple(
        Chunk(f"{name}:{at}", name, at, span, piece)
        for at, (span, piece) in enumerate(zip(spans, pieces, strict=True))
    )
    kept = {"half": number % 2, "tenth": number % 10}
    return IndexedDocument(Document(name, name, text, metadata=kept), chunks)


def _late_form(chunk_id: str) -> bytes:
    number = 2 * int(chunk_id[1:4]) + int(chunk_id[-1])
    return passage_form(_tokens(1 + number % 40, number))


def _form(encoder: str, chunk_id: str) -> bytes:
    return sparse_form(_sparse_vector(chunk_id)) if encoder == _SPARSE else _late_form(chunk_id)


def _encode_missing(store: Store, *encoders: str) -> None:
    """Encode all documents that have no data of these encoders."""
    for encoder in encoders:
        stamps = store.stamps_without(_PAIR, encoder)
        store.put_encodings(
            encoder,
            {
                stamp: tuple(
                    _form(encoder, f"{text.split()[0]}:{at}") for at, text in enumerate(texts)
                )
                for stamp, texts in store.stamped_texts(_PAIR, stamps)
            },
        )


def _ids(numbers: Sequence[int]) -> list[str]:
    return [f"d{number:03d}:{at}" for number in numbers for at in (0, 1)]


_QUERY = {term: 1.0 + term / 100 for term in (0, 1, 2, 3, 5, 8, 40, 300, 10**6)}
_LATE_QUERY = _tokens(6, 1000)


def _naive(encoder: str, ids: Sequence[str]) -> Ranking:
    """Scores computed one by one, best first."""
    if encoder == _SPARSE:
        scores = {
            name: sum(_QUERY.get(term, 0.0) * w for term, w in _sparse_vector(name).items())
            for name in ids
        }
        return ranked([(name, score) for name, score in scores.items() if score > 0], len(ids))
    query = _LATE_QUERY.vectors.astype(np.float64)
    pairs = []
    for name in ids:
        scales, numbers = read_passage(_late_form(name))
        products = query @ (scales[:, None].astype(np.float64) * numbers).T
        pairs.append((name, round(float(products.max(axis=1).sum()), 4)))
    return ranked(pairs, len(ids))


def _search(store: Store, encoder: str, k: int = 1000, **more: Any) -> SearchReply:
    """The reply of a channel on the present state."""
    channel = encoder.partition(":")[0]
    query = sparse_form(_QUERY) if channel == "sparse" else query_form(_LATE_QUERY)
    vector = more.pop("vector", query)
    request = Search(store.snapshot(_PAIR), channel, k, vector=vector, encoder=encoder, **more)
    [reply] = SearchHandler(Views(store)).carry([request])
    if isinstance(reply, Exception):
        raise reply
    return reply


def _assert_ranked(reply: SearchReply, expected: Ranking) -> None:
    """The same chunks in the same order; scores to the last digit but one of a channel."""
    assert [key for key, _ in reply.candidates] == [key for key, _ in expected]
    scores = [score for _, score in reply.candidates]
    assert scores == pytest.approx([score for _, score in expected], abs=1.1e-4)


class EncodedTests:
    """Tests of the channels with data of their own; skipped for a store that keeps none."""

    @pytest.fixture
    def coded(self, store: Store) -> Store:
        """Forty encoded documents of two chunks."""
        store.upsert(_PAIR, [_document(number) for number in range(40)])
        try:
            _encode_missing(store, _SPARSE, _LATE)
        except StoreError as error:
            if "keeps no data for further search channels" in str(error):
                pytest.skip(str(error))
            raise
        return store

    def test_encoded_channels_score_as_naively(self, coded: Store) -> None:
        """Every chunk, the first few, under filters, and among named chunks."""
        for encoder in (_SPARSE, _LATE):
            everything = _naive(encoder, _ids(range(40)))
            _assert_ranked(_search(coded, encoder), everything)
            _assert_ranked(_search(coded, encoder, 5), everything[:5])
            odd = _ids(range(1, 40, 2))
            half = (Filter("half", (1,)),)
            _assert_ranked(_search(coded, encoder, filters=half), _naive(encoder, odd))
            tenth = (Filter("tenth", (7,)),)
            _assert_ranked(_search(coded, encoder, 3, filters=tenth),
                           _naive(encoder, _ids((7, 17, 27, 37)))[:3])  # fmt: skip
            names = ("d003:1", "d030:0", "d020:0", "d011:1")
            _assert_ranked(_search(coded, encoder, among=names), _naive(encoder, names))
            named_odd = _naive(encoder, ("d003:1", "d011:1"))
            _assert_ranked(_search(coded, encoder, among=names, filters=half), named_odd)
            with pytest.raises(RetrieveError, match="no chunk has the id"):
                _search(coded, encoder, among=("d003:1", "nowhere"))

    def test_soft_filters_rank_first_in_encoded_channels(self, coded: Store) -> None:
        """Also among named chunks, and with the number of chunks of each level."""
        for encoder in (_SPARSE, _LATE):
            relax = Relaxation((SoftFilter(Filter("half", (1,)), 1.0),), None, True)
            names = tuple(_ids((2, 3, 4, 5)))
            reply = _search(coded, encoder, among=names, relax=relax)
            odd, even = _naive(encoder, _ids((3, 5))), _naive(encoder, _ids((2, 4)))
            _assert_ranked(reply, [*odd, *even])
            assert reply.rungs == (1,) * len(odd) + (0,) * len(even)
            whole = _search(coded, encoder, relax=relax)
            odd = _naive(encoder, _ids(range(1, 40, 2)))
            _assert_ranked(whole, [*odd, *_naive(encoder, _ids(range(0, 40, 2)))])
            few = _search(coded, encoder, 3, relax=relax)
            assert few.candidates == whole.candidates[:3]
            assert dict(few.ladder)[1] == len(odd)

    @pytest.mark.parametrize("encoder", [_SPARSE, _LATE])
    def test_encodings_follow_their_documents(self, coded: Store, encoder: str) -> None:
        """Through removal, change, a new document, and another ingest of the same one."""
        _search(coded, encoder)
        coded.remove(["d003"], _PAIR)
        left = [number for number in range(40) if number != 3]
        _assert_ranked(_search(coded, encoder), _naive(encoder, _ids(left)))
        size = coded.encoding_size(_PAIR, encoder)
        assert (size.documents, size.missing, size.chunks) == (39, 0, 78)
        assert size.bytes == sum(len(_form(encoder, name)) for name in _ids(left))
        coded.upsert(_PAIR, [_document(3), _document(40)])
        with pytest.raises(RetrieveError, match="4 chunks of this index have no data") as caught:
            _search(coded, encoder)
        assert "ragwright ingest" in str(caught.value.hint)
        assert coded.encoding_size(_PAIR, encoder).missing == 2
        _encode_missing(coded, encoder)
        expected = _naive(encoder, _ids(range(41)))
        _assert_ranked(_search(coded, encoder), expected)
        assert not coded.stamps_without(_PAIR, encoder)
        coded.settle(_PAIR)
        _assert_ranked(_search(coded, encoder), expected)

    def test_an_open_view_keeps_its_encodings(self, coded: Store) -> None:
        """While others replace the documents."""
        view = coded.view(_PAIR)
        request = Search(view.snapshot, "sparse", 9, vector=sparse_form(_QUERY), encoder=_SPARSE)
        before = view.encoded(request).candidates
        coded.remove(["d000", "d001", "d002"], _PAIR)
        coded.upsert(_PAIR, [_document(50)])
        assert view.encoded(request).candidates == before
        view.close()

    def test_a_restored_state_has_its_encodings_again(self, coded: Store) -> None:
        """Those of documents that were removed since it was kept."""
        coded.keep_state(_PAIR, "before")
        kept = coded.kept_states()
        coded.remove(["d003"], _PAIR)
        coded.restore(_PAIR, kept[-1].number)
        for encoder in (_SPARSE, _LATE):
            _assert_ranked(_search(coded, encoder), _naive(encoder, _ids(range(40))))

    def test_forgotten_documents_and_encoders_leave_no_encodings(self, coded: Store) -> None:
        """The others are found as before."""
        for encoder in (_SPARSE, _LATE):
            _search(coded, encoder)
        coded.remove(["d003"], purge=True)
        left = _ids([number for number in range(40) if number != 3])
        for encoder in (_SPARSE, _LATE):
            _assert_ranked(_search(coded, encoder), _naive(encoder, left))
        coded.forget_encodings(_SPARSE)
        assert coded.encoding_size(_PAIR, _SPARSE).chunks == 0
        assert len(coded.stamps_without(_PAIR, _SPARSE)) == 39
        _assert_ranked(_search(coded, _LATE), _naive(_LATE, left))

    def test_chunks_without_terms_or_vectors(self, coded: Store) -> None:
        """A chunk without terms is not found; one without vectors comes last."""
        coded.upsert(_PAIR, [_document(40)])
        [stamp] = coded.stamps_without(_PAIR, _SPARSE)
        none = passage_form(_tokens(0, 0))
        coded.put_encodings(_SPARSE, {stamp: (b"", b""), 99: (b"", b"")})
        coded.put_encodings(_LATE, {stamp: (none, b"")})
        _assert_ranked(_search(coded, _SPARSE), _naive(_SPARSE, _ids(range(40))))
        lengths = -float(np.linalg.norm(_LATE_QUERY.vectors, axis=1).sum())
        expected = [*_naive(_LATE, _ids(range(40))), ("d040:0", lengths), ("d040:1", lengths)]
        _assert_ranked(_search(coded, _LATE), expected)

    def test_wrong_encodings_and_queries_are_refused(self, coded: Store) -> None:
        """Bytes of another form, vectors of another length, too few encodings of a document."""
        with pytest.raises(RetrieveError, match="7 bytes are not a sparse vector"):
            _search(coded, _SPARSE, vector=b"1234567")
        wider = TokenVectors(np.ones((2, _WIDTH + 1), np.float32), np.zeros((2, 2), np.int32))
        with pytest.raises(RetrieveError, match="9 dimensions, those of the index 8"):
            _search(coded, _LATE, vector=query_form(wider))
        view = coded.view(_PAIR)
        with pytest.raises(RetrieveError, match="there is no search channel 'sparze'"):
            view.encoded(Search(view.snapshot, "sparze", 5, encoder=_SPARSE))
        coded.upsert(_PAIR, [_document(40)])
        [stamp] = coded.stamps_without(_PAIR, _SPARSE)
        coded.put_encodings(_SPARSE, {stamp: (b"",)})
        view = coded.view(_PAIR)
        request = Search(view.snapshot, "sparse", 99, vector=sparse_form(_QUERY), encoder=_SPARSE)
        with pytest.raises(StoreError, match="1 encoding for 2 chunks"):
            view.encoded(request)
        assert list(coded.stamps_without(_PAIR, _SPARSE)) == [stamp]
        coded.put_encodings(_SPARSE, {stamp: (b"", sparse_form({1: 1.0}))})
        assert not coded.stamps_without(_PAIR, _SPARSE)
        assert "d040:1" in dict(coded.view(_PAIR).encoded(request).candidates)
