"""Reads and writes rows, also in the formats of other tools."""

from ._dialects import unread_columns, unread_note
from ._records import (
    lines_of,
    make_plain_row,
    objects_of,
    open_bytes,
    records_of,
    row_record,
    write_lines,
    write_rows,
)
from ._rows import half_note, holds_half, iter_rows, read_rows, rows_of

__all__ = [
    "half_note",
    "holds_half",
    "iter_rows",
    "lines_of",
    "make_plain_row",
    "objects_of",
    "open_bytes",
    "read_rows",
    "records_of",
    "row_record",
    "rows_of",
    "unread_columns",
    "unread_note",
    "write_lines",
    "write_rows",
]
