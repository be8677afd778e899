"""Hashes of rows: equal content, equal hash, whatever engine or batch computed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core import require, text_hash
from .._daft import daft_module
from .._seams import ArrowTable


def row_hashes(batch: ArrowTable, columns: Sequence[str]) -> ArrowTable:
    """One hash a row over some columns: an Arrow array of 32 hexadecimal digits each.

    Values count by their text (the number 7 and the text ``7`` are equal) and the name of their
    column. A null differs from an empty text and counts as if its column were not there, so
    that a column that only new rows have leaves the hashes of all others as they are. Neither
    the order of the columns in the batch nor its size matters. Lists and records count by the
    text of their values. The sum over the columns of XXH3 under two seeds of the column's own.
    """
    pa = require("pyarrow", "records", "reading records")
    daft = daft_module()
    record_batch = require("daft.recordbatch", "records", "reading records").RecordBatch
    rows = batch.num_rows
    if not rows:
        return pa.array([], pa.string())
    if not columns:
        return pa.array(["0" * 32] * rows, pa.string())
    functions = require("daft.functions", "records", "reading records")
    texts = {name: _as_text(batch.column(name)) for name in columns}
    halves = [
        functions.hash(daft.col(name), seed=seed).alias(f"{at}_{half}")
        for at, name in enumerate(texts)
        for half, seed in enumerate(_seeds(name))
    ]
    hashed = record_batch.from_arrow_table(pa.table(texts)).eval_expression_list(halves)
    halves_of_columns = hashed.to_arrow_table().columns
    both = np.zeros((rows, 2), np.uint64)
    for at, text in enumerate(texts.values()):
        there = text.is_valid().to_numpy(zero_copy_only=False)
        for half in (0, 1):
            both[:, half] += np.where(
                there, halves_of_columns[2 * at + half].to_numpy(), np.uint64(0)
            )
    digits = both.astype(">u8").tobytes().hex()
    return pa.array([digits[at : at + 32] for at in range(0, len(digits), 32)], pa.string())


def _seeds(column: str) -> tuple[int, int]:
    """Two seeds of 63 bits."""
    digits = text_hash(column)
    return int(digits[:16], 16) >> 1, int(digits[16:32], 16) >> 1


def _as_text(column: ArrowTable) -> ArrowTable:
    """A column as one array of large strings."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_binary(kind):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(texts, pa.large_string())
    return compute.cast(column, pa.large_string())
