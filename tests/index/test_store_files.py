"""The SQLite file under hard conditions: kills, several writers, full disks, other versions."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from ragwright.core import (
    Chunk,
    Document,
    SchemaVersionError,
    Span,
    StoreBusyError,
    StoreError,
    StoreFullError,
)
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, StoreOptions, open_store
from ragwright.models import Analyzer


class Impatient(StoreOptions):
    """Waits hardly for another process."""

    busy_seconds = 0.05


PAIR = IndexSpec("whole", Analyzer().spec)
BATCH = 7


def item(name: str, text: str) -> IndexedDocument:
    chunk = Chunk(f"{name}:0-{len(text)}", name, 0, Span(0, len(text)), text)
    return IndexedDocument(Document(name, f"mem:{name}", text), (chunk,))


def write_many(path: str, worker: int, batches: int) -> None:
    store = SqliteStore(path)
    for batch in range(batches):
        mine = [item(f"{worker}/{batch}/{n}", f"text {worker} {batch} {n}") for n in range(BATCH)]
        shared = [item(f"shared/{n}", f"by {worker} in {batch}") for n in range(3)]
        store.upsert(PAIR, mine + shared)
        store.view(PAIR).keyword("text", 3)
    store.close()


@pytest.mark.slow
def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_many, args=(str(path), n, 10)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    store = SqliteStore(path)
    assert len(store.content_hashes(PAIR)) == 3 * 10 * BATCH + 3
    assert store.view(PAIR).statistics().chunks == 3 * 10 * BATCH + 3
    store.close()


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_batches_only(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    SqliteStore(path).close()
    script = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_store_files
        store = test_store_files.SqliteStore({str(path)!r})
        print("ready", flush=True)
        for batch in range(100000):
            store.upsert(test_store_files.PAIR, [
                test_store_files.item(f"{{batch}}/{{n}}", f"text {{batch}} {{n}} " * 40)
                for n in range({BATCH})
            ])
            print(batch, flush=True)
    """)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = []
    for line in child.stdout:
        told.append(line)
        if len(told) > 40:
            time.sleep(0.003)
            child.send_signal(signal.SIGKILL)
            break
    told += child.stdout.readlines()
    child.stdout.close()
    child.wait(10)
    committed = [int(line) for line in told if line.strip().isdigit()]
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    store = SqliteStore(path)
    batches: dict[str, int] = {}
    for name in store.content_hashes(PAIR):
        batches[name.partition("/")[0]] = batches.get(name.partition("/")[0], 0) + 1
    assert set(batches.values()) == {BATCH}
    assert {int(batch) for batch in batches} >= set(committed)
    assert store.view(PAIR).statistics().chunks == len(store.content_hashes(PAIR))
    store.close()


def test_a_full_disk_is_told_apart_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = SqliteStore(path, StoreOptions(max_mb=1))

    def fill() -> None:
        for n in range(1000):
            store.upsert(PAIR, [item(f"d{n}", "x" * n + "a " * 5000)])

    with pytest.raises(StoreFullError, match="intact"):
        fill()
    stored = len(store.content_hashes(PAIR))
    assert 3 < stored < 1000
    assert {f"d{n}" for n in range(stored)} == set(store.content_hashes(PAIR))
    assert store.view(PAIR).statistics().chunks == stored
    store.remove(["d0", "d1", "d2"])
    assert store.upsert(PAIR, [item("small", "fits again")]).added == 1
    store.close()


def test_a_writer_that_waits_too_long_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = SqliteStore(path, Impatient())
    store.upsert(PAIR, [item("a", "one")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError, match="wait for it to end"):
        store.upsert(PAIR, [item("b", "two")])
    assert set(store.content_hashes(PAIR)) == {"a"}
    other.execute("ROLLBACK")
    other.close()
    assert store.upsert(PAIR, [item("b", "two")]).added == 1
    store.close()


@pytest.mark.slow
def test_many_threads_read_and_write_one_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite")
    errors: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            for n in range(15):
                store.upsert(PAIR, [item(f"{worker}/{n}", f"word {n}")])
                view = store.view(PAIR)
                assert len(view.keyword("word", 10_000)) == view.statistics().chunks
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.view(PAIR).statistics().documents == 60
    store.close()


@pytest.mark.parametrize("step", [1, -1])
def test_another_schema_is_refused_with_the_way_out(tmp_path: Path, step: int) -> None:
    path = tmp_path / "store.sqlite"
    SqliteStore(path).close()
    with sqlite3.connect(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + step}")
    db.close()
    with pytest.raises(SchemaVersionError, match=r"schema version \d; this ragwright reads \d"):
        SqliteStore(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("this is not a database, " * 50)
    with pytest.raises(StoreError, match="damaged or not a store"):
        SqliteStore(text)
    assert text.read_text().startswith("this is not")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(StoreError, match="not a ragwright store"):
        SqliteStore(other)
    with pytest.raises(StoreError, match="cannot"):
        SqliteStore(text / "below" / "store.sqlite")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite")
    store.upsert(PAIR, [item("a", "one")])
    view = store.view(PAIR)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.snapshot(PAIR)
    assert len(view.keyword("one", 3)) == 1


def test_open_store_lies_in_the_projects_folder(tmp_path: Path) -> None:
    store = open_store(StoreOptions(), tmp_path)
    store.upsert(PAIR, [item("a", "one")])
    store.view(PAIR)
    store.close()
    assert (tmp_path / "data" / "store.sqlite").is_file()
    assert list((tmp_path / "cache" / "views").rglob("*.view"))
