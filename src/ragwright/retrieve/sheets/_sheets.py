"""The tables of ingested spreadsheets as a database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...flow import SqlReply
from ...index import SheetColumn, quoted
from .._databases import SHEETS as SHEETS
from .._sqlite import SqliteReader
from .._tables import Column, Sheet, Table

_LISTED = (
    "SELECT name, document, source, title, sheet, notes, page, header, rows, totals, columns, "
    "_documents.hash, {groups}, {doubt} FROM _tables "
    "JOIN _documents ON _documents.id = document ORDER BY _tables.rowid"
)
_STAMPS = "SELECT name, hash FROM _tables JOIN _documents ON _documents.id = document"
_GROUPED = 3
"""Version of the file since which it holds groups of documents and doubts about tables."""


class SheetReader(SqliteReader):
    """Reads the file of :func:`ragwright.index.sheets.keep_sheets`, as any SQLite database."""

    def sheets(self) -> tuple[Sheet, ...]:
        """The tables, in the order in which they were read.

        Raises:
            DatabaseError: The file cannot be read.
        """
        with self._opened() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            known = version >= _GROUPED
            groups, doubt = ("groups", "doubt") if known else ("'null'", "''")
            statement = _LISTED.format(groups=groups, doubt=doubt)
            listed = connection.execute(statement).fetchall()
        most: dict[tuple[str, ...], int] = {}
        for _, document, _, _, sheet, _, _, _, rows, *_ in listed:
            for key in ((document,), (document, sheet)):
                most[key] = max(rows, most.get(key, 0))
        return tuple(
            Sheet(
                name, document, source, title, sheet, notes, page, header, rows,
                tuple(json.loads(totals)), _columns(columns), rows == most[document,],
                rows == most[document, sheet], _names(groups), stamp, doubt,
            )
            for name, document, source, title, sheet, notes, page, header, rows, totals, columns,
            stamp, groups, doubt in listed
        )  # fmt: skip

    def read_within(
        self,
        statement: str,
        max_rows: int,
        within: Sequence[tuple[str, str]],
        *,
        sealed: bool,
    ) -> SqlReply:
        """Rows of one checked statement on some tables.

        Args:
            statement: The statement.
            max_rows: Most rows of the reply.
            within: The tables, each with the hash of its document.
            sealed: Run it on a copy of these tables alone.

        Raises:
            StatementError: It was rejected, or took too long.
            DatabaseError: The file cannot be opened, or one of the tables has changed.
        """
        if not within and not sealed:
            return self.read(statement, max_rows)
        copied = [quoted(name) for name, _ in within] if sealed else None
        job = {"copied": copied, "held": [_STAMPS, [list(pair) for pair in within]]}
        return self._reply(statement, max_rows, job)

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


def _names(text: str) -> tuple[str, ...] | None:
    names: list[str] | None = json.loads(text)
    return None if names is None else tuple(names)


def _columns(text: str) -> tuple[SheetColumn, ...]:
    entries: list[dict[str, Any]] = json.loads(text)
    lists = ("left_out", "units", "yes", "several")
    return tuple(
        SheetColumn(**{**entry, **{name: tuple(entry[name]) for name in lists}})
        for entry in entries
    )


def _type_text(column: SheetColumn) -> str:
    kind = "date as YYYY-MM-DD" if column.type == "date" else column.type
    unit = f" in {column.unit}" if column.unit else ""
    return f"{kind}{unit}" if not column.problem else f"text, since {column.problem}"
