"""Rows that say the same: one of them goes on, the others are left out and say for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core import require
from ._seams import KEY, REASON, ArrowTable

if TYPE_CHECKING:
    from ._writing import Writing

DUPLICATE = "duplicate"
"""What the reason of such a row begins with."""


def duplicates(batches: Iterable[ArrowTable], by: Sequence[str]) -> ArrowTable:
    """Rows that are equal in some columns to one with a smaller key (as text).

    Args:
        batches: Rows with ``record_key`` and the columns of ``by``; keys are unique.
        by: Columns that make rows equal; a null equals a null.

    Returns:
        ``record_key`` of those rows and ``left_out``: ``duplicate of KEY``.
    """
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    shape = pa.schema([(KEY, pa.string()), (REASON, pa.string())])
    parts = list(batches)
    if not parts:
        return shape.empty_table()
    rows = pa.concat_tables(parts, promote_options="permissive")
    groups = rows.group_by(list(by), use_threads=False).aggregate([(KEY, "min"), (KEY, "count")])
    several = groups.filter(compute.greater(groups.column(f"{KEY}_count"), 1))
    if not several.num_rows:
        return shape.empty_table()
    first = several.select([*by, f"{KEY}_min"])
    found = _joined(rows, first, by)
    found = found.filter(compute.not_equal(found.column(KEY), found.column(f"{KEY}_min")))
    found = found.sort_by(KEY)
    reasons = compute.binary_join_element_wise(
        f"{DUPLICATE} of ", compute.cast(found.column(f"{KEY}_min"), pa.string()), ""
    )
    return pa.table({KEY: compute.cast(found.column(KEY), pa.string()), REASON: reasons})


def _joined(rows: ArrowTable, first: ArrowTable, by: Sequence[str]) -> ArrowTable:
    """Rows of groups with several, each beside the smallest key of its group."""
    pa = require("pyarrow", "records", "reading records")
    smallest = {
        group: key
        for *group_values, key in zip(*(c.to_pylist() for c in first.columns), strict=True)
        for group in (tuple(group_values),)
    }
    values = zip(*(rows.column(name).to_pylist() for name in by), strict=True)
    found = [smallest.get(group) for group in values]
    mins = pa.array(found, pa.string())
    return rows.select([KEY]).append_column(f"{KEY}_min", mins).filter(mins.is_valid())


def left_out_keys(writing: Writing) -> Mapping[str, ArrowTable]:
    """Keys that each stage had left out before this writing."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    found: dict[str, list[ArrowTable]] = {"bronze": [], "silver": [], "gold": []}
    for batch in writing.read("left_out", [KEY, "stage"]):
        for stage, chunks in found.items():
            there = compute.equal(batch.column("stage"), stage)
            chunks += batch.column(KEY).filter(there).chunks
    return {stage: pa.chunked_array(chunks, pa.string()) for stage, chunks in found.items()}
