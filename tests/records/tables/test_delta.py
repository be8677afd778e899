"""Tables of records as Delta tables that other engines read."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from table_rows import adopt, files, holds, write

from ragwright.core import RecordsError, StoreBusyError, StoreError
from ragwright.ledger import FileLock
from ragwright.records import (
    KEY,
    TableName,
    Tables,
    export_delta,
    forget_exported,
    lost_exports,
)

TABLES: tuple[TableName, ...] = ("bronze", "silver", "gold", "left_out")
ROWS = 200


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Four parts of 50 rows in bronze, silver and gold."""
    made = Tables(tmp_path / "tables")
    with made.writing("test", 5) as writing:
        for table in ("bronze", "silver", "gold"):
            for start in range(0, ROWS, 50):
                adopt(writing, table, {f"k{n}": f"text {n}" for n in range(start, start + 50)})
        adopt(writing, "left_out", {"gone": "too long"})
        writing.commit({}, "")
    return made


def change(tables: Tables, rows: Mapping[str, object], remove: tuple[str, ...] = ()) -> None:
    with tables.writing("test", 5) as writing:
        for table in ("bronze", "silver", "gold"):
            if rows:
                adopt(writing, table, rows)
            writing.remove(table, remove)
        writing.commit({}, "")


def by_engines(folder: Path) -> dict[str, str]:
    """Key -> text of a Delta table, which every engine here reads as equal."""
    frame = deltalake.DeltaTable(folder).to_pandas()
    found = dict(zip(frame[KEY], frame["text"], strict=True))
    import polars

    other = polars.read_delta(str(folder))
    assert dict(zip(other[KEY], other["text"], strict=True)) == found
    import duckdb

    rows = deltalake.DeltaTable(folder).to_pyarrow_dataset()
    with duckdb.connect() as base:
        base.register("t", rows)
        assert dict(base.execute(f"select {KEY}, text from t").fetchall()) == found
    return found


def ours(tables: Tables, table: TableName) -> dict[str, str]:
    return {
        row[KEY]: row["text"]
        for batch in tables.read(table, [KEY, "text"])
        for row in batch.to_pylist()
    }


@pytest.mark.slow
def test_other_engines_read_the_rows_of_every_table(tables: Tables, tmp_path: Path) -> None:
    made = export_delta(tables, tmp_path / "delta")
    assert {table: one.rows for table, one in made.items()} == {
        **dict.fromkeys(TABLES, ROWS),
        "left_out": 1,
    }
    for table in TABLES:
        assert by_engines(tmp_path / "delta" / table) == ours(tables, table)


def test_what_is_unchanged_is_not_written(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    first = export_delta(tables, folder)
    before = {name: (folder / name).stat().st_mtime_ns for name in files(folder)}
    again = export_delta(tables, folder)
    assert {name: (folder / name).stat().st_mtime_ns for name in files(folder)} == before
    assert {t: one.version for t, one in again.items()} == {
        t: one.version for t, one in first.items()
    }
    assert all(one.written == one.removed == 0 for one in again.values())


@pytest.mark.slow
def test_changed_rows_cost_the_files_that_held_them(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    export_delta(tables, folder)
    change(tables, {"k198": "changed", "k199": "changed", "k200": "new"}, remove=("k197",))
    made = export_delta(tables, folder)
    assert (made["gold"].written, made["gold"].removed) == (2, 1)  # of 4: the last, and the new
    assert (made["left_out"].written, made["left_out"].version) == (0, 0)
    assert made["gold"].rows == ROWS
    for table in TABLES:
        assert by_engines(folder / table) == ours(tables, table)
    assert len(deltalake.DeltaTable(folder / "gold", version=0).to_pandas()) == ROWS
    noted = json.loads((folder / "versions.json").read_text())["exports"]
    assert [one["tables"]["gold"] for one in noted] == [0, 1]
    assert [one["version"] for one in noted] == [1, 2]


@pytest.mark.slow
def test_an_earlier_version_can_be_exported_and_gone_back_from(
    tables: Tables, tmp_path: Path
) -> None:
    folder = tmp_path / "delta"
    export_delta(tables, folder)
    change(tables, {"k0": "changed"})
    export_delta(tables, folder)
    assert export_delta(tables, folder, version=1)["gold"].rows == ROWS
    assert by_engines(folder / "gold")["k0"] == "text 0"
    export_delta(tables, folder)
    assert by_engines(folder / "gold")["k0"] == "changed"


@pytest.mark.slow
def test_a_restored_table_with_other_dead_rows_is_exported_as_it_is(
    tables: Tables, tmp_path: Path
) -> None:
    folder = tmp_path / "delta"
    change(tables, {}, remove=("k1",))
    export_delta(tables, folder)
    tables.restore(1)
    change(tables, {}, remove=("k2",))  # as many dead rows of the same file, but others
    export_delta(tables, folder)
    assert by_engines(folder / "gold") == ours(tables, "gold")
    assert "k1" in by_engines(folder / "gold")


@pytest.mark.slow
def test_columns_that_come_and_types_that_differ(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    export_delta(tables, folder)
    for keys, column in ((["x"], {"n": [3]}), (["y"], {"n": ["three"]})):
        with tables.writing("test", 5) as writing:
            path = writing.new_part("bronze")
            write(path, keys, ["t"], **column)
            writing.adopt("bronze", path)
            writing.commit({}, "")
        export_delta(tables, folder)
    found = deltalake.DeltaTable(folder / "bronze").to_pandas().set_index(KEY)["n"].dropna()
    assert found.to_dict() == {"x": "3", "y": "three"}
    assert by_engines(folder / "bronze") == ours(tables, "bronze")
    assert export_delta(tables, folder)["bronze"].written == 0


def test_types_that_delta_lacks(tmp_path: Path) -> None:
    when = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    columns: dict[str, Any] = {
        "u8": pa.array([255], pa.uint8()),
        "u64": pa.array([2**64 - 1], pa.uint64()),
        "f16": pa.array([0.5], pa.float16()),
        "span": pa.array([timedelta(days=1, seconds=2)], pa.duration("us")),
        "clock": pa.array([3600], pa.time32("s")),
        "at": pa.array([when], pa.timestamp("ns", "Europe/Paris")),
        "local": pa.array([when.replace(tzinfo=None)], pa.timestamp("s")),
        "word": pa.array(["a"]).dictionary_encode(),
        "words": pa.array([["a", None]], pa.large_list(pa.large_string())),
        "blob": pa.array([b"\xff\x00"], pa.large_binary()),
        "pair": pa.array([{"n": 1, "s": "x"}], pa.struct([("n", pa.uint32()), ("s", pa.string())])),
        "nothing": pa.nulls(1),
        "a name, with signs": [1],
    }
    tables = Tables(tmp_path / "tables")
    with tables.writing("test", 5) as writing:
        path = writing.new_part("bronze")
        write(path, ["a"], ["t"], **columns)
        writing.adopt("bronze", path)
        writing.commit({}, "")
    export_delta(tables, tmp_path / "delta")
    [row] = deltalake.DeltaTable(tmp_path / "delta" / "bronze").to_pyarrow_table().to_pylist()
    assert row == {
        KEY: "a",
        "record_hash": row["record_hash"],
        "text": "t",
        "u8": 255,
        "u64": 2**64 - 1,
        "f16": 0.5,
        "span": "P1DT0H0M2S",
        "clock": "01:00:00.000",
        "at": when,
        "local": when.replace(tzinfo=None),
        "word": "a",
        "words": ["a", None],
        "blob": b"\xff\x00",
        "pair": {"n": 1, "s": "x"},
        "a name, with signs": 1,
    }
    import polars

    assert polars.read_delta(str(tmp_path / "delta" / "bronze"))["u8"].to_list() == [255]
    assert export_delta(tables, tmp_path / "delta")["bronze"].written == 0


def test_tables_without_rows(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "tables")
    assert export_delta(tables, tmp_path / "delta")["gold"].rows == 0
    assert len(deltalake.DeltaTable(tmp_path / "delta" / "gold").to_pandas()) == 0
    with tables.writing("test", 5) as writing:
        adopt(writing, "gold", {"a": "t"})
        writing.commit({}, "")
    export_delta(tables, tmp_path / "delta")
    assert by_engines(tmp_path / "delta" / "gold") == {"a": "t"}


def test_a_folder_of_somebody_else_is_left_alone(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    with pytest.raises(RecordsError, match="other files"):
        export_delta(tables, folder)
    assert files(folder) == set()
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    with pytest.raises(RecordsError, match="this is a file"):
        export_delta(tables, folder / "README.md")
    with pytest.raises(RecordsError, match="folders of this machine"):
        export_delta(tables, Path("s3://bucket/tables"))
    export_delta(tables, tmp_path / "delta")
    with pytest.raises(RecordsError, match="another project"):
        export_delta(Tables(tmp_path / "other"), tmp_path / "delta")
    assert by_engines(tmp_path / "delta" / "gold") == ours(tables, "gold")


@pytest.mark.slow
def test_tables_that_others_changed_are_refused(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    export_delta(tables, folder)
    gold = deltalake.DeltaTable(folder / "gold")
    gold.delete(f"{KEY} = 'k3'")
    with pytest.raises(RecordsError, match="changed by another program"):
        export_delta(tables, folder)
    assert len(deltalake.DeltaTable(folder / "gold").to_pandas()) == ROWS - 1
    (folder / "bronze" / "_delta_log" / "00000000000000000000.json").write_text("{half")
    with pytest.raises(StoreError, match="cannot be read"):
        export_delta(tables, folder)


def test_a_deltatable_of_another_hand_in_the_folder_is_refused(
    tables: Tables, tmp_path: Path
) -> None:
    folder = tmp_path / "delta"
    export_delta(Tables(tmp_path / "empty"), tmp_path / "sample")
    export_delta(tables, folder)
    (folder / "gold").rename(tmp_path / "aside")
    (tmp_path / "sample" / "gold").rename(folder / "gold")
    with pytest.raises(RecordsError, match="not written by this export"):
        export_delta(tables, folder)


@pytest.mark.slow
def test_an_export_that_was_killed_is_completed(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "delta"
    export_delta(tables, folder)
    change(tables, {"k0": "changed"})
    copy = shutil.copyfileobj
    count = 0

    def broken(file: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        copy(file, target)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", broken)
        with pytest.raises(KeyboardInterrupt):
            export_delta(tables, folder)
    assert by_engines(folder / "gold")["k0"] == "text 0"
    assert len(json.loads((folder / "versions.json").read_text())["exports"]) == 1
    export_delta(tables, folder)
    for table in TABLES:
        assert by_engines(folder / table) == ours(tables, table)


def test_a_file_that_went_missing_is_written_again(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    export_delta(tables, folder)
    next((folder / "gold").glob("*.parquet")).unlink()
    made = export_delta(tables, folder)
    assert (made["gold"].written, made["gold"].version) == (1, 0)
    assert by_engines(folder / "gold") == ours(tables, "gold")


@pytest.mark.slow
def test_two_exports_at_once(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    export_delta(tables, folder)
    with FileLock(folder / "lock", "another"), pytest.raises(StoreBusyError, match="another"):
        export_delta(tables, folder, wait=0.05)
    change(tables, {"k0": "changed"})
    context = multiprocessing.get_context("spawn")
    both = [
        context.Process(target=export_delta, args=(Tables(tables.folder), folder)) for _ in range(2)
    ]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert [one.exitcode for one in both] == [0, 0]
    assert deltalake.DeltaTable(folder / "gold").version() == 1
    assert by_engines(folder / "gold") == ours(tables, "gold")


@pytest.mark.slow
def test_forget_reaches_old_versions_and_the_log(tables: Tables, tmp_path: Path) -> None:
    folder = tmp_path / "delta"
    secret = "a secret that nobody may read"
    change(tables, {"k7": secret})
    export_delta(tables, folder)
    change(tables, {"k7": "text 7"})
    export_delta(tables, folder)  # the secret is in an older version alone
    (folder / "gold" / "half.parquet.tmp").write_bytes(secret.encode())
    assert tables.forget(["k7"]) > 0
    assert forget_exported(tables, ["k7"]) >= 6
    holding = [
        path
        for path in (*folder.rglob("*"), *tables.folder.rglob("*"))
        if path.is_file() and (holds(path, secret) or holds(path, "'k7'"))
    ]
    assert holding == []
    assert by_engines(folder / "gold") == ours(tables, "gold")
    assert "k7" not in by_engines(folder / "gold")
    with pytest.raises(Exception, match=r"(?i)not found|no such file"):
        deltalake.DeltaTable(folder / "gold", version=0).to_pandas()
    assert len(json.loads((folder / "versions.json").read_text())["exports"]) == 1
    assert forget_exported(tables, ["k7"]) == 0
    assert export_delta(tables, folder)["gold"].written == 0


@pytest.mark.slow
def test_forget_says_which_exports_are_gone(tables: Tables, tmp_path: Path) -> None:
    export_delta(tables, tmp_path / "one")
    export_delta(tables, tmp_path / "two")
    (tmp_path / "one").rename(tmp_path / "moved")
    assert lost_exports(tables) == (tmp_path / "one",)
    tables.forget(["k1"])
    assert forget_exported(tables, ["k1"]) == 3
    assert "k1" not in by_engines(tmp_path / "two" / "gold")
    export_delta(tables, tmp_path / "moved")  # now it is known where it went
    assert lost_exports(tables) == ()
    tables.forget(["k2"])
    assert forget_exported(tables, ["k2"]) == 6
