"""The store that scales out keeps the same suite, and survives its library's traps."""

from __future__ import annotations

import multiprocessing
import re
import shutil
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest
from index_suite import IndexSuite, StoreFactory
from numpy.typing import NDArray

from ragwright.core import Chunk, Document, Filter, Span
from ragwright.index import (
    IndexedDocument,
    IndexSpec,
    LanceSizes,
    LanceStore,
    SqliteStore,
    Store,
    StoreOptions,
    View,
    WriteCounts,
)
from ragwright.models import Analyzer
from ragwright.testing import (
    PAIR,
    make_document,
    make_indexed,
    make_vector,
)

pytestmark = pytest.mark.slow


class TestLanceStore(IndexSuite):
    @pytest.fixture
    def store_factory(self, tmp_path: Path) -> StoreFactory:
        return lambda: LanceStore(tmp_path / "data" / "store.lance")


def plain(name: str, text: str) -> IndexedDocument:
    chunk = Chunk(f"{name}:0-{len(text)}", name, 0, Span(0, len(text)), text)
    return IndexedDocument(Document(name, f"mem:{name}", text), (chunk,))


WORDS = IndexSpec("whole", Analyzer().spec)
NEW, ROUNDS, WRITERS = 60, 2, 4


def write_the_same_ids(
    path: str, worker: int, together: Barrier, results: multiprocessing.Queue[int]
) -> None:
    """Every writer stores the same new ids, each its own text, all at the same moments."""
    store = LanceStore(path)
    added = 0
    store.content_hashes(WORDS)
    for turn in range(ROUNDS):
        for start in range(0, NEW, 20):
            names = [f"{turn}/{n:03d}" for n in range(start, start + 20)]
            batch = [plain(name, f"word by {worker} of {name}") for name in names]
            together.wait(60)
            added += store.upsert(WORDS, batch).added
    results.put(added)
    store.close()


@pytest.mark.slow
def test_four_writers_at_once_duplicate_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.lance"
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    together = context.Barrier(WRITERS)
    workers = [
        context.Process(target=write_the_same_ids, args=(str(path), n, together, results))
        for n in range(WRITERS)
    ]
    for worker in workers:
        worker.start()
    counted = sum(results.get(timeout=90) for _ in workers)
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    store = LanceStore(path)
    assert len(list(store.documents(WORDS))) == NEW * ROUNDS
    assert counted == NEW * ROUNDS
    view = store.view(WORDS)
    assert view.statistics().chunks == NEW * ROUNDS
    found = [key for key, _ in view.keyword("word", 10_000)]
    assert len(found) == len(set(found)) == NEW * ROUNDS
    store.close()


def test_an_open_store_sees_what_others_write(tmp_path: Path) -> None:
    reader, writer = (LanceStore(tmp_path / "store.lance") for _ in range(2))
    writer.upsert(WORDS, [plain("a", "one")])
    assert set(reader.content_hashes(WORDS)) == {"a"}
    before = reader.snapshot(WORDS)
    writer.upsert(WORDS, [plain("b", "two")])
    assert reader.snapshot(WORDS) != before
    assert len(reader.view(WORDS).keyword("two", 3)) == 1
    writer.remove(["a"])
    assert set(reader.content_hashes(WORDS)) == {"b"}


def test_narrow_filters_lose_nothing(tmp_path: Path) -> None:
    """Approximate indexes lose most hits under a narrow filter; the view is exact."""
    store = LanceStore(tmp_path / "store.lance")
    items = [make_indexed(make_document(n)) for n in range(120)]
    store.upsert(PAIR, items)
    view = store.view(PAIR)
    queries = np.stack([make_vector(f"q{n}") for n in range(20)])
    filters = [Filter("client", ("client 1",)), Filter("year", (2001, 2011))]
    everything = view.dense(queries, 10_000)
    meets = {
        chunk.id
        for item in items
        if item.document.metadata["client"] == "client 1"
        and item.document.metadata["year"] in (2001, 2011)
        for chunk in item.chunks
    }
    for full, found in zip(everything, view.dense(queries, 10, filters), strict=True):
        assert found == tuple(pair for pair in full if pair[0] in meets)[:10]


def test_both_stores_give_the_same_answers_under_the_same_name(tmp_path: Path) -> None:
    lance = LanceStore(tmp_path / "store.lance")
    sqlite = SqliteStore(tmp_path / "store.sqlite")
    for start in (0, 20):
        items = [make_indexed(make_document(n)) for n in range(start, start + 25)]
        assert lance.upsert(PAIR, items) == sqlite.upsert(PAIR, items)
    assert lance.remove(["doc/0003"]) == sqlite.remove(["doc/0003"])
    one, other = lance.view(PAIR), sqlite.view(PAIR)
    assert one.snapshot == other.snapshot
    queries = np.stack([make_vector(f"q{n}") for n in range(5)])
    assert one.keyword("engine oil APP_w304", 50) == other.keyword("engine oil APP_w304", 50)
    assert one.dense(queries, 50) == other.dense(queries, 50)
    assert one.fields() == other.fields()
    ids = [key for key, _ in one.keyword("engine", 20)]
    assert one.lookup(ids) == other.lookup(ids)
    sqlite.close()


def test_nothing_of_a_removed_document_stays_on_disk(tmp_path: Path) -> None:
    store = LanceStore(tmp_path / "store.lance")
    others = [plain(f"keep{n}", f"one {n}") for n in range(200)]
    store.upsert(WORDS, [*others, plain("secret", "zebraquartz " * 30)])
    store.upsert(WORDS, [plain("late", "one")])
    store.view(WORDS)
    assert any(b"zebraquartz" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    store.remove(["secret"], purge=True)
    store.view(WORDS)
    assert not any(b"zebraquartz" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert len(store.content_hashes(WORDS)) == 201
    assert len(store.view(WORDS).keyword("one", 1000)) == 201


def test_nothing_of_earlier_versions_stays_either(tmp_path: Path) -> None:
    store = LanceStore(tmp_path / "store.lance")
    items = [make_indexed(make_document(n)) for n in range(30)]
    store.upsert(PAIR, [*items, make_indexed(make_document(90, text="zebraquartz " * 30))])
    changed = make_indexed(make_document(90, words=30))
    assert changed.vectors is not None
    store.upsert(PAIR, [changed])
    store.remove([changed.document.id], PAIR)
    secrets = [b"zebraquartz", changed.vectors[0].tobytes(), b"doc/0090"]
    assert all(on_disk(tmp_path, secret) for secret in secrets)
    store.remove([changed.document.id], purge=True)
    assert not any(on_disk(tmp_path, secret) for secret in secrets)
    assert len(store.content_hashes(PAIR)) == len(items)


def test_a_range_finds_a_value_that_another_process_took_out_meanwhile(tmp_path: Path) -> None:
    def dated(number: int, year: int) -> IndexedDocument:
        return make_indexed(make_document(number, metadata={"year": year}))

    one, other = (LanceStore(tmp_path / "store.lance") for _ in range(2))
    one.upsert(PAIR, [dated(1, 1999), dated(2, 2005)])
    other.remove([dated(1, 1999).document.id], purge=True)
    one.upsert(PAIR, [dated(3, 1999)])
    found = one.view(PAIR).every(9, [Filter("year", low=1990, high=2000)])
    assert {hit.document_id for hit in one.view(PAIR).lookup(found)} == {dated(3, 1999).document.id}


def on_disk(folder: Path, secret: bytes) -> bool:
    """True where a file below the folder holds these bytes."""
    return any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_chunks_that_no_document_names_are_in_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that dies between its two commits leaves nothing that can be found."""
    store = LanceStore(tmp_path / "store.lance")
    store.upsert(WORDS, [plain("a", "one")])
    before = store.snapshot(WORDS)
    with monkeypatch.context() as patched:  # chunks are added first, then documents are merged
        patched.setattr(
            "lancedb.table.LanceTable.merge_insert", lambda *_: pytest.fail("killed here")
        )
        with pytest.raises(pytest.fail.Exception):
            store.upsert(WORDS, [plain("a", "one more"), plain("b", "two")])
    again = LanceStore(tmp_path / "store.lance")
    assert again.snapshot(WORDS) == before
    assert again.view(WORDS).statistics().chunks == 1
    assert again.view(WORDS).keyword("two", 3) == ()
    assert again.upsert(WORDS, [plain("b", "two")]).added == 1
    assert len(again.view(WORDS).keyword("two", 3)) == 1


class Settled(LanceStore):
    """Maintains its indexes after every write."""

    def upsert(
        self, spec: IndexSpec, batch: Sequence[IndexedDocument], root: str = ""
    ) -> WriteCounts:
        counts = super().upsert(spec, batch, root)
        self.settle(spec)
        return counts


SIZES = LanceSizes(indexed=1, stale=1, read=1, exact=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that was written in three steps, some of it removed again."""
    path = tmp_path_factory.mktemp("written") / "store.lance"
    store = Settled(path, sizes=SIZES)
    items = [make_indexed(make_document(n)) for n in range(40)]
    store.upsert(PAIR, items[:15])
    store.upsert(PAIR, items[15:])
    store.remove(["doc/0003", "doc/0021"])
    store.close()
    return path


class TestFromIndexes(IndexSuite):
    """The same suite where Lance's indexes are built for the smallest table and always asked."""

    @pytest.fixture
    def store_factory(self, tmp_path: Path, request: pytest.FixtureRequest) -> StoreFactory:
        path = tmp_path / "data" / "store.lance"
        if "filled" in request.fixturenames:  # written once, copied for each test
            shutil.copytree(request.getfixturevalue("written"), path)
        return lambda: Settled(path, sizes=SIZES)

    @pytest.fixture
    def filled(self, store: Store) -> View:
        """A view of what ``written`` holds."""
        return store.view(PAIR)


class Early(StoreOptions):
    """Builds the approximate index from few chunks on."""

    approximate_rows = 1000
    recall = 0.9


APPROXIMATE = Early(kind="lance", approximate=True)
SMALL = LanceSizes(indexed=1, stale=1, read=1, exact=100)
GROUPED = IndexSpec("whole", Analyzer().spec, "groups", 32)


def grouped(count: int, seed: int) -> NDArray[np.float32]:
    """Vectors around forty centres, the same for every seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((40, 32)) * 3
    found = centres[rng.integers(0, 40, count)] + rng.standard_normal((count, 32))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def numbered(number: int, vector: NDArray[np.float32]) -> IndexedDocument:
    name, text = f"d{number:05d}", f"word{number % 50} number {number}"
    facts = {"shard": number % 50, "half": number % 2}
    chunk = Chunk(name, name, 0, Span(0, len(text)), text)
    return IndexedDocument(Document(name, name, text, metadata=facts), (chunk,), vector[None, :])


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> tuple[View, View]:
    """Views of one store of 4,000 chunks: by its vector index, and exact."""
    path = tmp_path_factory.mktemp("near") / "store.lance"
    store = LanceStore(path, APPROXIMATE, sizes=SMALL)
    store.upsert(GROUPED, [numbered(n, v) for n, v in enumerate(grouped(4000, 1))])
    store.settle(GROUPED)
    exact = LanceStore(path, StoreOptions(kind="lance"), sizes=SMALL)
    return store.view(GROUPED), exact.view(GROUPED)


@pytest.mark.parametrize("filters", [(), (Filter("half", (1,)),)])
def test_recall_is_stated_and_kept(
    both_ways: tuple[View, View], filters: tuple[Filter, ...]
) -> None:
    view, truth = both_ways
    stated = re.fullmatch(
        r"approximate: measured recall@1000? (0\.9\d\d|1\.000) on 200 sampled passages",
        view.approximation(100, filters),
    )
    assert stated
    assert not truth.approximation(100, filters)
    queries = grouped(50, 2)
    recalls = []
    pairs = zip(view.dense(queries, 100, filters), truth.dense(queries, 100, filters), strict=True)
    for found, right in pairs:
        scores = dict(right)
        recalls.append(len(dict(found).keys() & scores.keys()) / len(right))
        assert all(scores.get(name, score) == score for name, score in found)
    assert np.mean(recalls) >= float(stated[1]) - 0.05
    if not filters:
        assert min(recalls) < 1.0, "an index that loses nothing was not asked"


def test_narrow_and_deep_searches_are_exact_beside_a_vector_index(
    both_ways: tuple[View, View],
) -> None:
    view, truth = both_ways
    narrow, queries = (Filter("shard", (3,)),), grouped(5, 3)
    assert not view.approximation(50, narrow)
    assert view.dense(queries, 50, narrow) == truth.dense(queries, 50, narrow)
    assert "up to 1000 candidates: exact search answered" in view.approximation(2000)
    assert view.dense(queries, 2000) == truth.dense(queries, 2000)
    assert view.keyword("word3 number", 50) == truth.keyword("word3 number", 50)


def test_a_recall_that_is_not_reached_is_stated_and_search_is_exact(tmp_path: Path) -> None:
    class Exact(Early):
        recall = 1.0

    options = Exact(kind="lance", approximate=True)
    store = LanceStore(tmp_path / "store.lance", options, sizes=SMALL)
    noise = np.random.default_rng(1).standard_normal((2000, 32)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    store.upsert(GROUPED, [numbered(n, v) for n, v in enumerate(noise)])
    view = store.view(GROUPED)
    assert view.approximation(50).startswith("no vector index was built")
    store.settle(GROUPED)
    view = store.view(GROUPED)
    exact = LanceStore(tmp_path / "store.lance", sizes=SMALL).view(GROUPED)
    assert view.dense(noise[:20], 50) == exact.dense(noise[:20], 50)
    note = r"approximate search reached a recall@100 of 0\.\d+, short of 1: exact search answered"
    assert re.fullmatch(note, view.approximation(50))


def test_many_writes_leave_few_files_of_documents(tmp_path: Path) -> None:
    import lancedb

    store = LanceStore(tmp_path / "store.lance", sizes=LanceSizes(joined=5))
    for number in range(12):
        store.upsert(WORDS, [plain(f"{number}", f"word {number}")])
    table = lancedb.connect(tmp_path / "store.lance").open_table(f"documents_{WORDS.key}")
    assert table.stats()["fragment_stats"]["num_fragments"] <= 3
    assert len(store.view(WORDS).keyword("word", 50)) == 12
    store.close()
