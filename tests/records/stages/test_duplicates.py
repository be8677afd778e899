"""Duplicates are found as a plain loop finds them, and keys of single rows stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from ragwright.records.stages import duplicates, row_hashes

ROWS = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z", "long" * 9]), st.sampled_from([None, "", "a", "b"])),
    max_size=14,
)


def table(rows: Sequence[tuple[str, str | None]], order: Sequence[int]) -> Any:
    made = pa.table(
        {
            "record_key": pa.array([f"k{number}" for number in order], pa.string()),
            "text": pa.array([text for text, _ in rows], pa.string()),
            "party": pa.array([party for _, party in rows], pa.string()),
        }
    )
    return made.append_column("text_hash", row_hashes(made, ["text"]))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    ROWS, st.integers(1, 5), st.sampled_from([("text_hash",), ("text_hash", "party")]), st.data()
)
def test_duplicates_are_those_of_a_plain_loop(
    rows: list[tuple[str, str | None]], size: int, by: tuple[str, ...], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    whole = table(rows, order)
    smallest: dict[Any, str] = {}
    same = [(text, party if len(by) > 1 else 0) for text, party in rows]
    for number, values in zip(order, same, strict=True):
        smallest[values] = min(f"k{number}", smallest.get(values, "l"))
    expected = {
        f"k{number}": f"duplicate of {smallest[values]}"
        for number, values in zip(order, same, strict=True)
        if smallest[values] != f"k{number}"
    }
    found = duplicates(lambda names: batches(whole.select(names), size), by)
    assert dict(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected
    assert found.column("record_key").to_pylist() == sorted(expected)


def batches(whole: Any, size: int) -> Iterator[Any]:
    return (whole.slice(at, size) for at in range(0, whole.num_rows, size))
