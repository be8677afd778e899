"""The tables of ingested spreadsheets as a database, narrowed to those that a reader may see."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from ..core import Filter, Hit, StatementError, opens_to
from ..flow import SqlReply
from ..index import unique
from ._options import SHEETS, DatabaseOptions
from ._sqlite import SqliteReader
from ._tables import Column, Database, Sheet, Table

_LISTED = (
    'SELECT name, shown, document, source, title, sheet, page, start, "end", groups, hash '
    "FROM _tables JOIN _documents ON id = document ORDER BY _tables.rowid"
)
_OWN = (Column("_row", "integer"),)
"""Before the columns of a sheet: the number of the row."""


def sheet_options() -> DatabaseOptions:
    """The settings of the database of spreadsheets."""
    about = "Tables of the spreadsheets and CSV files that were ingested; _row numbers their rows."
    return DatabaseOptions(SHEETS, "sqlite:///", about, examples=3)


class SheetReader(SqliteReader):
    """Reads the file of :func:`ragwright.index.keep_sheets`."""

    hidden = ("_row", "_start", "_end")

    def sheets(self) -> tuple[Sheet, ...]:
        """All tables of the file, in the order in which they were read.

        Raises:
            DatabaseError: The file cannot be read.
        """
        columns = {table.name: (*_OWN, *table.columns) for table in self.schema()}
        with self._opened() as connection:
            return tuple(
                Sheet(
                    Table(shown, columns[name]), name,
                    document, source, title, sheet, page, (start, end), tuple(json.loads(groups)),
                    stamp,
                )
                for name, shown, document, source, title, sheet, page, start, end, groups, stamp
                in connection.execute(_LISTED)
                if name in columns
            )  # fmt: skip

    def read_within(
        self, statement: str, max_rows: int, within: Sequence[tuple[str, str, str]]
    ) -> SqlReply:
        """Rows of one statement on some tables, as :class:`ragwright.flow.Sql` names them.

        Raises:
            StatementError: It was rejected, or took too long.
            DatabaseError: The file cannot be opened, or one of the tables has changed.
        """
        return self._reply(statement, max_rows, {"sheets": [list(sheet) for sheet in within]})


def narrowed_sheets(
    database: Database, filters: Sequence[Filter], documents: Collection[str] | None
) -> Database:
    """The tables that a reader may see; their names tell of no other table.

    Args:
        database: All tables.
        filters: Hard filters, of which the rights to read count here.
        documents: The only documents whose tables may be seen; None for all.
    """
    taken: set[str] = set()
    sheets = tuple(
        replace(sheet, table=replace(sheet.table, name=unique(sheet.table.name, taken)))
        for sheet in database.sheets
        if opens_to(sheet.groups, filters) and (documents is None or sheet.document in documents)
    )
    options = replace(database.options, keywords=tuple(dict.fromkeys(s.sheet for s in sheets)))
    tables = tuple(sheet.table for sheet in sheets)
    return replace(database, options=options, tables=tables, sheets=sheets)


def sheet_hits(hit: Hit, rows: SqlReply, database: Database) -> tuple[Hit, ...]:
    """The rows of a statement as hits of the documents whose tables it read; the first has them.

    Raises:
        StatementError: It read no table.
    """
    places = {name: (start, end) for name, start, end in rows.read}
    read = [sheet for sheet in database.sheets if sheet.table.name in places]
    if not read:
        raise StatementError("the statement reads no table", hint="select rows of a table")
    hits = []
    for rank, sheet in enumerate(read, 1):
        place = places[sheet.table.name]
        start, end = place if place[1] else sheet.span
        also = f"The statement of passage 1 reads this table, too: {sheet.table.name}"
        own = replace(
            hit,
            rank=rank,
            document_id=sheet.document,
            chunk_id=f"{sheet.document}:{start}-{end}",
            source=sheet.source,
            title=f"{sheet.title or sheet.source}, {sheet.sheet}",
            page=sheet.page,
            start=start,
            end=end,
            text=hit.text if rank == 1 else also,
        )
        hits.append(own)
    return tuple(hits)
