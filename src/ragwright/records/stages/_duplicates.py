"""Duplicate rows: one is kept, the others are left out with its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core import require
from .._seams import DUPLICATE, KEY, REASON, ArrowTable
from ..tables import TableWriter, Words, pack_hashes
from ._hashes import row_hashes


def duplicates(
    read: Callable[[Sequence[str]], Iterator[ArrowTable]], by: Sequence[str]
) -> ArrowTable:
    """Rows that are equal in some columns to one with a smaller key (as text).

    Of a row 128 bits are held, and 8 bytes to sort them by; keys of those rows alone that are
    equal to another.

    Args:
        read: Gives the rows, some columns of them, in the same order each time; their
            ``record_key`` is unique.
        by: Columns that make rows equal, compared by their text; a null equals a null.

    Returns:
        ``record_key`` of those rows, sorted, and ``left_out``: ``duplicate of KEY``.
    """
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    hashes = [pack_hashes(row_hashes(batch, by)) for batch in read(by)]
    groups = _groups(np.concatenate(hashes) if hashes else np.empty((0, 2), np.uint64))
    several = groups >= 0
    keys = [pa.array([], pa.large_string())]
    start = 0
    for batch in read([KEY]) if several.any() else ():
        chosen = pa.array(several[start : start + batch.num_rows])
        keys += batch.column(KEY).filter(chosen).cast(pa.large_string()).chunks
        start += batch.num_rows
    rows = pa.table({KEY: pa.chunked_array(keys), "group": groups[several]})
    firsts = rows.group_by("group", use_threads=False).aggregate([(KEY, "min")]).sort_by("group")
    first = firsts.column(f"{KEY}_min").take(rows.column("group"))
    rows = rows.append_column("first", first)
    rows = rows.filter(compute.not_equal(rows.column(KEY), first)).sort_by(KEY)
    reasons = compute.binary_join_element_wise(
        pa.scalar(f"{DUPLICATE} of", pa.large_string()),
        rows.column("first"),
        pa.scalar(" ", pa.large_string()),
    )
    return pa.table({KEY: rows.column(KEY).cast(pa.string()), REASON: reasons.cast(pa.string())})


def kind_of_reason(reason: str) -> str:
    """A reason without what is particular to the row, such as ``duplicate``."""
    return DUPLICATE if reason.startswith(DUPLICATE) else reason.partition(": ")[0]


def _groups(hashes: Words) -> NDArray[np.int64]:
    """For each row the number of its group, from 0, -1 where no other row is equal to it."""
    rows = len(hashes)
    groups = np.full(rows, -1, np.int64)
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    same = (ordered[1:] == ordered[:-1]).all(axis=1)
    del ordered
    joins = np.append(np.zeros(1, np.bool_), same)[:rows]
    several = joins | np.append(same, np.zeros(1, np.bool_))[:rows]
    if several.any():
        groups[order[several]] = np.cumsum(~joins[several]) - 1
    return groups


def read_left_out_keys(writing: TableWriter) -> Mapping[str, ArrowTable]:
    """Keys that each stage had left out before this writing."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    chunks_of_stage: dict[str, list[ArrowTable]] = {"bronze": [], "silver": [], "gold": []}
    for batch in writing.read("left_out", [KEY, "stage"]):
        for stage, chunks in chunks_of_stage.items():
            there = compute.equal(batch.column("stage"), stage)
            chunks += batch.column(KEY).filter(there).chunks
    return {
        stage: pa.chunked_array(chunks, pa.string()) for stage, chunks in chunks_of_stage.items()
    }
