"""The SQLite file under hard conditions: kills, several writers, full disks, other versions."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from ragwright.core import Document, SchemaVersionError, StoreBusyError, StoreError, StoreFullError
from ragwright.index import IndexedDocument, SqliteStore, StoreOptions, open_store
from ragwright.testing import PLAIN, make_indexed


class Impatient(StoreOptions):
    busy_seconds = 0.05


BATCH = 7


def item(name: str, text: str) -> IndexedDocument:
    return make_indexed(Document(name, f"mem:{name}", text), PLAIN, size=100_000)


WRITING = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_sqlite import BATCH, PLAIN, SqliteStore, item
store = SqliteStore(sys.argv[1])
for batch in range(100000):
    texts = {{f"{{batch}}/{{n}}": f"text {{batch}} {{n}} " * 40 for n in range(BATCH)}}
    store.upsert(PLAIN, [item(*one) for one in texts.items()])
    print(batch, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_batches_only(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    SqliteStore(path).close()
    child = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    committed = [next(child.stdout) for _ in range(40)]
    child.send_signal(signal.SIGKILL)
    committed += [line for line in child.stdout if line.endswith("\n")]
    child.stdout.close()
    child.wait(10)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store = SqliteStore(path)
    batches = Counter(name.partition("/")[0] for name in store.content_hashes(PLAIN))
    assert set(batches.values()) == {BATCH}
    assert set(batches) >= {line.strip() for line in committed}
    assert store.view(PLAIN).statistics().chunks == len(store.content_hashes(PLAIN))
    store.close()


def test_a_full_disk_is_told_apart_and_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite", StoreOptions(max_mb=1))

    def fill() -> None:
        for n in range(1000):
            store.upsert(PLAIN, [item(f"d{n}", "x" * n + "a " * 5000)])

    with pytest.raises(StoreFullError, match="intact"):
        fill()
    stored = len(store.content_hashes(PLAIN))
    assert 3 < stored < 1000
    assert {f"d{n}" for n in range(stored)} == set(store.content_hashes(PLAIN))
    assert store.view(PLAIN).statistics().chunks == stored
    store.remove(["d0", "d1", "d2"])
    assert store.upsert(PLAIN, [item("small", "fits again")]).added == 1
    store.close()


def test_a_writer_that_waits_too_long_is_told_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite", Impatient())
    store.upsert(PLAIN, [item("a", "one")])
    with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match="wait for it to end"):
            store.upsert(PLAIN, [item("b", "two")])
        assert set(store.content_hashes(PLAIN)) == {"a"}
        other.execute("ROLLBACK")
    assert store.upsert(PLAIN, [item("b", "two")]).added == 1
    store.close()


def test_other_files_and_other_schemas_are_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("this is not a database, " * 50)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE theirs (x)")
    for path, said in (
        (text, "damaged or not a store"),
        (other, "not a ragwright store"),
        (text / "below" / "store.sqlite", "cannot"),
    ):
        with pytest.raises(StoreError, match=said):
            SqliteStore(path)
    assert text.read_text().startswith("this is not")
    SqliteStore(tmp_path / "store.sqlite").close()
    for step in (1, -2):  # a later and an earlier schema
        with closing(sqlite3.connect(tmp_path / "store.sqlite")) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            db.execute(f"PRAGMA user_version = {version + step}")
        said = r"schema version \d; this ragwright reads \d"
        with pytest.raises(SchemaVersionError, match=said):
            SqliteStore(tmp_path / "store.sqlite")


def test_the_projects_store_lies_in_its_folder_and_says_that_it_is_closed(tmp_path: Path) -> None:
    store = open_store(StoreOptions(), tmp_path)
    store.upsert(PLAIN, [item("a", "one")])
    view = store.view(PLAIN)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.snapshot(PLAIN)
    assert len(view.keyword("one", 3)) == 1
    assert (tmp_path / "data" / "store.sqlite").is_file()
    assert list((tmp_path / "cache" / "views").rglob("*.view"))
