"""The ledger's SQLite file, and taking over the rows of older files."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
)
from ._database import Connection, Database, Former, Tables
from ._kept_files import back_up, discard, file_error, reading_connection, rolled_back, writable
from ._locks import folder_locked

_WAIT_SECONDS = 600.0
"""How long other processes wait while one takes over; a large table of outputs takes minutes."""


_DAMAGED = "restore it from a backup, or move it away: what it holds is then left out"


@dataclass(frozen=True, slots=True)
class _File:
    """A former file as it is: its version, tables, hash and highest numbers given.

    It is empty if it has no rows and has given no numbers. ``rows`` are those of a file of text.
    """

    former: Former
    path: Path
    version: int
    names: frozenset[str]
    hash: str
    numbers: Mapping[str, int]
    empty: bool
    rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None


def former_files(path: Path, tables: Tables) -> list[tuple[Former, Path]]:
    """Files beside a file that hold, or held, rows for its tables."""
    folder = path.parent
    there = (former for former in tables.former if os.path.exists(f"{folder}/{former.file}"))  # noqa: PTH110 - at every opening: half the time
    return [(former, folder / former.file) for former in there]


def left_to_take(connection: sqlite3.Connection, path: Path, tables: Tables) -> list[Path]:
    """Former files whose rows are not in the tables yet; nothing is written.

    A file that a kill left behind, after its rows were taken, is not among them.
    """
    files = former_files(path, tables)
    taken = set(_taken(connection)) if files else set()
    return [file for former, file in files if former.file not in taken]


def take_over(connection: sqlite3.Connection, path: Path, tables: Tables) -> None:
    """Copy the rows of former files in one transaction, then rename these to ``NAME.vN.bak``.

    One process does it, others wait. Killed in the middle, it is done again: either no row was
    copied, or all were and only the files are renamed.

    Args:
        connection: A connection to the file, outside of a transaction.
        path: The file.
        tables: Its tables, which are there.

    Raises:
        StoreBusyError: An older ragwright still works with a former file.
        StoreDamagedError: A former file is damaged, or another program's.
        SchemaVersionError: A former file is newer, or was written to after its rows were taken.
        StoreFullError: The disk is full; the former files are as they were.
    """
    with folder_locked(path.parent, "the ledger takes over older files", wait=_WAIT_SECONDS):
        files = [_read_former(former, file) for former, file in former_files(path, tables)]
        try:
            with _attached(connection, files):
                connection.execute("PRAGMA synchronous = FULL")  # the files are renamed after it
                connection.execute("BEGIN IMMEDIATE")
                for at, file in enumerate(files):
                    _take(connection, f"former{at}", file, path)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            typed = file_error(error, path)
            if isinstance(typed, StoreFullError):
                raise StoreFullError(
                    f"the disk is full: {path.name} cannot take over the files of an older "
                    "ragwright; they are untouched",
                    where=str(path),
                    # once for the log, once for the file
                    hint=f"free {2 * sum(file.path.stat().st_size for file in files):,} bytes and "
                    "run it again",
                ) from error
            raise typed from error
        for file in files:
            if not file.empty:  # else it would take the place of a backup
                file.path.replace(file.path.with_name(f"{file.path.name}.v{file.version}.bak"))
            discard(file.path)  # with its logs, which are empty


def _read_former(former: Former, path: Path) -> _File:
    """Read a former file, its log included; refuse one that is damaged or another program's."""
    return _database_file(former, path) if former.read is None else _text_file(former, path)


def _text_file(former: Former, path: Path) -> _File:
    assert former.read is not None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise file_error(error, path) from error
    try:
        held = former.read(content.decode())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreDamagedError(
            f"{path.name} is damaged: {error}", where=str(path), hint=_DAMAGED
        ) from error
    _refuse_newer(former, path, held.version)
    digest = hashlib.sha256(content).hexdigest()
    empty = not any(held.rows.values()) and not any(held.numbers.values())
    names = frozenset(former.tables)
    return _File(former, path, held.version, names, digest, held.numbers, empty, held.rows)


def _refuse_newer(former: Former, path: Path, version: int) -> None:
    if version > former.version:
        raise SchemaVersionError(
            f"{path.name} has schema version {version}; this ragwright takes over {former.version}",
            where=str(path),
            hint="upgrade ragwright: pip install -U ragwright",
        )


def _database_file(former: Former, path: Path) -> _File:
    try:
        rolled_back(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            names = {str(n) for (n,) in connection.execute("SELECT name FROM sqlite_master")}
            if names and names.isdisjoint(former.tables):
                raise StoreDamagedError(
                    f"{path.name} is a SQLite file of another program: it has no table "
                    f"{next(iter(former.tables))!r}",
                    where=str(path),
                    hint="move it away and run the command again",
                )
            _refuse_newer(former, path, version)
            connection.execute("PRAGMA journal_mode = DELETE")  # refused while another has it open
            counted = "sqlite_sequence" in names
            numbers = connection.execute(
                "SELECT name, seq FROM sqlite_sequence" if counted else "SELECT '', 0"
            ).fetchall()
            firsts = (f"SELECT 1 FROM {table} LIMIT 1" for table in names & former.tables.keys())  # noqa: S608
            rows = [connection.execute(first).fetchone() for first in firsts]
        # once it is closed: to close a second handle would end SQLite's locks
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        raise file_error(
            error,
            path,
            busy="end the work of the older ragwright, then run the command again",
            damaged=_DAMAGED,
        ) from error
    empty = not any(rows) and not any(number for _, number in numbers)
    return _File(former, path, version, frozenset(names), digest, dict(numbers), empty)


@contextmanager
def _attached(connection: sqlite3.Connection, files: list[_File]) -> Iterator[None]:
    attached = []
    try:
        for at, file in enumerate(files):
            if file.rows is None:
                connection.execute(f"ATTACH ? AS former{at}", (str(file.path),))
                attached.append(at)
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        for at in attached:
            connection.execute(f"DETACH former{at}")


def _take(connection: sqlite3.Connection, schema: str, file: _File, path: Path) -> None:
    """Copy the rows of one former file, unless they were copied before."""
    former = file.former
    tables = {old: new for old, new in former.tables.items() if old in file.names}
    if file.empty or _taken(connection).get(former.file) == file.hash:
        return
    for new in {*tables.values()}:
        if connection.execute(f"SELECT 1 FROM main.{new} LIMIT 1").fetchone() is not None:  # noqa: S608
            raise SchemaVersionError(
                f"{file.path.name} was written to after {path.name} had taken its place",
                where=str(file.path),
                hint=f"an older ragwright was used here; to keep what it wrote, move {path.name} "
                f"away, else move {file.path.name} away",
            )
    for table, rows in (file.rows or {}).items():
        for row in rows:
            columns, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            insert = f"INSERT INTO main.{table} ({columns}) VALUES ({marks})"  # noqa: S608
            connection.execute(insert, [*row.values()])
    for old, new in tables.items() if file.rows is None else ():
        # a plain scan, so that rows keep their order
        connection.execute(f"INSERT INTO main.{new} SELECT * FROM {schema}.{old}")  # noqa: S608
    for old, number in file.numbers.items():  # a number is never given twice
        if old in tables:
            new = tables[old]
            connection.execute("DELETE FROM main.sqlite_sequence WHERE name = ?", (new,))
            connection.execute("INSERT INTO main.sqlite_sequence VALUES (?, ?)", (new, number))
    for version, statement in former.upgrades.items():
        if file.version < version:
            connection.execute(statement)
    connection.execute(
        "INSERT INTO taken_over VALUES (?, ?) "
        "ON CONFLICT (file) DO UPDATE SET hash = excluded.hash",
        (former.file, file.hash),
    )


def _taken(connection: sqlite3.Connection) -> dict[str, str]:
    """Hash of every former file whose rows are here."""
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'taken_over'").fetchone()
    rows = connection.execute("SELECT file, hash FROM taken_over").fetchall() if known else []
    return {str(file): str(digest) for file, digest in rows}


_BUSY_SECONDS = 30.0
_PATIENCE_MS = 200


def sqlite_version() -> str:
    """Version of the SQLite library that Python brings."""
    return sqlite3.sqlite_version


class SqliteDatabase(Database):
    """A SQLite file of this program: WAL, owner-only, with its schema version checked.

    A file that cannot be written is read as it is; if it is also missing, it is empty. A statement
    that writes is then an error.

    Args:
        path: The file; made where it is missing.
        tables: What it holds.
        power_safe: Wait for the disk at each commit.
        keep: Keep the connection that checked the file for the first who wants one, because to
            read a schema takes half a millisecond; then the database must be closed.
    """

    def __init__(
        self, path: Path, tables: Tables, power_safe: bool = False, *, keep: bool = False
    ) -> None:
        self.path = path
        self.tables = tables
        self.name = path.name
        self.where = str(path)
        self._power_safe = power_safe
        self._kept: list[sqlite3.Connection] = []
        self.read_only = not writable(path)
        if not self.read_only:
            self._make()
        with self.explained():
            connection = self._reading() if self.read_only else self._opened()
        try:
            self._check(connection)  # before anything is written
            if not self.read_only:
                self._prepare(connection)
            self._bring_up(connection)
            if keep and not self.read_only:
                self._kept.append(connection)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._error(error) from error
        except OSError as error:
            raise file_error(error, path) from error
        finally:
            if connection not in self._kept:
                connection.close()

    def _bring_up(self, connection: sqlite3.Connection) -> None:
        """Migrate the file, and take over older ones; nothing is written where none is needed."""
        path, tables, version = self.path, self.tables, self.tables.version
        stored = connection.execute("PRAGMA user_version").fetchone()[0]
        if self.read_only:
            hint = "run any command there once as a user who may write in the folder"
            for former in left_to_take(connection, path, tables):
                raise SchemaVersionError(
                    f"{former.name} is of an older ragwright; {path.name} must take it over",
                    where=str(former),
                    hint=hint,
                )
            if stored < version:
                raise SchemaVersionError(
                    f"{path.name} has schema version {stored} and must be migrated to {version}",
                    where=str(path),
                    hint=hint,
                )
            return
        if stored < version:
            self._migrate(connection)
        if former_files(path, tables):
            take_over(connection, path, tables)
            self._prepare(connection)  # it has waited for the disk

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Make the tables, or bring them to the present version after a backup."""
        tables = self.tables
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            # Another process may have migrated it while this one waited.
            stored = connection.execute("PRAGMA user_version").fetchone()[0]
            if stored >= tables.version:
                return
            if stored and tables.backup:
                with closing(reading_connection(self.path, _BUSY_SECONDS)) as reader:
                    back_up(reader, self.path, stored)
            for statement in _statements(tables):
                connection.execute(statement)
            if stored:
                _add_columns(connection, tables)
            connection.execute(f"PRAGMA user_version = {tables.version}")

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse another program's file, and a newer version."""
        stored = connection.execute("PRAGMA user_version").fetchone()[0]
        names = {str(n) for (n,) in connection.execute("SELECT name FROM sqlite_master")}
        ours = self.tables.statements[0].partition("(")[0].split()[-1]
        if names and ours not in names:
            raise StoreDamagedError(
                f"{self.path.name} is a SQLite file of another program: it has no table {ours!r}",
                where=str(self.path),
                hint="move it away and run the command again",
            )
        if stored > self.tables.version:
            raise SchemaVersionError(
                f"{self.path.name} has schema version {stored}; "
                f"this ragwright reads {self.tables.version}",
                where=str(self.path),
                hint="upgrade ragwright: pip install -U ragwright",
            )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn SQLite's errors about the file into ours.

        Raises:
            StoreDamagedError: The file is damaged.
            StoreError: It cannot be used otherwise.
        """
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
        return file_error(error, self.path, damaged=self.tables.damaged)

    def _make(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise file_error(error, self.path) from error

    def connect(self) -> sqlite3.Connection:
        """A connection of its own; usable from any one thread at a time."""
        if self.read_only:
            return self._reading()
        with suppress(IndexError):
            return self._kept.pop()
        with self.explained():
            connection = self._opened()
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _opened(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._power_safe else 'NORMAL'}")
        _with_clock(connection)

    def close(self) -> None:
        """Close the connection that was kept; safe to call twice."""
        while self._kept:
            self._kept.pop().close()

    def _reading(self) -> sqlite3.Connection:
        if self.path.exists():
            with self.explained():
                return reading_connection(self.path, _BUSY_SECONDS)
        connection = self.in_memory()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def in_memory(self) -> sqlite3.Connection:
        """A connection to an empty temporary database with the same tables."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for statement in _statements(self.tables):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {self.tables.version}")
        return _with_clock(connection)

    def begin(self, connection: Connection, *, alone: bool = True) -> None:
        """Begin a transaction that writes; SQLite has one writer at a time."""
        connection.execute("BEGIN IMMEDIATE")

    def begin_reading(self, connection: Connection) -> None:
        """Begin a transaction that reads one state."""
        connection.execute("BEGIN")

    def stream(self, connection: Connection, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Rows of a query, one in memory at a time."""
        return iter(connection.execute(sql, values))

    def scrub(self, connection: Connection) -> None:
        """Overwrite deleted content, in the file and in its log.

        Raises:
            StoreBusyError: Another connection still reads the deleted content.
        """
        with self.explained():
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise StoreBusyError(
                "the text is deleted but not yet overwritten: another process reads the file",
                where=self.where,
                hint="end other work on this project, then forget again",
            )

    def size(self) -> int:
        """Bytes of the file, 0 where it could not be made."""
        return self.path.stat().st_size if self.path.exists() else 0

    def used(self, connection: Connection) -> int:
        """Bytes of the file that are in use."""
        with self.explained():
            pages, free, each = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * each)

    @contextmanager
    def impatient(self, connection: Connection) -> Iterator[None]:
        """While it is open, statements do not wait long for other writers."""
        patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        try:
            yield
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")


def _add_columns(connection: sqlite3.Connection, tables: Tables) -> None:
    """Give tables of an older version the columns that were declared since, at their defaults."""
    for table, columns in declared_columns(tables).items():
        known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for name, definition in columns.items():
            if name not in known:
                connection.execute(f'ALTER TABLE {table} ADD COLUMN "{name}" {definition}')


def declared_columns(tables: Tables) -> dict[str, dict[str, str]]:
    """Table -> column -> type and default, as declared."""
    with closing(sqlite3.connect(":memory:")) as memory:
        for statement in (*tables.statements, *tables.local):
            memory.execute(statement)
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return {
            table: {
                name: f"{kind}{' NOT NULL' if required else ''}"
                f"{'' if default is None else f' DEFAULT {default}'}"
                for _, name, kind, required, default, _ in memory.execute(
                    f"PRAGMA table_info({table})"
                )
            }
            for (table,) in memory.execute(query).fetchall()
        }


def _statements(tables: Tables) -> Iterator[str]:
    """All that makes the tables, the triggers of those whose rows never change among it."""
    yield from tables.statements
    yield from tables.local
    for rule in tables.appended:
        refusal = f"BEGIN SELECT RAISE(ABORT, '{rule.table} is append-only'); END"
        for event, allowed in (("UPDATE", rule.change), ("DELETE", rule.removal)):
            name = f"{rule.table}_{event.lower()}"
            yield f"DROP TRIGGER IF EXISTS {name}"  # that of an older version allows less
            yield (
                f"CREATE TRIGGER {name} BEFORE {event} ON {rule.table} WHEN NOT ({allowed}) "
                f"{refusal}"
            )


def _with_clock(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection with the function that a shared database's server answers with its clock."""
    connection.create_function("clock_seconds", 0, lambda: time.time())
    return connection
