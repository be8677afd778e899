"""Tables in versions: what joins, what dies, what is kept, what others can read."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import (
    given,
    settings,
    strategies as st,
)
from pyarrow import parquet
from table_rows import adopt, content, files, hash_of, holds, write

from ragwright.core import (
    DuplicateKeyError,
    RecordsError,
    SchemaVersionError,
    SnapshotGoneError,
    StoreError,
    StoreFullError,
)
from ragwright.records import HASH, KEY, TABLES, Manifest, RecordTables, UpsertCounts
from ragwright.records.tables import _writing


def commit(tables: RecordTables, rows: dict[str, object], *, gone: tuple[str, ...] = ()) -> int:
    with tables.writing("test", 5) as writing:
        if rows:
            adopt(writing, "bronze", rows)
        writing.remove("bronze", list(gone))
        return writing.commit({}, "test")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    assert tables.version == 0
    assert tables.manifest() == Manifest()
    assert tables.history() == ()
    assert [tables.rows(table) for table in TABLES] == [0, 0, 0, 0]
    assert list(tables.read("gold")) == []
    assert list(tables.read("gold", ["client"])) == []
    assert tables.live("gold") == ()
    assert not (tmp_path / "tables").exists()
    with pytest.raises(SnapshotGoneError, match="version 3"):
        tables.manifest(3)
    with pytest.raises(RecordsError, match="unknown table 'brass'"):
        tables.rows("brass")  # type: ignore[arg-type]


def test_rows_are_inserted_updated_and_left_as_they_are(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("first", 5) as writing:
        assert adopt(writing, "bronze", {"a": "1", "b": "2", "c": "3"}) == UpsertCounts(3)
        assert content(writing, "bronze") == [("a", "1"), ("b", "2"), ("c", "3")]
        assert tables.rows("bronze") == 0  # nobody else sees it yet
        assert writing.commit({"source": "x"}, "the first") == 1
    with tables.writing("second", 5) as writing:
        counts = adopt(writing, "bronze", {"b": "2", "c": "changed", "d": "4"})
        assert counts == UpsertCounts(inserted=1, updated=1, unchanged=1)
        assert writing.rows("bronze") == 4
        (new,) = writing.adopted("bronze")
        assert new.live is not None
        assert new.live.tolist() == [False, True, True]
        assert writing.adopted("silver") == ()
        assert writing.commit({"source": "y"}, "the second") == 2
    assert content(tables, "bronze") == [("a", "1"), ("b", "2"), ("c", "changed"), ("d", "4")]
    assert content(tables, "bronze", version=1) == [("a", "1"), ("b", "2"), ("c", "3")]
    assert [(m.version, m.note, m.lineage) for m in tables.history()] == [
        (2, "the second", {"source": "y"}),
        (1, "the first", {"source": "x"}),
    ]
    assert tables.manifest().rows == {"bronze": 4, "silver": 0, "gold": 0, "left_out": 0}


def test_leaving_without_commit_leaves_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    before = files(tables.folder)
    with tables.writing("dry run", 5) as writing:
        adopt(writing, "bronze", {"a": "2", "b": "3"})
        adopt(writing, "gold", {"a": "2"})
        writing.new_part("silver").write_bytes(b"half a file")
    with pytest.raises(ZeroDivisionError), tables.writing("fails", 5) as writing:
        adopt(writing, "bronze", {"a": str(1 // 0) if adopt(writing, "gold", {"c": "4"}) else ""})
    with pytest.raises(StoreError, match="has ended"):
        writing.new_part("gold")
    assert files(tables.folder) == before
    assert content(tables, "bronze") == [("a", "1")]


def test_a_commit_without_a_change_writes_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    before = files(tables.folder)
    with tables.writing("again", 5) as writing:
        assert adopt(writing, "bronze", {"a": "1"}) == UpsertCounts(unchanged=1)
        assert writing.remove("bronze", ["nobody"]) == 0
        assert writing.commit({}, "again") == 1
    assert files(tables.folder) == before
    with tables.writing("other lineage", 5) as writing:
        assert writing.commit({"tags": {"b": 1, "a": 2}}, "") == 2
    with tables.writing("equal lineage", 5) as writing:
        assert writing.commit({"tags": {"a": 2, "b": 1}}, "") == 2


def test_the_first_commit_makes_a_version_even_of_nothing(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("empty", 5) as writing:
        assert writing.commit({}, "") == 1
    assert tables.version == 1


def test_one_key_twice_in_a_writing_is_refused(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    with tables.writing("test", 5) as writing:
        path = writing.new_part("bronze")
        write(path, ["x", "y", "x"], ["1", "2", "3"])
        with pytest.raises(DuplicateKeyError, match=r"'x' occurs twice\n  where: table bronze"):
            writing.adopt("bronze", path)
        adopt(writing, "bronze", {"a": "2", "k": "1"})
        with pytest.raises(DuplicateKeyError, match="'a' occurs twice"):
            adopt(writing, "bronze", {"z": "1", "a": "2"})
        assert content(writing, "bronze") == [("a", "2"), ("k", "1")]
        writing.remove("bronze", ["a"])  # what is gone may come again
        assert adopt(writing, "bronze", {"a": "5"}) == UpsertCounts(1)
        writing.commit({}, "")
    assert content(tables, "bronze") == [("k", "1"), ("a", "5")]


def test_rows_leave_and_other_tables_stay(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        for table in TABLES:
            adopt(writing, table, {"a": "1", "b": "2"})
        writing.commit({}, "")
    with tables.writing("test", 5) as writing:
        assert writing.remove("gold", pa.chunked_array([["a"], ["a", "z"]])) == 1
        assert writing.remove("gold", ["a"]) == 0
        assert writing.commit({}, "") == 2
    assert tables.manifest().rows == {"bronze": 2, "silver": 2, "gold": 1, "left_out": 2}
    assert [part.rows for part in tables.live("gold")] == [1]
    assert [part.rows for part in tables.live("bronze")] == [2]


def test_known_compares_and_follows(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1", "b": "2"})
    with tables.writing("test", 5) as writing:
        known = writing.known("bronze")
        assert len(known) == 2
        new, changed = known.compare(["b", "c", "a"], [hash_of("2"), hash_of("3"), hash_of("9")])
        assert (new.tolist(), changed.tolist()) == ([False, True, False], [False, False, True])
        assert known.slice(pa.array(["z", "b"])).to_pylist() == [{KEY: "b", HASH: hash_of("2")}]
        adopt(writing, "bronze", {"c": "3"})
        writing.remove("bronze", ["a"])
        new, changed = known.compare(["a", "c"], [hash_of("1"), hash_of("3")])
        assert (new.tolist(), changed.tolist()) == ([True, False], [False, False])
        assert len(known) == 2
        empty = writing.known("gold")
        new, changed = empty.compare(["a"], [hash_of("1")])
        assert (new.tolist(), changed.tolist()) == ([True], [False])
        assert empty.slice(["a"]).num_rows == 0
        assert empty.compare([], [])[0].shape == (0,)


@pytest.mark.parametrize("column", [KEY, HASH])
def test_rows_without_key_or_hash_are_refused(tmp_path: Path, column: str) -> None:
    tables = RecordTables(tmp_path / "tables")
    rows = {KEY: ["a"], HASH: [hash_of("1")]}
    with tables.writing("test", 5) as writing:
        path = writing.new_part("bronze")
        parquet.write_table(pa.table({n: v for n, v in rows.items() if n != column}), path)
        with pytest.raises(RecordsError, match=f"without the column {column}"):
            writing.adopt("bronze", path)
        path = writing.new_part("bronze")
        parquet.write_table(pa.table({**rows, column: pa.array([None], pa.string())}), path)
        with pytest.raises(RecordsError, match=r"a row has no (key|hash)"):
            writing.adopt("bronze", path)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        path = writing.new_part("bronze")
        path.write_bytes(b"PAR1 and then nothing")
        with pytest.raises(StoreError, match="cannot be read"):
            writing.adopt("bronze", path)
        with pytest.raises(StoreError, match="does not belong to this write"):
            writing.adopt("bronze", tmp_path / "stranger.parquet")
        path = writing.new_part("bronze")
        write(path, [], [])
        assert writing.adopt("bronze", path) == UpsertCounts()
        with pytest.raises(StoreError, match="should have written is missing"):
            writing.adopt("bronze", writing.new_part("bronze"))


def test_old_versions_and_their_files_go(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=2)
    for number in range(5):
        commit(tables, {"a": str(number)})
    assert [m.version for m in tables.history()] == [5, 4]
    assert content(tables, "bronze", version=4) == [("a", "3")]
    with pytest.raises(SnapshotGoneError, match=r"(?s)version 3 .*available versions: 4 to 5"):
        content(tables, "bronze", version=3)
    named = set[str]().union(*(tables.files(m.version) for m in tables.history()))
    kept = {"manifests/00000004.json", "manifests/00000005.json"}
    assert files(tables.folder) == named | kept


def test_a_version_that_goes_while_it_is_read_says_so(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=1)
    with tables.writing("test", 5) as writing:
        adopt(writing, "bronze", {"a": "1"})
        adopt(writing, "bronze", {"b": "1"})
        writing.commit({}, "")
    reading = tables.read("bronze")
    next(reading)
    commit(tables, {"a": "2", "b": "2"})
    with pytest.raises(SnapshotGoneError, match=r"(?s)version 1 .*available versions: 2 to 2"):
        next(reading)
    (part,) = tables.live("bronze")
    part.path.unlink()
    with pytest.raises(StoreError, match="a file of version 2 is missing"):
        list(tables.read("bronze"))


def test_what_strangers_put_there_stays(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=1)
    commit(tables, {"a": "1"})
    for name in ("gold/mine.parquet", "manifests/notes.txt", "silver/README"):
        (tables.folder / name).write_text("mine")
    (tables.folder / f"gold/.00000009-00001-00000009-0123abcd.parquet.{32 * 'a'}.part").write_text(
        "half"
    )
    commit(tables, {"a": "2"})
    strangers = {"gold/mine.parquet", "manifests/notes.txt", "silver/README"}
    kept = {"manifests/00000002.json"} | tables.files(tables.version)
    assert files(tables.folder) == strangers | kept


@pytest.mark.slow
def test_writers_take_turns(tmp_path: Path) -> None:
    def write_five(name: str) -> None:
        tables = RecordTables(tmp_path / "tables")
        for number in range(5):
            with tables.writing(name, 60) as writing:
                held = len(writing.known("bronze"))
                adopt(writing, "bronze", {f"{name}{number}": str(held), "last": f"{name}{number}"})
                writing.commit({}, "")

    threads = [threading.Thread(target=write_five, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tables = RecordTables(tmp_path / "tables")
    assert tables.version == 10
    held = [text for key, text in content(tables, "bronze") if key != "last"]
    assert held == ["0", *map(str, range(2, 11))]  # each saw what the one before it had written


def test_a_file_damaged_later_is_named(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {f"k{n}": str(n) for n in range(1000)})
    (part,) = tables.live("bronze")
    whole = part.path.read_bytes()
    part.path.write_bytes(whole[:200] + bytes(200) + whole[400:])
    with pytest.raises(StoreError, match=r"cannot be read(?s:.*)restore it from a backup"):
        list(tables.read("bronze"))
    with pytest.raises(StoreError, match="cannot be read"), tables.writing("x", 5) as writing:
        writing.known("bronze")


def test_a_manifest_put_back_by_hand_is_read_anew(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    commit(tables, {"a": "2"})
    assert tables.rows("bronze") == 1
    (tables.folder / "manifests/00000002.json").unlink()
    commit(RecordTables(tables.folder), {"b": "2"})
    assert tables.rows("bronze", 2) == 2


def test_new_columns_and_other_types_read_as_one_table(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    columns: list[dict[str, Any]] = [
        {"zip": [7], "sum": [1], "none": [None], "on": [1.5], "tags": [["a"]], "both": [b"x"]},
        {"zip": ["07"], "sum": [1.5], "none": [3], "new": ["n"], "on": [True], "tags": ["b, c"]},
    ]
    with tables.writing("test", 5) as writing:
        for key, more in zip("ab", columns, strict=True):
            path = writing.new_part("bronze")
            write(path, [key], [key], **more)
            writing.adopt("bronze", path)
        writing.commit({}, "")
    state = tables.manifest().tables["bronze"]
    assert state.schema["sum"] == "double"
    assert {state.schema[name] for name in ("zip", "on", "tags")} == {"string"}
    batches = list(tables.read("bronze"))
    assert batches[0].schema == batches[1].schema
    (first,), (second,) = (batch.to_pylist() for batch in batches)
    names = ("zip", "sum", "none", "on", "tags", "both", "new")
    assert [first[name] for name in names] == ["7", 1.0, None, "1.5", '["a"]', b"x", None]
    assert [second[name] for name in names] == ["07", 1.5, 3, "true", "b, c", None, "n"]
    found = [row for batch in tables.read("bronze", ["new"]) for row in batch.to_pylist()]
    assert found == [{"new": None}, {"new": "n"}]
    with pytest.raises(RecordsError, match=r"(?s)no column 'zap'.*did you mean 'zip'"):
        list(tables.read("bronze", ["zap"]))


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), None),
        (pa.uint64(), pa.int64(), pa.decimal128(20, 0)),
        (pa.binary(), pa.string(), None),
        (pa.null(), pa.binary(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), pa.string()),
        (pa.list_(pa.string()), pa.list_(pa.int64()), None),
        (pa.int32(), pa.int64(), pa.int64()),
    ],
)
def test_types_that_join(tmp_path: Path, one: Any, other: Any, joined: Any) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        for key, kind in (("a", one), ("b", other)):
            path = writing.new_part("gold")
            write(path, [key], [key], value=pa.nulls(1, kind))
            writing.adopt("gold", path)
        writing.commit({}, "")
    state = tables.manifest().tables["gold"]
    assert state.schema["value"] == str(joined or pa.string())
    assert [batch.num_rows for batch in tables.read("gold")] == [1, 1]


def test_a_file_with_a_dead_row_is_written_anew_in_its_place(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    rows: dict[str, object] = {f"k{n}": "1" for n in range(10)}
    with tables.writing("test", 5) as writing:
        adopt(writing, "bronze", rows)
        adopt(writing, "bronze", {f"l{n}": "1" for n in range(5000)})
        writing.commit({}, "")
    first, second = tables.live("bronze")
    commit(tables, {"new": "1"}, gone=("k5",))
    changed, same, new = tables.live("bronze")
    assert (changed.rows, same, new.rows) == (9, second, 1)
    assert changed.path != first.path
    assert [key for key, _ in content(tables, "bronze")][4:7] == ["k4", "k6", "k7"]
    assert [key for key, _ in content(tables, "bronze")][-1] == "new"
    assert content(tables, "bronze", version=1)[:10] == list(rows.items())


def test_rows_die_one_after_the_other(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    keys = [f"{letter}{n}" for letter in "kl" for n in range(20)]
    with tables.writing("test", 5) as writing:
        adopt(writing, "bronze", dict.fromkeys(keys[:20], "1"))
        adopt(writing, "bronze", dict.fromkeys(keys[20:], "1"))
        writing.commit({}, "")
    for gone in ("k3", "l0", "k2", "k19"):
        commit(tables, {}, gone=(gone,))
        keys.remove(gone)
        assert [key for key, _ in content(tables, "bronze")] == keys
    assert [part.rows for part in tables.live("bronze")] == [17, 19]
    assert len(content(tables, "bronze", version=3)) == 38


@pytest.mark.slow
def test_many_small_files_become_one_and_order_stays(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=3)
    for number in range(40):
        commit(tables, {f"k{number:02d}": "1", f"m{number:02d}": "1"})
        assert len(tables.live("bronze")) < 8
    keys = [f"{letter}{n:02d}" for n in range(40) for letter in "km"]
    assert [key for key, _ in content(tables, "bronze")] == keys


def test_another_schema_is_another_name_of_every_file(tmp_path: Path) -> None:
    """Delta takes a file out and in again in one commit only under another name."""
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1"})
    commit(tables, {"b": "1"})
    for keys, more in ((["c"], {"n": [1]}), (["d"], {"n": ["one"]})):
        with tables.writing("test", 5) as writing:
            path = writing.new_part("bronze")
            write(path, keys, ["1"], **more)
            writing.adopt("bronze", path)
            writing.commit({}, "")
    assert not tables.files(2) & tables.files(3)
    rows = [row for batch in tables.read("bronze", [KEY, "n"]) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in rows] == [
        ("a", None),
        ("b", None),
        ("c", "1"),
        ("d", "one"),
    ]
    commit(tables, {"e": "1"})
    assert [key for key, _ in content(tables, "bronze")] == ["a", "b", "c", "d", "e"]


def test_other_engines_read_the_tables_where_they_are(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        adopt(writing, "gold", {f"k{n}": "1" for n in range(5)})
        adopt(writing, "gold", {"l": "1"})
        writing.commit({}, "")
    with tables.writing("test", 5) as writing:
        adopt(writing, "gold", {"k1": "2", "l": "2"})
        writing.commit({}, "")
    for version in (1, 2):
        named = json.loads((tables.folder / f"manifests/{version:08d}.json").read_text("utf-8"))
        for table in TABLES:
            delta = deltalake.DeltaTable(
                str(tables.folder / table), version=named["tables"][table]["delta"]
            )
            frame = delta.to_pandas()
            assert len(frame) == tables.rows(table, version)
            if table == "gold":
                assert dict(zip(frame[KEY], frame["text"], strict=True)) == dict(
                    content(tables, "gold", version=version)
                )
    assert deltalake.DeltaTable(str(tables.folder / "gold")).to_pandas().shape[0] == 6
    import polars

    frame = polars.read_delta(str(tables.folder / "gold"))
    assert dict(zip(frame[KEY], frame["text"], strict=True)) == dict(content(tables, "gold"))


def test_a_table_that_another_program_changed_is_refused(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1", "b": "1"})
    deltalake.DeltaTable(str(tables.folder / "bronze")).delete(f"{KEY} = 'a'")
    assert content(tables, "bronze") == [("a", "1"), ("b", "1")]
    with pytest.raises(RecordsError, match=r"changed by another program(?s:.*)_delta_log"):
        commit(tables, {"c": "1"})
    (tables.folder / "bronze/_delta_log" / f"{1:020d}.json").unlink()  # what the hint says
    commit(tables, {"c": "1"})
    assert content(tables, "bronze") == [("a", "1"), ("b", "1"), ("c", "1")]


def test_only_the_owner_reads(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {f"k{n}": "1" for n in range(9)})
    commit(tables, {"k1": "2"})
    for path in (tables.folder, *tables.folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_newer_layout_is_refused_and_touched_by_nobody(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables", keep=1)
    commit(tables, {"a": "1"})
    newest = tables.folder / "manifests/00000001.json"
    found = json.loads(newest.read_text("utf-8"))
    newer = tables.folder / "manifests/00000002.json"
    newer.write_text(json.dumps({**found, "schema_version": 3, "tables": "another shape"}))
    before = files(tables.folder)
    with pytest.raises(SchemaVersionError, match="schema version 3; this ragwright reads 2"):
        tables.manifest()
    with pytest.raises(SchemaVersionError), tables.writing("test", 5):
        pass
    assert files(tables.folder) == before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"schema_version": 2}'])
def test_a_damaged_manifest_is_named_and_nothing_is_swept(tmp_path: Path, damage: str) -> None:
    tables = RecordTables(tmp_path / "tables")
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


class FullDisk:
    """A disk on which the given call finds no space."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, handle: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("at", range(9))
def test_a_full_disk_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Waits for the disk: a file, its folder, the log twice, the manifest; then it is committed."""
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "1", "b": "1", "c": "1"})
    before = files(tables.folder)
    monkeypatch.setattr(os, "fsync", FullDisk(at))
    failed = contextlib.nullcontext() if at > 4 else pytest.raises(StoreFullError, match="intact")
    with failed:
        commit(tables, {"a": "2"})
    monkeypatch.undo()
    if at > 4:
        assert content(tables, "bronze") == [("b", "1"), ("c", "1"), ("a", "2")]
    else:
        assert content(tables, "bronze") == [("a", "1"), ("b", "1"), ("c", "1")]
        frame = deltalake.DeltaTable(str(tables.folder / "bronze")).to_pyarrow_table()
        assert len(frame) == 3  # also where the full disk came after its commit
        with tables.writing("next", 5):
            pass
        assert files(tables.folder) == before
        frame = deltalake.DeltaTable(str(tables.folder / "bronze")).to_pyarrow_table()
        assert "2" not in frame.column("text").to_pylist()


SMALL_DISK = """
import resource, sys
from pathlib import Path
from table_rows import adopt
from ragwright.core import StoreFullError
from ragwright.records.tables import write_part
from ragwright.records.tables import RecordTables
import numpy, pyarrow

tables = RecordTables(Path(sys.argv[1]))
with tables.writing("first", 0) as writing:
    adopt(writing, "bronze", {"a": "1"})
    writing.commit({}, "")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
noise = pyarrow.table({"text": numpy.random.default_rng(0).random(100_000)})
try:
    with tables.writing("second", 0) as writing:
        write_part(noise, writing.new_part("bronze"))
except StoreFullError as error:
    print(error.what)
"""


@pytest.mark.slow
def test_a_full_disk_is_said_whoever_writes(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    command = [sys.executable, "-c", SMALL_DISK, str(tmp_path / "tables")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    assert done.stdout == "the disk is full; everything committed before is intact\n", done.stderr
    assert content(RecordTables(tmp_path / "tables"), "bronze") == [("a", "1")]


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "tables"):
        with (
            pytest.raises(StoreError, match="cannot be written"),
            RecordTables(path).writing("x", 5),
        ):
            pass


def test_an_error_of_the_source_stays_what_it_is(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with pytest.raises(PermissionError), tables.writing("x", 5):
        raise PermissionError(13, "Permission denied", "/elsewhere/source.csv")


def test_forget_leaves_no_byte_in_any_version_or_log(tmp_path: Path) -> None:
    secret, key = "a secret that nobody may read", "key-of-a-person"
    tables = RecordTables(tmp_path / "tables")
    rows: dict[str, object] = {f"k{n}": str(n) for n in range(50)}
    for text in (secret, "something else"):  # the secret itself is in an older version alone
        with tables.writing("test", 5) as writing:
            for table in TABLES:
                adopt(writing, table, {**rows, key: text})
            writing.commit({}, "")
    commit(tables, {"k1": "changed"})
    held = [path for path in tables.folder.rglob("*.parquet") if holds(path, secret)]
    assert len(held) == 4
    assert tables.forget([key]) == 8
    for path in tables.folder.rglob("*"):
        assert not path.is_file() or not (holds(path, secret) or holds(path, key)), path
    assert [m.version for m in tables.history()] == [4]
    for table in TABLES:
        assert {key for key, _ in content(tables, table)} == rows.keys()
        delta = deltalake.DeltaTable(str(tables.folder / table))
        assert len(delta.to_pyarrow_table()) == 50
        with pytest.raises(Exception, match=r"(?i)not found|no such file"):
            deltalake.DeltaTable(str(tables.folder / table), version=0).to_pyarrow_table()
    assert tables.forget([key]) == 0
    assert tables.version == 4


def test_forget_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = RecordTables(tmp_path / "tables")
    commit(tables, {"a": "secret", "b": "1"})
    commit(tables, {"c": "1"})

    def killed(path: Path, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            tables.forget(["a"])
    assert [path for path in tables.folder.rglob("*.parquet") if holds(path, "secret")]
    assert tables.forget(["a"]) == 1
    assert not [path for path in tables.folder.rglob("*.parquet") if holds(path, "secret")]
    assert content(tables, "bronze") == [("b", "1"), ("c", "1")]


# -- against a slow model -------------------------------------------------------------------

Step = tuple[str, Any]

KEYS = st.sampled_from([f"k{n}" for n in range(16)])
CHANGES = st.one_of(
    st.tuples(st.just("adopt"), st.dictionaries(KEYS, st.sampled_from("xy"), max_size=14)),
    st.tuples(st.just("remove"), st.lists(KEYS, min_size=1, max_size=3)),
)
WRITINGS = st.tuples(
    st.lists(CHANGES, min_size=1, max_size=4), st.sampled_from(["commit"] * 5 + ["leave"])
)
TURNS = st.lists(
    WRITINGS,
    min_size=3,
    max_size=10,
)


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Compaction at sizes that a test reaches."""
    sizes = {"TARGET_ROWS": 6, "_SMALL_ROWS": 3, "_MANY": 3}
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(_writing, name, size)
        yield


class Model:
    """What tables are, in dictionaries."""

    def __init__(self) -> None:
        self.versions: list[dict[str, str]] = [{}]
        self.now: dict[str, str] = {}
        self.fresh: set[str] = set()

    def adopt(self, rows: dict[str, str]) -> UpsertCounts | None:
        """None where a key of this writing comes again."""
        if self.fresh & rows.keys():
            return None
        held = {key for key in rows if key in self.now}
        same = {key for key in held if self.now[key] == rows[key]}
        for key in rows.keys() - same:
            self.now.pop(key, None)
        self.now |= {key: text for key, text in rows.items() if key not in same}
        self.fresh |= rows.keys() - same
        return UpsertCounts(len(rows) - len(held), len(held) - len(same), len(same))

    def remove(self, keys: list[str]) -> int:
        """How many rows there were."""
        found = [key for key in dict.fromkeys(keys) if self.now.pop(key, None) is not None]
        self.fresh -= set(found)
        return len(found)

    def reset(self) -> None:
        """A new writing."""
        self.now, self.fresh = dict(self.versions[-1]), set()


def play(tables: RecordTables, model: Model, changes: list[Step], end: str) -> None:
    """One writing, checked after each change."""
    with tables.writing("play", 5) as writing:
        model.reset()
        for kind, given in changes:
            if kind == "remove":
                assert writing.remove("gold", given) == model.remove(given)
            elif (expected := model.adopt(given)) is None:
                with pytest.raises(DuplicateKeyError):
                    adopt(writing, "gold", given)
            else:
                assert adopt(writing, "gold", given) == expected
            check(writing, model.now)
        if end == "leave":
            return
        version = writing.commit({}, "")
        if version == len(model.versions):
            model.versions.append(dict(model.now))
        assert version == len(model.versions) - 1
        assert model.now == model.versions[-1]


def check(tables: Any, expected: dict[str, str], **how: Any) -> None:
    found = content(tables, "gold", **how)
    assert dict(found) == expected
    assert len(found) == len(expected)
    assert list(dict(found)) == list(expected)  # rows in the order in which they came


@pytest.mark.slow
@settings(max_examples=35, deadline=None)
@given(TURNS)
def test_tables_are_what_the_model_says(turns: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, small_files():
        model = Model()
        tables = RecordTables(Path(folder) / "tables", keep=4)
        for changes, end in turns:
            play(tables, model, changes, end)
            newest = len(model.versions) - 1
            for version in range(max(1, newest - 3), newest + 1):
                check(RecordTables(tables.folder), model.versions[version], version=version)
                assert tables.rows("gold", version) == len(model.versions[version])
            named = set[str]().union(*(tables.files(m.version) for m in tables.history()))
            assert {f for f in files(tables.folder) if not f.startswith("manifests")} == named


def test_masks_are_of_the_moment(tmp_path: Path) -> None:
    tables = RecordTables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        adopt(writing, "gold", {"a": "1", "b": "1"})
        writing.remove("gold", ["a"])
        (before,) = writing.live("gold")
        reading = writing.read("gold", [KEY])
        writing.remove("gold", ["b"])
        assert before.live is not None
        assert np.flatnonzero(before.live).tolist() == [1]
        assert [batch.num_rows for batch in reading] == [1]
        assert writing.live("gold") == ()
