"""The interface of a database of tables: a SQLite file or a PostgreSQL schema.

The SQL of the tables is written once, in the part of the language that both understand.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from ..core import StoreError, hash_erased_name
from ._tables import ErasureRule, Tables


class Connection(Protocol):
    """A connection to a database; parameters are written as ``?``."""

    @property
    def in_transaction(self) -> bool:
        """True between the beginning of a transaction and its end."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Any:
        """Run one statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Any:
        """Run one statement for each set of values."""

    def close(self) -> None:
        """Close it; what was not committed is undone."""


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
        remote: True if a statement may have to wait for a network.
    """

    tables: Tables
    name: str
    where: str
    read_only: bool = False
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
    def begin(self, connection: Connection) -> None:
        """Begin a transaction that writes; waits for its turn: one writes at a time."""

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


_MARKS = re.compile(r"\?|:name\b|:erased\b")


def forget(
    database: Database,
    *,
    source: str | None = None,
    scope: str | None = None,
    person: str | None = None,
) -> Mapping[str, int]:
    """Purge a document, a scope or a person in one transaction; overwrite what was deleted.

    Returns the number of rows by what they are: ``rows`` of runs, ``outputs``, printed ``jobs``.

    Raises:
        StoreError: Not exactly one is named, the name is empty, or the database cannot be
            written.
        StoreBusyError: Another process holds the database, or still reads what was deleted.
    """
    name = one_to_forget(source, scope, person)
    database.require_writable()
    counts: dict[str, int] = {}
    with database.transaction() as connection:
        for rule, condition in _rules(database, source, scope, person):
            change = f"DELETE FROM {rule.table}"  # noqa: S608
            if rule.becomes:
                change = f"UPDATE {rule.table} SET {rule.becomes}"  # noqa: S608
            cursor = connection.execute(*_filled(f"{change} WHERE {condition}", name))
            if rule.counts:
                counts[rule.counts] = counts.get(rule.counts, 0) + cursor.rowcount
    with closing(database.connect()) as connection:
        database.scrub(connection)
    return counts


def count_kept_of_person(database: Database, person: str) -> Mapping[str, int]:
    """Count what :func:`forget` would purge of a person; nothing is changed.

    Raises:
        StoreError: The name is empty, or the database cannot be read.
    """
    one_to_forget(person=person)
    counts: dict[str, int] = {}
    with closing(database.connect()) as connection, database.explained():
        for rule, condition in _rules(database, None, None, person):
            if rule.counts:
                query = f"SELECT count(*) FROM {rule.table} WHERE {condition}"  # noqa: S608
                number = connection.execute(*_filled(query, person)).fetchone()[0]
                counts[rule.counts] = counts.get(rule.counts, 0) + int(number)
    return counts


def _rules(
    database: Database, source: str | None, scope: str | None, person: str | None
) -> Iterator[tuple[ErasureRule, str]]:
    for rule in database.tables.forgets:
        named = ((source, rule.document), (scope, rule.scope), (person, rule.person))
        condition = next(condition for name, condition in named if name is not None)
        if condition and not (database.remote and rule.local):
            yield rule, condition


def _filled(statement: str, name: str) -> tuple[str, list[str]]:
    """A statement with ``?`` in place of its marks, and their values."""
    marks = _MARKS.findall(statement)
    values = [hash_erased_name(name) if mark == ":erased" else name for mark in marks]
    return _MARKS.sub("?", statement), values
