"""What every store must do; the tests of each store inherit it."""

from __future__ import annotations

import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest
from relaxed_suite import RelaxedTests
from rights_suite import RightsTests

from ragwright.core import (
    Document,
    DuplicateIdError,
    Filter,
    FilterError,
    Head,
    RetrieveError,
    SnapshotGoneError,
    StoreError,
    rank_best,
)
from ragwright.index import IndexedDocument, Store, chunk_key
from ragwright.models import Analyzer, is_code
from ragwright.testing import PAIR, PLAIN, make_document, make_indexed, make_vector

StoreFactory: TypeAlias = Callable[[], Store]
"""Opens the store under test: each call in one test opens the same one anew."""

_K1, _B, _CODE_BONUS = 1.2, 0.75, 0.5


_UNICODE = (
    "漢字 かな",
    "é e\u0301 \u00a0 \u200d",
    "👩‍🔬 🙂" * 40,
    "\ud800 lone",
    "a\u0000b",
    "مرحبا",
)

_CONDITIONS: tuple[tuple[Filter, Callable[[Any], Any]], ...] = (
    (Filter("client", ("client 1",)), lambda d: d.metadata["client"] == "client 1"),
    (Filter("client", ("client 1", "nobody")), lambda d: "1" in d.metadata["client"]),
    (Filter("topics", ("t0", "t5")), lambda d: {"t0", "t5"} & set(d.metadata["topics"])),
    (Filter("year", (2003,)), lambda d: d.metadata["year"] == 2003),
    (Filter("year", ("2003",)), lambda d: d.metadata["year"] == 2003),
    (Filter("year", low=2003, high=2010), lambda d: 2003 <= d.metadata["year"] <= 2010),
    (Filter("score", low=2.5), lambda d: d.metadata["score"] >= 2.5),
    (Filter("public", (True,)), lambda d: d.metadata["public"]),
    (Filter("language", ("de",)), lambda d: d.language == "de"),
    (Filter("document_id", ("doc/0004",)), lambda d: d.id == "doc/0004"),
    (Filter("created", low="2003", high="2005"), lambda d: "2003" <= d.created < "2006"),
    (Filter("created", high="2004-05-05"), lambda d: d.created <= "2004-05-05"),
    (
        Filter("client", ("client 1",), exclude=True),
        lambda d: d.metadata["client"] != "client 1",
    ),
    (
        Filter("topics", ("t0", "t5"), exclude=True),
        lambda d: not {"t0", "t5"} & set(d.metadata["topics"]),
    ),
    (
        Filter("year", ("2003", 2004.0), exclude=True),
        lambda d: d.metadata["year"] not in (2003, 2004),
    ),
    (
        Filter("year", low=2003, high=2010, exclude=True),
        lambda d: not 2003 <= d.metadata["year"] <= 2010,
    ),
    (Filter("public", (True,), exclude=True), lambda d: not d.metadata["public"]),
    (
        Filter("document_id", ("doc/0004", "absent"), exclude=True),
        lambda d: d.id != "doc/0004",
    ),
    (
        Filter("created", low="2003", high="2005", exclude=True),
        lambda d: not "2003" <= d.created < "2006",
    ),
)
"""Filters, each with what it asks of a document."""


def slow_keyword(
    analyzer: Analyzer, items: Sequence[IndexedDocument], query: str, k: int
) -> list[tuple[str, float]]:
    """BM25 in Lucene's variant with weighted fields and codes, written for reading and not for
    speed.
    """
    tokens: dict[str, list[str]] = {}
    for item in items:
        for chunk in item.chunks:
            head = [item.document.title, *chunk.headings] * analyzer.title_weight
            text = "\n".join([chunk.text, *head])
            tokens[chunk.id] = [t for line in text.split("\n") for t in analyzer.tokens(line)]
    if not tokens:
        return []
    counts = {key: Counter(words) for key, words in tokens.items()}
    average = sum(len(words) for words in tokens.values()) / len(tokens)
    scores = dict.fromkeys(tokens, 0.0)
    for word in analyzer.tokens(query):
        df = sum(1 for count in counts.values() if word in count)
        idf = math.log(1 + (len(tokens) - df + 0.5) / (df + 0.5))
        for key, count in counts.items():
            tf, length = count[word], len(tokens[key])
            if tf:
                impact = tf / (tf + _K1 * (1 - _B + _B * length / average))
                scores[key] += idf * (impact + (_CODE_BONUS if is_code(word) else 0.0))
    return rank_best([(key, score) for key, score in scores.items() if score > 0], k)


def slow_dense(items: Sequence[IndexedDocument], query: Any, k: int) -> list[tuple[str, float]]:
    """Similarities computed one by one."""
    return rank_best(
        [
            (chunk.id, float(np.dot(vector.astype(np.float64), query.astype(np.float64))))
            for item in items
            if item.vectors is not None
            for chunk, vector in zip(item.chunks, item.vectors, strict=True)
        ],
        k,
    )


def assert_same(
    ranking: Sequence[tuple[str, float]], expected: Sequence[tuple[str, float]]
) -> None:
    """Same ids and scores to 4 places; the order may differ where scores are nearly equal."""
    assert [score for _, score in ranking] == pytest.approx([s for _, s in expected], abs=5e-5)
    scores = dict(expected)
    for key, score in ranking:
        if key in scores:
            assert score == pytest.approx(scores[key], abs=5e-5)
        else:
            assert score == pytest.approx(expected[-1][1], abs=5e-5)
    assert list(ranking) == rank_best(ranking, len(ranking))


class IndexSuite(RelaxedTests, RightsTests):
    """Tests that every store passes; subclass it and offer one fixture.

    .. code-block:: python

        class TestMine(IndexSuite):
            @pytest.fixture
            def store_factory(self, tmp_path: Path) -> StoreFactory:
                return lambda: MyStore(tmp_path / "store")
    """

    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        """Opens the store under test, empty at first."""
        raise NotImplementedError("offer a fixture named store_factory")

    @pytest.fixture
    def store(self, store_factory: StoreFactory) -> Any:
        """The store, open, closed after the test."""
        store = store_factory()
        yield store
        store.close()

    def test_an_empty_store_answers_with_nothing(self, store: Store) -> None:
        """An empty store has no hits and no pairs, and raises no error."""
        view = store.view(PAIR)
        assert view.keyword("engine", 5) == ()
        assert view.dense(make_vector("q")[None, :], 5) == ((),)
        assert view.keyword("engine", 5, [Filter("client", ("a",))]) == ()
        assert view.statistics().chunks == 0
        assert dict(view.fields()) == {}
        assert list(store.index_specs()) == []
        assert store.document("doc/0001") is None
        assert list(store.documents(PAIR)) == []
        assert dict(store.content_hashes(PAIR)) == {}

    def test_counts_of_added_changed_unchanged_and_removed(self, store: Store) -> None:
        """The reported counts of a write are right."""
        items = [make_indexed(make_document(n)) for n in range(6)]
        chunks = sum(len(item.chunks) for item in items)
        first = store.upsert(PAIR, items, root="r")
        assert (first.added, first.changed, first.unchanged) == (6, 0, 0)
        assert (first.chunks_added, first.chunks_removed) == (chunks, 0)
        before = store.snapshot(PAIR)
        again = store.upsert(PAIR, items, root="r")
        assert (again.added, again.changed, again.unchanged, again.chunks_added) == (0, 0, 6, 0)
        assert store.snapshot(PAIR) == before
        changed = make_indexed(make_document(2, words=20, seed=99))
        third = store.upsert(PAIR, [items[0], changed, make_indexed(make_document(50))])
        assert (third.added, third.changed, third.unchanged) == (1, 1, 1)
        assert third.chunks_removed == len(items[2].chunks)
        assert store.snapshot(PAIR) != before
        gone = store.remove(["doc/0000", "doc/9999"])
        assert (gone.removed, gone.chunks_removed) == (1, len(items[0].chunks))
        assert set(store.content_hashes(PAIR)) == {f"doc/{n:04d}" for n in (1, 2, 3, 4, 5, 50)}

    def test_documents_come_back_whole(self, store: Store) -> None:
        """Every field of a document, and its root, is read back as written."""
        documents = [make_document(n) for n in (3, 1, 2)]
        store.upsert(PAIR, [make_indexed(document) for document in documents], root="folder")
        assert list(store.documents(PAIR)) == sorted(documents, key=lambda d: d.id)
        assert store.document("doc/0003") == documents[0]
        assert dict(store.sources(PAIR)) == {d.id: "folder" for d in documents}
        hashes = {d.id: d.content_hash() for d in documents}
        assert dict(store.content_hashes(PAIR)) == hashes
        assert list(store.index_specs()) == [PAIR]

    def test_a_duplicate_id_is_refused_and_nothing_is_lost(self, store: Store) -> None:
        """Bad input never loses what is stored."""
        store.upsert(PAIR, [make_indexed(make_document(1))])
        before = store.snapshot(PAIR)
        twins = [make_indexed(make_document(2)), make_indexed(make_document(2, seed=8))]
        with pytest.raises(DuplicateIdError):
            store.upsert(PAIR, twins)
        assert store.snapshot(PAIR) == before
        assert set(store.content_hashes(PAIR)) == {"doc/0001"}

    def test_vectors_with_nan_or_of_another_shape_are_refused(self, store: Store) -> None:
        """A failed embedding must not enter the index; the whole batch stays out."""
        good, bad = make_indexed(make_document(1)), make_indexed(make_document(2))
        assert bad.vectors is not None
        broken = bad.vectors.copy()
        broken[0, 0] = np.nan
        for vectors in (broken, bad.vectors[:, :-1], bad.vectors[:-1], None):
            with pytest.raises(StoreError):
                store.upsert(PAIR, [good, replace(bad, vectors=vectors)])
        assert dict(store.content_hashes(PAIR)) == {}

    def test_keyword_scores_equal_the_slow_reference(self, store: Store) -> None:
        """Keyword scores equal the reference to 4 places, also after changes and removals."""
        items = {n: make_indexed(make_document(n)) for n in range(40)}
        store.upsert(PAIR, list(items.values()))
        self._check_keyword(store, list(items.values()))
        for n in (3, 9, 27):
            items[n] = make_indexed(make_document(n, words=90, seed=1000))
        items[77] = make_indexed(make_document(77))
        store.upsert(PAIR, [items[n] for n in (3, 9, 27, 77)])
        self._check_keyword(store, list(items.values()))
        store.remove([items.pop(n).document.id for n in (0, 9, 39)])
        self._check_keyword(store, list(items.values()))

    def _check_keyword(self, store: Store, items: Sequence[IndexedDocument]) -> None:
        view = store.view(PAIR)
        analyzer = Analyzer()
        for query in ("engine", "APP_w304 café", "oil oil pump", "Part 2 漢字", "absent", "", "!"):
            for k in (1, 10, 10_000):
                assert_same(view.keyword(query, k), slow_keyword(analyzer, items, query, k))

    def test_dense_scores_equal_brute_force(self, store: Store) -> None:
        """Similarities equal the reference to 4 places, alone, in a batch, and after changes."""
        items = {n: make_indexed(make_document(n)) for n in range(40)}
        store.upsert(PAIR, list(items.values()))
        items[5] = make_indexed(make_document(5, seed=55))
        store.upsert(PAIR, [items[5]])
        store.remove([items.pop(6).document.id])
        view = store.view(PAIR)
        queries = np.stack([make_vector(f"q{n}") for n in range(9)])
        for k in (1, 7, 10_000):
            batch = view.dense(queries, k)
            for query, ranking in zip(queries, batch, strict=True):
                assert_same(ranking, slow_dense(list(items.values()), query, k))
                assert view.dense(query[None, :], k) == (ranking,)

    def test_queries_that_cannot_be_answered_say_so(self, store: Store) -> None:
        """NaN, a wrong dimension, missing vectors and unknown ids are errors."""
        store.upsert(PAIR, [make_indexed(make_document(1))])
        store.upsert(PLAIN, [make_indexed(make_document(1), PLAIN)])
        view = store.view(PAIR)
        broken = make_vector("q")[None, :].copy()
        broken[0, 3] = np.nan
        with pytest.raises(RetrieveError):
            view.dense(broken, 3)
        with pytest.raises(RetrieveError):
            view.dense(make_vector("q", 5)[None, :], 3)
        with pytest.raises(RetrieveError):
            store.view(PLAIN).dense(make_vector("q")[None, :], 3)
        with pytest.raises(RetrieveError):
            view.lookup(["doc/0001:7-8"])
        assert view.keyword("engine", 0) == ()

    def test_ties_are_broken_by_id(self, store: Store) -> None:
        """Equal texts have equal scores; the lowest ids come first, for every k."""
        names = [f"t{n:03d}" for n in random.Random(3).sample(range(300), 300)]
        twin = make_document(1, pages=(), sections=())
        for start in range(0, 300, 60):
            batch = [
                make_indexed(replace(twin, id=name), size=10_000) for name in names[start:][:60]
            ]
            store.upsert(PAIR, batch)
        view = store.view(PAIR)
        word = twin.text.split()[0]
        for k in (1, 5, 250, 1000):
            expected = [f"{name}:0-{len(twin.text)}" for name in sorted(names)][:k]
            assert [key for key, _ in view.keyword(word, k)] == expected
            vectors = make_vector("q")[None, :]
            assert [key for key, _ in view.dense(vectors, k)[0]] == expected

    def test_lookup_gives_hits_in_the_order_asked_for(self, store: Store) -> None:
        """A lookup returns texts, spans, pages, headings and metadata of exactly these chunks."""
        items = [make_indexed(make_document(n)) for n in range(8)]
        store.upsert(PAIR, items)
        wanted = [(item.document, chunk) for item in items for chunk in item.chunks]
        random.Random(5).shuffle(wanted)
        hits = store.view(PAIR).lookup([chunk.id for _, chunk in wanted])
        assert len(hits) == len(wanted)
        for hit, (document, chunk) in zip(hits, wanted, strict=True):
            assert (hit.rank, hit.score) == (0, 0.0)
            assert (hit.chunk_id, hit.document_id) == (chunk.id, document.id)
            assert (hit.source, hit.title) == (document.source, document.title)
            assert (hit.start, hit.end, hit.page) == (chunk.span.start, chunk.span.end, chunk.page)
            assert hit.text == chunk.text
            assert hit.pages == chunk.pages
            for position in range(hit.start, hit.end):
                assert hit.page_at(position) == document.page_at(position)
            assert hit.headings == chunk.headings
            expected = {**document.metadata, **chunk.metadata}
            assert {name: hit.metadata[name] for name in expected} == expected

    def test_any_unicode_comes_back_as_it_was(self, store: Store) -> None:
        """Ids, titles, metadata and texts in any script, even what UTF-8 cannot spell."""
        for text in _UNICODE:
            document = Document(
                id=f"id {text}", source=f"s {text}", text=text * 3, title=text, metadata={"m": text}
            )
            store.upsert(PAIR, [make_indexed(document)], root=text)
            assert store.document(document.id) == document
            hits = store.view(PAIR).lookup([chunk.id for chunk in make_indexed(document).chunks])
            assert "".join(hit.text for hit in hits) == document.text
            assert hits[0].metadata["m"] == text
            assert store.remove([document.id]).removed == 1

    def test_filters_are_hard(self, store: Store) -> None:
        """Exactly the chunks that meet the filter are found; scores stay those without it."""
        items = [make_indexed(make_document(n)) for n in range(30)]
        store.upsert(PAIR, items[:20])
        store.upsert(PAIR, items[20:])
        view = store.view(PAIR)
        query = make_vector("q")[None, :]
        everything = view.dense(query, 10_000)[0]
        full = view.keyword("engine pump Manual", 10_000)
        for condition, meets in _CONDITIONS:
            allowed = {c.id for item in items if meets(item.document) for c in item.chunks}
            assert 0 < len(allowed) < sum(len(item.chunks) for item in items)
            expected = tuple(pair for pair in everything if pair[0] in allowed)
            assert view.dense(query, 10_000, [condition])[0] == expected, condition
            assert view.dense(query, 3, [condition])[0] == expected[:3], condition
            filtered = view.keyword("engine pump Manual", 10_000, [condition])
            assert filtered == tuple(pair for pair in full if pair[0] in allowed), condition

    def test_filters_of_chunks_and_several_filters(self, store: Store) -> None:
        """A chunk's own metadata and page count as well; all filters must be met."""
        items = [make_indexed(make_document(n)) for n in range(10)]
        store.upsert(PAIR, items)
        view = store.view(PAIR)
        filters = [Filter("half", ("first",)), Filter("language", ("en",)), Filter("page", (1,))]
        keys = {key for key, _ in view.dense(make_vector("q")[None, :], 1000, filters)[0]}
        assert keys == {i.chunks[0].id for i in items if i.document.language == "en"}

    def test_what_carries_no_such_field_meets_an_excluding_filter(self, store: Store) -> None:
        """In whole segments without the field, and beside chunks of one document that have it."""
        plain = [make_indexed(make_document(n, metadata={})) for n in range(4)]
        some = [make_indexed(make_document(n)) for n in range(4, 10)]
        store.upsert(PAIR, plain)
        store.view(PAIR).close()
        store.upsert(PAIR, some)
        view = store.view(PAIR)
        query = make_vector("q")[None, :]
        everything = view.dense(query, 1000)[0]

        def check(conditions: Sequence[Filter], allowed: set[str]) -> None:
            expected = tuple(pair for pair in everything if pair[0] in allowed)
            assert view.dense(query, 1000, conditions)[0] == expected
            assert set(view.every(1000, conditions)) == allowed

        chunks = [(item.document, chunk) for item in (*plain, *some) for chunk in item.chunks]
        barred = Filter("client", ("client 0", "client 4"), exclude=True)
        kept = {"client 1", "client 2", "client 3", None}
        check([barred], {c.id for d, c in chunks if d.metadata.get("client") in kept})
        late = Filter("half", ("first",), exclude=True)
        check([late], {c.id for _, c in chunks if c.ordinal})
        check([replace(late, exclude=False), late], set())
        years = Filter("year", low=2000, exclude=True)
        check([years], {c.id for d, c in chunks if not d.metadata})
        english = Filter("language", ("en",))
        check(
            [barred, english, late],
            {
                c.id
                for d, c in chunks
                if d.metadata.get("client") in kept and d.language == "en" and c.ordinal
            },
        )

    def test_an_excluded_value_need_not_be_there_but_the_field_must(self, store: Store) -> None:
        """An exclusion may match nothing; a misspelled field is an error, as it would exclude
        nothing.
        """
        store.upsert(PAIR, [make_indexed(make_document(n)) for n in range(5)])
        view = store.view(PAIR)
        nobody = Filter("client", ("nobody",), exclude=True)
        vectors = make_vector("q")[None, :]
        assert view.dense(vectors, 99, [nobody]) == view.dense(vectors, 99)
        assert view.keyword("engine", 99, [nobody]) == view.keyword("engine", 99)
        only = Filter("client", ("client 1",))
        assert view.dense(vectors, 99, [only, nobody]) == view.dense(vectors, 99, [only])
        with pytest.raises(FilterError, match="client"):
            view.keyword("engine", 5, [Filter("cleint", ("client 1",), exclude=True)])
        with pytest.raises(FilterError, match="client 1"):
            view.keyword("engine", 5, [nobody, Filter("client", ("Client1",))])

    def test_unknown_fields_and_values_name_the_nearest(self, store: Store) -> None:
        """A misspelled filter is an error that names the nearest field or value, not an empty
        reply.
        """
        store.upsert(PAIR, [make_indexed(make_document(n)) for n in range(5)])
        view = store.view(PAIR)
        with pytest.raises(FilterError, match="client"):
            view.keyword("engine", 5, [Filter("cleint", ("client 1",))])
        with pytest.raises(FilterError, match="client 1"):
            view.dense(make_vector("q")[None, :], 5, [Filter("client", ("Client1",))])
        assert view.keyword("engine", 5, [Filter("year", low=3000)]) == ()

    def test_fields_are_counted(self, store: Store) -> None:
        """Every field is listed with the number of its chunks."""
        items = [make_indexed(make_document(n)) for n in range(10)]
        store.upsert(PAIR, items)
        store.remove([items.pop().document.id])
        fields = store.view(PAIR).fields()
        chunks = sum(len(item.chunks) for item in items)
        for name in ("document_id", "source", "title", "language", "page", "client", "topics"):
            assert fields[name] == chunks, name
        assert fields["half"] == len(items)

    def test_pairs_live_side_by_side(self, store: Store) -> None:
        """What happens to one pair leaves the other as it was."""
        other = replace(PAIR, chunker="windows/3 {}", embedder="other", dimensions=8)
        documents = [make_document(n) for n in range(5)]
        store.upsert(PAIR, [make_indexed(d) for d in documents])
        store.upsert(other, [make_indexed(d, other, size=50) for d in documents])
        store.upsert(PLAIN, [make_indexed(d, PLAIN) for d in documents])
        assert {pair.key for pair in store.index_specs()} == {PAIR.key, other.key, PLAIN.key}
        before = store.snapshot(PAIR), store.snapshot(PLAIN)
        assert len(set(before)) == 2
        assert store.remove([documents[0].id], other).removed == 1
        assert (store.snapshot(PAIR), store.snapshot(PLAIN)) == before
        assert documents[0].id in store.content_hashes(PAIR)
        assert documents[0].id not in store.content_hashes(other)
        assert store.document(documents[0].id) == documents[0]
        assert store.remove([documents[0].id]).removed == 2
        assert store.document(documents[0].id) is None
        items = [make_indexed(d, other, size=50) for d in documents[1:]]
        ranking = store.view(other).dense(make_vector("q", 8)[None, :], 1000)[0]
        assert_same(ranking, slow_dense(items, make_vector("q", 8), 1000))

    def test_pairs_may_hold_different_versions_of_a_document(self, store: Store) -> None:
        """A pair that was not written again keeps the text its spans point into."""
        old, new = make_document(1), make_document(1, seed=2)
        store.upsert(PAIR, [make_indexed(old)])
        store.upsert(PLAIN, [make_indexed(new, PLAIN)])
        assert list(store.documents(PAIR)) == [old]
        assert list(store.documents(PLAIN)) == [new]
        assert store.document(old.id) == new
        hit = store.view(PAIR).lookup([make_indexed(old).chunks[1].id])[0]
        assert hit.text == make_indexed(old).chunks[1].text

    def test_vectors_are_stored_once_and_go_when_they_are_forgotten(self, store: Store) -> None:
        """Two pairs with one embedder share equal texts' vectors."""
        other = replace(PAIR, chunker="windows/3 {}")
        item = make_indexed(make_document(1))
        keys = [chunk_key(chunk, item.document.title) for chunk in item.chunks]
        assert store.stored_vectors(PAIR.embedder, keys) == {}
        store.upsert(PAIR, [item])
        store.upsert(other, [item])
        vectors = store.stored_vectors(PAIR.embedder, [*keys, "0" * 32])
        assert item.vectors is not None
        for key, vector in zip(keys, item.vectors, strict=True):
            assert np.array_equal(np.ravel(vectors[key]), vector)
        assert set(vectors) == set(keys)
        assert store.stored_vectors("another embedder", keys) == {}
        store.remove([item.document.id], PAIR)
        assert set(store.stored_vectors(PAIR.embedder, keys)) == set(keys)
        store.remove([item.document.id], purge=True)
        assert store.stored_vectors(PAIR.embedder, keys) == {}

    def test_heads_are_kept_and_searched(self, store: Store) -> None:
        """The pieces of a head are found by keywords, and are no part of the text."""
        item = make_indexed(make_document(1))
        head = Head("", ("Zirconium",), "torquemoment", "Explains the gasketring.")
        first = replace(item.chunks[0], head=head)
        store.upsert(PAIR, [replace(item, chunks=(first, *item.chunks[1:]))])
        view = store.view(PAIR)
        for word in ("zirconium", "torquemoment", "gasketring"):
            assert [key for key, _ in view.keyword(word, 9)] == [first.id]
        hits = view.lookup([chunk.id for chunk in item.chunks])
        assert [hit.head for hit in hits] == [head, *([None] * (len(hits) - 1))]
        assert [hit.text for hit in hits] == [chunk.text for chunk in item.chunks]
        assert [hit.headings for hit in hits] == [chunk.headings for chunk in item.chunks]

    def test_a_pair_holds_what_was_stored_under_it_alone(self, store: Store) -> None:
        """All documents of a pair are listed, and none of another pair."""
        item = make_indexed(make_document(1))
        assert not store.holds(PAIR)
        store.upsert(PAIR, [item])
        assert store.holds(PAIR)
        assert not store.holds(PLAIN)
        store.remove([item.document.id])
        assert not store.holds(PAIR)

    def test_answers_are_the_same_after_reopening(self, store_factory: StoreFactory) -> None:
        """A reopened store has the same snapshot and gives the same replies to the last digit."""
        items = [make_indexed(make_document(n)) for n in range(20)]
        answers: list[Mapping[str, Any]] = []
        for step in range(3):
            store = store_factory()
            if step == 0:
                store.upsert(PAIR, items[:15])
                store.view(PAIR).close()
                store.upsert(PAIR, items[15:])
            view = store.view(PAIR)
            answers.append(
                {
                    "snapshot": store.snapshot(PAIR),
                    "keyword": view.keyword("engine oil", 50),
                    "dense": view.dense(make_vector("q")[None, :], 50),
                    "hits": view.lookup([chunk.id for chunk in items[3].chunks]),
                }
            )
            view.close()
            store.close()
            store.close()
        assert answers[0] == answers[1] == answers[2]

    def test_documents_without_chunks_are_stored(self, store: Store) -> None:
        """A document without chunks is stored."""
        empty = Document(id="empty", source="s", text="")
        counts = store.upsert(PAIR, [make_indexed(empty), make_indexed(make_document(1))])
        assert counts.added == 2
        assert set(store.content_hashes(PAIR)) == {"empty", "doc/0001"}
        assert store.view(PAIR).statistics().documents == 2

    def test_a_view_stays_as_it_was_while_others_write(self, store: Store) -> None:
        """A reader keeps one consistent state; the next view sees the next state."""
        items = [make_indexed(make_document(n)) for n in range(12)]
        store.upsert(PAIR, items)
        view = store.view(PAIR)
        query = make_vector("q")[None, :]
        keyword, dense = view.keyword("engine", 50), view.dense(query, 50)
        done = threading.Event()
        wrong: list[str] = []

        def write() -> None:
            for step in range(6):
                store.upsert(PAIR, [make_indexed(make_document(step, seed=step + 500))])
                store.remove([f"doc/{(step + 5) % 12:04d}"])
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        while not done.is_set():
            if (view.keyword("engine", 50), view.dense(query, 50)) != (keyword, dense):
                wrong.append("the answers changed")
            present = store.view(PAIR)
            if len(present.dense(query, 10_000)[0]) != present.statistics().chunks:
                wrong.append("a view is half of one state, half of another")
            done.wait(0.01)
        writer.join()
        assert not wrong
        assert view.keyword("engine", 50) == keyword
        assert store.view(PAIR).keyword("engine", 50) != keyword

    def test_a_snapshot_that_never_was_is_refused(self, store: Store) -> None:
        """An unknown snapshot is an error; no other state is searched instead."""
        store.upsert(PAIR, [make_indexed(make_document(1))])
        present = store.snapshot(PAIR)
        assert store.view(PAIR, present).snapshot == present
        with pytest.raises(SnapshotGoneError):
            store.view(PAIR, f"{PAIR.key}@0000000000000000")
