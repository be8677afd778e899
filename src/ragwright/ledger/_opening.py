"""Opening the ledger, and copying rows to another database."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..core import SchemaVersionError, StoreDamagedError, StoreError, own_additions
from ._access_tables import ACCESS_FORGETS, ACCESS_STATEMENTS
from ._database import Connection, Database, Forgets, Place, Tables
from ._kept_files import discard, file_error
from ._output_tables import OUTPUT_STATEMENTS, OUTPUTS_FORGET
from ._postgres import PostgresDatabase
from ._sqlite import SqliteDatabase
from ._writer import Writer

_RUNS = (
    """CREATE TABLE IF NOT EXISTS runs (
        run TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        manifest TEXT NOT NULL,
        hash TEXT NOT NULL,
        scope TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,             -- open | complete | stopped
        started REAL NOT NULL,
        ended REAL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS rows (
        run TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        row TEXT NOT NULL,
        state TEXT NOT NULL,
        body TEXT NOT NULL,
        written REAL NOT NULL,
        PRIMARY KEY (run, row)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS row_sources (
        source TEXT NOT NULL,
        run TEXT NOT NULL,
        row TEXT NOT NULL,
        PRIMARY KEY (source, run, row)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS names (
        run TEXT PRIMARY KEY,
        name TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS facts (
        run TEXT NOT NULL,
        fact TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (run, fact)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS runs_by_hash ON runs (kind, hash, started)",
)
"""Evaluations, studies and other runs: their rows, names and facts."""

_MADE_OF = "(run, row) IN (SELECT run, row FROM row_sources WHERE source = ?)"
_OF_SCOPE = "run IN (SELECT run FROM runs WHERE scope = ?)"
_RUNS_FORGET = (
    Forgets("rows", _MADE_OF, _OF_SCOPE, counts="rows"),
    Forgets("row_sources", _MADE_OF, _OF_SCOPE),
    Forgets("names", scope=_OF_SCOPE),
    Forgets("facts", scope=_OF_SCOPE),
    Forgets("runs", scope="scope = ?"),
)

_SPENDING = (
    """CREATE TABLE IF NOT EXISTS spending (
        day INTEGER PRIMARY KEY,         -- days since 1970-01-01, UTC, by the database's clock
        cost REAL NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS reserved (
        name TEXT PRIMARY KEY,
        day INTEGER NOT NULL,
        amount REAL NOT NULL
    ) WITHOUT ROWID""",
)
"""What was spent and is reserved, by day."""

_OWN = Tables(
    "ledger",
    (*_RUNS, *OUTPUT_STATEMENTS, *_SPENDING),
    6,
    local=ACCESS_STATEMENTS,
    damaged="restore it from a backup, or move it away: runs, outputs, feedback, what was spent, "
    "the history of jobs, keys of the server and promotions begin anew",
    forgets=(*_RUNS_FORGET, *OUTPUTS_FORGET, *ACCESS_FORGETS),
)
"""Tables of several rooms; a change of any table of the ledger raises the version here."""


@cache
def ledger_tables() -> Tables:
    """All that a project keeps in the ledger, with the tables of the parts of ragwright."""
    parts: list[Tables] = [part.load() for part in own_additions("tables")]
    return replace(
        _OWN,
        statements=(
            *_OWN.statements,
            *(statement for part in parts for statement in part.statements),
        ),
        local=(*_OWN.local, *(statement for part in parts for statement in part.local)),
        forgets=(*_OWN.forgets, *(rule for part in parts for rule in part.forgets)),
        appended=tuple(appended for part in parts for appended in part.appended),
    )


_CHUNK = 500


def copy_rows(path: Path, target: Database) -> Mapping[str, int]:
    """Copy the tables of a file, each chunk in one transaction; returns rows written per table.

    It may be repeated: rows that are there already are not written again.

    Args:
        path: The file; nothing is copied if it is missing.
        target: The database with the same tables; their declaration says what is copied.

    Raises:
        StoreError: The file cannot be read, or the database cannot be written.
    """
    if not path.exists():
        return {}
    source = SqliteDatabase(path, target.tables)
    with closing(source.connect()) as reading, closing(target.connect()) as writing:
        rules = target.tables.moved.items()
        return {name: _copy(reading, target, writing, name, rule) for name, rule in rules}


def _copy(reading: Connection, target: Database, writing: Connection, table: str, rule: str) -> int:
    names = [f'"{row[1]}"' for row in reading.execute(f"PRAGMA table_info({table})")]
    columns, marks = ", ".join(names), ", ".join("?" * len(names))
    insert = f"INSERT INTO {table} ({columns}) VALUES ({marks}) {rule}"  # noqa: S608
    rows = iter(reading.execute(f"SELECT {columns} FROM {table}"))  # noqa: S608
    written = 0
    with target.explained():
        while chunk := list(islice(rows, _CHUNK)):
            target.begin(writing)
            written += max(0, writing.executemany(insert, chunk).rowcount)
            writing.execute("COMMIT")
    return written


T = TypeVar("T")


def open_database(place: Place, tables: Tables, *, power_safe: bool = False) -> Database:
    """The tables of a subject in a SQLite file, or in a shared database; close it after use.

    Args:
        place: A file, made with mode 0600 where it is missing; or a shared database.
        tables: What it holds.
        power_safe: Wait for the disk at each commit; a server decides that itself.

    Raises:
        StoreError: It cannot be used; its subclasses say why.
    """
    if isinstance(place, Path):
        return SqliteDatabase(place, tables, power_safe, keep=True)
    return PostgresDatabase(place, tables)


class Ledger:
    """All that a project keeps in tables, opened: one database and one writer for all who open it.

    Args:
        place: As :func:`open_database`, and so are the others.
        tables: What it holds; None for the tables of ragwright itself.
        power_safe: Wait for the disk at each commit.

    Attributes:
        database: The database, which others in this process may use as well.

    Raises:
        StoreError: As :func:`open_database`.
    """

    def __init__(
        self,
        place: Place,
        tables: Tables | None = None,
        *,
        power_safe: bool = False,
    ) -> None:
        self._shared = _shared(place, tables or ledger_tables(), power_safe)
        self.database = self._shared.database
        self._writer: Writer | None = None
        self._reader: list[Connection] = []  # one, once something was read
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _release, self._shared, self._reader)
        self._end.atexit = False

    @property
    def writer(self) -> Writer:
        """The one thread of this process that writes to it.

        Raises:
            StoreError: The ledger was closed.
        """
        if self._writer is None:
            self._require_open()
            self._writer = self._shared.writer()
        return self._writer

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do work that writes, and wait for its commit; see :class:`Writer`.

        Raises:
            StoreError: It cannot be written.
        """
        self.database.require_writable()
        return self.writer.call(work)

    def select(self, query: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        """All rows of a query, read by a connection of its own; from any thread.

        Raises:
            StoreError: It cannot be read.
        """
        with self._lock:
            try:
                if not self._reader:
                    self._require_open()
                    self._reader.append(self._shared.connection())
                return self._reader[0].execute(query, values).fetchall()
            except Exception as error:  # entered in vain, it would take a third of a short query
                if self.database.remote and self._reader:
                    self._reader.pop().close()  # a query without an answer blocks those after it
                with self.database.explained():
                    raise error from None

    def _require_open(self) -> None:
        if not self._end.alive:
            raise StoreError("the store is closed", where=self.database.where)

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        if self._end.alive:
            self._shared.drain()
            self._end()
            self._writer = None


_MOST_IDLE = 2
"""Connections that are kept for the next reader: to open one takes half a millisecond."""

_Key: TypeAlias = tuple[Place, str, bool, int]


class _Shared:
    """A database and its writer, and how many have it open."""

    def __init__(self, key: _Key, database: Database) -> None:
        self.key = key
        self.database = database
        self.users = 0
        self.idle: list[Connection] = []
        self._state = _file_state(key[0])
        self._writer: Writer | None = None

    @property
    def usable(self) -> bool:
        """True while the file is the one that was opened."""
        place = self.key[0]
        return not isinstance(place, Path) or _file_state(place) == self._state

    def writer(self) -> Writer:
        with _GUARD:
            if self._writer is None:
                self._writer = Writer(self.database)
            return self._writer

    def connection(self) -> Connection:
        """A connection to read with, a used one where there is one."""
        with _GUARD:
            if self.idle:
                return self.idle.pop()
        return self.database.connect()

    def drain(self) -> None:
        if self._writer is not None and self.users > 1:
            self._writer.drain()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        for connection in self.idle:
            connection.close()
        self.database.close()


_GUARD = threading.RLock()  # a finalizer may run while the same thread holds it
_OPEN: dict[_Key, _Shared] = {}


def _shared(place: Place, tables: Tables, power_safe: bool) -> _Shared:
    """Open the ledger at a place, or count one more user of the open one."""
    where = place.absolute() if isinstance(place, Path) else place
    key = (where, tables.name, power_safe, os.getpid())
    with _GUARD:
        known = _OPEN.get(key)
        if known is not None and known.usable:
            known.users += 1
            return known
    # may take minutes: others wait for it only where they open the same
    database = open_database(place, tables, power_safe=power_safe)
    with _GUARD:
        other = _OPEN.get(key)
        if other is None or other is known or not other.usable:
            other = _Shared(key, database)
            if not database.read_only:  # that may change
                _OPEN[key] = other
        other.users += 1
    if other.database is not database:
        database.close()
    return other


def _release(shared: _Shared, reader: list[Connection]) -> None:
    if shared.key[3] != os.getpid():  # a copy in a forked process
        return
    with _GUARD:
        shared.idle += reader
        reader.clear()
        while len(shared.idle) > _MOST_IDLE:
            shared.idle.pop().close()
        shared.users -= 1
        last = not shared.users
        if last and _OPEN.get(shared.key) is shared:
            del _OPEN[shared.key]
    if last:
        shared.close()


def _file_state(place: Place) -> tuple[int, int] | None:
    try:
        stat = place.stat() if isinstance(place, Path) else None
    except OSError:
        return None
    return None if stat is None else (stat.st_dev, stat.st_ino)


def open_cache(path: Path, tables: Tables) -> SqliteDatabase:
    """The tables of a file that may be lost: a damaged one, or another version's, is replaced.

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
