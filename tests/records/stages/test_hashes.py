"""Bronze rows: keyed, hashed, named, one of each key; and duplicates as a plain loop finds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from ragwright.core import DuplicateKeyError, RecordsError
from ragwright.records import HASH, KEY, RowBatch, RowSource, SourceSpec
from ragwright.records.sources import key_texts
from ragwright.records.stages import BronzeRows, duplicates, row_hashes

Row = dict[str, Any]


class Given(RowSource):
    def __init__(self, rows: Sequence[Row], size: int, schema: Any = None) -> None:
        self._table, self._size = pa.Table.from_pylist(list(rows), schema=schema), size

    def stamp(self) -> str:
        return ""

    def batches(self, since: str = "") -> Iterator[RowBatch]:
        for at in range(0, self._table.num_rows, self._size):
            rows = self._table.slice(at, self._size)
            yield RowBatch(rows, "given", range(at + 1, at + 1 + rows.num_rows))


def bronze(
    rows: Sequence[Row], size: int = 2, schema: Any = None, **more: Any
) -> tuple[list[Row], BronzeRows]:
    spec = SourceSpec("given", **{"key": "id", "text": "text", **more})
    made = BronzeRows(Given(rows, size, schema), spec)
    return [row for batch in made.batches() for row in batch.to_pylist()], made


def hashes(rows: Sequence[Row], size: int = 2, **more: Any) -> list[str]:
    return [row[HASH] for row in bronze(rows, size, **more)[0]]


ROWS: list[Row] = [{"id": n, "text": f"t{n}", "who": "a" if n % 2 else None} for n in range(5)]


def test_columns_of_the_source_with_key_and_hash() -> None:
    found, made = bronze(ROWS)
    assert [{k: row[k] for k in ("id", "text", "who")} for row in found] == ROWS
    assert [row[KEY] for row in found] == ["0", "1", "2", "3", "4"]
    assert len({row[HASH] for row in found}) == 5
    assert all(len(row[HASH]) == 32 for row in found)
    assert (made.read, made.notes) == (5, ())
    found, _ = bronze(ROWS, rename={"who": "sender", "text": "body"}, text="body", keep=("sender",))
    assert list(found[0]) == ["id", "body", "sender", KEY, HASH]
    # a text column must hold texts
    found, _ = bronze([{"id": 1, "text": 5}, {"id": 2, "text": None}])
    assert [row["text"] for row in found] == [5, None]
    with pytest.raises(RecordsError, match="not text"):
        bronze([{"id": 1, "text": ["a"]}])


def test_what_decides_on_a_change() -> None:
    turned: list[Row] = [dict(reversed(row.items())) for row in ROWS]
    wider = [*({**row, "new": None} for row in ROWS), {"id": 9, "text": "", "new": "x"}]
    for same in (hashes(ROWS, 1), hashes(ROWS, 5), hashes(turned), hashes(wider)[:5]):
        assert same == hashes(ROWS)
    changed: list[Row] = [{**row, "who": "b"} if row["id"] == 3 else row for row in ROWS]
    pairs = zip(hashes(ROWS), hashes(changed), strict=True)
    assert [a == b for a, b in pairs] == [True, True, True, False, True]
    assert hashes(ROWS, hash=("text",)) == hashes(changed, hash=("text",))
    # values that look alike differ
    alike = [(None, "x"), ("x", None), ("", "x"), ("x", ""), (None, None), ("xx", None)]
    table = pa.Table.from_pylist([{"a": a, "b": b} for a, b in alike])
    assert len(set(row_hashes(table, ["a", "b"]).to_pylist())) == len(alike)


@pytest.mark.parametrize(
    ("more", "said", "hint"),
    [
        ({"key": "idd"}, "key: the source has no column 'idd'", "mean id?"),
        ({"text": "body"}, "text: the source has no column 'body'", "id, text, who"),
        ({"keep": ("who", "when")}, "keep: the source has no column 'when'", "id, text, who"),
        ({"hash": ("txt",)}, "hash: the source has no column 'txt'", "mean text?"),
        ({"require": ("whom",)}, "require: the source has no column 'whom'", "mean who?"),
        ({"watermark": "at"}, "watermark: the source has no column 'at'", "id, text, who"),
        ({"rename": {"whom": "x"}}, "rename: the source has no column 'whom'", "mean who?"),
        ({"rename": {"who": "sender"}, "keep": ("who",)}, "keep: the source has no column 'who'",
            "sender"),
        ({"rename": {"who": "text"}}, "two columns are called 'text'", "another name"),
        ({"rename": {"who": "record_key"}}, "the tables have a column 'record_key'", "another"),
        ({"rename": {"who": "tags"}}, "the tables have a column 'tags'", "another"),
        ({"text": "who"}, "the tables have a column 'text'", "another"),
    ],
)  # fmt: skip
def test_columns_that_are_not_there(more: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(RecordsError, match=said) as raised:
        bronze(ROWS, **more)
    assert hint in str(raised.value.hint)
    assert raised.value.where


@pytest.mark.parametrize("empty", [None, "", "  "])
def test_rows_that_lack_what_is_required_are_left_out(empty: str | None) -> None:
    named = [("a", "x"), ("b", "y"), (empty, "z")]
    rows: list[Row] = [{"id": key, "text": text} for key, text in named]
    with pytest.raises(RecordsError, match="'id' of a row is empty") as raised:
        bronze(rows)
    assert raised.value.where == "given, row 3"
    found, made = bronze(rows, require=("id",))
    assert [row[KEY] for row in found] == ["a", "b"]
    assert made.notes == ("1 row left out: id is empty",)
    found, made = bronze(ROWS, require=("who", "text"))
    assert [row["id"] for row in found] == [1, 3]
    assert (made.notes, made.read) == (("3 rows left out: who is empty",), 5)


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


# -- one of each key -----------------------------------------------------------------------------

TWICE = [{"id": key, "text": text} for key, text in ("a1", "b2", "a1", "b2", "b2")]
OTHERS = [*TWICE, {"id": "a", "text": "other"}, {"id": "c", "text": "3"}]


@pytest.mark.parametrize("size", [1, 2, 9])
def test_different_rows_of_one_key_are_named_and_equal_ones_count_once(size: int) -> None:
    for mode in ("error", "first", "last"):
        found, made = bronze(TWICE, size, on_duplicate=mode)
        assert [row[KEY] for row in found] == ["a", "b"] or mode == "last"
        assert sorted(row[KEY] for row in found) == ["a", "b"]
        assert made.notes == ("3 rows counted once: equal to another row",)
    with pytest.raises(DuplicateKeyError, match="the key 'a'") as raised:
        bronze(OTHERS, size)
    assert raised.value.where == "given, row 1 and given, row 6"
    assert "on_duplicate" in str(raised.value.hint)
    for mode, text in (("first", "1"), ("last", "other")):
        found, made = bronze(OTHERS, size, on_duplicate=mode)
        assert {row["id"]: row["text"] for row in found} == {"a": text, "b": "2", "c": "3"}
        assert made.notes[-1].endswith(f"not the {mode} row with its key")
    # rows that differ in what does not decide still differ
    rows = [{"id": 1, "text": "a", "at": 1}, {"id": 1, "text": "a", "at": 2}]
    with pytest.raises(DuplicateKeyError):
        bronze(rows, size, hash=("text",))
    found, _ = bronze(rows, size, hash=("text",), on_duplicate="last")
    assert [row["at"] for row in found] == [2]


@pytest.mark.slow
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
    assert (len(found), made.read) == (len(expected), len(rows))


@pytest.mark.slow
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["x", "y", "z", "long" * 9]), st.sampled_from([None, "", "a", "b"])
        ),
        max_size=14,
    ),
    size=st.integers(1, 5),
    by=st.sampled_from([("text_hash",), ("text_hash", "party")]),
    data=st.data(),
)
def test_duplicates_are_those_of_a_plain_loop(
    rows: list[tuple[str, str | None]], size: int, by: tuple[str, ...], data: st.DataObject
) -> None:
    keys = [f"k{number}" for number in data.draw(st.permutations(range(len(rows))))]
    texts, parties = ([row[at] for row in rows] for at in (0, 1))
    columns = {KEY: keys, "text": texts, "party": parties}
    whole = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    whole = whole.append_column("text_hash", row_hashes(whole, ["text"]))
    same = [(text, party if len(by) > 1 else 0) for text, party in rows]
    smallest: dict[Any, str] = {}
    for key, values in zip(keys, same, strict=True):
        smallest[values] = min(key, smallest.get(values, "l"))
    expected = {
        key: f"duplicate of {smallest[values]}"
        for key, values in zip(keys, same, strict=True)
        if smallest[values] != key
    }

    def batches(names: Any) -> Iterator[Any]:
        return (whole.select(names).slice(at, size) for at in range(0, whole.num_rows, size))

    found = duplicates(batches, by)
    assert dict(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected
    assert found.column(KEY).to_pylist() == sorted(expected)
