"""The approximate index: never silent, never across a hard filter, never a wrong score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import Chunk, Document, Filter, MissingExtraError, Span
from ragwright.flow import Search, SearchReply
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    SearchHandler,
    SqliteStore,
    StoreOptions,
    View,
    Views,
    _approximate as approximate,
)
from ragwright.models import Analyzer

pytest.importorskip("faiss", reason="needs ragwright[ann]")

ROWS, DIMENSIONS = 6000, 32
PAIR = IndexSpec("whole", Analyzer().spec, "clusters", DIMENSIONS)
OPTIONS = StoreOptions(approximate=True, approximate_rows=1000, recall=0.95)


def clustered(count: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((40, DIMENSIONS)) * 3
    found = centres[rng.integers(0, 40, count)] + rng.standard_normal((count, DIMENSIONS))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def item(number: int, vector: np.ndarray[tuple[int], np.dtype[np.float32]]) -> IndexedDocument:
    name = f"d{number:05d}"
    text = f"word{number % 50} number {number}"  # equal texts share one vector
    facts = {"shard": str(number % 50), "half": str(number % 2), "most": str(number % 10 > 1)}
    chunk = Chunk(name, name, 0, Span(0, len(text)), text)
    return IndexedDocument(Document(name, name, text, metadata=facts), (chunk,), vector[None, :])


@dataclass(frozen=True)
class Prepared:
    """A filled store, on disk."""

    path: Path
    views: Path

    def open(self, options: StoreOptions = OPTIONS) -> SqliteStore:
        return SqliteStore(self.path, options, views=self.views)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("ann")
    found = Prepared(folder / "store.sqlite", folder / "views")
    store = found.open()
    store.upsert(PAIR, [item(n, v) for n, v in enumerate(clustered(ROWS, 1))])
    store.close()
    return found


@pytest.fixture
def store(prepared: Prepared) -> Iterator[SqliteStore]:
    store = prepared.open()
    yield store
    store.close()


def exact(prepared: Prepared) -> View:
    return prepared.open(StoreOptions()).view(PAIR)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [150, 300, 1500])
def test_building_prints_nothing(capfd: pytest.CaptureFixture[str], rows: int) -> None:
    """Not even where there are few vectors for as many lists as a root would give."""
    approximate.build(clustered(rows, 3), 0.9)
    assert capfd.readouterr() == ("", "")


def overlap(found: object, truth: object) -> float:
    a, b = dict(found), dict(truth)  # type: ignore[call-overload]
    return len(a.keys() & b.keys()) / len(b)


@pytest.mark.slow
def test_recall_is_kept_and_scores_are_exact(prepared: Prepared, store: SqliteStore) -> None:
    view, truth = store.view(PAIR), exact(prepared)
    queries = clustered(50, 2)
    found, right = view.dense(queries, 100), truth.dense(queries, 100)
    recalls = [overlap(a, b) for a, b in zip(found, right, strict=True)]
    assert np.mean(recalls) >= OPTIONS.recall - 0.03
    assert min(recalls) < 1.0, "an approximate index that loses nothing was not used"
    for one, other in zip(found, right, strict=True):
        scores = dict(other)
        assert all(scores.get(key, score) == score for key, score in one)
    assert not truth.approximation(100)


@pytest.mark.slow
def test_it_is_said_with_every_answer(store: SqliteStore) -> None:
    views = Views(store)
    snapshot = views.snapshot(PAIR)
    vector = clustered(1, 3)[0].tobytes()
    narrow = (Filter("shard", ("3",)),)
    asked = [
        Search(snapshot, "dense", 100, vector=vector),
        Search(snapshot, "dense", 100, vector=vector, filters=narrow),
        Search(snapshot, "dense", 2000, vector=vector),
        Search(snapshot, "keyword", 100, "word3"),
    ]
    said = [
        reply.notes for reply in SearchHandler(views).carry(asked) if isinstance(reply, SearchReply)
    ]
    assert said[0][0].startswith("approximate: measured recall@100 0.9")
    assert said[0][0].endswith("on 200 sampled passages")
    assert said[1] == ()
    assert "up to 1000 candidates: exact search answered" in said[2][0]
    assert said[3] == ()
    assert store.view(PAIR).statistics().approximate == said[0][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "approximated"),
    [
        (Filter("most", ("True",)), True),
        (Filter("shard", ("7",)), False),
        (Filter("half", ("1",)), True),
        (Filter("shard", ("7",), exclude=True), True),
        (Filter("most", ("True",), exclude=True), False),
    ],
    ids=str,
)
def test_hard_filters_are_never_crossed(
    prepared: Prepared, store: SqliteStore, condition: Filter, approximated: bool
) -> None:
    filters = (condition,)
    view, truth = store.view(PAIR), exact(prepared)
    assert bool(view.approximation(50, filters)) == approximated
    allowed = {name for name, _ in truth.dense(clustered(1, 4), ROWS, filters)[0]}
    assert len(allowed) < ROWS
    queries = clustered(30, 5)
    found, right = view.dense(queries, 50, filters), truth.dense(queries, 50, filters)
    for one, other in zip(found, right, strict=True):
        assert {name for name, _ in one} <= allowed
        assert len(one) == len(other)
    recall = np.mean([overlap(a, b) for a, b in zip(found, right, strict=True)])
    assert recall == 1.0 if not approximated else recall > 0.9


@pytest.mark.slow
def test_dead_rows_are_never_found(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite", OPTIONS)
    vectors = clustered(3000, 6)
    store.upsert(PAIR, [item(n, v) for n, v in enumerate(vectors)])
    store.view(PAIR)
    gone = [f"d{n:05d}" for n in range(400)]
    store.remove(gone, PAIR)
    view = store.view(PAIR)
    assert view.approximation(10)
    found = view.dense(vectors[:40], 10)
    assert not {name for one in found for name, _ in one} & set(gone)
    store.close()


@pytest.mark.slow
def test_what_cannot_reach_its_target_is_exact_and_says_so(tmp_path: Path) -> None:
    store = SqliteStore(
        tmp_path / "store.sqlite",
        StoreOptions(approximate=True, approximate_rows=1000, recall=1.0),
    )
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((2000, DIMENSIONS)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    store.upsert(PAIR, [item(n, v) for n, v in enumerate(noise)])
    view = store.view(PAIR)
    told = view.approximation(100)
    assert told.startswith("approximate search reached a recall@100 of 0.")
    assert told.endswith("short of 1: exact search answered")
    products = noise @ noise[0]
    assert [n for n, _ in view.dense(noise[:1], 5)[0]] == [
        f"d{n:05d}" for n in np.argsort(-products)[:5]
    ]
    store.close()


def test_small_segments_stay_exact(prepared: Prepared) -> None:
    store = prepared.open(StoreOptions(approximate=True))
    assert not store.view(PAIR).approximation(100)
    assert store.snapshot(PAIR) != prepared.open(StoreOptions()).snapshot(PAIR)
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "scribbled", "gone"])
def test_a_damaged_index_is_built_anew(prepared: Prepared, damage: str) -> None:
    first = prepared.open()
    queries = clustered(5, 8)
    expected = first.view(PAIR).dense(queries, 50)
    first.close()
    (file,) = prepared.views.rglob("*.ann")
    if damage == "gone":
        file.unlink()
    else:
        raw = file.read_bytes()
        middle = len(raw) // 2
        raw = raw[:middle] + (b"" if damage == "cut" else b"\0" * (len(raw) - middle))
        file.write_bytes(raw)
    again = prepared.open()
    view = again.view(PAIR)
    assert view.dense(queries, 50) == expected
    assert view.approximation(50).startswith("approximate: measured recall@100")
    again.close()


def test_an_index_that_fails_is_answered_for_exactly(
    monkeypatch: pytest.MonkeyPatch, prepared: Prepared
) -> None:
    truth = exact(prepared)
    queries = clustered(5, 9)

    def fail(*_: object) -> None:
        raise RuntimeError("lists are gone")

    store = prepared.open()
    views = Views(store)
    snapshot = views.snapshot(PAIR)
    monkeypatch.setattr(approximate, "_searched", fail)
    reply = SearchHandler(views).carry([Search(snapshot, "dense", 20, vector=queries[0].tobytes())])
    assert isinstance(reply[0], SearchReply)
    assert reply[0].candidates == truth.dense(queries, 20)[0]
    assert "RuntimeError: lists are gone" in reply[0].notes[0]
    assert "exact search answered" in reply[0].notes[0]
    store.close()


@pytest.mark.slow
def test_nothing_of_a_forgotten_document_stays(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite", OPTIONS, views=tmp_path / "views")
    store.upsert(PAIR, [item(n, v) for n, v in enumerate(clustered(1500, 1))])
    store.view(PAIR)
    assert list((tmp_path / "views").rglob("*.ann"))
    store.remove(["d00003"], purge=True)
    assert not list((tmp_path / "views").rglob("*.ann"))
    store.close()


def test_without_the_extra_the_way_out_is_told(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore
) -> None:
    def absent() -> None:
        raise MissingExtraError("faiss is missing", hint="pip install 'ragwright[ann]'")

    monkeypatch.setattr(approximate, "_faiss", absent)
    with pytest.raises(MissingExtraError, match=r"ragwright\[ann\]"):
        Views(store).snapshot(PAIR)
    reply = SearchHandler(Views(store)).carry([Search(store.snapshot(PAIR), "keyword", 3, "word1")])
    assert isinstance(reply[0], MissingExtraError)
