"""A SQL database: its settings, its tables, its reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ..core import counted, text_hash
from ..flow import SqlReply
from ._options import DatabaseOptions

if TYPE_CHECKING:
    from ..index import SheetColumn

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
        leads: True for the table of its sheet with the most rows.
        groups: Groups of readers that its document names; None where the file does not say.
        stamp: Hash of its document.
        doubt: Why its rows may be others than these; empty where they are certain.
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
    leads: bool = True
    groups: tuple[str, ...] | None = ()
    stamp: str = ""
    doubt: str = ""

    @property
    def called(self) -> str:
        """Names of the sheet and the file, as far as they name this table and no larger one."""
        return f"{self.sheet if self.leads else ''} {self.file_name}"

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


@dataclass(frozen=True, slots=True)
class Database:
    """A database for routing and prompts; ``problem`` says why it cannot be queried.

    ``sheets`` describes its tables further where they are those of ingested spreadsheets;
    ``narrowed`` says that they are those which a reader may see, and perhaps not all.
    """

    options: DatabaseOptions
    tables: tuple[Table, ...] = ()
    dialect: str = "SQL"
    problem: str = ""
    sheets: tuple[Sheet, ...] = ()
    narrowed: bool = False

    def within(self, sheets: Iterable[Sheet]) -> tuple[tuple[str, str], ...]:
        """Some of its sheets as a statement is bound to them; nothing where all may be read."""
        return tuple((sheet.name, sheet.stamp) for sheet in sheets) if self.narrowed else ()


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
        """Rows of one statement that has been checked.

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
