"""Tables in versions: what joins, what leaves, what is kept, what others can read."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import table_rows
from children import child
from hypothesis import given, strategies as st
from pyarrow import parquet
from story_tools import read_rows
from table_rows import content, files, gone_of, holding, named, rows_of, table_of, upsert, write_on

from ragwright.core import RecordsError, SchemaVersionError, SnapshotGoneError, StoreError, csv_text
from ragwright.ledger import FileLock
from ragwright.records import (
    KEY,
    TABLES,
    Manifest,
    RecordTables,
    UpsertCounts,
    export_chats,
    export_table,
)


def commit(tables: RecordTables, rows: dict[str, object]) -> int:
    with tables.writing("test", 5) as writing:
        upsert(writing, "bronze", rows)
        return writing.commit({}, "test")


@pytest.fixture
def tables(tmp_path: Path) -> RecordTables:
    return RecordTables(tmp_path / "tables")


def test_a_folder_that_is_not_there_holds_nothing(tables: RecordTables) -> None:
    assert (tables.version, tables.manifest(), tables.history()) == (0, Manifest(), ())
    assert [tables.rows(table) for table in TABLES] == [0, 0, 0, 0]
    assert list(tables.read("gold")) == list(tables.read("gold", ["client"])) == []
    assert not tables.folder.exists()
    with pytest.raises(SnapshotGoneError, match="version 3"):
        tables.manifest(3)
    with pytest.raises(RecordsError, match="unknown table 'brass'"):
        tables.rows("brass")  # type: ignore[arg-type]
    with tables.writing("empty", 5) as writing:  # the first commit is a version even of nothing
        assert writing.commit({}, "") == 1
    assert tables.version == 1


def test_rows_are_inserted_updated_removed_and_left_as_they_are(tables: RecordTables) -> None:
    with tables.writing("first", 5) as writing:
        assert upsert(writing, "bronze", {"a": "1", "b": "2", "c": "3"}) == UpsertCounts(3)
        assert content(writing, "bronze") == [("a", "1"), ("b", "2"), ("c", "3")]
        assert tables.rows("bronze") == 0  # nobody else sees it yet
        assert writing.commit({"source": "x"}, "the first") == 1
    with tables.writing("second", 5) as writing:
        counts = upsert(writing, "bronze", {"b": "2", "c": "changed", "d": "4"})
        assert counts == UpsertCounts(inserted=1, updated=1, unchanged=1)
        assert writing.rows("bronze") == 4
        assert writing.commit({"source": "y"}, "the second") == 2
    assert content(tables, "bronze") == [("a", "1"), ("b", "2"), ("c", "changed"), ("d", "4")]
    assert content(tables, "bronze", version=1) == [("a", "1"), ("b", "2"), ("c", "3")]
    assert content(tables, "bronze", keys=["d", "b", "z"]) == [("b", "2"), ("d", "4")]
    history = [(m.version, m.note, m.lineage) for m in tables.history()]
    assert history == [(2, "the second", {"source": "y"}), (1, "the first", {"source": "x"})]
    # rows leave one table, and may come again in the same writing
    with tables.writing("third", 5) as writing:
        for table in TABLES:
            upsert(writing, table, {"a": "1", "b": "2"})
        assert writing.remove("gold", ["a", "a", "z"]) == 1
        assert writing.remove("gold", ["a"]) == 0
        writing.remove("bronze", ["a", "b", "c", "d"])
        assert upsert(writing, "bronze", {"a": "5"}) == UpsertCounts(1)
        upsert(writing, "bronze", {"c": "1"})
        writing.remove("bronze", ["c"])
        writing.commit({"source": "y"}, "")
    assert tables.manifest().rows == {"bronze": 1, "silver": 2, "gold": 1, "left_out": 2}
    assert content(tables, "bronze") == [("a", "5")]
    # a commit without a change writes nothing, but where the lineage is another
    before = set(tables.folder.rglob("*"))
    with tables.writing("again", 5) as writing:
        assert upsert(writing, "bronze", {"a": "5"}) == UpsertCounts(unchanged=1)
        assert writing.remove("bronze", ["nobody"]) == 0
        assert writing.commit({"source": "y"}, "again") == 3
    assert set(tables.folder.rglob("*")) == before
    with tables.writing("other lineage", 5) as writing:
        assert writing.commit({"tags": {"b": 1, "a": 2}}, "") == 4
    with tables.writing("equal lineage", 5) as writing:
        assert writing.commit({"tags": {"a": 2, "b": 1}}, "") == 4
    for path in (tables.folder, *tables.folder.rglob("*")):  # only the owner reads
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_leaving_without_commit_leaves_nothing(tables: RecordTables) -> None:
    commit(tables, {"a": "1"})
    before = files(tables.folder)
    with tables.writing("dry run", 5) as writing:
        upsert(writing, "bronze", {"a": "2", "b": "3"})
        upsert(writing, "gold", {"a": "2"})
        assert content(writing, "gold") == [("a", "2")]
    with contextlib.suppress(ZeroDivisionError), tables.writing("fails", 5) as writing:
        upsert(writing, "bronze", {"a": "7"})
        assert content(writing, "bronze") == [("a", "7")]
        upsert(writing, "bronze", {"a": str(1 // 0)})
    with pytest.raises(PermissionError), tables.writing("x", 5):  # it stays what it is
        raise PermissionError(13, "Permission denied", "/elsewhere/source.csv")
    assert files(tables.folder) == before
    assert content(tables, "bronze") == [("a", "1")]
    for table, rows in (("bronze", 1), ("gold", 0)):
        assert len(deltalake.DeltaTable(str(tables.folder / table)).to_pyarrow_table()) == rows
    commit(tables, {"b": "1"})
    assert content(tables, "bronze") == [("a", "1"), ("b", "1")]


def test_old_versions_and_their_files_go_and_what_strangers_put_there_stays(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=2)
    commit(tables, {"a": "0"})
    strangers = {"gold/mine.parquet", "manifests/notes.txt", "silver/README"}
    for name in strangers:
        (tables.folder / name).write_text("mine")
    for number in range(1, 5):
        commit(tables, {"a": str(number)})
    assert [m.version for m in tables.history()] == [5, 4]
    assert content(tables, "bronze", version=4) == [("a", "3")]
    with pytest.raises(SnapshotGoneError, match=r"(?s)version 3 .*available versions: 4 to 5"):
        content(tables, "bronze", version=3)
    with pytest.raises(SnapshotGoneError):
        tables.changes("gold", 3)
    assert files(tables.folder) == strangers | named(tables)


@pytest.mark.slow
def test_writers_take_turns(tables: RecordTables) -> None:
    def write_five(name: str) -> None:
        own = RecordTables(tables.folder)
        for number in range(5):
            with own.writing(name, 60) as writing:
                held = len(writing.hashes("bronze"))
                upsert(writing, "bronze", {f"{name}{number}": str(held), "last": f"{name}{number}"})
                writing.commit({}, "")

    with ThreadPoolExecutor() as writers:
        list(writers.map(write_five, "ab"))
    assert tables.version == 10
    held = [int(text) for key, text in content(tables, "bronze") if key != "last"]
    assert sorted(held) == [0, *range(2, 11)]  # each saw what the one before it had written


# -- damage --------------------------------------------------------------------------------------


def test_a_file_damaged_or_gone_is_named(tables: RecordTables) -> None:
    commit(tables, {f"k{n}": str(n) for n in range(1000)})
    (path,) = (tables.folder / name for name in tables.manifest().files if "bronze" in name)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(200) + whole[400:])
    with pytest.raises(StoreError, match=r"cannot be read(?s:.*)restore it from a backup"):
        list(tables.read("bronze"))
    with pytest.raises(StoreError, match="cannot be read"), tables.writing("x", 5) as writing:
        writing.hashes("bronze")
    path.unlink()
    with pytest.raises(StoreError, match="bronze"):
        list(tables.read("bronze"))


def test_a_newer_layout_is_refused_and_touched_by_nobody(tables: RecordTables) -> None:
    commit(tables, {"a": "1"})
    newest, newer = (tables.folder / f"manifests/0000000{n}.json" for n in (1, 2))
    found = json.loads(newest.read_text("utf-8"))
    newer.write_text(json.dumps({**found, "schema_version": 9, "tables": "another shape"}))
    before = files(tables.folder)
    with pytest.raises(SchemaVersionError, match="schema version 9; this ragwright reads 3"):
        tables.manifest()
    with pytest.raises(SchemaVersionError), tables.writing("test", 5):
        pass
    assert files(tables.folder) == before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema_version": 3}'])
def test_a_damaged_manifest_is_named_and_nothing_is_swept(
    tables: RecordTables, damage: str
) -> None:
    commit(tables, {"a": "1"})
    commit(tables, {"a": "2"})
    before = files(tables.folder)
    (tables.folder / "manifests/00000002.json").write_text(damage)
    with pytest.raises(StoreError, match="manifest of version 2 is damaged"):
        commit(tables, {"a": "3"})
    assert files(tables.folder) == before
    (tables.folder / "manifests/00000002.json").unlink()  # what the hint says
    assert content(tables, "bronze") == [("a", "1")]
    commit(tables, {"a": "3"})
    (tables.folder / "manifests/00000001.json").write_text(damage)
    commit(tables, {"a": "4"})  # an old one that is damaged stops nobody
    assert content(tables, "bronze") == [("a", "4")]


SMALL_DISK = """
import resource, sys
from pathlib import Path
from table_rows import upsert
from ragwright.core import StoreFullError
from ragwright.records import RecordTables
import numpy

tables = RecordTables(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
noise = numpy.random.default_rng(0).random(100_000)
try:
    with tables.writing("second", 0) as writing:
        upsert(writing, "bronze", {str(one): str(one) for one in noise})
        writing.commit({}, "")
except StoreFullError as error:
    print(error.what)
"""


@pytest.mark.slow
def test_a_full_disk_is_said_and_nothing_is_lost(tables: RecordTables) -> None:
    """A limit on the size of files stands for the disk."""
    commit(tables, {"a": "1"})
    command = [sys.executable, "-c", SMALL_DISK, str(tables.folder)]
    here = Path(table_rows.__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, check=False)
    assert done.stdout == "the disk is full; everything committed before is intact\n", done.stderr
    assert content(tables, "bronze") == [("a", "1")]
    commit(tables, {"b": "1"})
    assert content(tables, "bronze") == [("a", "1"), ("b", "1")]


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "tables"):
        with pytest.raises(StoreError, match="file"), RecordTables(path).writing("x", 5):
            pass


@pytest.mark.slow
def test_killed_at_any_moment_the_last_whole_version_stands(tmp_path: Path) -> None:
    chance, folder = random.Random(20261121), tmp_path / "tables"
    reached = leftovers = 0
    for number in range(60):
        if number >= 8 and leftovers:
            break
        with child(write_on, folder) as writer:
            writer.recv()
            time.sleep(chance.uniform(0, 0.1))
        with FileLock(folder / "lock", "test", wait=60):  # free when the writer is gone
            version = whole(folder)
            leftovers += len(files(folder) - named(RecordTables(folder, keep=3)))
        assert version > reached
        reached = version
    assert leftovers  # some kill did hit a writing half-way
    with RecordTables(folder, keep=3).writing("next", 0):
        pass
    assert files(folder) == named(RecordTables(folder, keep=3))
    whole(folder)


def whole(folder: Path) -> int:
    """Check every version there is; the newest one's number."""
    tables = RecordTables(folder, keep=3)
    for manifest in tables.history():
        assert manifest.lineage == {"version": manifest.version}
        held: dict[str, str] = {}
        for number in range(1, manifest.version + 1):
            held |= rows_of(number)
            for key in gone_of(number):
                held.pop(key, None)
        for table in TABLES:
            found = content(tables, table, version=manifest.version)
            assert len(found) == len(held) == tables.rows(table, manifest.version)
            assert dict(found) == held, (table, manifest.version)
    return tables.version


# -- types, and other engines --------------------------------------------------------------------


def test_new_columns_and_other_types_read_as_one_table(tables: RecordTables) -> None:
    columns: list[dict[str, Any]] = [
        {"zip": [7], "sum": [1], "none": [None], "on": [1.5], "tags": [["a"]], "both": [b"x"]},
        {"zip": ["07"], "sum": [1.5], "none": [3], "new": ["n"], "on": [True], "tags": ["b, c"]},
    ]
    for key, more in zip("ab", columns, strict=True):
        with tables.writing("test", 5) as writing:
            writing.upsert("bronze", table_of([key], [key], **more))
            writing.commit({}, "")
    first, second = (row for batch in tables.read("bronze") for row in batch.to_pylist())
    names = ("zip", "sum", "none", "on", "tags", "both", "new")
    assert [first[name] for name in names] == ["7", 1.0, None, "1.5", '["a"]', b"x", None]
    assert [second[name] for name in names] == ["07", 1.5, 3, "true", "b, c", None, "n"]
    found = [row for batch in tables.read("bronze", ["new"]) for row in batch.to_pylist()]
    assert found == [{"new": None}, {"new": "n"}]
    with pytest.raises(RecordsError, match=r"(?s)no column 'zap'.*did you mean zip"):
        list(tables.read("bronze", ["zap"]))
    with tables.writing("test", 5) as writing:
        writing.upsert("bronze", table_of(["c"], ["c"], sum=[2**53 + 1]))
        with pytest.raises(RecordsError, match=r"'sum' have no common type without loss"):
            writing.commit({}, "")
    with tables.writing("test", 5) as writing:
        for key, many in (("d", [2**53 + 1]), ("e", [0.5])):
            writing.upsert("bronze", table_of([key], [key], many=[many]))
        with pytest.raises(RecordsError, match=r"'many' have no common type without loss"):
            writing.commit({}, "")
    first = next(iter(tables.read("bronze", version=1))).to_pylist()[0]
    assert [first.get(name) for name in names] == [7, 1, None, 1.5, ["a"], b"x", None]


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.string()),
        (pa.uint64(), pa.int64(), pa.decimal128(20, 0)),
        (pa.decimal128(29, 9), pa.float64(), pa.string()),
        (pa.binary(), pa.string(), pa.string()),
        (pa.null(), pa.binary(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), pa.string()),
        (pa.list_(pa.string()), pa.list_(pa.int64()), pa.string()),
        (pa.int32(), pa.int64(), pa.int64()),
    ],
)
def test_types_that_join(tmp_path: Path, one: Any, other: Any, joined: Any) -> None:
    rows = [table_of([k], [k], value=pa.nulls(1, t)) for k, t in (("a", one), ("b", other))]
    for parts in ([rows], [rows[:1], rows[1:]]):  # in one commit, or in two
        tables = RecordTables(tmp_path / f"tables{len(parts)}")
        for part in parts:
            with tables.writing("test", 5) as writing:
                for each in part:
                    writing.upsert("gold", each)
                writing.commit({}, "")
        found = pa.concat_tables(tables.read("gold", ["value"]))
        assert (found.schema.types, found.num_rows) == ([joined], 2)


def test_other_engines_read_the_tables_where_they_are(tables: RecordTables) -> None:
    for rows in ({f"k{n}": "1" for n in range(5)} | {"l": "1"}, {"k1": "2", "l": "2"}):
        with tables.writing("test", 5) as writing:
            upsert(writing, "gold", rows)
            writing.commit({}, "")

    def mine(version: int | None = None) -> dict[str, Any]:
        return dict(content(tables, "gold", version=version))

    def theirs(frame: Any) -> dict[str, Any]:
        return dict(zip(frame[KEY], frame["text"], strict=True))

    for version in (1, 2):
        named = json.loads((tables.folder / f"manifests/{version:08d}.json").read_text("utf-8"))
        for table in TABLES:
            at = named["tables"][table]["delta"]
            frame = deltalake.DeltaTable(str(tables.folder / table), version=at).to_pandas()
            assert len(frame) == tables.rows(table, version)
            assert table != "gold" or theirs(frame) == mine(version)
    import daft
    import polars

    gold = str(tables.folder / "gold")
    assert theirs(polars.read_delta(gold)) == mine()
    assert theirs(daft.read_deltalake(gold).to_pydict()) == mine()


def test_changes_of_another_program_are_taken_back(tables: RecordTables) -> None:
    commit(tables, {"a": "1", "b": "1"})
    deltalake.DeltaTable(str(tables.folder / "bronze")).delete(f"{KEY} = 'a'")
    assert content(tables, "bronze") == [("a", "1"), ("b", "1")]
    with tables.writing("test", 5) as writing:
        upsert(writing, "bronze", {"c": "1"})
        writing.commit({}, "")
        [note] = writing.notes
        assert "bronze: what another program, or a killed refresh, wrote after version 1" in note
    assert content(tables, "bronze") == [("a", "1"), ("b", "1"), ("c", "1")]


# -- forgetting ----------------------------------------------------------------------------------


def test_forget_leaves_no_byte_in_any_version_or_log(tables: RecordTables) -> None:
    secret, key = "a secret that nobody may read", "key-of-a-person"
    rows: dict[str, object] = {f"k{n}": str(n) for n in range(50)}
    for text in (secret, "something else"):  # the secret itself is in an older version alone
        with tables.writing("test", 5) as writing:
            for table in TABLES:
                upsert(writing, table, {**rows, key: text})
            writing.commit({}, "")
    commit(tables, {"k1": "changed"})
    held = holding(tables.folder, secret)
    assert len([path for path in held if path.suffix == ".parquet"]) == 4
    assert tables.forget([key]) > 0
    assert holding(tables.folder, secret, key) == []
    assert [m.version for m in tables.history()] == [4]
    for table in TABLES:
        assert {key for key, _ in content(tables, table)} == rows.keys()
        delta = str(tables.folder / table)
        assert len(deltalake.DeltaTable(delta).to_pyarrow_table()) == 50
        with pytest.raises(Exception, match=r"(?i)not found|no such file"):
            deltalake.DeltaTable(delta, version=0).to_pyarrow_table()
    assert tables.forget([key]) == 0
    assert tables.version == 4


def test_forget_that_was_killed_is_finished_by_the_next(
    tables: RecordTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tables, {"a": "secret", "b": "1"})
    commit(tables, {"c": "1"})

    def killed(path: Path, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            tables.forget(["a"])
    assert holding(tables.folder, "secret")
    assert tables.forget(["a"]) > 0
    assert not holding(tables.folder, "secret")
    assert content(tables, "bronze") == [("b", "1"), ("c", "1")]


# -- against a slow model ------------------------------------------------------------------------

KEYS = st.sampled_from([f"k{n}" for n in range(16)])
CHANGES = st.one_of(
    st.tuples(st.just("upsert"), st.dictionaries(KEYS, st.sampled_from("xy"), max_size=14)),
    st.tuples(st.just("remove"), st.lists(KEYS, min_size=1, max_size=3)),
)
WRITINGS = st.tuples(
    st.lists(CHANGES, min_size=1, max_size=4), st.sampled_from(["commit"] * 5 + ["leave"])
)


@pytest.mark.slow
@given(st.lists(WRITINGS, min_size=3, max_size=8), st.booleans())
def test_tables_are_dictionaries(turns: list[Any], look: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        versions: list[dict[str, str]] = [{}]
        tables = RecordTables(Path(folder) / "tables", keep=4)
        for changes, end in turns:
            with tables.writing("play", 5) as writing:
                now = dict(versions[-1])
                for kind, given in changes:
                    if kind == "remove":
                        assert writing.remove("gold", given) == len(now.keys() & set(given))
                        now = {key: text for key, text in now.items() if key not in given}
                    else:
                        new, same = given.keys() - now.keys(), given.items() & now.items()
                        changed = len(given) - len(new) - len(same)
                        counts = UpsertCounts(len(new), changed, len(same))
                        assert upsert(writing, "gold", given) == counts
                        now |= given
                    assert writing.rows("gold") == len(now)
                    assert not look or dict(content(writing, "gold")) == now
                if end == "commit" and writing.commit({}, "") == len(versions):
                    versions.append(now)
        newest = len(versions) - 1
        for version in range(max(1, newest - 3), newest + 1):
            before = versions[version]
            assert dict(content(tables, "gold", version=version)) == before
            assert tables.rows("gold", version) == len(before)
            # what has changed since is what a comparison of all rows says
            since = tables.changes("gold", version)
            rows = [(r[KEY], r["text"]) for batch in since.rows for r in batch.to_pylist()]
            now = versions[-1]
            wanted = [(key, text) for key, text in now.items() if before.get(key) != text]
            assert sorted(rows) == sorted(wanted)
            assert since.gone == tuple(sorted(before.keys() - now.keys()))
        assert files(tables.folder) == named(tables)


# -- tables as files for others ------------------------------------------------------------------

TEXT = 'text of {},\n"é" 🙂'.format


@pytest.fixture
def gold(tables: RecordTables) -> RecordTables:
    """Three rows in two parts that differ in their columns; one row is dead."""
    when = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    topics = [["health", 'a, "b"'], [], None]
    columns: list[dict[str, Any]] = [
        {"topic": topics, "sent": [when, None, when], "n": [1, 2, 3]},
        {"n": [math.nan], "blob": [b"\xc3\xa9"]},
    ]
    with tables.writing("test", 5) as writing:
        for keys, more in zip((["a", "b", "c"], ["d"]), columns, strict=True):
            writing.upsert("gold", table_of(keys, [TEXT(key) for key in keys], **more))
        writing.remove("gold", ["c"])
        writing.commit({}, "")
    return tables


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_files_hold_the_rows_alive(gold: RecordTables, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("gold.parquet", "gold.CSV", "gold.jsonl")]
    names = [KEY, "text", "topic", "sent", "n", "blob"]
    assert [export_table(gold, "gold", path, names) for path in paths] == [3, 3, 3]
    found = parquet.read_table(paths[0])
    assert found.column(KEY).to_pylist() == ["a", "b", "d"]
    assert found.column("topic").to_pylist() == [["health", 'a, "b"'], [], None]
    assert str(found.schema.field("sent").type) == "timestamp[us, tz=UTC]"
    rows = cells(paths[1])
    assert [(row[KEY], row["text"]) for row in rows] == content(gold, "gold")
    assert json.loads(rows[0]["topic"]) == ["health", 'a, "b"']
    assert [row["topic"] for row in rows[1:]] == ["[]", ""]
    assert rows[0]["sent"].startswith("2026-11-21 09:30")
    assert rows[2]["blob"] == "c3a9"
    first, second, third = read_rows(paths[2])
    assert (first["topic"], first["sent"]) == (["health", 'a, "b"'], "2026-11-21T09:30:00Z")
    assert (first["n"], second["n"], third["n"]) == (1.0, 2.0, None)
    assert (first["blob"], third["blob"], first["text"]) == (None, "c3a9", TEXT("a"))
    # old versions are written too
    with gold.writing("test", 5) as writing:
        upsert(writing, "gold", {"new": "row"})
        writing.commit({}, "")
    assert export_table(gold, "gold", tmp_path / "a.jsonl", [KEY]) == 4
    assert export_table(gold, "gold", tmp_path / "a.jsonl", [KEY], version=1) == 3
    with pytest.raises(SnapshotGoneError):
        export_table(gold, "gold", tmp_path / "a.jsonl", version=7)
    assert read_rows(tmp_path / "a.jsonl") == [{KEY: key} for key in "abd"]


def test_csv_runs_nothing_in_a_spreadsheet_and_reads_back(tables: RecordTables) -> None:
    texts = ["=cmd|' /C calc'!A0", "'=1", "-5", "- item", ""]
    with tables.writing("test", 5) as writing:
        writing.upsert("bronze", table_of(list("abcde"), texts, **{"=n": [-1, 2, 3, 4, 5]}))
        writing.commit({}, "")
    assert export_table(tables, "bronze", tables.folder / "b.csv") == 5
    rows = cells(tables.folder / "b.csv")
    assert [row["text"] for row in rows] == ["'=cmd|' /C calc'!A0", "''=1", "-5", "'- item", ""]
    assert [row["'=n"] for row in rows][:2] == ["-1", "2"]
    assert [csv_text(row["text"]) for row in rows] == texts


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_an_empty_table_is_an_empty_file(tables: RecordTables, suffix: str) -> None:
    path = tables.folder.parent / f"gold.{suffix}"
    assert export_table(tables, "gold", path) == 0
    assert parquet.read_table(path).num_rows == 0 if suffix == "parquet" else not path.read_text()


def test_what_cannot_be_written_leaves_what_was_there(gold: RecordTables, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("as it was")
    with pytest.raises(RecordsError, match=r"(?s)no column 'topics'.*did you mean topic"):
        export_table(gold, "gold", path, ["topics"])
    with pytest.raises(RecordsError, match=r"(?s)the suffix '\.xlsx'.*\.parquet, \.csv, \.jsonl"):
        export_table(gold, "gold", tmp_path / "out.xlsx")
    with pytest.raises(StoreError, match="the file cannot be written"):
        export_table(gold, "gold", tmp_path / "no" / "folder.csv")
    for name in gold.manifest().files:
        (gold.folder / name).write_bytes(b"damaged")
    with pytest.raises(StoreError, match="cannot be read"):
        export_table(gold, "gold", path)
    assert path.read_text() == "as it was"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "tables"]


def test_chats_hold_a_request_and_the_message(gold: RecordTables, tmp_path: Path) -> None:
    def request(row: Mapping[str, Any]) -> str:
        return f"A text about {', '.join(row['topic'] or ['anything'])}"

    assert export_chats(gold, tmp_path / "chats.jsonl", request) == 3
    first, *_, last = read_rows(tmp_path / "chats.jsonl")
    asked = {"role": "user", "content": 'A text about health, a, "b"'}
    assert first == {"messages": [asked, {"role": "assistant", "content": TEXT("a")}]}
    assert last["messages"][0]["content"] == "A text about anything"
