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
from hypothesis import given, strategies as st
from pyarrow import parquet
from story_tools import write_files

from ragwright.core import ConfigError, RecordsError
from ragwright.records import RowSource, SourceSpec, open_source


def opened(folder: Path, source: str, **more: Any) -> RowSource:
    return open_source(SourceSpec(source, key="id", text="text", **more), folder)


def rows_of(folder: Path, source: str, **more: Any) -> list[dict[str, Any]]:
    batches = opened(folder, source, **more).batches()
    return [row for batch in batches for row in batch.rows.to_pylist()]


def written(folder: Path, name: str, content: str | bytes | pa.Table) -> str:
    if isinstance(content, pa.Table):
        parquet.write_table(content, folder / name)
    else:
        write_files(folder, {name: content})
    return name


def jsonl(*values: Any) -> str:
    return "\n".join(json.dumps({"id": at, "x": value}) for at, value in enumerate(values))


VALUES = "\n".join(
    map(json.dumps, [
        {"id": 1, "text": "2024-11-02", "zip": "007", "ok": True, "score": 1, "tags": ["a", 1.5]},
        {"id": 2**53 + 1, "text": "2024-11-02T15:15:00", "zip": "NA", "score": 2.5},
        {"id": -3, "text": "", "zip": None, "ok": None, "tags": {"b": None}},
    ])
)  # fmt: skip
QUOTED = (
    'id,text,zip,empty\n007,"two\nlines, and ""quotes""",01234,\n'
    "1e5,NA,2024-11-02,null\n\n12345678901234567890,  spaced  ,TRUE,\n"
)
NO_QUOTES = 'id\ttext\n1\t"Gimme a few" was 2\n2\t"whole"\n3\tan "inner" one\n4\t"open\n'
TEXTS = ["Être ÿ", "naïve"]
PLAIN = [{"id": "1", "text": "a, b"}]
READ: dict[str, tuple[str, str | bytes | pa.Table, dict[str, Any], Any]] = {
    "values of JSON": ("a.jsonl", VALUES, {}, [
        {"id": 1, "text": "2024-11-02", "zip": "007", "ok": True, "score": 1.0,
            "tags": '["a",1.5]'},
        {"id": 2**53 + 1, "text": "2024-11-02T15:15:00", "zip": "NA", "ok": None, "score": 2.5,
            "tags": None},
        {"id": -3, "text": "", "zip": None, "ok": None, "score": None, "tags": '{"b":null}'},
    ]),
    "JSON with blank lines": ("a.jsonl", '\n{"text": "a"}\r\n  \r\n{"text": "b\\nc"}', {},
        ["a", "b\nc"]),
    "no lines": ("a.jsonl", "", {}, []),
    "one object": ("b.json", '{"id": 1}\n', {}, [{"id": 1}]),
    "delimited texts": ("a.csv", QUOTED, {}, [
        {"id": "007", "text": 'two\nlines, and "quotes"', "zip": "01234", "empty": ""},
        {"id": "1e5", "text": "NA", "zip": "2024-11-02", "empty": "null"},
        {"id": "12345678901234567890", "text": "  spaced  ", "zip": "TRUE", "empty": ""},
    ]),
    **{f"{delimiter!r} and {end!r}": ("a.csv", f"id,text,c{end}1,a: b,".replace(",", delimiter), {},
        [{"id": "1", "text": "a: b", "c": ""}])
        for delimiter in ",;\t|" for end in ("\n", "\r\n")},
    "a delimiter that is said": ("b.csv", "id:text\n1:a,b", {"delimiter": ":"},
        [{"id": "1", "text": "a,b"}]),
    **{f"{encoding}, said as {said}, {name}": (name, text.encode(encoding), {"encoding": said},
        TEXTS)
        for encoding, said in (("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("utf-16", "utf-8"),
            ("utf-32", "utf-8"), ("utf-16-le", "utf-16-le"), ("latin-1", "latin-1"),
            ("cp1252", "cp1252"))
        for name, text in (("a.csv", "id,text\n1,Être ÿ\n2,naïve\n"),
            ("a.jsonl", '{"id": 1, "text": "Être ÿ"}\n{"id": 2, "text": "naïve"}'))},
    "a header alone": ("a.csv", "id,text\n", {}, []),
    "columns without a name": ("a.csv", '\n,id," text",\n0,1,2,3\n', {},
        [{"column_1": "0", "id": "1", "text": "2", "column_4": "3"}]),
    "one column": ("a.csv", "text\na\n\nb\n", {}, ["a", "b"]),
    "quotes that are none": ("a.tsv", NO_QUOTES, {},
        ['"Gimme a few" was 2', '"whole"', 'an "inner" one', '"open']),
    "quotes and tabs": ("a.tsv", 'id\ttext\n1\t"two\nlines"\n2\t"say ""hi"""\n', {},
        ["two\nlines", 'say "hi"']),
    "quotes within": ("b.csv", 'id,text\n1,5" nail\n2,"a ""b"""\n', {}, ['5" nail', 'a "b"']),
    "tabs without a suffix": ("tabs", "id\ttext\n1\ta, b\n", {}, PLAIN),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_values_are_as_they_stand(tmp_path: Path, case: str) -> None:
    name, content, options, expected = READ[case]
    found = rows_of(tmp_path, written(tmp_path, name, content), **options)
    whole = not expected or isinstance(expected[0], dict)
    assert (found if whole else [row["text"] for row in found]) == expected


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
    source = written(tmp_path, "a.jsonl", jsonl(*values))
    assert [row["x"] for row in rows_of(tmp_path, source)] == expected


LINES = '{{"id": 1}}\n\n{{"id": 2}}\n{}\n{{"id": 5}}'.format
ROWS = 'id,text\n1,"a\nb"\n\n2,b\n{}\n4,d\n'.format
BAD_UTF8 = pa.StringArray.from_buffers(
    1, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xe9")
)
REFUSED: list[tuple[str, str | bytes | pa.Table, str, str]] = [
    ("a.jsonl", LINES('{"id": 3'), "not JSON", "a.jsonl:4"),
    ("a.jsonl", LINES("[1, 2]"), "not a JSON object", "a.jsonl:4"),
    ("a.jsonl", LINES('{"id": 3, "id": 4}'), "'id' occurs twice", "a.jsonl:4"),
    ("a.jsonl", LINES('{"id": 3} {"id": 4}'), "not JSON", "a.jsonl:4"),
    ("a.jsonl", LINES('{"id": 3, "text": "\\ud83d"}'), "half of a character", "a.jsonl:4"),
    ("a.jsonl", LINES('{"id": 3, "text": "a\tb"}'), "not JSON", "a.jsonl:4"),
    ("a.jsonl", LINES("[" * 100_000), "not JSON", "a.jsonl:4"),
    ("a.json", '[{"id": 1}, {"id": 2}]', "(?s)not a JSON object.*per line", "a.json:1"),
    ("a.csv", b"id,text\n1,na\xefve\n", "(?s)the byte 0xef.*latin-1", "a.csv:2"),
    ("a.jsonl", b'{"t": "a"}\n{"t": "na\xef"}', "(?s)the byte 0xef.*latin-1", "a.jsonl:2"),
    ("a.csv", b"\xff\xfea\x00b", "not encoded as", "a.csv"),
    ("a.jsonl", b"\xff\xfea\x00b", "not encoded as", "a.jsonl"),
    ("a.csv", ROWS("3"), "the row has 1 values", "a.csv:6"),
    ("a.csv", ROWS("3,c,d"), "the row has 3 values", "a.csv:6"),
    ("a.csv", ROWS('3,"c"\n3,"a\nb",x'), "the row has 3 values", "a.csv:7"),
    ("a.csv", ROWS("3,c,"), "the row has 3 values", "a.csv:6"),
    ("a.csv", "", "not even a header", "a.csv"),
    ("a.csv", "id,text, text\n1,2,3\n", "'text' occurs twice", "a.csv:1"),
    ("a.csv", ROWS('2,"open'), "does not end correctly", "a.csv:5"),
    ("a.csv", ROWS('2,"abc"def'), "does not end correctly", "a.csv:5"),
    ("a.csv", ROWS('2,"abc" '), "does not end correctly", "a.csv:5"),
    ("a.csv", ROWS('2,"a\\"b"'), "does not end correctly", "a.csv:5"),
    ("a.csv", ROWS('2,"open\n3,"b"'), "does not end correctly", "a.csv:5"),
    ("a.csv.gz", gzip.compress(b"id,text\n1,a\n", mtime=0), "not encoded as", "a.csv.gz:1"),
    ("a.parquet", pa.table({"id": [1], "text": BAD_UTF8}), "damaged", "a.parquet, row 1"),
]


@pytest.mark.parametrize(
    ("name", "content", "told", "where"), REFUSED, ids=[f"{row[0]}: {row[2]}" for row in REFUSED]
)
def test_what_cannot_be_read_is_named_with_its_place(
    tmp_path: Path, name: str, content: str | bytes | pa.Table, told: str, where: str
) -> None:
    with pytest.raises(RecordsError, match=told) as raised:
        rows_of(tmp_path, written(tmp_path, name, content))
    assert str(raised.value.where).removeprefix(f"{tmp_path}/") == where


@pytest.mark.parametrize(
    ("source", "options", "told"),
    [
        ("no.csv", {}, "(?s)no such file.*looked in"),
        ("no/no.csv", {}, "no such file"),
        ("*.csv", {}, "no such file|contains no files"),
        ("empty", {}, "contains no files"),
        *((file, {"encoding": "latin1252"}, "unknown encoding 'latin1252'")
            for file in ("other.jsonl", "a.txt")),
        *(("a.txt", {"delimiter": one}, "is not a delimiter") for one in ("::", "é", '"')),
        ("postgresql://u:secret@h/d", {"query": "SELECT 1"}, "holds a password"),
    ],
)  # fmt: skip
def test_a_source_that_is_none_says_so(
    tmp_path: Path, source: str, options: dict[str, Any], told: str
) -> None:
    (tmp_path / "empty").mkdir()
    write_files(tmp_path, {"other.jsonl": "{}", "a.txt": "id\n1\n"})
    with pytest.raises((RecordsError, ConfigError), match=told) as raised:
        rows_of(tmp_path, source, **options)
    assert raised.value.hint
    assert "secret" not in str(raised.value)


def test_a_field_that_comes_late_is_null_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragwright.records.sources._files.ROWS", 7)
    lines = [json.dumps({"id": at, "x": at, "text": "t" * 9}) for at in range(50)]
    lines[40] = '{"id": 40, "x": "forty", "y": 1}'
    batches = list(opened(tmp_path, written(tmp_path, "a.jsonl", "\n".join(lines))).batches())
    assert [batch.rows.num_rows for batch in batches] == [7] * 7 + [1]
    assert len({str(batch.rows.schema.names) for batch in batches}) == 1
    found = [row for batch in batches for row in batch.rows.to_pylist()]
    assert [row["x"] for row in found[:35]] == list(range(35))
    assert [row["x"] for row in found[35:42]] == [*map(str, range(35, 40)), "forty", "41"]
    assert [row["y"] for row in found if row["y"] is not None] == [1]
    assert batches[5].place(5) == "a.jsonl, row 41"


# -- against Python's own readers ----------------------------------------------------------------

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
@given(rows=st.lists(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3), max_size=6))
def test_json_equals_python_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("json")
    source = written(folder, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = rows_of(folder, source)
    for row, read in zip(rows if any(rows) else [], found, strict=True):
        for name, value in row.items():
            if isinstance(read[name], str) and not isinstance(value, str):
                assert json.loads(read[name]) == value
            else:
                assert read[name] == value
                assert isinstance(value, bool) == isinstance(read[name], bool)
        assert all(read[name] is None for name in read if name not in row)


FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6) | st.text(
    "\",; \t\n\r'ab0", max_size=6
)


@pytest.mark.slow
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
    folder, target = tmp_path_factory.mktemp("csv"), io.StringIO(newline="")
    writer = csv.writer(target, delimiter=delimiter, quoting=quoting)
    writer.writerows([("id", "text"), *rows])
    source = written(folder, "a.csv", target.getvalue())
    assert [(row["id"], row["text"]) for row in rows_of(folder, source)] == rows


@pytest.mark.slow
@given(text=st.text('",\nab ', max_size=14), delimiter=st.sampled_from(",\t"))
def test_any_text_is_read_as_python_does_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, delimiter: str
) -> None:
    folder, text = tmp_path_factory.mktemp("csv"), f"id,text\n{text}".replace(",", delimiter)
    source = written(folder, "a.csv", text)
    try:
        records = [r for r in csv.reader(io.StringIO(text), delimiter=delimiter, strict=True) if r]
    except csv.Error:
        records = []
    raw = [line.split(delimiter) for line in text.split("\n") if line]
    try:
        found = [list(row.values()) for row in rows_of(folder, source, delimiter=delimiter)]
    except RecordsError:
        assert not records or any(len(record) != 2 for record in records)
        assert delimiter == "," or any(len(record) != 2 for record in raw)
        return
    assert found == records[1:] or (delimiter == "\t" and found == raw[1:])


# -- Parquet, and several files ------------------------------------------------------------------


def test_parquet_keeps_types_and_unpacks_dictionaries(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2**60], pa.int64()),
            "text": pa.array(["a", None]).dictionary_encode(),
            "at": pa.array([0, None], pa.timestamp("ns", "Europe/Paris")),
            "tags": pa.array([["x"], None]),
        }
    )
    [read] = opened(tmp_path, written(tmp_path, "a.parquet", table)).batches()
    batch = read.rows
    assert batch.column("text").to_pylist() == ["a", None]
    assert batch.schema.field("text").type == pa.string()
    assert batch.schema.field("at").type == table.schema.field("at").type
    assert batch.column("tags").to_pylist() == [["x"], None]
    written(tmp_path, "b.parquet", (tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(RecordsError, match="not a Parquet file"):
        rows_of(tmp_path, "b.parquet")
    # a damaged page is an error with its row
    table = pa.table({"id": list(range(50_000)), "text": [f"text {n}" for n in range(50_000)]})
    parquet.write_table(table, tmp_path / "c.parquet", compression="zstd", row_group_size=20_000)
    data = (tmp_path / "c.parquet").read_bytes()
    middle = len(data) // 2
    written(tmp_path, "c.parquet", data[:middle] + bytes(2_000) + data[middle + 2_000 :])
    with pytest.raises(RecordsError, match="damaged") as raised:
        rows_of(tmp_path, "c.parquet")
    assert "c.parquet, row " in str(raised.value.where)


def test_folders_and_globs_in_the_order_of_names(tmp_path: Path) -> None:
    files = {"b.csv": "id,text\n3,c\n", "notes.md": "no rows", ".hidden/d.csv": "id\n9\n"}
    files["a.jsonl"] = '{"id": "1", "text": "a", "n": 1}\n{"id": "2", "text": "b"}'
    folder = write_files(tmp_path / "in", files)
    written(folder, "c.parquet", pa.table({"id": ["4"], "n": [2.5]}))
    found = [(row["id"], row["text"], row["n"]) for row in rows_of(tmp_path, "in")]
    assert found == [("1", "a", 1), ("2", "b", None), ("3", "c", None), ("4", None, 2.5)]
    batches = list(opened(tmp_path, "in").batches())
    places = [batch.place(at) for batch in batches for at in range(batch.rows.num_rows)]
    rows = ("a.jsonl, row 1", "a.jsonl, row 2", "b.csv, row 1", "c.parquet, row 1")
    assert places == [f"in/{row}" for row in rows]
    assert [row["id"] for row in rows_of(tmp_path, "in/[ab].*")] == ["1", "2", "3"]
    assert [row["id"] for row in rows_of(tmp_path, str(tmp_path / "*" / "b.csv"))] == ["3"]


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
