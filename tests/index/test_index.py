"""What every store must do: one suite, over the embedded store, Lance, and Lance's indexes."""

from __future__ import annotations

import math
import multiprocessing
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from naive_index import (
    CONDITIONS,
    Meets,
    assert_same,
    has,
    names_what_is_hidden,
    rows_of,
    slow_dense,
    slow_keyword,
    slow_relaxed,
    weight_of,
)

from ragwright.core import (
    Document,
    DuplicateIdError,
    Filter,
    FilterError,
    Head,
    Page,
    Relaxation,
    RetrieveError,
    Section,
    SnapshotGoneError,
    SoftFilter,
    Span,
    StoreError,
)
from ragwright.flow import Lookup, LookupReply, SearchReply
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    LanceSizes,
    LanceStore,
    SqliteStore,
    Store,
    View,
    ViewHandler,
    Views,
    WriteCounts,
    chunk_key,
)
from ragwright.testing import PAIR, PLAIN, make_document, make_indexed, make_vector

Open: TypeAlias = Callable[[], Store]
"""Opens the store under test: each call in one test opens the same one anew."""

ALL = 10_000
QUERY = make_vector("q")
BOTH_WAYS: tuple[Any, ...] = ("engine pump Manual", QUERY)
ENGLISH = Filter("language", ("en",))
NOT_FIRST = Filter("half", ("first",), exclude=True)
CLIENT = Filter("client", ("client 1",))
TOPICS = (Filter("topics", ("t1",)), Filter("topics", ("t4",)))
PART, YEARS = Filter("section", ("Part 1",)), Filter("year", low=2000, high=2010)
SLIP = Filter("cleint", ("client 1",))
BARRED = SLIP, replace(SLIP, exclude=True)


def soft(weights: Sequence[float], *conditions: Filter) -> tuple[SoftFilter, ...]:
    return tuple(SoftFilter(one, weight) for one, weight in zip(conditions, weights, strict=True))


TIED = soft((6, 3, 3, 2, 1), CLIENT, *TOPICS, PART, YEARS)


class Settled(LanceStore):
    """Maintains its indexes after every write, for the smallest table, and always asks them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, sizes=LanceSizes(indexed=1, stale=1, read=1, exact=1))

    def upsert(
        self, spec: IndexSpec, batch: Sequence[IndexedDocument], root: str = ""
    ) -> WriteCounts:
        counts = super().upsert(spec, batch, root)
        self.settle(spec)
        return counts


KINDS: dict[str, Callable[[Path], Store]] = {
    "sqlite": SqliteStore,
    "lance": LanceStore,
    "lance-indexes": Settled,
}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("lance", "lance-indexes")]
SECOND_LANCE = pytest.param("second-lance", marks=pytest.mark.slow)


def made(*numbers: int, **changes: Any) -> list[IndexedDocument]:
    return [make_indexed(make_document(n, **changes)) for n in numbers]


@pytest.fixture(scope="module", params=["sqlite", *SLOW])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reopen(kind: str, tmp_path: Path) -> Open:
    return lambda: KINDS[kind](tmp_path / "data" / "store")


@pytest.fixture
def store(reopen: Open) -> Iterator[Store]:
    store = reopen()
    yield store
    store.close()


ITEMS, GONE = [*made(*range(36)), *made(*range(36, 40), metadata={})], ("doc/0003", "doc/0021")
LEFT = [item for item in ITEMS if item.document.id not in GONE]


def gone(*_: object) -> View:
    raise OSError("gone")


@pytest.fixture(scope="module", params=["sqlite", "second-sqlite", *SLOW, SECOND_LANCE])
def view(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[View]:
    """A view of what was written in steps, some of it changed and removed again.

    A whole segment of it is without metadata. The second index answers where a view fails.
    """
    store = KINDS[request.param.removeprefix("second-")](tmp_path_factory.mktemp("w") / "store")
    for part in (ITEMS[36:], made(*range(4), seed=99), ITEMS[:15], ITEMS[15:36]):
        store.upsert(PAIR, part)
        store.view(PAIR).close()
    store.remove(GONE)
    first = view = store.view(PAIR)
    if request.param.startswith("second"):
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(type(store), "view", gone)
            view, (note,) = Views(store).answer(view.snapshot, lambda second: second)
        assert "second index" in note
        assert view.keyword("engine café", 50) == first.keyword("engine café", 50)
        assert view.dense(QUERY[None, :], 50) == first.dense(QUERY[None, :], 50)
        assert (view.snapshot, view.fields()) == (first.snapshot, first.fields())
        assert view.statistics().tokens == first.statistics().tokens
    yield view
    store.close()


def test_an_empty_store_answers_with_nothing(store: Store) -> None:
    view = store.view(PAIR)
    for filters in ((), (ENGLISH,)):
        assert view.keyword("engine", 5, filters) == ()
        assert view.dense(QUERY[None, :], 5, filters) == ((),)
        assert view.every(5, filters) == ()
        for query in BOTH_WAYS:
            assert view.relaxed(query, 5, Relaxation(TIED), filters) == SearchReply(())
    assert (view.statistics().chunks, dict(view.fields())) == (0, {})
    vectors = view.vectors([])
    assert vectors is not None
    assert vectors.shape == (0, PAIR.dimensions)
    assert (list(store.index_specs()), store.document("doc/0001")) == ([], None)
    assert (list(store.documents(PAIR)), dict(store.content_hashes(PAIR))) == ([], {})
    store.upsert(PAIR, [make_indexed(Document("wordless", "s", "?!"))])
    assert store.view(PAIR).keyword("engine", 5) == ()


def test_counts_of_added_changed_unchanged_and_removed(store: Store) -> None:
    items = made(*range(6))
    chunks = sum(len(item.chunks) for item in items)
    assert not store.holds(PAIR)
    first = store.upsert(PAIR, items, root="r")
    assert (first.added, first.changed, first.unchanged) == (6, 0, 0)
    assert (first.chunks_added, first.chunks_removed) == (chunks, 0)
    before = store.snapshot(PAIR)
    again = store.upsert(PAIR, items, root="r")
    assert (again.added, again.changed, again.unchanged, again.chunks_added) == (0, 0, 6, 0)
    assert store.snapshot(PAIR) == before
    third = store.upsert(PAIR, [items[0], *made(2, words=20, seed=99), *made(50)])
    assert (third.added, third.changed, third.unchanged) == (1, 1, 1)
    assert third.chunks_removed == len(items[2].chunks)
    assert store.snapshot(PAIR) != before
    gone = store.remove(["doc/0000", "doc/9999"])
    assert (gone.removed, gone.chunks_removed) == (1, len(items[0].chunks))
    left = {f"doc/{n:04d}" for n in (1, 2, 3, 4, 5, 50)}
    assert set(store.content_hashes(PAIR)) == left
    assert (store.holds(PAIR), store.holds(PLAIN)) == (True, False)
    store.remove(sorted(left))
    assert not store.holds(PAIR)


UNICODE = (
    "漢字 かな", "é e\u0301 \u00a0 \u200d", "👩‍🔬 🙂" * 40, "\ud800 lone", "a\u0000b", "مرحبا",
)  # fmt: skip


def test_documents_come_back_whole(store: Store) -> None:
    documents = [make_document(n) for n in (3, 1, 2)]
    empty = Document(id="empty", source="s", text="")
    store.upsert(PAIR, [make_indexed(one) for one in (*documents, empty)], root="folder")
    every = sorted([*documents, empty], key=lambda d: d.id)
    assert list(store.documents(PAIR)) == every
    assert store.document("doc/0003") == documents[0]
    assert dict(store.sources(PAIR)) == {d.id: "folder" for d in every}
    assert dict(store.content_hashes(PAIR)) == {d.id: d.content_hash() for d in every}
    assert list(store.index_specs()) == [PAIR]
    assert store.view(PAIR).statistics().documents == 4
    for text in UNICODE:
        document = Document(f"id {text}", f"s {text}", text * 3, text, metadata={"m": text})
        store.upsert(PAIR, [make_indexed(document)], root=text)
        assert store.document(document.id) == document
        hits = store.view(PAIR).lookup([chunk.id for chunk in make_indexed(document).chunks])
        assert "".join(hit.text for hit in hits) == document.text
        assert hits[0].metadata["m"] == text
        assert store.remove([document.id]).removed == 1


def test_bad_input_is_refused_whole_and_loses_nothing(store: Store) -> None:
    store.upsert(PAIR, made(1))
    before = store.snapshot(PAIR)
    with pytest.raises(DuplicateIdError):
        store.upsert(PAIR, [*made(2), *made(2, seed=8)])
    good, bad = made(3, 4)
    assert bad.vectors is not None
    broken = bad.vectors.copy()
    broken[0, 0] = np.nan
    for vectors in (broken, bad.vectors[:, :-1], bad.vectors[:-1], None):
        with pytest.raises(StoreError):
            store.upsert(PAIR, [good, replace(bad, vectors=vectors)])
    assert store.snapshot(PAIR) == before
    assert set(store.content_hashes(PAIR)) == {"doc/0001"}


WORDS = ("engine", "APP_w304 café", "oil oil pump", "Part 2 漢字", "absent", "", "!")


def test_scores_equal_the_slow_references_through_changes_and_removals(store: Store) -> None:
    queries = np.stack([make_vector(f"q{n}") for n in range(9)])

    def check() -> None:
        view, held = store.view(PAIR), list(items.values())
        for k in (1, 7, ALL):
            for query in WORDS:
                assert_same(view.keyword(query, k), slow_keyword(held, query, k))
            batch = view.dense(queries, k)
            for vector, ranking in zip(queries, batch, strict=True):
                assert_same(ranking, slow_dense(held, vector, k))
                assert view.dense(vector[None, :], k) == (ranking,)
        assert view.keyword("engine", 0) == ()

    items = dict(enumerate(made(*range(40))))
    store.upsert(PAIR, list(items.values()))
    check()
    items |= dict(zip((3, 9, 27), made(3, 9, 27, words=90, seed=1000), strict=True))
    items[77] = made(77)[0]
    store.upsert(PAIR, [items[n] for n in (3, 9, 27, 77)])
    store.remove([items.pop(n).document.id for n in (0, 9, 39)])
    check()


def test_ties_are_broken_by_id(store: Store) -> None:
    names = [f"t{n:03d}" for n in random.Random(3).sample(range(300), 300)]
    twin = make_document(1, pages=(), sections=())
    for start in range(0, 300, 60):
        batch = [replace(twin, id=name) for name in names[start:][:60]]
        store.upsert(PAIR, [make_indexed(one, size=ALL) for one in batch])
    view = store.view(PAIR)
    for k in (1, 5, 250, 1000):
        expected = [f"{name}:0-{len(twin.text)}" for name in sorted(names)][:k]
        assert [key for key, _ in view.keyword(twin.text.split()[0], k)] == expected
        assert [key for key, _ in view.dense(QUERY[None, :], k)[0]] == expected


def test_lookup_gives_hits_in_the_order_asked_for(store: Store) -> None:
    items = made(*range(8))
    store.upsert(PAIR, items)
    store.upsert(PLAIN, [make_indexed(make_document(1), PLAIN)])
    wanted = rows_of(items)
    random.Random(5).shuffle(wanted)
    view, asked = store.view(PAIR), tuple(chunk.id for _, chunk in wanted)
    for hit, (document, chunk) in zip(view.lookup(asked), wanted, strict=True):
        assert (hit.rank, hit.score) == (0, 0.0)
        assert (hit.chunk_id, hit.document_id) == (chunk.id, document.id)
        assert (hit.source, hit.title) == (document.source, document.title)
        assert (hit.start, hit.end, hit.page) == (chunk.span.start, chunk.span.end, chunk.page)
        assert (hit.text, hit.pages, hit.headings) == (chunk.text, chunk.pages, chunk.headings)
        places = range(hit.start, hit.end)
        assert [hit.page_at(at) for at in places] == [document.page_at(at) for at in places]
        assert {**document.metadata, **chunk.metadata}.items() <= hit.metadata.items()
    vector_of = {c.id: v for i in items for c, v in zip(i.chunks, i.vectors, strict=True)}  # type: ignore[arg-type]
    (reply,) = ViewHandler(Views(store)).reply_to([Lookup(view.snapshot, asked, vectors=True)])
    assert isinstance(reply, LookupReply)
    assert reply.vectors is not None
    assert reply.vectors.dtype == np.float32
    assert np.array_equal(reply.vectors, np.stack([vector_of[key] for key in asked]))
    assert store.view(PLAIN).vectors([items[1].chunks[0].id]) is None


FIRST, others = Filter("half", ("first",)), has("client", "client 0", "client 4")
SEVERAL: tuple[tuple[list[Filter], Meets], ...] = (
    ([FIRST, ENGLISH, Filter("page", (1,))], lambda d, c: d.language == "en" and not c.ordinal),
    ([FIRST, NOT_FIRST], lambda d, c: False),
    (
        [Filter("client", ("client 0", "client 4"), exclude=True), ENGLISH, NOT_FIRST],
        lambda d, c: not others(d, c) and d.language == "en" and bool(c.ordinal),
    ),
)


@pytest.mark.parametrize("step", range(3))
def test_filters_are_hard(view: View, step: int) -> None:
    """Exactly the chunks that meet the filters are found; scores stay those without them.

    What carries no such field meets an excluding filter.
    """
    near, full = view.dense(QUERY[None, :], ALL)[0], view.keyword("engine pump Manual", ALL)
    for filters, meets in (*(([one], meets) for one, meets in CONDITIONS), *SEVERAL)[step::3]:
        allowed = {chunk.id for document, chunk in rows_of(LEFT) if meets(document, chunk)}
        expected = tuple(pair for pair in near if pair[0] in allowed)
        assert view.dense(QUERY[None, :], ALL, filters)[0] == expected, filters
        assert view.dense(QUERY[None, :], 3, filters)[0] == expected[:3], filters
        found = view.keyword("engine pump Manual", ALL, filters)
        assert found == tuple(pair for pair in full if pair[0] in allowed), filters
        assert (set(view.every(ALL, filters)), view.count(filters)) == (allowed, len(allowed))


def test_a_slip_in_a_filter_names_the_nearest_and_an_idle_exclusion_is_none(view: View) -> None:
    """An exclusion may match nothing; a misspelled field would exclude nothing, and is an error."""
    dense, keyword = view.dense(QUERY[None, :], 99), view.keyword("engine", 99)
    nobody, wrong = Filter("client", ("nobody",), exclude=True), Filter("client", ("Client1",))
    assert view.dense(QUERY[None, :], 99, [nobody]) == dense
    assert view.keyword("engine", 99, [nobody]) == keyword
    only = view.dense(QUERY[None, :], 99, [CLIENT])
    assert view.dense(QUERY[None, :], 99, [CLIENT, nobody]) == only
    assert view.keyword("engine", 5, [Filter("year", low=3000)]) == ()
    assert view.relaxed("the of and", 5, Relaxation(TIED)) == SearchReply(())

    def asks(filters: list[Filter], soft: SoftFilter | None = None, **changes: Any) -> list[Any]:
        relax = replace(Relaxation((soft,) if soft else ()), **changes)
        return [
            lambda: view.keyword("engine", 5, filters),
            lambda: view.dense(QUERY[None, :], 5, filters),
            lambda: view.every(5, filters),
            lambda: view.relaxed(QUERY, 5, relax, filters),
        ][3 if soft else 0 :]

    four, many = Filter("client", ("client 4",)), (SoftFilter(CLIENT),) * 63
    for asked, said, hidden in (
        *((asks([slip]), "'client'|client", "\0") for slip in BARRED),
        *((asks([], SoftFilter(slip)), "client", "\0") for slip in BARRED),
        (asks([wrong]), "client 1", "\0"),
        (asks([nobody, wrong]), "client 1", "\0"),
        (asks([], SoftFilter(wrong)), "client 1", "\0"),
        (asks([four], SoftFilter(wrong)), ".", "client 1"),
        (asks([four, Filter("year", (2101,))]), ".", "2001"),
        (asks([], SoftFilter(CLIENT), threshold=math.nan), "not a number", "\0"),
        ([lambda: view.relaxed(QUERY, 5, Relaxation(many))], "62", "\0"),
    ):
        for ask in asked:
            with pytest.raises(FilterError, match=said) as refused:
                ask()
            assert hidden not in str(refused.value)
    view.relaxed(QUERY, 5, Relaxation(many[:62]))
    # A range in which nothing lies is right; where none may be found nothing is judged.
    far = Filter("year", low=3000)
    view.relaxed(QUERY, 5, Relaxation((SoftFilter(far),)))
    view.relaxed(QUERY, 5, Relaxation((SoftFilter(Filter("language", ("no",))),)), [far])


OWNERS = ((), ("hr",), ("board", "hr"), ("board",), ("hr",), ())
"""Groups of the documents; the fourth has a client and a field of its own."""


@pytest.fixture
def readers(store: Store) -> View:
    items = []
    for number, owners in enumerate(OWNERS):
        facts: dict[str, Any] = {"client": f"client {number}"}
        facts |= {"groups": owners} if owners else {}
        facts |= {"hidden_field": "x"} if number == 3 else {}
        items += made(number, metadata=facts)
    store.upsert(PAIR, items[:4])
    store.view(PAIR).close()
    store.upsert(PAIR, items[4:])
    return store.view(PAIR)


@pytest.mark.parametrize("everyone", [True, False], ids=["and-everyone's", "theirs-alone"])
def test_rights_to_read_narrow_every_search(readers: View, everyone: bool) -> None:
    """A reader of some groups finds their chunks, and those of no group if they are everyone's;
    no group and no field need exist.
    """
    full, near = readers.keyword("engine pump", 1000), readers.dense(QUERY[None, :], 1000)[0]
    for groups in (("hr",), ("board",), ("hr", "board"), ("nobody",)):
        right = [Filter("groups", groups, missing=everyone)]
        hits = readers.lookup(readers.every(1000, right))
        allowed = {hit.chunk_id for hit in hits}
        assert readers.count(right) == len(allowed)
        assert {hit.document_id for hit in hits} == {
            f"doc/{number:04d}"
            for number, owners in enumerate(OWNERS)
            if set(owners) & set(groups) or (everyone and not owners)
        }
        found = readers.keyword("engine pump", 1000, right)
        assert found == tuple(pair for pair in full if pair[0] in allowed)
        (found,) = readers.dense(QUERY[None, :], 1000, right)
        assert found == tuple(pair for pair in near if pair[0] in allowed)
    absent = Filter("readers", ("hr",), missing=everyone)
    assert bool(readers.every(5, [absent])) is everyone
    assert readers.count([absent]) == (readers.count() if everyone else 0)
    assert readers.count() == readers.statistics().chunks


def refusal(view: View, right: Filter, condition: Filter, as_soft: bool) -> str:
    """The error of a search under a right and a condition, with its hint once."""
    relax = Relaxation((SoftFilter(condition),) if as_soft else ())
    filters = [right] if as_soft else [right, condition]
    with pytest.raises(FilterError) as error:
        view.relaxed("engine", 5, relax, filters)
    return f"{error.value.what} {error.value.hint}"


@pytest.mark.parametrize("as_soft", [False, True], ids=["hard", "soft"])
def test_errors_name_nothing_that_is_hidden(store: Store, readers: View, as_soft: bool) -> None:
    right = Filter("groups", ("hr",), missing=True)
    for hidden in (Filter("hidden_field", ("x",)), Filter("client", ("client 3",))):
        shown = refusal(readers, right, hidden, as_soft)
        assert shown.count("hidden_field") == (hidden.field == "hidden_field")
        assert shown.count("client 3") == (hidden.field == "client")
    nobody = Filter("groups", ("nobody",), missing=False)
    assert readers.keyword("engine", 5, [nobody, Filter("hidden_field", ("x",))]) == ()
    store.upsert(PAIR, made(77, metadata={"client": "other", "project": "falcon"}))
    store.upsert(PAIR, made(78, metadata={"client": "own", "project": "crane"}))
    view, mask = store.view(PAIR), Filter("client", ("own",))
    shown, elsewhere = (
        refusal(view, mask, Filter("project", (value,)), as_soft).replace(value, "…")
        for value in ("falcon", "eaglet")
    )
    assert shown == elsewhere
    assert "crane" in shown
    view.relaxed("engine", 5, Relaxation((SoftFilter(Filter("project", ("falcon",))),)))
    assert view.keyword("engine", 5, [mask, Filter("project", ("crane", "falcon"))])


def test_terms_count_the_chunks_that_may_be_found(store: Store) -> None:
    own = make_indexed(Document("own", "s", "oil pump", metadata={"client": "own"}))
    facts = {"metadata": {"client": "other"}}
    others = [make_indexed(Document(f"o{n}", "s", "oil app_w304", **facts)) for n in range(3)]  # type: ignore[arg-type]
    store.upsert(PAIR, [own])
    store.view(PAIR).close()
    store.upsert(PAIR, others)
    view, mask = store.view(PAIR), (Filter("client", ("own",)),)
    for filters, counts in (((), [4, 3, 0]), (mask, [1, 0, 0])):
        plain = view.keyword_reply("oil app_w304 nowhere", 5, filters)
        assert view.relaxed("oil app_w304 nowhere", 5, Relaxation(()), filters).terms == plain.terms
        shown = {term.token: term for term in plain.terms}
        assert [shown[token].chunks for token in ("oil", "app_w304", "nowher")] == counts
    assert shown["app_w304"].idf == shown["nowher"].idf
    key = own.chunks[0].id
    everything = dict(view.keyword("oil app_w304", 9))
    assert dict(view.keyword("oil app_w304", 9, mask)) == {key: everything[key]}


def test_every_chunk_in_document_order(store: Store) -> None:
    items = made(*range(12))
    store.upsert(PAIR, items[6:][::-1])
    store.view(PAIR).close()
    store.upsert(PAIR, [*items[:6], make_indexed(Document("empty", "s", ""))])
    store.remove([items[4].document.id])
    view, left = store.view(PAIR), items[:4] + items[5:]
    expected = [chunk.id for item in left for chunk in item.chunks]
    english = [c.id for i in left if i.document.language == "en" for c in i.chunks]
    for filters, wanted in (((), expected), ((ENGLISH,), english)):
        read: list[str] = []
        while page := view.every(7, filters, read[-1] if read else ""):
            read += page
        assert read == wanted
    assert view.every(0) == ()
    assert view.every(ALL, [ENGLISH], expected[0])[0] == english[1]
    with pytest.raises(RetrieveError):
        view.every(3, after=items[4].chunks[0].id)
    fields = view.fields()
    names = ("document_id", "source", "title", "language", "page", "client", "topics")
    assert [fields[name] for name in names] == [len(expected)] * 7
    assert fields["half"] == len(left)


def test_headings_are_the_field_section(store: Store) -> None:
    text = "Head 0 engine. Head 1 engine. Head 2 engine."
    cuts = (0, 15, 30, len(text))
    sections = (Section("Head 0", 1, Span(0, 30)), Section("Head 1", 2, Span(15, 30)))
    pages = (Page(1, Span(0, 15)), Page(2, Span(15, len(text))))
    item = make_indexed(Document("d", "s", text, pages=pages, sections=sections), size=15)
    assert [chunk.span.start for chunk in item.chunks] == [*cuts[:3]]
    own = made(1, metadata={"section": "own", "client": "c"})[0]
    store.upsert(PAIR, [item, own, *made(2, sections=())])
    view = store.view(PAIR)

    def under(value: str) -> set[str]:
        return set(view.every(ALL, [Filter("section", (value,))]))

    assert under("Head 0") == {item.chunks[0].id, item.chunks[1].id}
    assert under("Head 1") == {item.chunks[1].id}
    assert under("own") == {chunk.id for chunk in own.chunks}
    assert view.fields()["section"] == 2 + len(own.chunks)
    with pytest.raises(FilterError, match="Head 1"):
        under("head1")
    with pytest.raises(FilterError):
        under("Part 1")


def test_queries_that_cannot_be_answered_say_so(store: Store) -> None:
    store.upsert(PAIR, made(1))
    store.upsert(PLAIN, [make_indexed(make_document(1), PLAIN)])
    view, plain, broken = store.view(PAIR), store.view(PLAIN), QUERY.copy()
    broken[3] = np.nan
    relax = Relaxation(TIED)
    for one, vector in ((view, broken), (view, make_vector("q", 5)), (plain, QUERY)):
        with pytest.raises(RetrieveError):
            one.dense(vector[None, :], 3)
        with pytest.raises(RetrieveError):
            one.relaxed(vector, 3, relax if one is view else Relaxation(()))
    for ask in (view.lookup, view.vectors):
        with pytest.raises(RetrieveError):
            ask(["doc/0001:7-8"])
    present = store.snapshot(PAIR)
    assert store.view(PAIR, present).snapshot == present
    with pytest.raises(SnapshotGoneError):
        store.view(PAIR, f"{PAIR.key}@0000000000000000")


def test_heads_are_kept_and_searched(store: Store) -> None:
    (item,) = made(1)
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


def test_pairs_live_side_by_side(store: Store) -> None:
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
    old, new = documents[1], make_document(1, seed=2)
    store.upsert(PLAIN, [make_indexed(new, PLAIN)])
    assert next(iter(store.documents(PAIR))) == old
    assert next(iter(store.documents(PLAIN))) == store.document(old.id) == new
    kept = make_indexed(old).chunks[1]
    assert store.view(PAIR).lookup([kept.id])[0].text == kept.text


def test_vectors_are_stored_once_and_go_when_they_are_forgotten(store: Store) -> None:
    (item,) = made(1)
    keys = [chunk_key(chunk, item.document.title) for chunk in item.chunks]
    assert store.stored_vectors(PAIR.embedder, keys) == {}
    for pair in (PAIR, replace(PAIR, chunker="windows/3 {}")):
        store.upsert(pair, [item])
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


def test_nothing_of_a_purged_document_or_its_past_stays_on_disk(
    store: Store, tmp_path: Path
) -> None:
    def on_disk() -> list[bool]:
        content = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        return [any(secret in one for one in content) for secret in secrets]

    keep, secret = made(*range(30)), made(90, text="zebraquartz " * 30, title="zebraquartz")
    store.upsert(PAIR, [*keep, *secret])
    store.view(PAIR).close()
    (changed,) = made(90, words=30)
    assert changed.vectors is not None
    secrets = [b"zebraquartz", changed.vectors[0].tobytes(), b"doc/0090"]
    store.upsert(PAIR, [changed])
    store.view(PAIR).close()
    store.remove([changed.document.id], PAIR)
    assert on_disk() == [True] * 3
    store.remove([changed.document.id], purge=True)
    found = store.view(PAIR).every(ALL)
    assert on_disk() == [False] * 3
    assert len(store.content_hashes(PAIR)) == len(keep)
    assert len(found) == sum(len(item.chunks) for item in keep)


def test_answers_are_the_same_after_reopening_and_for_all_who_have_it_open(reopen: Open) -> None:
    items = made(*range(20))
    answers: list[Any] = []
    for step in range(3):
        store = reopen()
        if step == 0:
            store.upsert(PAIR, items[:15])
            store.view(PAIR).close()
            store.upsert(PAIR, items[15:])
        view = store.view(PAIR)
        found = view.keyword("engine oil", 50), view.dense(QUERY[None, :], 50)
        hits = view.lookup([chunk.id for chunk in items[3].chunks])
        answers.append((store.snapshot(PAIR), found, hits))
        view.close()
        store.close()
        store.close()
    assert answers[0] == answers[1] == answers[2]
    reader, writer = reopen(), reopen()
    before = reader.snapshot(PAIR)
    writer.upsert(PAIR, [make_indexed(Document("new", "s", "newcomer"))])
    assert reader.snapshot(PAIR) != before
    assert len(reader.view(PAIR).keyword("newcomer", 3)) == 1
    writer.remove(["new"])
    assert reader.snapshot(PAIR) == before
    for one in (reader, writer):
        one.close()


def test_a_view_stays_as_it_was_while_others_write(store: Store) -> None:
    store.upsert(PAIR, made(*range(12)))
    view, query = store.view(PAIR), QUERY[None, :]
    keyword, dense = view.keyword("engine", 50), view.dense(query, 50)
    done = threading.Event()
    wrong: list[str] = []

    def write() -> None:
        for step in range(6):
            store.upsert(PAIR, made(step, seed=step + 500))
            store.remove([f"doc/{(step + 5) % 12:04d}"])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        if (view.keyword("engine", 50), view.dense(query, 50)) != (keyword, dense):
            wrong.append("the answers changed")
        present = store.view(PAIR)
        if len(present.dense(query, ALL)[0]) != present.statistics().chunks:
            wrong.append("a view is half of one state, half of another")
        done.wait(0.01)
    writer.join()
    assert not wrong
    assert view.keyword("engine", 50) == keyword
    assert store.view(PAIR).keyword("engine", 50) != keyword


ROUNDS, WRITERS, BATCH = 2, 3, 20


def write_the_same_ids(
    kind: str, path: Path, worker: int, together: Barrier, results: multiprocessing.Queue[int]
) -> None:
    """Every writer stores the same new ids, each its own text, all at the same moments."""
    store = KINDS[kind](path)
    added = 0
    for start in range(0, ROUNDS * BATCH, BATCH):
        texts = {f"{n:03d}": f"word by {worker} of {n}" for n in range(start, start + BATCH)}
        batch = [make_indexed(Document(name, "s", text)) for name, text in texts.items()]
        together.wait(60)
        added += store.upsert(PAIR, batch).added
        store.view(PAIR).keyword("word", 3)
    results.put(added)
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "lance"])
def test_writers_at_once_duplicate_nothing(kind: str, tmp_path: Path) -> None:
    path, context = tmp_path / "data" / "store", multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    together = context.Barrier(WRITERS)
    workers = [
        context.Process(target=write_the_same_ids, args=(kind, path, n, together, results))
        for n in range(WRITERS)
    ]
    for worker in workers:
        worker.start()
    counted = sum(results.get(timeout=90) for _ in workers)
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    store = KINDS[kind](path)
    every = len(list(store.documents(PAIR)))
    found = [key for key, _ in store.view(PAIR).keyword("word", ALL)]
    assert counted == every == len(found) == len(set(found)) == ROUNDS * BATCH
    assert store.view(PAIR).statistics().chunks == every
    store.close()


# -- soft filters: relaxed -------------------------------------------------------------------

WEIGHTS = ("0", "0.1", "0.2", "0.3", "1", "2", "3", "5", "8", "1000000", "0.000001", "1e30")
NUMBERS = st.integers(0, len(CONDITIONS) - 1)
THRESHOLDS = (None, -1.0, 0.0, 0.1, 0.25, 1.5, 1e300, -1e300)
TWICE = [(0, "1000000"), (3, "1000000"), (12, "1000000"), (13, "0.000001")]
TIED_TWICE = [(0, "3"), (0, "2"), (16, "1"), (8, "0"), (32, "4"), (3, "3"), (13, "3")]
HUGE = [(0, "1e30"), (3, "0.1"), (12, "0.2"), (13, "0.3"), (8, "1e-30"), (15, "1e30")]


@pytest.mark.slow
@given(
    st.sampled_from(["keyword", "dense"]),
    st.lists(st.tuples(NUMBERS, st.sampled_from(WEIGHTS)), max_size=7),
    st.lists(NUMBERS, max_size=2),
    st.sampled_from(THRESHOLDS),
    st.booleans(),
    st.sampled_from([0, 1, 3, 10, 40, 1000]),
)
@example("dense", TWICE, [], None, True, 1000)
@example("keyword", HUGE, [], None, True, 1000)
@example("dense", TIED_TWICE, [], None, True, 23)
@example("keyword", [], [], None, False, 9)
def test_one_pass_is_the_definition(
    view: View,
    way: str,
    chosen: list[tuple[int, str]],
    hard: list[int],
    threshold: float | None,
    unfiltered: bool,
    k: int,
) -> None:
    query = BOTH_WAYS[way == "dense"]
    wishes = tuple(SoftFilter(CONDITIONS[at][0], float(weight)) for at, weight in chosen)
    relax = Relaxation(wishes, threshold, unfiltered)
    filters = [CONDITIONS[at][0] for at in hard]
    if names_what_is_hidden(LEFT, hard, [at for at, _ in chosen]):
        with pytest.raises(FilterError):
            view.relaxed(query, k, relax, filters)
        return
    expected = slow_relaxed(view, LEFT, query, chosen, hard, relax)
    found = view.relaxed(query, k, relax, filters)
    assert found.candidates == tuple((key, score) for key, score, _ in expected[:k])
    assert found.rungs == tuple(rung for _, _, rung in expected[:k])
    counts: dict[int, int] = {}
    for _, _, rung in expected:
        counts[rung] = counts.get(rung, 0) + 1
    whole = view.relaxed(query, 0, relax, filters)
    assert (whole.candidates, dict(whole.ladder)) == ((), counts)
    weights = [weight_of(chosen, rung) for rung, _ in whole.ladder]
    assert weights == sorted(weights, reverse=True)
    least = weight_of(chosen, expected[k - 1][2]) if 0 < k <= len(expected) else 0
    # The rungs down to the last one that was needed.
    rungs = zip(whole.ladder, weights, strict=True)
    assert found.ladder == tuple(row for row, weight in rungs if weight >= least)
    if expected:  # a score equal to the threshold passes
        least_score = expected[len(expected) // 2][1]
        reached = view.relaxed(query, ALL, replace(relax, threshold=least_score), filters)
        passing = tuple((key, score) for key, score, _ in expected if score >= least_score)
        assert reached.candidates == passing
