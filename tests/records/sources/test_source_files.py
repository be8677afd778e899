"""Rows of files: every value as it stands there, or the row that cannot be read is named."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, settings, strategies as st
from pyarrow import parquet

from ragwright.core import ConfigError, RecordsError
from ragwright.records import RowSource, SourceSpec, open_source
from ragwright.records.sources import place


def opened(folder: Path, source: str, **more: Any) -> RowSource:
    return open_source(SourceSpec(source, key="id", text="text", **more), folder)


def rows_of(folder: Path, source: str, rows: int = 1_000, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in opened(folder, source, **more).batches(rows):
        found += batch.to_pylist()
    return found


def written(folder: Path, name: str, content: str | bytes) -> str:
    data = content.encode("utf-8") if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    return name


# -- JSON lines --------------------------------------------------------------------------------


@pytest.mark.slow
def test_json_values_are_as_they_were_written(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "text": "2024-11-02", "zip": "007", "ok": True, "score": 1, "tags": ["a", 1.5]},
        {"id": 2**53 + 1, "text": "2024-11-02T15:15:00", "zip": "NA", "score": 2.5},
        {"id": -3, "text": "", "zip": None, "ok": None, "tags": {"b": None}},
    ]
    source = written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert rows_of(tmp_path, source) == [
        {
            "id": 1,
            "text": "2024-11-02",
            "zip": "007",
            "ok": True,
            "score": 1.0,
            "tags": '["a",1.5]',
        },
        {
            "id": 2**53 + 1,
            "text": "2024-11-02T15:15:00",
            "zip": "NA",
            "ok": None,
            "score": 2.5,
            "tags": None,
        },
        {"id": -3, "text": "", "zip": None, "ok": None, "score": None, "tags": '{"b":null}'},
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, "x", None, True], ["1", "x", None, "true"]),
        ([2**64, 1], [str(2**64), "1"]),
        ([12345678901234567890, 1.5], ["12345678901234567890", "1.5"]),
        ([2**53 + 1, 1.5], [str(2**53 + 1), "1.5"]),
        ([2**62, 5], [2**62, 5]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, False], [True, False]),
        (["1e5", "é😀"], ["1e5", "é😀"]),
        ([None, None], [None, None]),
        ([[1], {"a": 2**70}], ["[1]", '{"a":1180591620717411303424}']),
    ],
)
def test_a_field_of_several_kinds_holds_their_texts(
    tmp_path: Path, values: Sequence[Any], expected: Sequence[Any]
) -> None:
    lines = [json.dumps({"id": at, "x": value}) for at, value in enumerate(values)]
    source = written(tmp_path, "a.jsonl", "\n".join(lines))
    assert [row["x"] for row in rows_of(tmp_path, source)] == list(expected)


def test_kinds_that_meet_late_make_one_type_for_all_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragwright.records.sources._batches.BLOCK", 64)
    lines = [json.dumps({"id": at, "x": at, "text": "t" * 9}) for at in range(50)]
    lines[40] = '{"id": 40, "x": "forty", "y": 1}'
    source = written(tmp_path, "a.jsonl", "\n".join(lines))
    batches = list(opened(tmp_path, source).batches(7))
    assert [batch.num_rows for batch in batches] == [7] * 7 + [1]
    assert len({str(batch.schema.types) for batch in batches}) == 1
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [row["x"] for row in found] == [*map(str, range(40)), "forty", *map(str, range(41, 50))]
    assert [row["y"] for row in found if row["y"] is not None] == [1]
    assert place(batches[5], 5) == "a.jsonl, row 41"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": 3', "not JSON"),
        ("[1, 2]", "not a JSON object"),
        ('{"id": 3, "id": 4}', "'id' occurs twice"),
        ('{"id": 3} {"id": 4}', "not JSON"),
        ('{"id": 3, "text": "\\ud83d"}', "half of a character"),
        ('{"id": 3, "text": "a\tb"}', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str, said: str) -> None:
    source = written(tmp_path, "a.jsonl", f'{{"id": 1}}\n\n{{"id": 2}}\n{line}\n{{"id": 5}}')
    with pytest.raises(RecordsError, match=said) as raised:
        rows_of(tmp_path, source)
    assert raised.value.where == f"{tmp_path}/a.jsonl:4"


def test_blank_lines_line_ends_and_a_last_line_without_one(tmp_path: Path) -> None:
    text = '\n{"id": 1, "text": "a"}\r\n  \r\n{"id": 2, "text": "b\\nc"}'
    batches = list(opened(tmp_path, written(tmp_path, "a.jsonl", text)).batches(10))
    assert [row["text"] for row in batches[0].to_pylist()] == ["a", "b\nc"]
    assert place(batches[0], 1) == "a.jsonl, row 4"
    assert rows_of(tmp_path, written(tmp_path, "none.jsonl", "")) == []


@pytest.mark.slow
def test_a_text_of_ten_megabytes(tmp_path: Path) -> None:
    long = "é" * 5_000_000
    lines = [json.dumps({"id": at, "text": long if at == 2 else "x"}) for at in range(5)]
    found = rows_of(tmp_path, written(tmp_path, "a.jsonl", "\n".join(lines)))
    assert [len(row["text"]) for row in found] == [1, 1, 5_000_000, 1, 1]
    rows = "\n".join(f'{at},"{long if at == 2 else "x"}"' for at in range(5))
    found = rows_of(tmp_path, written(tmp_path, "a.csv", f"id,text\n{rows}\n"))
    assert [len(row["text"]) for row in found] == [1, 1, 5_000_000, 1, 1]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.sampled_from(["2024-11-02", "2024-11-02T15:15:00Z", "NA", "", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3), max_size=6))
def test_json_equals_python_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("json")
    source = written(folder, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    if rows and not any(rows):
        with pytest.raises(RecordsError, match="no fields"):
            rows_of(folder, source)
        return
    found = rows_of(folder, source, 4)
    assert len(found) == len(rows)
    for row, read in zip(rows, found, strict=True):
        for name, value in row.items():
            if isinstance(read[name], str) and not isinstance(value, str):
                assert json.loads(read[name]) == value
            else:
                assert read[name] == value
                assert isinstance(value, bool) == isinstance(read[name], bool)
        assert all(read[name] is None for name in read if name not in row)


# -- delimited ---------------------------------------------------------------------------------


def test_delimited_values_are_texts_as_they_stand(tmp_path: Path) -> None:
    text = (
        "id,text,zip,empty\n"
        '007,"two\nlines, and ""quotes""",01234,\n'
        "1e5,NA,2024-11-02,null\n\n"
        "12345678901234567890,  spaced  ,TRUE,\n"
    )
    assert rows_of(tmp_path, written(tmp_path, "a.csv", text)) == [
        {"id": "007", "text": 'two\nlines, and "quotes"', "zip": "01234", "empty": ""},
        {"id": "1e5", "text": "NA", "zip": "2024-11-02", "empty": "null"},
        {"id": "12345678901234567890", "text": "  spaced  ", "zip": "TRUE", "empty": ""},
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_are_found(tmp_path: Path, delimiter: str, end: str) -> None:
    lines = ["id,text,c".replace(",", delimiter), f"1{delimiter}a: b{delimiter}"]
    found = rows_of(tmp_path, written(tmp_path, "a.csv", end.join(lines)))
    assert found == [{"id": "1", "text": "a: b", "c": ""}]
    named = rows_of(tmp_path, written(tmp_path, "b.csv", "id:text\n1:a,b"), delimiter=":")
    assert named == [{"id": "1", "text": "a,b"}]


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("utf-16", "utf-8"),
        ("utf-32", "utf-8"),
        ("utf-16-le", "utf-16-le"),
        ("latin-1", "latin-1"),
        ("cp1252", "cp1252"),
    ],
)
def test_encodings(tmp_path: Path, encoding: str, named: str) -> None:
    text = "id,text\n1,Être ÿ\n2,naïve\n"
    source = written(tmp_path, "a.csv", text.encode(encoding))
    assert [row["text"] for row in rows_of(tmp_path, source, encoding=named)] == ["Être ÿ", "naïve"]
    lines = '{"id": 1, "text": "Être ÿ"}\n{"id": 2, "text": "naïve"}'
    source = written(tmp_path, "a.jsonl", lines.encode(encoding))
    assert [row["text"] for row in rows_of(tmp_path, source, encoding=named)] == ["Être ÿ", "naïve"]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_bytes_of_another_encoding_are_named(tmp_path: Path, name: str) -> None:
    head = b"id,text\n" if name == "a.csv" else b'{"id": 1, "text": "a"}\n'
    row = b"1,na\xefve\n" if name == "a.csv" else b'{"id": 1, "text": "na\xefve"}\n'
    with pytest.raises(RecordsError, match="0xef is not UTF-8") as raised:
        rows_of(tmp_path, written(tmp_path, name, head + row))
    assert str(raised.value.where).endswith(f"{name}:2")
    assert "latin-1" in str(raised.value.hint)
    with pytest.raises(RecordsError, match="unknown encoding 'latin1252'"):
        rows_of(tmp_path, name, encoding="latin1252")
    with pytest.raises(RecordsError, match="not encoded as"):
        rows_of(tmp_path, written(tmp_path, name, b"\xff\xfea\x00b"))


@pytest.mark.parametrize(
    ("row", "values"), [("3", 1), ("3,c,d", 3), ('3,"c"\n3,"a\nb",x', 3), ("3,c,", 3)]
)
def test_a_ragged_row_is_named(tmp_path: Path, row: str, values: int) -> None:
    source = written(tmp_path, "a.csv", f'id,text\n1,"a\nb"\n\n2,b\n{row}\n4,d\n')
    with pytest.raises(RecordsError, match=f"the row has {values} values") as raised:
        rows_of(tmp_path, source)
    assert raised.value.where == f"a.csv:{7 if chr(10) in row else 6}"


def test_headers(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="not even a header"):
        rows_of(tmp_path, written(tmp_path, "a.csv", ""))
    with pytest.raises(RecordsError, match="'text' occurs twice"):
        rows_of(tmp_path, written(tmp_path, "a.csv", "id,text, text\n1,2,3\n"))
    assert rows_of(tmp_path, written(tmp_path, "a.csv", "id,text\n")) == []
    found = rows_of(tmp_path, written(tmp_path, "a.csv", '\n,id," text",\n0,1,2,3\n'))
    assert found == [{"column_1": "0", "id": "1", "text": "2", "column_4": "3"}]
    found = rows_of(tmp_path, written(tmp_path, "a.csv", "text\na\n\nb\n"))
    assert found == [{"text": "a"}, {"text": "b"}]


def test_tabs_and_quotes_that_are_none(tmp_path: Path) -> None:
    text = 'id\ttext\n1\t"Gimme a few" was 2\n2\t"whole"\n3\tan "inner" one\n4\t"open\n'
    found = rows_of(tmp_path, written(tmp_path, "a.tsv", text))
    expected = ['"Gimme a few" was 2', '"whole"', 'an "inner" one', '"open']
    assert [row["text"] for row in found] == expected
    text = 'id\ttext\n1\t"two\nlines"\n2\t"say ""hi"""\n'
    found = rows_of(tmp_path, written(tmp_path, "a.tsv", text))
    assert [row["text"] for row in found] == ["two\nlines", 'say "hi"']


FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.text(
    "\",; \t\n\r'ab0", max_size=6
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(FIELD, FIELD), max_size=6),
    delimiter=st.sampled_from(",\t;|"),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_what_python_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    delimiter: str,
    quoting: Any,
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    target = io.StringIO(newline="")
    writer = csv.writer(target, delimiter=delimiter, quoting=quoting)
    writer.writerows([("id", "text"), *rows])
    source = written(folder, "a.csv", target.getvalue())
    found = [(row["id"], row["text"]) for row in rows_of(folder, source, 4)]
    assert found == rows


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(text=st.text('",\nab ', max_size=14), delimiter=st.sampled_from(",\t"))
def test_any_text_is_read_as_python_does_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, delimiter: str
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    text = f"id,text\n{text}".replace(",", delimiter)
    source = written(folder, "a.csv", text)
    try:
        records = [r for r in csv.reader(io.StringIO(text), delimiter=delimiter, strict=True) if r]
    except csv.Error:
        records = []
    raw = [line.split(delimiter) for line in text.split("\n") if line]
    try:
        found = [list(row.values()) for row in rows_of(folder, source, 4, delimiter=delimiter)]
    except RecordsError:
        assert not records or any(len(record) != 2 for record in records)
        if delimiter == "\t":
            assert any(len(record) != 2 for record in raw)
        return
    assert found == records[1:] or (delimiter == "\t" and found == raw[1:])


@pytest.mark.parametrize(
    "row", ['2,"open', '2,"abc"def', '2,"abc" ', '2,"a\\"b"', '2,"open\n3,"b"']
)
def test_a_quote_that_does_not_close_is_named(tmp_path: Path, row: str) -> None:
    source = written(tmp_path, "a.csv", f"id,text\n1,a\n{row}\n4,d\n")
    with pytest.raises(RecordsError, match="does not end correctly") as raised:
        rows_of(tmp_path, source)
    assert str(raised.value.where).startswith("a.csv:")
    inner = written(tmp_path, "b.csv", 'id,text\n1,5" nail\n2,"a ""b"""\n')
    assert [row["text"] for row in rows_of(tmp_path, inner)] == ['5" nail', 'a "b"']


@pytest.mark.parametrize("delimiter", ["::", "é", '"'])
def test_delimiters_that_are_none(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(RecordsError, match="is not a delimiter"):
        rows_of(tmp_path, written(tmp_path, "a.csv", "id\n1\n"), delimiter=delimiter)


# -- Parquet -----------------------------------------------------------------------------------


def test_parquet_keeps_types_and_unpacks_dictionaries(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2**60], pa.int64()),
            "text": pa.array(["a", None]).dictionary_encode(),
            "at": pa.array([0, None], pa.timestamp("ns", "Europe/Paris")),
            "tags": pa.array([["x"], None]),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    batch, *rest = opened(tmp_path, "a.parquet").batches(10)
    assert not rest
    assert batch.column("text").to_pylist() == ["a", None]
    assert batch.schema.field("text").type == pa.string()
    assert batch.schema.field("at").type == table.schema.field("at").type
    assert batch.column("tags").to_pylist() == [["x"], None]
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(RecordsError, match="not a Parquet file"):
        rows_of(tmp_path, "b.parquet")


def test_parquet_texts_that_are_no_utf8_are_refused(tmp_path: Path) -> None:
    bad = pa.StringArray.from_buffers(
        1, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xe9")
    )
    parquet.write_table(pa.table({"id": [1], "text": bad}), tmp_path / "a.parquet")
    with pytest.raises(RecordsError, match="damaged") as raised:
        rows_of(tmp_path, "a.parquet")
    assert raised.value.where == "a.parquet, row 1"


def test_a_damaged_page_is_an_error_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": list(range(50_000)), "text": [f"text {n}" for n in range(50_000)]})
    parquet.write_table(table, path, compression="zstd", row_group_size=20_000)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2_000] = bytes(2_000)
    path.write_bytes(data)
    with pytest.raises(RecordsError, match="damaged") as raised:
        rows_of(tmp_path, "a.parquet")
    assert "a.parquet, row " in str(raised.value.where)


# -- several files -----------------------------------------------------------------------------


def test_folders_and_globs_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "in" / ".hidden").mkdir(parents=True)
    written(tmp_path / "in", "b.csv", "id,text\n3,c\n")
    written(
        tmp_path / "in", "a.jsonl", '{"id": "1", "text": "a", "n": 1}\n{"id": "2", "text": "b"}'
    )
    parquet.write_table(pa.table({"id": ["4"], "n": [2.5]}), tmp_path / "in" / "c.parquet")
    written(tmp_path / "in", "notes.md", "no rows")
    written(tmp_path / "in" / ".hidden", "d.csv", "id\n9\n")
    found = rows_of(tmp_path, "in", 2)
    assert [(row["id"], row["text"], row["n"]) for row in found] == [
        ("1", "a", 1.0),
        ("2", "b", None),
        ("3", "c", None),
        ("4", None, 2.5),
    ]
    (batch,) = opened(tmp_path, "in").batches(100)
    assert [place(batch, at) for at in range(4)] == [
        "in/a.jsonl, row 1",
        "in/a.jsonl, row 2",
        "in/b.csv, row 1",
        "in/c.parquet, row 1",
    ]
    assert [row["id"] for row in rows_of(tmp_path, "in/[ab].*")] == ["1", "2", "3"]
    assert [row["id"] for row in rows_of(tmp_path, str(tmp_path / "*" / "b.csv"))] == ["3"]


def test_types_of_several_files_meet_without_a_loss(tmp_path: Path) -> None:
    for name, values in {"a": [1, 2], "b": [2.5], "c": [None]}.items():
        parquet.write_table(pa.table({"id": values}), tmp_path / f"{name}.parquet")
    assert [row["id"] for row in rows_of(tmp_path, "*.parquet")] == [1.0, 2.0, 2.5, None]
    parquet.write_table(pa.table({"id": [2**53 + 1]}), tmp_path / "d.parquet")
    with pytest.raises(RecordsError, match="without loss") as raised:
        rows_of(tmp_path, "*.parquet")
    assert raised.value.where == "d.parquet"
    parquet.write_table(pa.table({"id": ["x"]}), tmp_path / "e.parquet")
    assert str(2**53 + 1) in [row["id"] for row in rows_of(tmp_path, "*.parquet")]


@pytest.mark.parametrize("source", ["no.csv", "no/no.csv", "*.csv", "empty"])
def test_nothing_there(tmp_path: Path, source: str) -> None:
    (tmp_path / "empty").mkdir()
    written(tmp_path, "other.jsonl", "")
    with pytest.raises(RecordsError, match=r"does not exist|contains no files") as raised:
        rows_of(tmp_path, source)
    assert raised.value.hint
    if source == "no.csv":
        assert "other.jsonl" in raised.value.hint


def test_files_without_a_suffix_are_told_by_how_they_begin(tmp_path: Path) -> None:
    written(tmp_path, "tabs", "id\ttext\n1\ta, b\n")
    written(tmp_path, "lines", '\n{"id": "1", "text": "a, b"}')
    parquet.write_table(pa.table({"id": ["1"], "text": ["a, b"]}), tmp_path / "table")
    for source in ("tabs", "lines", "table"):
        assert rows_of(tmp_path, source) == [{"id": "1", "text": "a, b"}]


def test_what_is_compressed_or_one_large_array_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="compressed"):
        rows_of(tmp_path, written(tmp_path, "a.csv.gz", gzip.compress(b"id,text\n1,a\n")))
    with pytest.raises(RecordsError, match="not a JSON object") as raised:
        rows_of(tmp_path, written(tmp_path, "a.json", '[{"id": 1}, {"id": 2}]'))
    assert "per line" in str(raised.value.hint)
    assert rows_of(tmp_path, written(tmp_path, "b.json", '{"id": 1}\n')) == [{"id": 1}]


def test_the_stamp_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path, "a.csv", "id,text\n1,a\n")
    assert opened(tmp_path, source).stamp() == ""  # it may change again in this moment
    monkeypatch.setattr("ragwright.records.sources._files._RACY_NS", 0)
    stamp = opened(tmp_path, source).stamp()
    assert stamp
    assert opened(tmp_path, source).stamp() == stamp
    status = (tmp_path / "a.csv").stat()
    time.sleep(0.05)  # past the steps in which a file system counts
    (tmp_path / "a.csv").write_text("id,text\n1,b\n")
    # Times that lie; the change of the inode does not.
    os.utime(tmp_path / "a.csv", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert opened(tmp_path, source).stamp() not in {"", stamp}


# -- watermarks --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "since", "read", "reached"),
    [
        ([1, 5, None, 3], "3", [5, None, 3], "5"),
        ([1, 5, None, 3], "", [1, 5, None, 3], "5"),
        ([1.5, 2.25], "2", [2.25], "2.25"),
        ([1, 2], "7", [], "7"),
        (["2026-01-02", "2026-03-01", "2025-12-31"], "2026-01-02", None, "2026-03-01"),
        ([None, None], "4", [None, None], "4"),
        (["b", "c", "a", None], "b", ["b", "c", None], "c"),
    ],
)
def test_rows_at_or_above_the_watermark(
    tmp_path: Path, values: Sequence[Any], since: str, read: Sequence[Any] | None, reached: str
) -> None:
    lines = [json.dumps({"id": at, "w": value}) for at, value in enumerate(values)]
    source = opened(tmp_path, written(tmp_path, "a.jsonl", "\n".join(lines)), watermark="w")
    found = [value for batch in source.batches(2, since) for value in batch.column("w").to_pylist()]
    assert found == (list(values[:2]) if read is None else list(read))
    assert source.reached == reached


def test_times_with_a_zone_are_compared_as_moments(tmp_path: Path) -> None:
    times = pa.array([0, 3_600_000_000, None], pa.timestamp("us", "America/New_York"))
    parquet.write_table(pa.table({"id": [1, 2, 3], "at": times}), tmp_path / "a.parquet")
    source = opened(tmp_path, "a.parquet", watermark="at")
    assert sum(batch.num_rows for batch in source.batches(10)) == 3
    reached = source.reached
    assert reached == "1970-01-01T01:00:00.000000+00:00"
    (batch,) = source.batches(10, reached)
    assert batch.column("id").to_pylist() == [2, 3]
    assert place(batch, 1) == "a.parquet, row 3"
    with pytest.raises(RecordsError, match="does not fit"):
        list(source.batches(10, "yesterday"))


def test_places_are_kept_where_rows_are_passed_over(tmp_path: Path) -> None:
    lines = [json.dumps({"id": at, "w": at % 3}) for at in range(12)]
    source = opened(tmp_path, written(tmp_path, "a.jsonl", "\n".join(lines)), watermark="w")
    (batch,) = source.batches(10, "1")
    ids = batch.column("id").to_pylist()
    assert [place(batch, at) for at in range(len(ids))] == [f"a.jsonl, row {n + 1}" for n in ids]


# -- real files --------------------------------------------------------------------------------


@pytest.mark.needs_data
def test_short_messages_separated_by_tabs() -> None:
    source = DATA / "sms_spam" / "SMSSpamCollection"
    lines = source.read_text("utf-8").split("\n")[1:]
    expected = [line.split("\t") for line in lines if line]
    found = rows_of(DATA, str(source))
    assert [[row["Label"], row["SMS"]] for row in found] == expected
    assert len(found) == 5_574


@pytest.mark.needs_data
def test_political_emails() -> None:
    source = DATA / "political_emails" / "tests.csv"
    with source.open(encoding="utf-8-sig", newline="") as file:
        expected = list(csv.DictReader(file))
    assert rows_of(DATA, str(source), 30) == expected


def test_an_address_with_a_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds a password") as raised:
        opened(tmp_path, "postgresql://u:secret@h/d", query="SELECT 1")
    assert "secret" not in str(raised.value)
