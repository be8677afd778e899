"""The interface of a database of tables: a SQLite file or a PostgreSQL schema.

The SQL of the tables is written once, in the part of the language that both understand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from ..core import StoreError


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of rows that were written."""

    def fetchone(self) -> Any:
        """The next row, None after the last."""

    def fetchall(self) -> list[Any]:
        """The rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """The rows that are left, one by one."""


class Connection(Protocol):
    """A connection to a database; parameters are written as ``?``."""

    @property
    def in_transaction(self) -> bool:
        """True between the beginning of a transaction and its end."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor:
        """Run one statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        """Run one statement for each set of values."""

    def close(self) -> None:
        """Close it; what was not committed is undone."""


Work = Callable[[Connection], Any]
Done = Callable[[Any, BaseException | None], None]
C = TypeVar("C", bound=Connection)


@dataclass(frozen=True, slots=True)
class Forgets:
    """Which rows of a table go with a document, a scope or a person; ``?`` is its name.

    Attributes:
        table: The table.
        document: Condition of the rows that go with a document; empty if none do.
        scope: Condition of the rows that go with a scope; empty if none do.
        person: Condition of the rows that go with a person; empty if none do. Here and in
            ``becomes``, ``:name`` is the person's name, ``:erased`` the hash that stands for it.
        counts: What these rows are in the counts of ``ragwright forget``; empty: not counted.
        becomes: What is set in such rows instead of deleting them; ``?`` as in the conditions.
        local: True for a table of SQLite files alone.
    """

    table: str
    document: str = ""
    scope: str = ""
    person: str = ""
    counts: str = ""
    becomes: str = ""
    local: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """A table whose rows are added and then stay as they are: triggers refuse anything else.

    Conditions are SQL over ``NEW`` and ``OLD``, the row after and before a change.

    Attributes:
        table: The table.
        change: Condition of a change that is allowed.
        removal: Condition of a row that may be deleted.
    """

    table: str
    change: str
    removal: str


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of one subject.

    Attributes:
        name: Name of the subject; a schema of PostgreSQL ends with it.
        statements: Statements that make the tables; the first one makes the table that identifies
            files of this program.
        version: Schema version; files and schemas of another version are refused.
        local: Statements that make further tables, in SQLite files alone.
        damaged: Hint if a file is damaged: what to do, and what that loses.
        rebuild: Hint if a file is of another version; empty: move its folder away and ingest.
        side_by_side: True if several processes may write at the same moment, where the database
            allows it; otherwise they take turns.
        moved: Table -> the end of the statement, from ``ON CONFLICT``, that copies its rows to
            another database: what happens to a row that is there already.
        forgets: What goes with a document, a scope or a person, in the order of deleting.
        appended: Tables whose rows never change.
    """

    name: str
    statements: Sequence[str]
    version: int
    local: Sequence[str] = ()
    damaged: str = ""
    rebuild: str = ""
    side_by_side: bool = False
    moved: Mapping[str, str] = field(default_factory=dict)
    forgets: Sequence[Forgets] = ()
    appended: Sequence[Appended] = ()


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A PostgreSQL database that several machines share.

    Attributes:
        address: ``postgresql://host/database``; ``${NAME}`` is a variable of the environment.
        schema: Beginning of the names of its schemas.
        patience: Most seconds to wait for the server when it is away, once it has been reached.
    """

    address: str
    schema: str = "ragwright"
    patience: float = 30.0


Place: TypeAlias = Path | SharedPlace
"""Where tables are kept."""


class Database(ABC):
    """A database with the tables of one subject, its schema version checked.

    Attributes:
        tables: Its tables.
        name: Its name in messages.
        where: Where it is, without secrets.
        read_only: True if it cannot be written. Then it is read as it is.
        takes_turns: True if only one writes at a time.
        remote: True if a statement may have to wait for a network.
    """

    tables: Tables
    name: str
    where: str
    read_only: bool = False
    takes_turns: bool = True
    remote: bool = False

    @abstractmethod
    def connect(self) -> Connection:
        """A connection of its own; usable from any one thread at a time."""

    @abstractmethod
    def explained(self) -> AbstractContextManager[None]:
        """Turn the driver's errors into ours.

        Raises:
            StoreError: With what to do; its subclasses say why.
        """

    @abstractmethod
    def begin(self, connection: Connection, *, alone: bool = True) -> None:
        """Begin a transaction that writes; waits for its turn if ``alone``."""

    @abstractmethod
    def begin_reading(self, connection: Connection) -> None:
        """Begin a transaction that reads one state."""

    @abstractmethod
    def stream(self, connection: Connection, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Rows of a query, one in memory at a time."""

    @abstractmethod
    def scrub(self, connection: Connection) -> None:
        """Overwrite deleted content, so that forgotten text is gone from the database's files.

        Raises:
            StoreBusyError: Someone still reads the deleted content.
        """

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk, 0 where nothing could be made."""

    @abstractmethod
    def used(self, connection: Connection) -> int:
        """Bytes that stored content takes, without free space."""

    @abstractmethod
    def impatient(self, connection: Connection) -> AbstractContextManager[None]:
        """While it is open, statements do not wait long for other writers."""

    def in_memory(self) -> Connection:
        """A connection to an empty temporary database with the same tables."""
        raise NotImplementedError

    def require_writable(self) -> None:
        """Refuse what cannot be written, before work is done or paid for.

        Raises:
            StoreError: It cannot be written.
        """
        if self.read_only:
            raise StoreError(
                f"{self.name} cannot be written",
                where=self.where,
                hint="give this user the right to write in the folder, on a disk that is not "
                "mounted read-only",
            )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection of its own that writes: committed at the end, undone on an error.

        For rare writes, from any thread or process; raises StoreError where the database
        cannot be used.
        """
        connection = self.connect()
        try:
            with self.explained():
                self.begin(connection)
                yield connection
                connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back what was not committed

    def close(self) -> None:
        """Release what idle connections hold; safe to call twice."""
        return


def one_to_forget(
    source: str | None = None, scope: str | None = None, person: str | None = None
) -> str:
    """Return the name to forget: that of a document, a scope or a person.

    Raises:
        StoreError: Not exactly one is named, or the name is empty: that would select everything
            without a tenant, or without a key.
    """
    names = {"document": source, "tenant": scope, "person": person}
    named = {kind: name for kind, name in names.items() if name is not None}
    if len(named) != 1:
        raise StoreError("name one document, scope or person to forget")
    ((kind, name),) = named.items()
    if not name.strip():
        raise StoreError(
            f"the name of the {kind} is empty; nothing was forgotten",
            hint="an empty name would match everything that belongs to nobody; check the variable",
        )
    return name
