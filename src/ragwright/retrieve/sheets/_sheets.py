"""The tables of ingested spreadsheets as a database."""

from __future__ import annotations

import json
from typing import Any

from ...index import SheetColumn
from .._databases import SHEETS as SHEETS
from .._sqlite import SqliteReader
from .._tables import Column, Sheet, Table

_LISTED = (
    "SELECT name, document, source, title, sheet, notes, page, header, rows, totals, columns, "
    "doubt FROM _tables ORDER BY rowid"
)


class SheetReader(SqliteReader):
    """Reads the file of :func:`ragwright.index.sheets.keep_sheets`, as any SQLite database."""

    def sheets(self) -> tuple[Sheet, ...]:
        """The tables, in the order in which they were read.

        Raises:
            DatabaseError: The file cannot be read.
        """
        with self._opened() as connection:
            listed = connection.execute(_LISTED).fetchall()
        most: dict[tuple[str, ...], int] = {}
        for _, document, _, _, sheet, *_, rows, _, _, _ in listed:
            for key in ((document,), (document, sheet)):
                most[key] = max(rows, most.get(key, 0))
        return tuple(
            Sheet(
                name, document, source, title, sheet, notes, page, header, rows,
                tuple(json.loads(totals)), _columns(columns), rows == most[document,],
                rows == most[document, sheet], doubt,
            )
            for name, document, source, title, sheet, notes, page, header, rows, totals, columns,
            doubt in listed
        )  # fmt: skip

    def schema(self) -> tuple[Table, ...]:
        """The tables with types and units of their columns, and the row number as ``_row``."""
        return tuple(
            Table(
                sheet.name,
                (
                    Column("_row", "number of the row in the sheet"),
                    *(Column(c.name, _type_text(c)) for c in sheet.columns),
                ),
            )
            for sheet in self.sheets()
        )


def _columns(text: str) -> tuple[SheetColumn, ...]:
    entries: list[dict[str, Any]] = json.loads(text)
    lists = ("left_out", "units", "yes")
    return tuple(
        SheetColumn(**{**entry, **{name: tuple(entry[name]) for name in lists}})
        for entry in entries
    )


def _type_text(column: SheetColumn) -> str:
    kind = "date as YYYY-MM-DD" if column.type == "date" else column.type
    unit = f" in {column.unit}" if column.unit else ""
    return f"{kind}{unit}" if not column.problem else f"text, since {column.problem}"
