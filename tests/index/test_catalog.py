"""Views of a store: what the runner asks of them, and the second index where they fail."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragwright.core import (
    Filter,
    FilterError,
    Relaxation,
    RetrieveError,
    SnapshotGoneError,
    SoftFilter,
    StoreError,
)
from ragwright.flow import Lookup, LookupReply, Search, SearchReply
from ragwright.index import IndexSpec, SqliteStore, Store, View, ViewHandler, Views
from ragwright.testing import PAIR, make_document, make_indexed, make_vector

F = Filter
CLIENT, SLIP = F("client", ("client 1",)), F("nofield", ("x",))


def no(condition: Filter) -> Filter:
    return replace(condition, exclude=True)


def soft(*pairs: tuple[Filter, float], **more: Any) -> Relaxation:
    return Relaxation(tuple(SoftFilter(one, weight) for one, weight in pairs), **more)


TOPIC, GERMAN = F("topics", ("t1",)), F("language", ("de",))
LATE = F("year", low=2005, high=2020)
LIKED = soft((CLIENT, 2.0))
MANY = soft((TOPIC, 1.0), (GERMAN, 1.0), (LATE, 0.5), (TOPIC, 3.0), threshold=0.05)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = opened(tmp_path)
    store.upsert(PAIR, [make_indexed(make_document(n)) for n in range(30)])
    yield store
    store.close()


def opened(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "store.sqlite", views=folder / "views")


def add(store: Store, number: int) -> None:
    store.upsert(PAIR, [make_indexed(make_document(number, text="newcomer engine"))])


# -- what the runner asks --------------------------------------------------------------------


def vector_of(request: Search) -> Any:
    return np.frombuffer(request.vector, np.float32)[None, :]


def dense(snapshot: str, name: str, k: int = 5) -> Search:
    return Search(snapshot, "dense", k, vector=make_vector(name).tobytes())


@pytest.mark.parametrize("broken", [False, True], ids=["view", "second-index"])
def test_mixed_requests_get_their_own_replies(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore, broken: bool
) -> None:
    snapshot, view = store.snapshot(PAIR), store.view(PAIR)
    if broken:
        monkeypatch.setattr(SqliteStore, "view", Broken(ValueError("broken")))
    nan = np.full(24, np.nan, np.float32).tobytes()
    some, near = F("document_id", ("doc/0001", "doc/0002")), dense(snapshot, "a")
    right = [near, dense(snapshot, "b", 9), replace(near, filters=(some,)), dense(snapshot, "c")]
    right.append(replace(near, filters=(no(some),)))  # its opposite is another request
    requests = [
        *right,
        replace(near, relax=LIKED),
        Search(snapshot, "keyword", 3, text="engine"),
        Search(snapshot, "all", 3, filters=(some,)),
        Search(snapshot, "keyword", 3, text="engine", filters=(SLIP,)),
        replace(near, vector=nan),
        replace(near, vector=make_vector("a", 8).tobytes()),
        replace(near, relax=soft((SLIP, 1.0))),
        Search("none@0", "keyword", 3, text="engine"),
    ]
    replies = ViewHandler(Views(store)).reply_to(requests)
    answered = [replace(reply, notes=()) for reply in replies[:8]]  # type: ignore[type-var]
    assert answered == [
        *(SearchReply(view.dense(vector_of(one), one.k, one.filters)[0]) for one in right),
        view.relaxed(vector_of(near)[0], near.k, LIKED),
        view.keyword_reply("engine", 3),
        SearchReply(tuple((key, 0.0) for key in view.every(3, [some]))),
    ]
    wrong: list[type] = [FilterError, RetrieveError, RetrieveError, FilterError]
    assert [type(one) for one in replies[8:]] == [*wrong, SnapshotGoneError]


def test_a_pinned_snapshot_answers_while_the_store_moves_on(store: SqliteStore) -> None:
    views = Views(store, keep=2)
    pinned = views.current(PAIR).snapshot
    add(store, 50)
    assert views.current(PAIR).snapshot != pinned
    asked = [Search(name, "keyword", 3, text="newcomer") for name in (pinned, store.snapshot(PAIR))]
    old, new = ViewHandler(views).reply_to(asked)
    assert isinstance(old, SearchReply)
    assert old.candidates == ()
    assert [(term.token, term.chunks) for term in old.terms] == [("newcom", 0)]
    assert isinstance(new, SearchReply)
    assert len(new.candidates) == 1
    kept = []
    for n in range(3):
        add(store, 51 + n)
        kept.append(views.current(PAIR))
    # Only a few are kept open.
    assert [views.view(view.snapshot) is view for view in kept[::-1]] == [True, True, False]


# -- errors of filters -----------------------------------------------------------------------


def test_errors_of_filters_say_the_field_and_what_may_be_seen_of_its_values(tmp_path: Path) -> None:
    """A slip under a hard filter must not show what other tenants' chunks hold."""
    store = opened(tmp_path)
    for n in range(12):
        tenant = "ab"[n % 2]
        facts = {"year": 2000 + n, "tenant": tenant, "code": f"secret-{tenant}"}
        store.upsert(PAIR, [make_indexed(make_document(n, metadata=facts))])
    own, years = F("tenant", ("a",)), "it has: 2000, 2001, "
    for filters, values, first, last in (
        ([F("nofield", ("x",))], (), "", ""),
        ([F("year", (1999, "x"))], ("1999", "x"), years, "2009 and 2 more"),
        ([F("year", ("zzz",))], ("zzz",), years, "2009 and 2 more"),
        ([own, F("code", ("secret",))], ("secret",), "did you mean secret-a?", "secret-a?"),
    ):
        with pytest.raises(FilterError) as told:
            store.view(PAIR).keyword("engine", 5, filters)
        again = pickle.loads(pickle.dumps(told.value))
        assert (again.field, tuple(map(str, again.values))) == (filters[-1].field, values)
        assert (again.hint or "").startswith(first)
        assert (again.hint or "").endswith(last)
        assert "secret-b" not in str(told.value)
    store.close()


# -- where the view fails --------------------------------------------------------------------


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


def answers(views: Views, snapshot: str) -> tuple[list[Any], list[tuple[str, ...]]]:
    """What eight searches and two look-ups find, and their notes."""
    hard = (F("client", ("client 1", "client 3")),)
    words, near = Search(snapshot, "keyword", 5, "engine oil"), dense(snapshot, "question")
    found = ViewHandler(views).reply_to(
        [
            words,
            replace(words, filters=hard),
            replace(words, relax=LIKED),
            near,
            replace(near, vector=make_vector("other").tobytes()),
            replace(near, filters=hard),
            replace(near, filters=hard, relax=MANY),
            Search(snapshot, "all", 7, filters=hard),
        ]
    )
    searches = [one for one in found if isinstance(one, SearchReply)]
    assert len(searches) == len(found), found
    ids = tuple(name for name, _ in searches[0].candidates)
    fetched = ViewHandler(views).reply_to(
        [Lookup(snapshot, ids), Lookup(snapshot, ids, vectors=True)]
    )
    lookups = [one for one in fetched if isinstance(one, LookupReply)]
    assert len(lookups) == len(fetched), fetched
    assert tuple(hit.chunk_id for hit in lookups[0].hits) == ids
    bare: list[Any] = [(r.candidates, r.rungs, r.ladder, r.terms) for r in searches]
    bare += [(r.hits, None if r.vectors is None else r.vectors.tobytes()) for r in lookups]
    return bare, [r.notes for r in searches] + [r.notes for r in lookups]


ERRORS = (MemoryError("no room"), OSError(5, "Input/output error"), ValueError("bad shape"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["opening", "asking"])
def test_a_failing_view_is_answered_for(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore, error: Exception, where: str
) -> None:
    snapshot = store.snapshot(PAIR)
    expected, none = answers(Views(store), snapshot)
    assert not any(none)
    views = Views(store, pause=0.0)
    with monkeypatch.context() as broken:
        failing = Broken(error) if where == "opening" else lambda *_: Failing(snapshot, error)
        broken.setattr(SqliteStore, "view", failing)
        found, told = answers(views, snapshot)
        assert found == expected
        for notes in told:
            for word in (type(error).__name__, str(error), "second index"):
                assert word in notes[0]
        assert views.snapshot(PAIR) == snapshot
    found, told = answers(views, snapshot)
    assert found == expected
    assert not any(told[1:])


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(at: Callable[[Path], int], what: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(at(path))
            file.write(what or b"\xff" * (path.stat().st_size - at(path)))

    return damage


def behind_header(path: Path) -> int:
    return 16 + int.from_bytes(path.read_bytes()[8:16], "little")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "content overwritten": overwrite(behind_header, b""),
    "header overwritten": overwrite(lambda _: 20, b'"' * 40),
    "length of the header": overwrite(lambda _: 8, (2**62).to_bytes(8, "little")),
    "other bytes": overwrite(lambda _: 0, b""),
    "emptied": lambda path: os.truncate(path, 0),
    "gone": Path.unlink,
}


def saved(store: SqliteStore, folder: Path) -> list[Path]:
    store.view(PAIR)
    return sorted(path for path in (folder / "views").rglob("*.*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_built_anew(tmp_path: Path, store: SqliteStore, damage: str) -> None:
    snapshot = store.snapshot(PAIR)
    expected, _ = answers(Views(store), snapshot)
    for path in saved(store, tmp_path):
        DAMAGES[damage](path)
    again = opened(tmp_path)
    views = Views(again)
    assert views.snapshot(PAIR) == snapshot
    assert answers(views, snapshot)[0] == expected
    third = opened(tmp_path)  # what was rebuilt is saved, and sound
    found, notes = answers(Views(third), snapshot)
    assert (found, any(notes)) == (expected, False)
    third.close()
    again.close()


@pytest.mark.skipif(os.name == "nt", reason="files that are mapped cannot be cut there")
def test_files_cut_while_open_do_not_end_the_process(tmp_path: Path, store: SqliteStore) -> None:
    """A second damage is mended like the first, not answered by the second index for good."""
    views = Views(store)
    snapshot = views.snapshot(PAIR)
    expected, _ = answers(views, snapshot)
    for _ in range(2):
        for path in saved(store, tmp_path):
            os.truncate(path, 4096)
        found, notes = answers(views, snapshot)
        assert found == expected
        assert "cut off while it was open" in notes[0][0]
        assert "rebuilt" in notes[0][0]
        assert not any(notes[1:])


@pytest.mark.parametrize(("pause", "least", "most"), [(60.0, 1, 1), (0.0, 3, 99)])
def test_what_failed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore, pause: float, least: int, most: int
) -> None:
    tried: list[str] = []

    def rebuild_view(self: SqliteStore, spec: IndexSpec, snapshot: str) -> View:
        tried.append(snapshot)
        raise OSError("the disk is full")

    monkeypatch.setattr(SqliteStore, "view", Broken(OSError("gone")))
    monkeypatch.setattr(SqliteStore, "rebuild_view", rebuild_view)
    views = Views(store, pause=pause)
    for _ in range(2):
        answers(views, store.snapshot(PAIR))
    assert least <= len(tried) <= most


def test_notes_name_another_state_and_both_failures(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore
) -> None:
    old = Views(store).snapshot(PAIR)
    add(store, 99)
    monkeypatch.setattr(SqliteStore, "view", Broken(ValueError("bad shape")))
    reply = ViewHandler(Views(store)).reply_to([Search(old, "keyword", 3, "engine")])[0]
    assert isinstance(reply, SearchReply)
    assert reply.candidates
    assert old in reply.notes[1]
    assert store.snapshot(PAIR) in reply.notes[1]
    monkeypatch.setattr(SqliteStore, "reading", Broken(OSError("disk on fire")))
    reply = ViewHandler(Views(store)).reply_to([Search(old, "keyword", 3, "engine")])[0]
    assert isinstance(reply, StoreError)
    assert "bad shape" in reply.what
    assert "disk on fire" in reply.what
