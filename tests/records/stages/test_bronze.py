"""Bronze rows: keyed, hashed, named, and one of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from ragwright.core import DuplicateKeyError, RecordsError
from ragwright.records import HASH, KEY, ArrowTable, RowSource, SourceSpec
from ragwright.records.sources import cut_batches, key_texts, piece
from ragwright.records.stages import BronzeRows, row_hashes


class Given(RowSource):
    """Rows that a test writes down."""

    def __init__(self, rows: Sequence[dict[str, Any]], schema: Any = None) -> None:
        self._table = pa.Table.from_pylist(list(rows), schema=schema)

    def stamp(self) -> str:
        return ""

    def batches(self, rows: int, since: str = "") -> Iterator[ArrowTable]:
        return cut_batches([piece(self._table, "given", 1)], rows)


def bronze(
    rows: Sequence[dict[str, Any]], size: int = 2, schema: Any = None, **more: Any
) -> tuple[list[dict[str, Any]], BronzeRows]:
    spec = SourceSpec("given", **{"key": "id", "text": "text", **more})
    made = BronzeRows(Given(rows, schema), spec, size)
    return [row for batch in made.batches() for row in batch.to_pylist()], made


ROWS: list[dict[str, Any]] = [
    {"id": n, "text": f"t{n}", "who": "a" if n % 2 else None} for n in range(5)
]


def test_columns_of_the_source_with_key_and_hash() -> None:
    found, made = bronze(ROWS)
    assert [{k: row[k] for k in ("id", "text", "who")} for row in found] == ROWS
    assert [row[KEY] for row in found] == ["0", "1", "2", "3", "4"]
    assert len({row[HASH] for row in found}) == 5
    assert all(len(row[HASH]) == 32 for row in found)
    assert (made.read, made.notes, made.reached) == (5, (), "")


def test_the_size_of_batches_and_the_order_of_columns_change_no_hash() -> None:
    hashes = [[row[HASH] for row in bronze(ROWS, size)[0]] for size in (1, 2, 5)]
    turned: list[dict[str, Any]] = [dict(reversed(row.items())) for row in ROWS]
    assert hashes == [[row[HASH] for row in bronze(turned)[0]]] * 3


def test_what_decides_on_a_change() -> None:
    def hashes(rows: Sequence[dict[str, Any]], **more: Any) -> list[str]:
        return [row[HASH] for row in bronze(rows, **more)[0]]

    changed: list[dict[str, Any]] = [{**row, "who": "b"} if row["id"] == 3 else row for row in ROWS]
    assert [a == b for a, b in zip(hashes(ROWS), hashes(changed), strict=True)] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert hashes(ROWS, hash=("text",)) == hashes(changed, hash=("text",))
    wider: list[dict[str, Any]] = [
        *[{**row, "new": None} for row in ROWS],
        {"id": 9, "text": "", "new": "x"},
    ]
    assert hashes(wider)[:5] == hashes(ROWS)


def test_values_that_look_alike_differ() -> None:
    rows = [
        {"a": None, "b": "x"},
        {"a": "x", "b": None},
        {"a": "", "b": "x"},
        {"a": "x", "b": ""},
        {"a": None, "b": None},
        {"a": "xx", "b": None},
    ]
    table = pa.Table.from_pylist(rows)
    assert len(set(row_hashes(table, ["a", "b"]).to_pylist())) == len(rows)


def test_renaming() -> None:
    found, _ = bronze(ROWS, rename={"who": "sender", "text": "body"}, text="body", keep=("sender",))
    assert list(found[0]) == ["id", "body", "sender", KEY, HASH]


@pytest.mark.parametrize(
    ("more", "said", "hint"),
    [
        ({"key": "idd"}, "key: the source has no column 'idd'", "'id'"),
        ({"text": "body"}, "text: the source has no column 'body'", "id, text, who"),
        ({"keep": ("who", "when")}, "keep: the source has no column 'when'", "id, text, who"),
        ({"hash": ("txt",)}, "hash: the source has no column 'txt'", "'text'"),
        ({"require": ("whom",)}, "require: the source has no column 'whom'", "'who'"),
        ({"watermark": "at"}, "watermark: the source has no column 'at'", "id, text, who"),
        ({"rename": {"whom": "x"}}, "rename: the source has no column 'whom'", "'who'"),
        (
            {"rename": {"who": "sender"}, "keep": ("who",)},
            "keep: the source has no column 'who'",
            "sender",
        ),
        ({"rename": {"who": "text"}}, "two columns are called 'text'", "another name"),
        ({"rename": {"who": "record_key"}}, "the tables have a column 'record_key'", "another"),
    ],
)
def test_columns_that_are_not_there(more: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(RecordsError, match=said) as raised:
        bronze(ROWS, **more)
    assert hint in str(raised.value.hint)
    assert raised.value.where


@pytest.mark.parametrize("empty", [None, "", "  "])
def test_a_row_without_a_key_is_named(empty: str | None) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "text": "x"},
        {"id": "b", "text": "y"},
        {"id": empty, "text": "z"},
    ]
    with pytest.raises(RecordsError, match="'id' of a row is empty") as raised:
        bronze(rows)
    assert raised.value.where == "given, row 3"
    found, made = bronze(rows, require=("id",))
    assert [row[KEY] for row in found] == ["a", "b"]
    assert made.notes == ("1 row left out: id is empty",)


def test_rows_that_lack_what_is_required_are_left_out() -> None:
    found, made = bronze(ROWS, require=("who", "text"))
    assert [row["id"] for row in found] == [1, 3]
    assert made.notes == ("3 rows left out: who is empty",)
    assert made.read == 5


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ([1, None, -(2**60)], ["1", None, str(-(2**60))]),
        ([1.0, float("nan"), 2.5, 1e6, 1e20], ["1", None, "2.5", "1000000", "1e+20"]),
        (["007", " a "], ["007", " a "]),
        ([True], ["true"]),
        ([Decimal("1.50")], ["1.50"]),
        ([date(2026, 1, 2)], ["2026-01-02"]),
        ([datetime(2026, 1, 2, tzinfo=UTC)], ["2026-01-02T00:00:00+00:00"]),
        ([b"\x00\xff"], ["00ff"]),
    ],
)
def test_keys_as_texts(values: list[Any], keys: list[str | None]) -> None:
    assert key_texts(pa.array(values)).to_pylist() == keys


def test_a_text_column_must_hold_texts() -> None:
    with pytest.raises(RecordsError, match="not text"):
        bronze([{"id": 1, "text": ["a"]}])
    found, _ = bronze([{"id": 1, "text": 5}, {"id": 2, "text": None}])
    assert [row["text"] for row in found] == [5, None]


# -- one of each key ---------------------------------------------------------------------------

TWICE = [
    {"id": "a", "text": "1"},
    {"id": "b", "text": "2"},
    {"id": "a", "text": "1"},
    {"id": "b", "text": "2"},
    {"id": "b", "text": "2"},
]


@pytest.mark.parametrize("mode", ["error", "first", "last"])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_equal_rows_count_once(mode: str, size: int) -> None:
    found, made = bronze(TWICE, size, on_duplicate=mode)
    assert [row[KEY] for row in found] == ["a", "b"] or mode == "last"
    assert sorted(row[KEY] for row in found) == ["a", "b"]
    assert made.notes == ("3 rows counted once: equal to another row",)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_different_rows_of_one_key_are_named(size: int) -> None:
    rows = [*TWICE, {"id": "a", "text": "other"}, {"id": "c", "text": "3"}]
    with pytest.raises(DuplicateKeyError, match="the key 'a'") as raised:
        bronze(rows, size)
    assert raised.value.where == "given, row 1 and given, row 6"
    assert "on_duplicate" in str(raised.value.hint)


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(("mode", "text"), [("first", "1"), ("last", "other")])
def test_the_first_or_the_last_goes_on(mode: str, text: str, size: int) -> None:
    rows = [*TWICE, {"id": "a", "text": "other"}, {"id": "c", "text": "3"}]
    found, made = bronze(rows, size, on_duplicate=mode)
    assert {row["id"]: row["text"] for row in found} == {"a": text, "b": "2", "c": "3"}
    assert made.notes[-1].endswith(f"not the {mode} row with its key")


def test_rows_that_differ_in_what_does_not_decide_still_differ() -> None:
    rows = [{"id": 1, "text": "a", "at": 1}, {"id": 1, "text": "a", "at": 2}]
    with pytest.raises(DuplicateKeyError):
        bronze(rows, hash=("text",))
    found, _ = bronze(rows, hash=("text",), on_duplicate="last")
    assert [row["at"] for row in found] == [2]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", "", None])), max_size=9
    ),
    size=st.integers(1, 4),
    mode=st.sampled_from(["error", "first", "last"]),
)
def test_one_of_each_key_as_a_dictionary_would(
    rows: list[tuple[str, str | None]], size: int, mode: str
) -> None:
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    given = [{"id": key, "text": text} for key, text in rows]
    expected: dict[str, str | None] = {}
    for key, text in rows:
        if mode == "error" and expected.get(key, text) != text:
            with pytest.raises(DuplicateKeyError):
                bronze(given, size, schema, on_duplicate=mode)
            return
        if mode == "last" or key not in expected:
            expected[key] = text
    found, made = bronze(given, size, schema, on_duplicate=mode)
    assert {row["id"]: row["text"] for row in found} == expected
    assert len(found) == len(expected)
    assert made.read == len(rows)


@pytest.mark.slow
def test_many_keys_in_many_batches() -> None:
    table = pa.table({"id": pa.array(range(100_000)), "text": pa.nulls(100_000, pa.string())})
    source = Given([])
    source._table = table
    made = BronzeRows(source, SourceSpec("given", key="id", text="text"), 4_096)
    assert sum(batch.num_rows for batch in made.batches()) == 100_000
    source._table = pa.concat_tables([table, table.slice(77_777, 1)])
    made = BronzeRows(source, SourceSpec("given", key="id", text="text"), 4_096)
    assert sum(batch.num_rows for batch in made.batches()) == 100_000
    assert made.notes == ("1 row counted once: equal to another row",)
