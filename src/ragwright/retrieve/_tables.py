"""A SQL database: its settings, its tables, its reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core import counted, text_hash
from ..flow import SqlReply
from ._options import DatabaseOptions

CELL = 2_000
"""Characters of one value; a longer one is cut, with a note."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, the database's name of its type, some of its values."""

    name: str
    type: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view and its columns, in the database's order."""

    name: str
    columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of a spreadsheet or CSV file.

    Attributes:
        table: Its name in statements, and its columns.
        name: Its name in the file of all tables.
        document: Id of the document.
        source: The file.
        title: Title of the document.
        sheet: Name of the sheet; that of the file for CSV.
        page: Number of the sheet; None for CSV.
        span: First and last character of the table in the document.
        groups: Groups of readers that its document names.
        stamp: Hash of its document.
    """

    table: Table
    name: str
    document: str
    source: str
    title: str
    sheet: str
    page: int | None
    span: tuple[int, int]
    groups: tuple[str, ...]
    stamp: str


@dataclass(frozen=True, slots=True)
class Database:
    """A database for routing and prompts; ``problem`` says why it cannot be queried.

    ``sheets`` are its tables where they are those of ingested spreadsheets.
    """

    options: DatabaseOptions
    tables: tuple[Table, ...] = ()
    dialect: str = "SQL"
    problem: str = ""
    sheets: tuple[Sheet, ...] = ()

    @property
    def within(self) -> tuple[tuple[str, str, str], ...]:
        """Its sheets as a statement is bound to them."""
        return tuple((sheet.table.name, sheet.name, sheet.stamp) for sheet in self.sheets)

    @property
    def documents(self) -> tuple[str, ...]:
        """The documents of its sheets, whose texts stand in its schema."""
        return tuple(dict.fromkeys(sheet.document for sheet in self.sheets))


class DatabaseReader(ABC):
    """Reads one database, with a new connection for every call, so that no state is kept."""

    dialect: str = "SQL"

    @abstractmethod
    def schema(self) -> tuple[Table, ...]:
        """Tables and views with their columns.

        Raises:
            DatabaseError: It cannot be opened or read.
        """

    def fingerprint(self) -> str:
        """Hash of its content, as far as possible: here of its schema only.

        Raises:
            DatabaseError: It cannot be opened or read.
        """
        return text_hash(repr(self.schema()))

    @abstractmethod
    def read(self, statement: str, max_rows: int) -> SqlReply:
        """Rows of one statement.

        Raises:
            StatementError: The database rejects it, or it takes too long.
            DatabaseError: The database cannot be opened.
        """


@dataclass(slots=True)
class RowBuffer:
    """Collects rows until a limit is reached; values are converted to plain, short ones."""

    max_rows: int
    max_characters: int
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    truncated: bool = False
    cut: bool = False
    _used: int = 0

    def take(self, row: Sequence[Any]) -> bool:
        """Add a row; False if there is no room for it."""
        converted = tuple(map(self._plain_value, row))
        self._used += sum(len(str(value)) for value in converted)
        if len(self.rows) >= self.max_rows or self._used > self.max_characters:
            self.truncated = True
            return False
        self.rows.append(converted)
        return True

    def reply(self, columns: Sequence[str]) -> SqlReply:
        """The collected rows as a reply."""
        notes = []
        if self.truncated and len(self.rows) >= self.max_rows:
            notes.append(f"only the first {self.max_rows} rows were read")
        elif self.truncated:
            notes.append(
                f"only {counted(len(self.rows), 'row')} fit in {self.max_characters} "
                "characters; there are "
                "more"
            )
        if self.cut:
            notes.append(f"values longer than {CELL} characters were cut")
        return SqlReply(tuple(columns), tuple(self.rows), self.truncated, tuple(notes))

    def _plain_value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, bytes | memoryview):
            return f"<{len(value)} bytes>"
        text = str(value)
        if len(text) > CELL:
            self.cut = True
            return text[:CELL] + "…"
        return text
