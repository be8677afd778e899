"""A SQL database: its settings, its tables, its reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import count_noun, text_hash
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
class QueryDatabase:
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


def read_rows(
    rows: Iterable[Sequence[Any]], columns: Sequence[str], max_rows: int, max_characters: int
) -> SqlReply:
    """Rows until a limit is reached, as a reply; values are converted to plain, short ones."""
    plain: list[tuple[Any, ...]] = []
    used, cut, truncated = 0, False, False
    for row in rows:
        values = []
        for value in row:
            if isinstance(value, bytes | memoryview):
                value = f"<{len(value)} bytes>"
            elif not (value is None or isinstance(value, bool | int | float)):
                value = str(value)
                if len(value) > CELL:
                    value, cut = value[:CELL] + "…", True
            values.append(value)
        used += sum(len(str(value)) for value in values)
        if len(plain) >= max_rows or used > max_characters:
            truncated = True
            break
        plain.append(tuple(values))
    notes = []
    if truncated and len(plain) >= max_rows:
        notes.append(f"only the first {max_rows} rows were read")
    elif truncated:
        notes.append(
            f"only {count_noun(len(plain), 'row')} fit in {max_characters} characters; there are "
            "more"
        )
    if cut:
        notes.append(f"values longer than {CELL} characters were cut")
    return SqlReply(tuple(columns), tuple(plain), truncated, tuple(notes))
