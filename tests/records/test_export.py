"""Tables as files for others."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from table_rows import content, table_of, upsert

from ragwright.core import RecordsError, SnapshotGoneError, StoreError, csv_text
from ragwright.records import KEY, RecordTables, export_chats, export_table


@pytest.fixture
def tables(tmp_path: Path) -> RecordTables:
    """Three rows in two parts that differ in their columns; one row is dead."""
    made = RecordTables(tmp_path / "tables")
    when = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    columns: list[dict[str, Any]] = [
        {"topic": [["health", 'a, "b"'], [], None], "sent": [when, None, when], "n": [1, 2, 3]},
        {"n": [math.nan], "blob": [b"\xc3\xa9"]},
    ]
    with made.writing("test", 5) as writing:
        for keys, more in zip((["a", "b", "c"], ["d"]), columns, strict=True):
            texts = [f'text of {key},\n"é" 🙂' for key in keys]
            writing.upsert("gold", table_of(keys, texts, **more))
        writing.remove("gold", ["c"])
        writing.commit({}, "")
    return made


def test_parquet_holds_the_rows_alive(tables: RecordTables, tmp_path: Path) -> None:
    path = tmp_path / "gold.parquet"
    assert export_table(tables, "gold", path) == 3
    found = parquet.read_table(path)
    assert found.column(KEY).to_pylist() == ["a", "b", "d"]
    assert found.column("topic").to_pylist() == [["health", 'a, "b"'], [], None]
    assert str(found.schema.field("sent").type) == "timestamp[us, tz=UTC]"


def test_csv_holds_lists_as_json(tables: RecordTables, tmp_path: Path) -> None:
    path = tmp_path / "gold.CSV"
    assert export_table(tables, "gold", path, [KEY, "text", "topic", "sent", "n", "blob"]) == 3
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row[KEY] for row in rows] == ["a", "b", "d"]
    assert [row["text"] for row in rows] == [text for _, text in content(tables, "gold")]
    assert json.loads(rows[0]["topic"]) == ["health", 'a, "b"']
    assert [row["topic"] for row in rows[1:]] == ["[]", ""]
    assert rows[0]["sent"].startswith("2026-11-21 09:30")
    assert rows[2]["blob"] == "c3a9"


def test_csv_runs_nothing_in_a_spreadsheet_and_reads_back(tmp_path: Path) -> None:
    made, texts = (
        RecordTables(tmp_path / "tables"),
        ["=cmd|' /C calc'!A0", "'=1", "-5", "- item", ""],
    )
    with made.writing("test", 5) as writing:
        writing.upsert("bronze", table_of(list("abcde"), texts, **{"=n": [-1, 2, 3, 4, 5]}))
        writing.commit({}, "")
    assert export_table(made, "bronze", tmp_path / "b.csv") == 5
    with (tmp_path / "b.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    assert [row["text"] for row in cells] == ["'=cmd|' /C calc'!A0", "''=1", "-5", "'- item", ""]
    assert [row["'=n"] for row in cells][:2] == ["-1", "2"]
    assert [csv_text(row["text"]) for row in cells] == texts


def test_json_lines_hold_what_json_can(tables: RecordTables, tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    assert export_table(tables, "gold", path) == 3
    first, second, third = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    assert first["topic"] == ["health", 'a, "b"']
    assert first["sent"] == "2026-11-21T09:30:00Z"
    assert (first["n"], second["n"], third["n"]) == (1.0, 2.0, None)
    assert (first["blob"], third["blob"]) == (None, "c3a9")
    assert first["text"] == 'text of a,\n"é" 🙂'


def test_bytes_and_durations_are_readable_and_alike_in_all_files_of_texts(tmp_path: Path) -> None:
    made = RecordTables(tmp_path / "tables")
    micro = timedelta(microseconds=1)
    lasts = [timedelta(days=1), -timedelta(hours=1, seconds=2) - micro, None]
    columns = {
        "blob": pa.array([b"\xff\x00", b"", None], pa.binary()),
        "fixed": pa.array([b"\x00\x01", b"ab", None], pa.binary(2)),
        "lasts": pa.array(lasts, pa.duration("us")),
        "fine": pa.array([1, 10**9, None], pa.duration("ns")),
        "each": pa.array([[b"\xff"], [], None], pa.list_(pa.binary())),
        "spans": pa.array([[timedelta(seconds=1)], [], None], pa.list_(pa.duration("us"))),
    }
    with made.writing("test", 5) as writing:
        writing.upsert("bronze", table_of(["a", "b", "c"], ["x", "y", "z"], **columns))
        writing.commit({}, "")
    assert export_table(made, "bronze", tmp_path / "b.csv") == 3
    assert export_table(made, "bronze", tmp_path / "b.jsonl") == 3
    assert b"\x00" not in (tmp_path / "b.csv").read_bytes()
    with (tmp_path / "b.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text("utf-8").splitlines()]
    for name in ("blob", "fixed", "lasts", "fine"):
        # a text that begins like a formula is marked as one in CSV
        assert [row[name].lstrip("'") for row in rows] == [line[name] or "" for line in lines]
    assert [line["blob"] for line in lines] == ["ff00", "", None]
    assert [line["fixed"] for line in lines] == ["0001", "6162", None]
    assert [line["lasts"] for line in lines] == ["P1D", "-PT1H2.000001S", None]
    assert [line["fine"] for line in lines] == ["PT0S", "PT1S", None]
    assert [line["each"] for line in lines] == [["ff"], [], None]
    assert json.loads(rows[0]["spans"]) == json.loads(lines[0]["spans"]) == ["PT1S"]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_an_empty_table_is_an_empty_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"gold.{suffix}"
    assert export_table(RecordTables(tmp_path / "tables"), "gold", path) == 0
    assert path.exists()
    if suffix == "parquet":
        assert parquet.read_table(path).num_rows == 0
    else:
        assert path.read_text() == ""


def test_old_versions_are_written_too(tables: RecordTables, tmp_path: Path) -> None:
    with tables.writing("test", 5) as writing:
        upsert(writing, "gold", {"new": "row"})
        writing.commit({}, "")
    assert export_table(tables, "gold", tmp_path / "a.jsonl", [KEY]) == 4
    assert export_table(tables, "gold", tmp_path / "a.jsonl", [KEY], version=1) == 3
    with pytest.raises(SnapshotGoneError):
        export_table(tables, "gold", tmp_path / "a.jsonl", version=7)
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == [{KEY: key} for key in "abd"]


def test_what_cannot_be_written_leaves_what_was_there(tables: RecordTables, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("as it was")
    with pytest.raises(RecordsError, match=r"(?s)no column 'topics'.*did you mean 'topic'"):
        export_table(tables, "gold", path, ["topics"])
    with pytest.raises(RecordsError, match=r"(?s)the suffix '\.xlsx'.*\.parquet, \.csv, \.jsonl"):
        export_table(tables, "gold", tmp_path / "out.xlsx")
    with pytest.raises(StoreError, match="the file cannot be written"):
        export_table(tables, "gold", tmp_path / "no" / "folder.csv")
    for name in tables.manifest().files:
        (tables.folder / name).write_bytes(b"damaged")
    with pytest.raises(StoreError, match="cannot be read"):
        export_table(tables, "gold", path)
    assert path.read_text() == "as it was"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "tables"]


def test_chats_hold_a_request_and_the_message(tables: RecordTables, tmp_path: Path) -> None:
    def request(row: Mapping[str, Any]) -> str:
        return f"A text about {', '.join(row['topic'] or ['anything'])}"

    path = tmp_path / "chats.jsonl"
    assert export_chats(tables, path, request) == 3
    first, *_, last = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    assert first == {
        "messages": [
            {"role": "user", "content": 'A text about health, a, "b"'},
            {"role": "assistant", "content": 'text of a,\n"é" 🙂'},
        ]
    }
    assert last["messages"][0]["content"] == "A text about anything"
