"""Hashes of rows: equal content, equal hash, whatever engine or batch computed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import require
from ._daft import daft_module
from ._seams import ArrowTable

_SEEDS = (0, 0x9E3779B97F4A7C15 & 0x7FFFFFFF)
"""Two runs of a 64-bit hash make one of 128 bits."""

_NULL = "\0null\0"
"""What stands for a null, which the hash takes for an empty text."""


def row_hashes(batch: ArrowTable, columns: Sequence[str]) -> ArrowTable:
    """One hash a row over some columns: an Arrow array of 32 hexadecimal digits each.

    Values count by their text (the number 7 and the text ``7`` are equal), a null differs from
    an empty text, and neither the order of the columns in the batch nor its size matters. Lists
    and records count by the text of their values. XXH3, twice 64 bits.
    """
    pa = require("pyarrow", "records", "reading records")
    daft = daft_module()
    record_batch = require("daft.recordbatch", "records", "reading records").RecordBatch
    names = sorted(columns)
    texts = {name: _as_text(batch.column(name)) for name in names}
    rows = batch.num_rows
    if not rows:
        return pa.array([], pa.string())
    if not names:
        return pa.array(["0" * 32] * rows, pa.string())
    functions = require("daft.functions", "records", "reading records")
    columns_of = [daft.col(name) for name in names]
    halves = record_batch.from_arrow_table(pa.table(texts)).eval_expression_list(
        [functions.hash(*columns_of, seed=seed).alias(f"h{seed}") for seed in _SEEDS]
    )
    both = np.empty((rows, 2), ">u8")
    for at, column in enumerate(halves.to_arrow_table().columns):
        both[:, at] = column.to_numpy()
    digits = both.tobytes().hex()
    return pa.array([digits[at : at + 32] for at in range(0, len(digits), 32)], pa.string())


def _as_text(column: ArrowTable) -> ArrowTable:
    """A column as large strings without nulls."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_binary(kind):
        found = [None if value is None else repr(value) for value in column.to_pylist()]
        return compute.fill_null(pa.array(found, pa.large_string()), _NULL)
    return compute.fill_null(compute.cast(column, pa.large_string()), _NULL)
