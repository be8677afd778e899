"""CSV that a spreadsheet does not run: a text that looks like a formula gets an apostrophe.

The same rule applies to every file that ragwright writes, and its inverse to every such file that
it reads (OWASP, CSV Injection).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_FORMULA = re.compile(r"^'*[=+\-@\t\r]")
"""Apostrophes before the beginning of a formula count, so that the guard can be undone."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def csv_formula() -> str:
    """Pattern of the texts that :func:`csv_cell` may guard, for search in Python or Arrow (RE2)."""
    return _FORMULA.pattern


def csv_cell(value: Any) -> Any:
    """A value as a cell of a CSV file: a text that a spreadsheet would run gets an apostrophe.

    Text begins a formula with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return. Numbers stay
    as they are, also as text (``-5``); None becomes an empty cell.
    """
    if value is None:
        return ""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def csv_text(cell: str) -> str:
    """The text of a cell that :func:`csv_cell` made: without the apostrophe that guarded it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_lines(
    rows: Iterable[Sequence[Any]], *, delimiter: str = ",", end: str = "\n"
) -> Iterator[str]:
    """Rows, the header among them, as guarded lines of CSV, one row in memory at a time."""
    out = io.StringIO(newline="")
    # The writer quotes a lone carriage return only where its own line end holds one.
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\r\n")
    for row in rows:
        writer.writerow([csv_cell(value) for value in row])
        yield out.getvalue().removesuffix("\r\n") + end
        out.seek(0)
        out.truncate()
