"""Spreadsheets: a sheet is a page, each block of cells a table."""

from __future__ import annotations

import datetime
import io
from dataclasses import replace
from typing import Any

from ...core import (
    EncryptedSourceError,
    MalformedSourceError,
    require,
)
from .._archive import Archive
from .._extract import Extract, TextBuilder
from .._numbers import plain_number
from .._odt import ods_sheets
from .._options import SourceOptions
from .._sniff import suffix_of
from ._blocks import add_sheet, cells_of, fill_merged
from ._package import Package
from ._workbook import read_workbook

_TYPES = {
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".xls": "application/vnd.ms-excel",
}
_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def read_sheet(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a workbook, its cells as the sheets show them.

    Values are those last computed; merged cells are repeated in every place they cover.

    Raises:
        EncryptedSourceError: Protected by a password.
        MalformedSourceError: Truncated or damaged.
    """
    builder = TextBuilder()
    if not data.startswith(b"PK"):
        _read_by_calamine(data, where, builder)
    elif "xl/workbook.xml" in Archive(data, where, options):
        read_workbook(Package(data, where, options, builder, "xl/workbook.xml"), builder)
    else:
        for name, grid in ods_sheets(data, where, options, builder):
            add_sheet(builder, name, cells_of(grid))
    return replace(builder.extract(_TYPES.get(suffix_of(where), _XLSX), {}), title="")


def _read_by_calamine(data: bytes, where: str, builder: TextBuilder) -> None:
    """Read a workbook in another form than Open XML; calamine gives values without formats."""
    calamine = require("python_calamine", "docs", "reading spreadsheets")
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        for name in workbook.sheet_names:
            sheet = workbook.get_sheet_by_name(name)
            rows = sheet.to_python(skip_empty_area=False)
            cells = cells_of([_spell(value) for value in row] for row in rows)
            fill_merged(cells, ((*a, *b) for a, b in sheet.merged_cell_ranges or ()))
            add_sheet(builder, name, cells)
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


def _spell(value: Any) -> str:
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, datetime.timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value).strip()
