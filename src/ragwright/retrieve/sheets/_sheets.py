"""The tables of ingested spreadsheets as a database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from ...index.sheets import SheetColumn
from .._sqlite import SqliteReader
from .._tables import Column, Table

SHEETS = "sheets"
"""Name of the database that holds the tables of spreadsheets."""

_LISTED = (
    "SELECT name, document, source, title, sheet, notes, page, header, rows, totals, columns "
    "FROM _tables ORDER BY rowid"
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of a sheet, as a question may name it.

    Attributes:
        name: Its name in SQL.
        document: Id of the document.
        source: The file.
        title: Title of the document.
        sheet: Name of the sheet; that of the file for CSV.
        notes: What stands above its header.
        page: Number of the sheet; None for CSV.
        header: Row of the header.
        rows: Number of rows of data.
        totals: Rows of totals, which are not data.
        columns: Its columns.
        largest: True for the table of its document with the most rows.
    """

    name: str
    document: str
    source: str
    title: str
    sheet: str
    notes: str
    page: int | None
    header: int
    rows: int
    totals: tuple[int, ...]
    columns: tuple[SheetColumn, ...]
    largest: bool = True

    def column(self, name: str) -> SheetColumn:
        """The column of a name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def place(self) -> str:
        """The sheet and its file, for a reader."""
        return f"sheet {self.sheet} of {self.source}" if self.page is not None else self.source

    @property
    def file_name(self) -> str:
        """The file without folder and suffix, which names its largest table; else empty."""
        return PurePosixPath(self.source.rpartition("#")[2]).stem if self.largest else ""


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
