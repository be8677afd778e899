"""The store that scales out: its approximate index, what killed writers leave, few files."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest
from numpy.typing import NDArray

from ragwright.core import Document, Filter
from ragwright.index import IndexedDocument, IndexSpec, LanceSizes, LanceStore, StoreOptions, View
from ragwright.models import Analyzer
from ragwright.testing import PAIR, PLAIN, make_document, make_indexed

pytestmark = pytest.mark.slow

SECRET = b"quetzalcoatl"
TEXTS = {"open": "The shop opens at nine.", "secret": f"The code word is {SECRET.decode()}."}


def plain(name: str, text: str) -> IndexedDocument:
    return make_indexed(Document(name, f"mem:{name}", text), PLAIN, size=10_000)


def filled(path: Path) -> LanceStore:
    store = LanceStore(path)
    store.upsert(PLAIN, [plain(*item) for item in TEXTS.items()])
    return store


def table(path: Path, name: str) -> Any:
    return lancedb.connect(path).open_table(name)


# -- what killed writers and full disks leave ------------------------------------------------


def test_chunks_of_no_document_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store.lance")
    before = store.snapshot(PLAIN)
    with monkeypatch.context() as patched:  # chunks are added first, then documents are merged
        patched.setattr("lancedb.table.LanceTable.merge_insert", lambda *_: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            store.upsert(PLAIN, [plain("open", "one more"), plain("b", "two")])
    again = LanceStore(tmp_path / "store.lance")
    assert again.snapshot(PLAIN) == before
    assert again.view(PLAIN).statistics().chunks == 2
    assert again.view(PLAIN).keyword("two", 3) == ()
    assert again.upsert(PLAIN, [plain("b", "two")]).added == 1
    assert len(again.view(PLAIN).keyword("two", 3)) == 1


TABLES = ["facts", "values", "chunks", "documents"]
"""In the order in which they are made."""


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_was_not_made_to_its_end_is_made_again(tmp_path: Path, name: str) -> None:
    """Of the table a kill left data and no version; those behind it are missing."""
    path = tmp_path / "store.lance"
    filled(path).close()
    half, *missing = [next(path.glob(f"{one}*.lance")) for one in TABLES[TABLES.index(name) :]]
    for folder in (half, *missing):
        shutil.rmtree(folder)
    (half / "data").mkdir(parents=True)
    (half / "data" / ".tmpAbCdEf").write_bytes(b"half a file")
    again = LanceStore(path)
    assert not again.holds(PLAIN)
    assert again.index_specs() == []
    filled(path).close()
    assert again.document("secret") is not None
    assert [pair.key for pair in LanceStore(path).index_specs()] == [PLAIN.key]


def test_a_pair_whose_writer_ended_before_it_was_named_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.lance"
    filled(path).close()
    table(path, "facts").delete("name LIKE 'pair %'")
    assert LanceStore(path).index_specs() == []
    filled(path)
    assert [pair.key for pair in LanceStore(path).index_specs()] == [PLAIN.key]


def test_forgetting_removes_files_that_no_version_names(tmp_path: Path) -> None:
    """Copies stand for files of writers that were killed or lost a conflict."""
    path = tmp_path / "store.lance"
    store, left = filled(path), [path / "chunks_0123456789ab.lance" / "data" / "0101.lance"]
    for folder in path.glob("*.lance"):
        for number, file in enumerate([*folder.glob("data/*.lance")]):
            index = folder / "_indices" / "0f5e" / f"part_{number}.lance"
            copies = [file.with_name(one) for one in (f"{number:040}.lance", f".tmpX{number}")]
            copies.append(index)
            for copy in copies:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
            left += copies
    left[0].parent.mkdir(parents=True)
    left[0].write_bytes(SECRET)
    # Chunks of a writer that was killed before it stored their document.
    chunks = table(path, f"chunks_{PLAIN.key}")
    rows = chunks.search().where("document = 'secret'").to_arrow()
    chunks.add(rows.set_column(0, "stamp", [[rows["stamp"][0].as_py() + 1]]))
    assert any(SECRET in file.read_bytes() for file in left)
    assert store.remove(["secret"], purge=True).removed == 1
    assert [file for file in left if file.exists()] == []
    files = [file for file in path.rglob("*") if file.is_file()]
    assert [file for file in files if SECRET in file.read_bytes()] == []
    assert store.document("open") is not None
    assert [kept.text for kept in LanceStore(path).documents(PLAIN)] == [TEXTS["open"]]


def test_a_range_finds_a_value_that_another_process_took_out_meanwhile(tmp_path: Path) -> None:
    def dated(number: int, year: int) -> IndexedDocument:
        return make_indexed(make_document(number, metadata={"year": year}))

    one, other = (LanceStore(tmp_path / "store.lance") for _ in range(2))
    one.upsert(PAIR, [dated(1, 1999), dated(2, 2005)])
    other.remove([dated(1, 1999).document.id], purge=True)
    one.upsert(PAIR, [dated(3, 1999)])
    found = one.view(PAIR).every(9, [Filter("year", low=1990, high=2000)])
    assert {hit.document_id for hit in one.view(PAIR).lookup(found)} == {dated(3, 1999).document.id}


def test_many_writes_leave_few_files_of_documents(tmp_path: Path) -> None:
    store = LanceStore(tmp_path / "store.lance", sizes=LanceSizes(joined=5))
    for number in range(12):
        store.upsert(PLAIN, [plain(f"{number}", f"word {number}")])
    stats = table(tmp_path / "store.lance", f"documents_{PLAIN.key}").stats()
    assert stats["fragment_stats"]["num_fragments"] <= 3
    assert len(store.view(PLAIN).keyword("word", 50)) == 12
    store.close()


# -- the approximate index -------------------------------------------------------------------


class Early(StoreOptions):
    """Builds the approximate index from few chunks on."""

    approximate_rows = 1000
    recall = 0.9


class Exact(Early):
    recall = 1.0


SMALL = LanceSizes(indexed=1, stale=1, read=1, exact=100)
GROUPED = IndexSpec("whole", Analyzer().spec, "groups", 32)


def grouped(count: int, seed: int) -> NDArray[np.float32]:
    """Vectors around forty centres, the same for every seed."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((40, 32)) * 3
    return unit(centres[rng.integers(0, 40, count)] + rng.standard_normal((count, 32)))


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def numbered(vectors: NDArray[np.float32]) -> list[IndexedDocument]:
    made = []
    for n, vector in enumerate(vectors):
        name, facts = f"d{n:05d}", {"shard": n % 50, "odd": n % 2}
        document = Document(name, name, f"word{n % 50} number {n}", metadata=facts)
        made.append(replace(make_indexed(document, PLAIN), vectors=vector[None, :]))
    return made


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> tuple[View, View]:
    """Views of one store of 4,000 chunks: by its vector index, and exact."""
    path = tmp_path_factory.mktemp("near") / "store.lance"
    store = LanceStore(path, Early(kind="lance", approximate=True), sizes=SMALL)
    store.upsert(GROUPED, numbered(grouped(4000, 1)))
    store.settle(GROUPED)
    exact = LanceStore(path, StoreOptions(kind="lance"), sizes=SMALL)
    return store.view(GROUPED), exact.view(GROUPED)


@pytest.mark.parametrize("filters", [(), (Filter("odd", (1,)),)], ids=["all", "odd"])
def test_recall_is_kept(both_ways: tuple[View, View], filters: tuple[Filter, ...]) -> None:
    view, truth = both_ways
    note = r"approximate: measured recall@1000? (0\.9\d\d|1\.000) on 200 sampled passages"
    stated = re.fullmatch(note, view.approximation(100, filters))
    assert stated
    assert not truth.approximation(100, filters)
    recalls, queries = [], grouped(50, 2)
    for found, right in zip(
        view.dense(queries, 100, filters), truth.dense(queries, 100, filters), strict=True
    ):
        scores = dict(right)
        recalls.append(len(dict(found).keys() & scores.keys()) / len(right))
        assert all(scores.get(name, score) == score for name, score in found)
    assert np.mean(recalls) >= float(stated[1]) - 0.05
    if not filters:
        assert min(recalls) < 1.0, "an index that loses nothing was not asked"


def test_narrow_and_deep_searches_are_exact(both_ways: tuple[View, View]) -> None:
    view, truth = both_ways
    narrow, queries = (Filter("shard", (3,)),), grouped(5, 3)
    assert not view.approximation(50, narrow)
    assert view.dense(queries, 50, narrow) == truth.dense(queries, 50, narrow)
    assert "up to 1000 candidates: exact search answered" in view.approximation(2000)
    assert view.dense(queries, 2000) == truth.dense(queries, 2000)
    assert view.keyword("word3 number", 50) == truth.keyword("word3 number", 50)


def test_a_recall_that_is_not_reached_is_stated_and_search_is_exact(tmp_path: Path) -> None:
    options = Exact(kind="lance", approximate=True)
    store = LanceStore(tmp_path / "store.lance", options, sizes=SMALL)
    noise = unit(np.random.default_rng(1).standard_normal((2000, 32)))
    store.upsert(GROUPED, numbered(noise))
    assert store.view(GROUPED).approximation(50).startswith("no vector index was built")
    store.settle(GROUPED)
    view, exact = store.view(GROUPED), LanceStore(tmp_path / "store.lance", sizes=SMALL)
    assert view.dense(noise[:20], 50) == exact.view(GROUPED).dense(noise[:20], 50)
    note = r"approximate search reached a recall@100 of 0\.\d+, short of 1: exact search answered"
    assert re.fullmatch(note, view.approximation(50))
