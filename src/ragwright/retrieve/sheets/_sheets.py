"""The tables of ingested spreadsheets as a database."""

from __future__ import annotations

import json

from ...index import SheetColumn
from .._databases import SHEETS as SHEETS
from .._sqlite import SqliteReader
from .._tables import Column, Sheet, Table

_LISTED = (
    "SELECT name, document, source, title, sheet, notes, page, header, rows, totals, columns "
    "FROM _tables ORDER BY rowid"
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
        most: dict[str, int] = {}
        for _, document, *_, rows, _, _ in listed:
            most[document] = max(rows, most.get(document, 0))
        return tuple(
            Sheet(
                name, document, source, title, sheet, notes, page, header, rows,
                tuple(json.loads(totals)), _columns(columns), rows == most[document],
            )
            for name, document, source, title, sheet, notes, page, header, rows, totals, columns
            in listed
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
    return tuple(
        SheetColumn(**{**entry, "left_out": tuple(entry["left_out"])}) for entry in json.loads(text)
    )


def _type_text(column: SheetColumn) -> str:
    kind = "date as YYYY-MM-DD" if column.type == "date" else column.type
    unit = f" in {column.unit}" if column.unit else ""
    return f"{kind}{unit}" if not column.problem else f"text, since {column.problem}"
