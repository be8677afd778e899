"""Columns of Arrow tables as single arrays."""

from __future__ import annotations

from ..core import RecordsError, require
from ._seams import ArrowTable


def join_chunks(column: ArrowTable) -> ArrowTable:
    """A column as one array."""
    pa = require("pyarrow", "records", "reading records")
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return combined.chunk(0) if combined.num_chunks else pa.array([], column.type)
    return combined


def cast_texts(column: ArrowTable, name: str, place: str) -> ArrowTable:
    """A column as one array of large strings.

    Args:
        column: Of texts, numbers, dates or bytes that are UTF-8.
        name: What it is called, for messages.
        place: Where it is named, for messages.

    Raises:
        RecordsError: It holds lists, records, or bytes that are not text.
    """
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    try:
        return compute.cast(join_chunks(column), pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordsError(
            f"the column {name!r} is not text but {column.type}",
            where=place,
            hint="use another column, or convert it to text in the source",
        ) from error
