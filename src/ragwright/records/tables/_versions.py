"""Tables as a version names them: files, schema and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...core import RecordsError, require, suggest_name
from .._seams import HASH, KEY, ArrowTable, TableName
from ._files import LivePart, read_file
from ._log import bring, files_of, newest_entry, open_delta, schema_of
from ._manifest import TableState
from ._types import fit_rows

_MOST_OPEN = 64
"""Delta tables kept in memory."""


class Versions:
    """Delta tables of a folder, each version of them read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[tuple[TableName, int], Any] = {}
        self._files: dict[tuple[TableName, int], dict[str, int]] = {}

    def opened(self, table: TableName, state: TableState) -> Any:
        """The Delta table of a state, which has one."""
        place = table, state.delta
        if place not in self._opened:
            if len(self._opened) >= _MOST_OPEN:
                self._opened.clear()
                self._files.clear()
            self._opened[place] = open_delta(self.folder / table, state.delta)
        return self._opened[place]

    def files(self, table: TableName, state: TableState) -> dict[str, int]:
        """Names of a table's files in order, each with its number of rows."""
        if state.delta < 0:
            return {}
        place = table, state.delta
        if place not in self._files:
            files = files_of(self.opened(table, state))
            self._files[place] = files
        return self._files[place]

    def parts(self, table: TableName, state: TableState) -> tuple[LivePart, ...]:
        """Files of a table in order."""
        if not state.rows:
            return ()
        files = self.files(table, state)
        return tuple(LivePart(self.folder / table / name, rows) for name, rows in files.items())

    def schema(self, table: TableName, state: TableState) -> ArrowTable:
        """The Arrow schema of a table, with the columns that are null in every row."""
        pa = require("pyarrow", "records", "reading records")
        if state.delta < 0:
            return pa.schema([(KEY, pa.string()), (HASH, pa.string())])
        schema = schema_of(self.opened(table, state))
        kinds = dict(zip(schema.names, schema.types, strict=True))
        return pa.schema([(name, kinds.get(name, pa.null())) for name in state.schema])

    def heal(self, table: TableName, state: TableState) -> None:
        """Take a commit that was never finished out of a Delta table.

        What another program committed stays, for the next commit to refuse.
        """
        newest = newest_entry(self.folder / table)
        if newest not in (-1, state.delta):
            files, schema = self.files(table, state), self.schema(table, state)
            with suppress(RecordsError):
                bring(self.folder / table, files, schema)


def read_parts(
    parts: Iterable[LivePart], schema: ArrowTable, columns: Sequence[str] | None
) -> Iterator[ArrowTable]:
    """Rows of parts that count, a part at a time, all with the same schema.

    Raises:
        RecordsError: The table has no such column.
        StoreError: A file is damaged.
    """
    pa = require("pyarrow", "records", "reading records")
    chosen = schema if columns is None else None
    for part in parts:
        if chosen is None:
            chosen = _chosen(schema, columns or ())
        if part.live is not None and not part.live.any():
            continue
        rows = read_file(part.path, chosen.names)
        if not rows.num_columns:
            rows = pa.table({"": pa.nulls(part.rows)})
        if part.live is not None:
            rows = rows.filter(pa.array(part.live))
        if rows.num_rows:
            yield fit_rows(rows, chosen)


def _chosen(schema: ArrowTable, columns: Sequence[str]) -> ArrowTable:
    pa = require("pyarrow", "records", "reading records")
    for name in columns:
        if name not in schema.names:
            raise RecordsError(
                f"the table has no column {name!r}", hint=suggest_name(name, schema.names)
            )
    return pa.schema([schema.field(name) for name in columns])
