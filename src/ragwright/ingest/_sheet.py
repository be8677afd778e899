"""Spreadsheets: a sheet is a page, each block of cells a table."""

from __future__ import annotations

import datetime
import functools
import io
import re
from collections.abc import Iterator
from typing import Any

from ..core import (
    EmptySourceError,
    EncryptedSourceError,
    MalformedSourceError,
    counted,
    require,
)
from ._archive import Archive
from ._extract import Extract, TextBuilder
from ._language import guess_language
from ._options import SourceOptions

Grid = list[list[str]]
_TYPES = {
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".xls": "application/vnd.ms-excel",
}
_PLACE = re.compile(rb'\br="([A-Z]{0,3})(\d{1,7})"')
_MOST_CELLS = 50_000_000
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def read_sheet(data: bytes, where: str, suffix: str, options: SourceOptions) -> Extract:
    """Read a workbook; empty rows or columns separate tables.

    Values are those last computed; merged cells are repeated in every place they cover.

    Raises:
        EmptySourceError: No cell holds a value.
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    if data.startswith(b"PK"):
        archive = Archive(data, where, options)
        archive.verify()
        _refuse_spread(archive, where)
    calamine = require("python_calamine", "docs", "reading spreadsheets")
    builder = TextBuilder()
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        for name in workbook.sheet_names:
            builder.page(name)
            blocks = list(_blocks(_cells(workbook.get_sheet_by_name(name))))
            if blocks:
                builder.heading(name, 1)
            for block in blocks:
                if len(block) == 1 and len(block[0]) == 1:
                    builder.add(block[0][0])
                else:
                    builder.table(block)
    except calamine.PasswordError as error:
        raise EncryptedSourceError(
            "the workbook is protected by a password",
            where=where,
            hint="save a copy without the password",
        ) from error
    except calamine.CalamineError as error:
        raise MalformedSourceError(
            f"the workbook is damaged: {error}", where=where, hint="open it and save it again"
        ) from error
    text = builder.text()
    if not text:
        raise EmptySourceError("no cell contains a value", where=where, hint="remove or fill it")
    return Extract(
        text=text,
        language=guess_language(text),
        media_type=_TYPES.get(suffix, _XLSX),
        pages=builder.pages(),
        sections=builder.sections(),
    )


def _refuse_spread(archive: Archive, where: str) -> None:
    """Refuse cells in far corners: the library allocates every cell between them.

    Raises:
        MalformedSourceError: A sheet spans more cells than any real one.
    """
    for name in archive.names:
        if not name.startswith("xl/worksheets/") or not name.endswith(".xml"):
            continue
        rows, columns = 1, 1
        for match in _PLACE.finditer(archive.read(name)):
            rows = max(rows, int(match[2]))
            columns = max(columns, _column(match[1]))
        if rows * columns > _MOST_CELLS:
            raise MalformedSourceError(
                f"{name!r} spans {counted(rows, 'row')} by {counted(columns, 'column')}",
                where=where,
                hint="delete the stray cells far from the table, and save the file again",
            )


@functools.cache
def _column(letters: bytes) -> int:
    """Return the number of a column from 1: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _cells(sheet: Any) -> Grid:
    grid = [[_spell(value) for value in row] for row in sheet.to_python(skip_empty_area=False)]
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or ():
        if top < len(grid) and left < len(grid[top]) and grid[top][left]:
            for r in range(top, min(bottom + 1, len(grid))):
                for c in range(left, min(right + 1, len(grid[r]))):
                    grid[r][c] = grid[top][left]
    return grid


def _spell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value).strip()


def _blocks(grid: Grid, by_rows: bool = True, settled: bool = False) -> Iterator[Grid]:
    """Yield blocks of cells separated by empty rows and columns."""
    lines = grid if by_rows else [list(column) for column in zip(*grid, strict=True)]
    groups: list[Grid] = [[]]
    for line in lines:
        if any(line):
            groups[-1].append(line)
        elif groups[-1]:
            groups.append([])
    groups = [group for group in groups if group]
    settled_now = settled and len(groups) == 1
    for group in groups:
        block = group if by_rows else [list(row) for row in zip(*group, strict=True)]
        if settled_now:
            yield block
        else:
            yield from _blocks(block, not by_rows, len(groups) == 1)
