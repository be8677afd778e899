"""Pieces of rows joined and cut into batches that know where each row stood."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core import require
from .._seams import ArrowTable

_PLACES = b"ragwright.places"
"""Key of a batch's metadata: runs of rows as [first row of the batch, file, row there]."""

_BYTES = 1 << 28
"""Bytes that a batch holds at most (but for one row), however few rows that are."""

Runs: TypeAlias = list[tuple[int, str, int]]
"""First row of a run in its batch, what it is of, and which row of that it is."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows of one file.

    Attributes:
        rows: The rows.
        file: What the file is called in messages.
        numbers: Row of the file that each is, counted from 1; int64, shape (rows,).
    """

    rows: ArrowTable
    file: str
    numbers: NDArray[np.int64]

    def slice(self, start: int, count: int) -> RowBatch:
        """Return some consecutive rows."""
        end = start + count
        return RowBatch(self.rows.slice(start, count), self.file, self.numbers[start:end])

    def filter(self, wanted: NDArray[np.bool_]) -> RowBatch:
        """Return the rows that are wanted."""
        mask = require("pyarrow", "records", "reading records").array(wanted)
        return RowBatch(self.rows.filter(mask), self.file, self.numbers[wanted])


def piece(rows: ArrowTable, file: str, first: int) -> RowBatch:
    """Make a piece of consecutive rows of a file, from row ``first`` (from 1) on."""
    return RowBatch(rows, file, np.arange(first, first + rows.num_rows, dtype=np.int64))


def cut_batches(pieces: Iterable[RowBatch], rows: int) -> Iterator[ArrowTable]:
    """Cut pieces into batches of ``rows`` rows (fewer at the end, or if rows are very long).

    All pieces have the same columns and types.
    """
    waiting: list[RowBatch] = []
    count = size = 0
    for part in pieces:
        if not part.rows.num_rows:
            continue
        most = max(1, int(_BYTES // (part.rows.nbytes / part.rows.num_rows + 1)))
        step = min(rows, most)
        at = 0
        while at < part.rows.num_rows:
            taken = part.slice(at, min(step - count, part.rows.num_rows - at))
            at += taken.rows.num_rows
            waiting.append(taken)
            count += taken.rows.num_rows
            size += taken.rows.nbytes
            if count >= step or size >= _BYTES:
                yield _joined(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[RowBatch]) -> ArrowTable:
    pa = require("pyarrow", "records", "reading records")
    runs: Runs = []
    offset = 0
    for part in pieces:
        breaks = np.flatnonzero(np.diff(part.numbers) != 1) + 1
        for start in (0, *breaks.tolist()):
            runs.append((offset + start, part.file, int(part.numbers[start])))
        offset += len(part.numbers)
    rows = pa.concat_tables([part.rows for part in pieces]).combine_chunks()
    return rows.replace_schema_metadata({_PLACES: json.dumps(runs)})


def runs_of(batch: ArrowTable) -> Runs:
    """Return where the rows of a batch came from, for :func:`place_in`."""
    runs: Runs = json.loads((batch.schema.metadata or {}).get(_PLACES, b"[]"))
    return runs


def place_in(runs: Runs, at: int) -> str:
    """Return where a row of a batch came from: ``FILE, row N`` (from 1, without the header)."""
    for first, file, row in reversed(runs):
        if first <= at:
            return f"{file}, row {row + at - first}"
    return f"row {at + 1} of a batch"


def place(batch: ArrowTable, at: int) -> str:
    """Return where a row of a batch came from, as :func:`place_in` does."""
    return place_in(runs_of(batch), at)
