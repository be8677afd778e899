"""The ledger of a project, opened: one database, one writer and one reader for all who open it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..core import SchemaVersionError, StoreDamagedError, StoreError
from ._database import Connection, Database, Place
from ._kept_files import discard, file_error
from ._postgres import PostgresDatabase
from ._sqlite import SqliteDatabase
from ._tables import Tables, ledger_tables
from ._writer import Writer

T = TypeVar("T")


def open_database(place: Place, tables: Tables, *, power_safe: bool = False) -> Database:
    """Open the tables of a subject in a SQLite file, or in a shared database; close it after use.

    Args:
        place: A file, made with mode 0600 where it is missing; or a shared database.
        tables: What it holds.
        power_safe: Wait for the disk at each commit; a server decides that itself.

    Raises:
        StoreError: It cannot be used; its subclasses say why.
    """
    if isinstance(place, Path):
        return SqliteDatabase(place, tables, power_safe)
    return PostgresDatabase(place, tables)


class _Shared:
    """A database with its writer and its reader, and how many have it open."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.users = 0
        self.lock = threading.Lock()
        self.reader: Connection | None = None
        self.writer: Writer | None = None


_GUARD = threading.Lock()
_OPEN: dict[object, _Shared] = {}


class Ledger:
    """All that a project keeps in tables, opened; whoever opens it in a process shares one writer.

    Args:
        place: A file, made with mode 0600 where it is missing; or a shared database.
        power_safe: Wait for the disk at each commit.

    Attributes:
        database: The database, which others in this process may use as well.

    Raises:
        StoreError: As :func:`open_database`.
    """

    def __init__(self, place: Place, *, power_safe: bool = False) -> None:
        self.database = open_database(place, ledger_tables(), power_safe=power_safe)
        self._key = (_identity(place), power_safe, os.getpid())
        self._open = True
        with _GUARD:
            self._shared = _OPEN.setdefault(self._key, _Shared(self.database))
            self._shared.users += 1
        if self._shared.database is not self.database:
            self.database.close()
            self.database = self._shared.database

    @property
    def writer(self) -> Writer:
        """The one thread of this process that writes to it.

        Raises:
            StoreError: The ledger was closed.
        """
        with self._shared.lock:
            self._require_open()
            if self._shared.writer is None:
                self._shared.writer = Writer(self.database)
            return self._shared.writer

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work that writes, and wait for its commit; see :class:`Writer`.

        Raises:
            StoreError: It cannot be written.
        """
        self.database.require_writable()
        return self.writer.call(work)

    def select(self, query: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        """Read all rows of a query; from any thread.

        Raises:
            StoreError: It cannot be read.
        """
        shared = self._shared
        with shared.lock, self.database.explained():
            self._require_open()
            shared.reader = shared.reader or self.database.connect()
            try:
                return list(shared.reader.execute(query, values).fetchall())
            except BaseException:  # a query without an answer would block those after it
                shared.reader.close()
                shared.reader = None
                raise

    def _require_open(self) -> None:
        if not self._open:
            raise StoreError("the store is closed", where=self.database.where)

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        shared = self._shared
        with shared.lock:
            if not self._open or self._key[2] != os.getpid():  # a copy in a forked process
                return
            self._open = False
        if shared.writer is not None:
            shared.writer.drain()
        with _GUARD:
            shared.users -= 1
            if shared.users:
                return
            del _OPEN[self._key]
        if shared.writer is not None:
            shared.writer.close()
        if shared.reader is not None:
            shared.reader.close()
        shared.database.close()


def _identity(place: Place) -> object:
    """What is the same for all who open the same file, or the same shared database."""
    if not isinstance(place, Path):
        return place
    if not place.exists():
        return place.absolute(), object()  # it cannot be made
    stat = place.stat()
    return stat.st_dev, stat.st_ino


def open_cache(path: Path, tables: Tables) -> SqliteDatabase:
    """Open the tables of a file that may be lost: one that cannot be read is replaced.

    Raises:
        StoreError: It cannot be used otherwise.
    """
    try:
        return SqliteDatabase(path, tables)
    except (StoreDamagedError, SchemaVersionError):
        try:
            discard(path)
        except OSError as error:
            raise file_error(error, path) from error
        return SqliteDatabase(path, tables)
