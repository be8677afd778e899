"""Part of the index suite: relaxed filters, reading in document order, surroundings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from naive_relaxed import naive_relaxed

from ragwright.core import (
    Chunk,
    Document,
    Filter,
    FilterError,
    Page,
    Relaxation,
    RetrieveError,
    Section,
    SoftFilter,
    Span,
)
from ragwright.flow import Lookup, LookupReply, Search, SearchReply
from ragwright.index import (
    IndexedDocument,
    Store,
    View,
    ViewHandler,
    Views,
    rungs_of,
)
from ragwright.testing import PAIR, PLAIN, make_document, make_indexed, make_vector

_EVERYTHING = 10_000
_QUERIES: tuple[Any, ...] = ("engine pump Manual", make_vector("q"))
_ENGLISH = Filter("language", ("en",))
_NOT_GERMAN = Filter("language", ("de",), exclude=True)
_NOT_FIRST = Filter("half", ("first",), exclude=True)

_CLIENT = Filter("client", ("client 1",))
_TOPICS = (Filter("topics", ("t1",)), Filter("topics", ("t4",)))
_PART = Filter("section", ("Part 1",))
_YEARS = Filter("year", low=2000, high=2010)
_DISTINCT = tuple(
    SoftFilter(condition, weight)
    for condition, weight in zip((_CLIENT, *_TOPICS, _PART, _YEARS), (8, 3.5, 3, 1, 0.1))  # noqa: B905
)
_EXCLUDING = tuple(
    SoftFilter(condition, weight)
    for condition, weight in (
        (replace(_CLIENT, exclude=True), 8),
        (_CLIENT, 3.5),
        (replace(_TOPICS[0], exclude=True), 2),
        (replace(_YEARS, exclude=True), 1),
        (_NOT_FIRST, 0.1),
    )
)
_TYPED = tuple(
    SoftFilter(condition, weight)
    for condition, weight in zip((_CLIENT, *_TOPICS, _PART, _YEARS), (6, 3, 3, 2, 1))  # noqa: B905
)


def gapped(name: str = "gapped") -> IndexedDocument:
    """A document of sections and pages whose chunks leave gaps between them."""
    parts = [f"{'#' * (n % 2 + 1)} Head {n}\nBody of part {n}, engine." for n in range(8)]
    text = "\n\n".join(parts)
    starts = [text.index(part) for part in parts]
    sections = []
    for number, start in enumerate(starts):
        level = number % 2 + 1
        behind = [s for n, s in enumerate(starts) if n > number and n % 2 + 1 <= level]
        span = Span(start, behind[0] if behind else len(text))
        sections.append(Section(f"Head {number}", level, span))
    pages = [Page(n + 1, Span(s, e)) for n, (s, e) in enumerate(_halves(starts[3], len(text)))]
    document = Document(name, f"mem:{name}", text, pages=tuple(pages), sections=tuple(sections))
    chunks = tuple(
        Chunk(
            f"{name}:{start}-{start + len(part)}",
            name,
            ordinal,
            Span(start, start + len(part)),
            part,
            page=document.page_at(start),
            headings=document.headings_at(start),
        )
        for ordinal, (start, part) in enumerate(zip(starts, parts, strict=True))
    )
    vectors = np.stack([make_vector(chunk.id) for chunk in chunks])
    return IndexedDocument(document, chunks, vectors)


def _halves(cut: int, end: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, cut), (cut, end)


def _looked_up(store: Store, request: Lookup) -> LookupReply:
    reply = ViewHandler(Views(store)).reply_to([request])[0]
    assert isinstance(reply, LookupReply)
    return reply


def _remembering(ask: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which is called once for each input, also where it refuses that."""

    @cache
    def outcome(*words: Any) -> Any:
        try:
            return ask(*words)
        except FilterError as error:
            return error

    def again(*words: Any) -> Any:
        reply = outcome(*words)
        if isinstance(reply, FilterError):
            raise reply.with_traceback(None)
        return reply

    return again


class _Remembered:
    """A view that is asked each query once; the naive algorithm repeats them for every k."""

    def __init__(self, view: View) -> None:
        self.statistics = view.statistics
        self._keyword = _remembering(view.keyword)
        self._dense = _remembering(
            lambda query, *rest: view.dense(np.frombuffer(query, "f4")[None], *rest)
        )

    def keyword(self, query: str, k: int, filters: Sequence[Filter]) -> Any:
        """Candidates of one query."""
        return self._keyword(query, k, tuple(filters))

    def dense(self, query: Any, k: int, filters: Sequence[Filter]) -> Any:
        """Candidates of one query vector."""
        return self._dense(np.asarray(query, "f4").tobytes(), k, tuple(filters))


class RelaxedTests:
    """What :class:`IndexSuite` asks of relaxed filters and of reading around and onward."""

    @pytest.fixture
    def filled(self, store: Store) -> View:
        """A view that was written in three steps, some of it removed again."""
        items = [make_indexed(make_document(n)) for n in range(40)]
        store.upsert(PAIR, items[:15])
        store.view(PAIR).close()
        store.upsert(PAIR, items[15:])
        store.remove(["doc/0003", "doc/0021"])
        return store.view(PAIR)

    @pytest.mark.parametrize(
        "filters",
        [(), (_ENGLISH,), (_NOT_GERMAN, _NOT_FIRST)],
        ids=("all", "english", "excluding"),
    )
    @pytest.mark.parametrize("soft", [_DISTINCT, _EXCLUDING], ids=("met", "excluding"))
    def test_one_pass_equals_one_query_for_each_combination(
        self, filled: View, filters: Sequence[Filter], soft: Sequence[SoftFilter]
    ) -> None:
        """Where sums of weights differ, hits and levels equal the naive algorithm for every k."""
        known: Any = _Remembered(filled)
        cases = product(_QUERIES, (None, 0.05, 99.0), (True, False))
        for query, threshold, unfiltered in cases:
            relax = Relaxation(tuple(soft), threshold, unfiltered)
            whole = naive_relaxed(known, query, _EVERYTHING, relax, filters)
            for k in (7,) if threshold == 99.0 else (0, 7, _EVERYTHING):
                reply = filled.relaxed(query, k, relax, filters)
                expected = naive_relaxed(known, query, k, relax, filters)
                case = f"{relax}, k={k}"
                assert reply.candidates == expected.candidates, case
                assert reply.rungs == expected.rungs, case
                assert reply.ladder == (expected.ladder if k else whole.ladder), case
            assert len(whole.candidates) == sum(count for _, count in whole.ladder)
            assert len({key for key, _ in whole.candidates}) == len(whole.candidates)
            assert bool(whole.candidates) == (threshold != 99.0)

    @pytest.mark.parametrize("query", _QUERIES, ids=("keyword", "dense"))
    def test_combinations_of_equal_weight_are_one(self, filled: View, query: Any) -> None:
        """Hits are sorted by weight, score and id; k only cuts the list."""
        relax = Relaxation(_TYPED)
        reply = filled.relaxed(query, _EVERYTHING, relax)
        naive = naive_relaxed(filled, query, _EVERYTHING, relax)
        weights = {
            key: rung.weight
            for (key, _), rung in zip(naive.candidates, rungs_of(relax, naive.rungs), strict=True)
        }
        order = sorted(naive.candidates, key=lambda pair: (-weights[pair[0]], -pair[1], pair[0]))
        assert list(reply.candidates) == order
        assert sorted(reply.ladder) == sorted(naive.ladder)
        shown = [rung.weight for rung in rungs_of(relax, [bits for bits, _ in reply.ladder])]
        assert shown == sorted(shown, reverse=True)
        assert len(set(shown)) < len(shown)
        for k in (1, 5, 23):
            assert filled.relaxed(query, k, relax).candidates == tuple(order[:k])

    @pytest.mark.parametrize("query", _QUERIES, ids=("keyword", "dense"))
    def test_a_rung_says_what_is_met_and_hard_filters_hold(self, filled: View, query: Any) -> None:
        """Hard filters and the threshold hold for every hit, down to the last level."""
        reply = filled.relaxed(query, _EVERYTHING, Relaxation(_TYPED), [_ENGLISH])
        assert reply.candidates
        hits = filled.lookup([key for key, _ in reply.candidates])
        for hit, bits in zip(hits, reply.rungs, strict=True):
            assert hit.metadata["language"] == "en"
            topics, year = hit.metadata["topics"], hit.metadata["year"]
            assert isinstance(topics, tuple)
            assert isinstance(year, int)
            met = [
                hit.metadata["client"] == "client 1",
                "t1" in topics,
                "t4" in topics,
                "Part 1" in hit.headings,
                2000 <= year <= 2010,
            ]
            assert [bool(bits >> place & 1) for place in range(5)] == met

    def test_a_threshold_holds_for_the_rounded_score(self, filled: View) -> None:
        """A score equal to the threshold passes."""
        query = make_vector("q")
        every = filled.relaxed(query, _EVERYTHING, Relaxation(_TYPED))
        for _, least in every.candidates[::17]:
            expected = tuple(pair for pair in every.candidates if pair[1] >= least)
            reply = filled.relaxed(query, _EVERYTHING, Relaxation(_TYPED, least))
            assert reply.candidates == expected
            assert sum(count for _, count in reply.ladder) == len(expected)

    def test_equal_filters_count_once_and_weight_0_orders_nothing(self, filled: View) -> None:
        """Equal filters count once; a filter of weight 0 does not change the order."""
        query = make_vector("q")
        once = filled.relaxed(query, 50, Relaxation(_TYPED))
        again = SoftFilter(Filter("client", ("client 1", "client 1")), 2)
        twice = Relaxation((*_TYPED, again))
        reply = filled.relaxed(query, 50, twice)
        assert reply.candidates == once.candidates
        assert reply.rungs == tuple(bits | (bits & 1) << 5 for bits in once.rungs)
        rungs = [rung.weight for rung in rungs_of(twice, reply.rungs)]
        assert rungs == [rung.weight for rung in rungs_of(Relaxation(_TYPED), once.rungs)]
        shown = SoftFilter(_ENGLISH, 0)
        reported = filled.relaxed(query, 50, Relaxation((*_TYPED, shown)))
        assert reported.candidates == once.candidates
        english = [hit.metadata["language"] == "en" for hit in filled.lookup(ids(once))]
        assert [bool(bits >> 5 & 1) for bits in reported.rungs] == english

    def test_a_filter_and_its_opposite_are_two(self, filled: View) -> None:
        """Each chunk meets one of two opposite conditions; all chunks meet the exclusion of an
        unknown value.
        """
        query = make_vector("q")
        nobody = Filter("client", ("nobody",), exclude=True)
        opposite = replace(_CLIENT, exclude=True)
        relax = Relaxation((SoftFilter(_CLIENT, 1), SoftFilter(opposite, 2), SoftFilter(nobody, 4)))
        reply = filled.relaxed(query, _EVERYTHING, relax)
        assert len(reply.candidates) == filled.statistics().chunks
        hits = filled.lookup(ids(reply))
        other = [hit.metadata["client"] != "client 1" for hit in hits]
        assert reply.rungs == tuple(0b110 if excluded else 0b101 for excluded in other)
        assert other == sorted(other, reverse=True)
        assert {len(set(other)), len(reply.ladder)} == {2}
        slip = SoftFilter(Filter("cleint", ("client 1",), exclude=True))
        with pytest.raises(FilterError, match="client"):
            filled.relaxed(query, 5, Relaxation((slip,)))

    def test_without_soft_filters_it_is_a_plain_search(self, filled: View) -> None:
        """Without conditions one level is left, which is never switched off."""
        for unfiltered in (True, False):
            relax = Relaxation((), None, unfiltered)
            reply = filled.relaxed(make_vector("q"), 9, relax)
            assert reply.candidates == filled.dense(make_vector("q")[None, :], 9)[0]
            assert reply.ladder == ((0, filled.statistics().chunks),)
            plain = filled.relaxed("engine", 9, relax)
            assert plain.candidates == filled.keyword("engine", 9)

    def test_slips_in_soft_filters_are_errors(self, filled: View) -> None:
        """Never an empty rung where a name is wrong, never a value of a forbidden chunk."""
        query = make_vector("q")

        def ask(condition: Filter, filters: Sequence[Filter] = (), **changes: Any) -> None:
            relax = replace(Relaxation((SoftFilter(condition),)), **changes)
            filled.relaxed(query, 5, relax, filters)

        with pytest.raises(FilterError, match="client"):
            ask(Filter("cleint", ("client 1",)))
        with pytest.raises(FilterError, match="client 1"):
            ask(Filter("client", ("Client1",)))
        with pytest.raises(FilterError) as refused:
            ask(Filter("client", ("Client1",)), [Filter("client", ("client 4",))])
        assert "client 1" not in str(refused.value)
        with pytest.raises(FilterError) as refused:
            filled.dense(
                query[None, :], 5, [Filter("client", ("client 4",)), Filter("year", (2101,))]
            )
        assert "2001" not in str(refused.value)
        with pytest.raises(FilterError, match="not a number"):
            ask(_CLIENT, threshold=math.nan)
        with pytest.raises(FilterError, match="62"):
            filled.relaxed(query, 5, Relaxation((SoftFilter(_CLIENT),) * 63))
        filled.relaxed(query, 5, Relaxation((SoftFilter(_CLIENT),) * 62))
        # A range in which nothing lies is right; where none may be found nothing is judged.
        ask(Filter("year", low=3000))
        ask(Filter("language", ("no",)), [Filter("year", low=3000)])

    @pytest.mark.parametrize("soft", [False, True])
    def test_a_value_that_hard_filters_hide_is_like_one_that_is_nowhere(
        self, store: Store, filled: View, soft: bool
    ) -> None:
        """Forbidden and unknown values give the same error: a filter reveals no such chunk."""
        hidden = make_document(77, metadata={"client": "other", "project": "falcon"})
        own = make_document(78, metadata={"client": "own", "project": "crane"})
        store.upsert(PAIR, [make_indexed(hidden), make_indexed(own)])
        view = store.view(PAIR)
        mask = Filter("client", ("own",))

        def message_of(value: str) -> str:
            condition = Filter("project", (value,))
            relax = Relaxation((SoftFilter(condition),) if soft else ())
            filters = [mask] if soft else [mask, condition]
            with pytest.raises(FilterError) as refused:
                view.relaxed("engine", 5, relax, filters)
            return str(refused.value).replace(value, "…")

        view.relaxed("engine", 5, Relaxation((SoftFilter(Filter("project", ("falcon",))),)))
        assert message_of("falcon") == message_of("eaglet")
        assert "crane" in message_of("falcon")
        assert view.keyword("engine", 5, [mask, Filter("project", ("crane", "falcon"))])

    def test_terms_count_the_chunks_that_may_be_found(self, store: Store) -> None:
        """A word found only in forbidden chunks is reported as a word that no chunk has."""
        own = make_indexed(Document("own", "s", "oil pump", metadata={"client": "own"}))
        others = [
            make_indexed(Document(f"o{n}", "s", "oil app_w304", metadata={"client": "other"}))
            for n in range(3)
        ]
        store.upsert(PAIR, [own])
        store.view(PAIR).close()
        store.upsert(PAIR, others)
        view = store.view(PAIR)
        mask = (Filter("client", ("own",)),)
        for filters, counts in (((), [4, 3, 0]), (mask, [1, 0, 0])):
            plain = view.keyword_reply("oil app_w304 nowhere", 5, filters)
            loose = view.relaxed("oil app_w304 nowhere", 5, Relaxation(()), filters)
            assert loose.terms == plain.terms
            shown = {term.token: term for term in plain.terms}
            tokens = ("oil", "app_w304", "nowher")
            assert [shown[token].chunks for token in tokens] == counts
        assert shown["app_w304"].idf == shown["nowher"].idf
        everything = dict(view.keyword("oil app_w304", 9))
        assert dict(view.keyword("oil app_w304", 9, mask)) == {
            key: everything[key] for key in (own.chunks[0].id,)
        }

    def test_unusable_relaxed_queries_are_refused(self, store: Store, filled: View) -> None:
        """NaN, another dimension, no vectors at all."""
        relax = Relaxation(_TYPED)
        broken = make_vector("q").copy()
        broken[3] = np.nan
        for query in (broken, make_vector("q", 5)):
            with pytest.raises(RetrieveError):
                filled.relaxed(query, 3, relax)
        store.upsert(PLAIN, [make_indexed(make_document(1), PLAIN)])
        with pytest.raises(RetrieveError):
            store.view(PLAIN).relaxed(make_vector("q"), 3, Relaxation(()))

    def test_an_empty_store_relaxes_and_lists_nothing(self, store: Store) -> None:
        """Filters on an empty index are not errors."""
        view = store.view(PAIR)
        for query in _QUERIES:
            assert view.relaxed(query, 5, Relaxation(_TYPED), [_ENGLISH]) == SearchReply(())
        assert view.every(5) == view.every(5, [_ENGLISH]) == ()
        vectors = view.vectors([])
        assert vectors is not None
        assert vectors.shape == (0, PAIR.dimensions)

    def test_every_chunk_in_document_order(self, store: Store) -> None:
        """Chunks are read page by page, by document id, without removed documents."""
        items = [make_indexed(make_document(n)) for n in range(12)]
        store.upsert(PAIR, items[6:][::-1])
        store.view(PAIR).close()
        store.upsert(PAIR, [*items[:6], make_indexed(Document("empty", "s", ""))])
        store.remove([items[4].document.id])
        view = store.view(PAIR)
        left = items[:4] + items[5:]
        expected = [chunk.id for item in left for chunk in item.chunks]
        english = [c.id for i in left if i.document.language == "en" for c in i.chunks]
        for filters, wanted in (((), expected), ((_ENGLISH,), english)):
            read: list[str] = []
            while page := view.every(7, filters, read[-1] if read else ""):
                read += page
            assert read == wanted
        assert view.every(0) == ()
        assert view.every(_EVERYTHING, [_ENGLISH], expected[0])[0] == english[1]
        with pytest.raises(RetrieveError):
            view.every(3, after=items[4].chunks[0].id)
        with pytest.raises(FilterError):
            view.every(3, [Filter("cleint", ("x",))])
        search = Search(view.snapshot, "all", 3, filters=(_ENGLISH,))
        reply = ViewHandler(Views(store)).reply_to([search])[0]
        assert reply == SearchReply(tuple((key, 0.0) for key in english[:3]))

    def test_vectors_of_chunks(self, store: Store) -> None:
        """Vectors come in the requested order; a pair without vectors has none."""
        items = [make_indexed(make_document(n)) for n in range(3)]
        store.upsert(PAIR, items)
        store.upsert(PLAIN, [make_indexed(make_document(1), PLAIN)])
        wanted = [items[2].chunks[1], items[0].chunks[0]]
        lookup = Lookup(store.snapshot(PAIR), tuple(c.id for c in wanted), vectors=True)
        vectors = _looked_up(store, lookup).vectors
        assert vectors is not None
        assert vectors.dtype == np.float32
        assert items[2].vectors is not None
        assert items[0].vectors is not None
        assert np.array_equal(vectors, np.stack([items[2].vectors[1], items[0].vectors[0]]))
        assert store.view(PLAIN).vectors([items[1].chunks[0].id]) is None
        with pytest.raises(RetrieveError):
            store.view(PAIR).vectors(["doc/0001:7-8"])

    def test_headings_are_the_field_section(self, store: Store) -> None:
        """Every heading above a chunk; a field of that name in the metadata is left alone."""
        item = gapped()
        own = make_indexed(make_document(1, metadata={"section": "own", "client": "c"}))
        store.upsert(PAIR, [item, own, make_indexed(make_document(2, sections=()))])
        view = store.view(PAIR)

        def ids_of(value: str) -> set[str]:
            filters = [Filter("section", (value,))]
            return set(view.every(_EVERYTHING, filters))

        assert ids_of("Head 0") == {item.chunks[0].id, item.chunks[1].id}
        assert ids_of("Head 1") == {item.chunks[1].id}
        assert ids_of("own") == {chunk.id for chunk in own.chunks}
        assert view.fields()["section"] == len(item.chunks) + len(own.chunks)
        with pytest.raises(FilterError, match="Head 1"):
            ids_of("head1")
        with pytest.raises(FilterError):
            ids_of("Part 1")

    def test_relaxed_searches_through_the_handler(self, store: Store, filled: View) -> None:
        """Relaxed and plain queries of one batch each get their own reply."""
        relax = Relaxation(_TYPED, 0.0)
        vector = make_vector("q")
        dense = Search(filled.snapshot, "dense", 5, vector=vector.tobytes())
        requests = [
            dense,
            replace(dense, relax=relax),
            Search(filled.snapshot, "keyword", 5, text="engine", relax=relax),
            replace(dense, relax=Relaxation((SoftFilter(Filter("cleint", ("x",))),))),
            replace(dense, filters=(_ENGLISH,), relax=relax),
            Search(filled.snapshot, "all", 5, relax=relax),
        ]
        replies = ViewHandler(Views(store)).reply_to(requests)
        assert replies[0] == SearchReply(filled.dense(vector[None, :], 5)[0])
        assert replies[1] == filled.relaxed(vector, 5, relax)
        assert replies[2] == filled.relaxed("engine", 5, relax)
        assert isinstance(replies[3], FilterError)
        assert replies[4] == filled.relaxed(vector, 5, relax, [_ENGLISH])
        assert isinstance(replies[5], RetrieveError)


def ids(reply: SearchReply) -> list[str]:
    """Chunk ids of a reply."""
    return [key for key, _ in reply.candidates]
