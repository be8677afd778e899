"""The second index: equal to the view, and there when the view is not."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ragwright.core import Filter, FilterError, Relaxation, RetrieveError, SoftFilter, StoreError
from ragwright.flow import Lookup, LookupReply, Search, SearchReply
from ragwright.index import (
    IndexSpec,
    LanceStore,
    SqliteStore,
    Store,
    View,
    ViewHandler,
    Views,
)
from ragwright.testing import PAIR, make_document, make_indexed, make_vector

QUERIES = ("engine oil pressure", "the of and", "C2065 LNK2019 engine engine", "café 漢字 nowhere")

FILTERS: tuple[tuple[Filter, ...], ...] = (
    (),
    (Filter("client", ("client 1", "client 2")),),
    (Filter("year", low=2003, high=2012), Filter("topics", ("t1",))),
    (Filter("page", (2,)),),
    (Filter("half", ("first",)), Filter("section", ("Part 1", "Part 2"))),
    (Filter("language", ("fr",)), Filter("public", (True,))),
    (Filter("created", low="2003", high="2011"),),
    (Filter("nofield", ("x",)),),
    (Filter("client", ("client 99",)),),
    (Filter("client", ("client 1",)), Filter("year", (2002,))),
    (Filter("client", ("client 1",)), Filter("topics", ("absent",))),
    (Filter("client", ("client 1", "client 99"), exclude=True),),
    (Filter("topics", ("absent",), exclude=True), Filter("half", ("first",), exclude=True)),
    (Filter("year", low=2003, high=2012, exclude=True), Filter("year", (2005,))),
    (Filter("language", ("en",)), Filter("client", ("client 1",), exclude=True)),
    (Filter("nofield", ("x",), exclude=True),),
)

RELAX = (
    Relaxation((SoftFilter(Filter("client", ("client 1",)), 2.0),)),
    Relaxation(
        (
            SoftFilter(Filter("topics", ("t1",)), 1.0),
            SoftFilter(Filter("language", ("de",)), 1.0),
            SoftFilter(Filter("year", low=2005, high=2020), 0.5),
            SoftFilter(Filter("topics", ("t1",)), 3.0),
        ),
        threshold=0.05,
    ),
    Relaxation((SoftFilter(Filter("public", (True,)), 1.0),), unfiltered=False),
    Relaxation((SoftFilter(Filter("nofield", ("x",)), 1.0),)),
    Relaxation((SoftFilter(Filter("nofield", ("x",), exclude=True), 1.0),)),
    Relaxation(
        (
            SoftFilter(Filter("topics", ("t1", "absent"), exclude=True), 2.0),
            SoftFilter(Filter("topics", ("t1", "absent")), 1.0),
            SoftFilter(Filter("year", low=2005, exclude=True), 0.5),
        ),
        unfiltered=False,
    ),
    Relaxation((SoftFilter(Filter("topics", ("absent",)), 1.0),)),
)


def fill(store: Store, seed: int, steps: int) -> None:
    """A random history of writes, changes and removals."""
    rng = random.Random(seed)
    for step in range(steps):
        numbers = rng.sample(range(40), 12)
        batch = [
            make_indexed(make_document(n, words=rng.randint(0, 90), seed=step)) for n in numbers
        ]
        store.upsert(PAIR, batch)
        store.view(PAIR)
        store.remove([f"doc/{n:04d}" for n in rng.sample(range(40), 4)], PAIR)


def said(view: View, ask: str, *arguments: Any) -> Any:
    """What a view answers, or what its error says."""
    try:
        return getattr(view, ask)(*arguments)
    except FilterError as error:
        return "FilterError", error.what, error.field, error.values
    except RetrieveError as error:
        return type(error).__name__


class Broken:
    """Fails whatever is asked of it, as one of the ways a view may fail."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: object, **__: object) -> Any:
        raise self.error


class Failing:
    """A view that opens and then fails whatever is asked of it."""

    def __init__(self, snapshot: str, error: Exception) -> None:
        self.snapshot = snapshot
        self.error = error

    def __getattr__(self, name: str) -> Broken:
        return Broken(self.error)


def same(store: Store, seed: int) -> None:
    """Compare every kind of question on the present state."""
    rng = random.Random(seed)
    view = store.view(PAIR)

    def compare(second: View) -> None:
        assert second is not view
        assert second.snapshot == view.snapshot
        assert second.fields() == view.fields()
        sizes = (view.statistics(), second.statistics())
        assert len({(s.chunks, s.documents, s.tokens) for s in sizes}) == 1
        k = rng.choice((1, 3, 10, 1000))
        vectors = np.stack([make_vector(f"q{seed}{n}") for n in range(2)])
        every = view.every(1000)
        for filters in FILTERS:
            for query in QUERIES:
                alike("keyword_reply", second, query, k, filters)
            alike("dense", second, vectors, k, filters)
            alike("every", second, k, filters, rng.choice(["", *every, "absent"]))
            for relax in RELAX:
                for query in (QUERIES[rng.randrange(4)], vectors[0]):
                    alike("relaxed", second, query, k, relax, filters)
        some = rng.sample(every, min(5, len(every)))
        assert np.array_equal(np.asarray(second.vectors(some)), np.asarray(view.vectors(some)))
        alike("lookup", second, some)
        alike("lookup", second, ["absent"])

    def alike(ask: str, second: View, *arguments: Any) -> None:
        assert said(second, ask, *arguments) == said(view, ask, *arguments)

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(type(store), "view", Broken(OSError("gone")))
        _, notes = Views(store).answer(view.snapshot, compare)
    assert "second index" in notes[0]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_the_second_index_answers_as_the_view(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int
) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("second") / "store.sqlite")
    fill(store, seed, steps)
    same(store, seed)
    store.close()


@pytest.mark.slow
def test_so_it_does_on_lance(tmp_path: Path) -> None:
    store = LanceStore(tmp_path / "store.lance")
    fill(store, 5, 2)
    same(store, 5)
    store.close()


def test_a_hidden_value_is_never_named(tmp_path: Path) -> None:
    """A slip under a hard filter must not show what other tenants' chunks hold."""
    store = SqliteStore(tmp_path / "store.sqlite")
    documents = [
        make_document(n, metadata={"tenant": ("a", "b")[n % 2], "code": f"secret-{'ab'[n % 2]}"})
        for n in range(6)
    ]
    store.upsert(PAIR, [make_indexed(document) for document in documents])
    filters = (Filter("tenant", ("a",)), Filter("code", ("secret",)))
    with pytest.raises(FilterError) as told:
        store.view(PAIR).keyword("engine", 5, filters)
    assert "secret-a" in str(told.value)
    assert "secret-b" not in str(told.value)
    store.close()


def test_errors_of_filters_say_the_field_and_its_values(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite")
    store.upsert(
        PAIR, [make_indexed(make_document(n, metadata={"year": 2000 + n})) for n in range(3)]
    )
    for condition, values in (
        (Filter("nofield", ("x",)), ()),
        (Filter("year", (1999, "x")), ("1999", "x")),
    ):
        with pytest.raises(FilterError) as told:
            store.view(PAIR).keyword("engine", 5, (condition,))
        assert (told.value.field, told.value.values) == (condition.field, values)
        assert pickle.loads(pickle.dumps(told.value)).values == values
    store.close()


def test_values_that_are_not_told_are_counted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite")
    documents = [make_document(n, metadata={"year": 2000 + n}) for n in range(12)]
    store.upsert(PAIR, [make_indexed(document) for document in documents])
    with pytest.raises(FilterError) as told:
        store.view(PAIR).keyword("engine", 5, (Filter("year", ("zzz",)),))
    assert (told.value.hint or "").startswith("it has: 2000, 2001, ")
    assert (told.value.hint or "").endswith("2009 and 2 more")
    store.close()


# -- where the primary fails ---------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    store.upsert(PAIR, [make_indexed(make_document(n)) for n in range(30)])
    yield store
    store.close()


def requests(snapshot: str) -> list[Search]:
    vector = make_vector("question").tobytes()
    hard = (Filter("client", ("client 1", "client 3")),)
    return [
        Search(snapshot, "keyword", 5, "engine oil"),
        Search(snapshot, "keyword", 5, "engine oil", filters=hard),
        Search(snapshot, "dense", 5, vector=vector),
        Search(snapshot, "dense", 5, vector=make_vector("other").tobytes()),
        Search(snapshot, "dense", 5, vector=vector, filters=hard),
        Search(snapshot, "dense", 5, vector=vector, filters=hard, relax=RELAX[1]),
        Search(snapshot, "keyword", 5, "engine oil", relax=RELAX[0]),
        Search(snapshot, "all", 7, filters=hard),
    ]


def looked(snapshot: str, ids: tuple[str, ...]) -> list[Lookup]:
    return [
        Lookup(snapshot, ids),
        Lookup(snapshot, ids, vectors=True),
    ]


def answers(views: Views, snapshot: str) -> tuple[list[SearchReply], list[LookupReply]]:
    found = ViewHandler(views).reply_to(requests(snapshot))
    searches = [one for one in found if isinstance(one, SearchReply)]
    assert len(searches) == len(found), found
    ids = tuple(name for name, _ in searches[0].candidates)
    fetched = ViewHandler(views).reply_to(looked(snapshot, ids))
    lookups = [one for one in fetched if isinstance(one, LookupReply)]
    assert len(lookups) == len(fetched), fetched
    return searches, lookups


def bare(searches: list[SearchReply], lookups: list[LookupReply]) -> list[Any]:
    """Answers without their notes."""
    return [(r.candidates, r.rungs, r.ladder, r.terms) for r in searches] + [
        (r.hits, None if r.vectors is None else r.vectors.tobytes()) for r in lookups
    ]


ERRORS = (MemoryError("no room"), OSError(5, "Input/output error"), ValueError("bad shape"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["opening", "asking"])
def test_a_failing_view_is_answered_for(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore, error: Exception, where: str
) -> None:
    snapshot = store.snapshot(PAIR)
    expected = bare(*answers(Views(store), snapshot))
    if where == "opening":
        monkeypatch.setattr(SqliteStore, "view", Broken(error))
    else:
        monkeypatch.setattr(SqliteStore, "view", lambda *_: Failing(snapshot, error))
    views = Views(store)
    searches, lookups = answers(views, snapshot)
    assert bare(searches, lookups) == expected
    for notes in [reply.notes for reply in searches] + [reply.notes for reply in lookups]:
        assert type(error).__name__ in notes[0]
        assert str(error) in notes[0]
        assert "second index" in notes[0]
    assert views.snapshot(PAIR) == snapshot


def test_questions_that_are_wrong_stay_errors(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore
) -> None:
    monkeypatch.setattr(SqliteStore, "view", Broken(ValueError("broken")))
    snapshot = store.snapshot(PAIR)
    nan = np.full(24, np.nan, np.float32).tobytes()
    replies = ViewHandler(Views(store)).reply_to(
        [
            Search(snapshot, "keyword", 5, "engine", filters=(Filter("nofield", ("x",)),)),
            Search(snapshot, "dense", 5, vector=nan),
            Search(snapshot, "dense", 5, vector=make_vector("a", 8).tobytes()),
            Search(snapshot, "dense", 5, vector=b"123"),
            Search(snapshot, "dense", 5, vector=make_vector("a").tobytes()),
        ]
    )
    assert [type(one).__name__ for one in replies] == [
        "FilterError",
        "RetrieveError",
        "RetrieveError",
        "RetrieveError",
        "SearchReply",
    ]


def saved(store: SqliteStore, tmp_path: Path) -> list[Path]:
    store.view(PAIR)
    return sorted(path for path in (tmp_path / "views").rglob("*.*") if path.is_file())


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scribble(path: Path) -> None:
    """The header as it was, all that follows overwritten."""
    size = path.stat().st_size
    head = 16 + int.from_bytes(path.read_bytes()[8:16], "little")
    with path.open("r+b") as file:
        file.seek(head)
        file.write(b"\xff" * (size - head))


def damage_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(20)
        file.write(b'"' * 40)


def claim_much(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(8)
        file.write((2**62).to_bytes(8, "little"))


DAMAGES = (cut, scribble, damage_header, claim_much, Path.unlink)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_files_are_built_anew(tmp_path: Path, store: SqliteStore, damage: Any) -> None:
    snapshot = store.snapshot(PAIR)
    expected = bare(*answers(Views(store), snapshot))
    for path in saved(store, tmp_path):
        damage(path)
    store.close()
    again = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    views = Views(again)
    assert views.snapshot(PAIR) == snapshot
    searches, lookups = answers(views, snapshot)
    assert bare(searches, lookups) == expected
    # What was rebuilt is saved, and sound.
    third = SqliteStore(tmp_path / "store.sqlite", views=tmp_path / "views")
    searches, lookups = answers(Views(third), snapshot)
    assert bare(searches, lookups) == expected
    assert not any(reply.notes for reply in searches)
    third.close()
    again.close()


@pytest.mark.skipif(os.name == "nt", reason="files that are mapped cannot be cut there")
def test_files_cut_while_open_do_not_end_the_process(tmp_path: Path, store: SqliteStore) -> None:
    views = Views(store)
    snapshot = views.snapshot(PAIR)
    expected = bare(*answers(views, snapshot))
    for path in saved(store, tmp_path):
        os.truncate(path, 4096)
    searches, lookups = answers(views, snapshot)
    assert bare(searches, lookups) == expected
    assert "cut off while it was open" in searches[0].notes[0]
    assert "rebuilt" in searches[0].notes[0]
    assert not lookups[0].notes
    # A second damage is mended like the first, not answered by the second index for good.
    for path in saved(store, tmp_path):
        os.truncate(path, 4096)
    searches, _ = answers(views, snapshot)
    assert "rebuilt" in searches[0].notes[0]
    assert not searches[1].notes


@pytest.mark.slow
def test_what_failed_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore
) -> None:
    tried: list[str] = []

    def rebuild_view(self: SqliteStore, spec: IndexSpec, snapshot: str) -> View:
        tried.append(snapshot)
        raise OSError("the disk is full")

    monkeypatch.setattr(SqliteStore, "view", Broken(OSError("gone")))
    monkeypatch.setattr(SqliteStore, "rebuild_view", rebuild_view)
    snapshot = store.snapshot(PAIR)
    views = Views(store, pause=60.0)
    for _ in range(2):
        answers(views, snapshot)
    assert len(tried) == 1
    views = Views(store, pause=0.0)
    for _ in range(2):
        answers(views, snapshot)
    assert len(tried) > 2


def test_the_note_names_another_state(monkeypatch: pytest.MonkeyPatch, store: SqliteStore) -> None:
    old = Views(store).snapshot(PAIR)
    store.upsert(PAIR, [make_indexed(make_document(99))])
    monkeypatch.setattr(SqliteStore, "view", Broken(OSError("gone")))
    reply = ViewHandler(Views(store)).reply_to([Search(old, "keyword", 3, "engine")])[0]
    assert isinstance(reply, SearchReply)
    assert reply.candidates
    assert old in reply.notes[1]
    assert store.snapshot(PAIR) in reply.notes[1]


def test_where_nothing_can_be_read_both_failures_are_told(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore
) -> None:
    snapshot = store.snapshot(PAIR)

    monkeypatch.setattr(SqliteStore, "view", Broken(ValueError("bad shape")))
    monkeypatch.setattr(SqliteStore, "reading", Broken(OSError("disk on fire")))
    reply = ViewHandler(Views(store)).reply_to([Search(snapshot, "keyword", 3, "engine")])[0]
    assert isinstance(reply, StoreError)
    assert "bad shape" in reply.what
    assert "disk on fire" in reply.what


def test_a_view_that_failed_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore
) -> None:
    snapshot = store.snapshot(PAIR)
    views = Views(store, pause=0.0)
    with monkeypatch.context() as broken:
        broken.setattr(SqliteStore, "view", Broken(MemoryError()))
        searches, _ = answers(views, snapshot)
        assert all(reply.notes for reply in searches)
    searches, _ = answers(views, snapshot)
    assert not any(reply.notes for reply in searches)
