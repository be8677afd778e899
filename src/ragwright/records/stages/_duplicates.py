"""Duplicate rows: one is kept, the others are left out with its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...core import require
from .._seams import DUPLICATE, KEY, REASON, ArrowTable
from ..tables import TableWriter
from ._hashes import row_hashes


def duplicates(
    read: Callable[[Sequence[str]], Iterator[ArrowTable]], by: Sequence[str]
) -> ArrowTable:
    """Find the rows that are equal in some columns to one with a smaller key (as text).

    Args:
        read: Gives the rows, some columns of them; their ``record_key`` is unique.
        by: Columns that make rows equal, compared by their text; a null equals a null.

    Returns:
        ``record_key`` of those rows, sorted, and ``left_out``: ``duplicate of KEY``.
    """
    pa = require("pyarrow", "records", "reading records")
    hash_of: dict[str, str] = {}
    for batch in read([KEY, *by]):
        hashes = row_hashes(batch, by).to_pylist()
        hash_of |= dict(zip(batch.column(KEY).to_pylist(), hashes, strict=True))
    first: dict[str, str] = {}
    losers = []
    for key in sorted(hash_of):
        if first.setdefault(hash_of[key], key) != key:
            losers.append(key)
    reasons = [f"{DUPLICATE} of {first[hash_of[key]]}" for key in losers]
    return pa.table({KEY: pa.array(losers, pa.string()), REASON: pa.array(reasons, pa.string())})


def kind_of_reason(reason: str) -> str:
    """A reason without what is particular to the row, such as ``duplicate``."""
    return DUPLICATE if reason.startswith(DUPLICATE) else reason.partition(": ")[0]


def read_left_out_keys(writing: TableWriter) -> Mapping[str, set[str]]:
    """Read the keys that each stage had left out before this writing."""
    keys: dict[str, set[str]] = {"bronze": set(), "silver": set(), "gold": set()}
    for batch in writing.read("left_out", [KEY, "stage"]):
        for row in batch.to_pylist():
            keys[row["stage"]].add(row[KEY])
    return keys
