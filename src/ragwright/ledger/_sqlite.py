"""Tables in a SQLite file of the project, its errors, and the record of erasures."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ..core import (
    SchemaVersionError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    appending,
)
from ._database import Connection, Database
from ._tables import Tables

_BUSY_SECONDS = 30.0


def sqlite_version() -> str:
    """Version of the SQLite library that Python brings."""
    return sqlite3.sqlite_version


class SqliteDatabase(Database):
    """A SQLite file of this program: WAL, owner-only, with its schema version checked.

    A file that cannot be written is read as it is; if it is also missing, it is empty. A statement
    that writes is then an error.
    """

    def __init__(self, path: Path, tables: Tables) -> None:
        self.path = path
        self.tables = tables
        self.name = path.name
        self.where = str(path)
        self.read_only = not writable(path)
        with self.explained():
            if self.read_only:
                connection = self._reading()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
                connection = self._opened()
            with closing(connection):
                new = self._check(connection)  # before anything is written
                if not self.read_only:
                    self._prepare(connection)
                if new:
                    self._make_tables(connection)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file, unless another process has made them meanwhile."""
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                self._lay_out(connection)

    def _lay_out(self, connection: sqlite3.Connection) -> None:
        for statement in _statements(self.tables):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {self.tables.version}")

    def _check(self, connection: sqlite3.Connection) -> bool:
        """Refuse another program's file, and another version; True if the file is new."""
        # The tables first: another process makes them and sets the version in one transaction.
        names = {str(n) for (n,) in connection.execute("SELECT name FROM sqlite_master")}
        stored = connection.execute("PRAGMA user_version").fetchone()[0]
        ours = self.tables.statements[0].partition("(")[0].split()[-1]
        if names and ours not in names:
            raise StoreDamagedError(
                f"{self.path.name} is a SQLite file of another program: it has no table {ours!r}",
                where=str(self.path),
                hint="move it away and run the command again",
            )
        new = not (names or stored or self.read_only)
        if stored != self.tables.version and not new:
            raise SchemaVersionError(
                f"{self.path.name} has schema version {stored}; "
                f"this ragwright reads {self.tables.version}",
                where=str(self.path),
                hint=self.tables.rebuild
                or f"move {self.path.parent} away, then run: ragwright ingest",
            )
        return new

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn SQLite's errors about the file into ours.

        Raises:
            StoreDamagedError: The file is damaged.
            StoreError: It cannot be used otherwise.
        """
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise file_error(error, self.path, damaged=self.tables.damaged) from error

    def connect(self) -> sqlite3.Connection:
        """A connection of its own; usable from any one thread at a time."""
        if self.read_only:
            return self._reading()
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
        keep_log(connection, _BUSY_SECONDS)
        connection.execute("PRAGMA synchronous = NORMAL")
        _with_clock(connection)

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
        self._lay_out(connection)
        return _with_clock(connection)

    def begin(self, connection: Connection) -> None:
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


def keep_log(connection: sqlite3.Connection, patience: float) -> None:
    """Let a file keep a write-ahead log; wait so many seconds for others who change it, too.

    SQLite itself does not wait where two connections make this change to a new file.

    Raises:
        sqlite3.Error: Another process holds the file for longer, or it cannot be written.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _statements(tables: Tables) -> Iterator[str]:
    """All that makes the tables, the triggers of those whose rows never change among it."""
    yield from tables.statements
    yield from tables.local
    for rule in tables.appended:
        refusal = f"BEGIN SELECT RAISE(ABORT, '{rule.table} is append-only'); END"
        for event, allowed in (("UPDATE", rule.change), ("DELETE", rule.removal)):
            yield (
                f"CREATE TRIGGER {rule.table}_{event.lower()} BEFORE {event} ON {rule.table} "
                f"WHEN NOT ({allowed}) {refusal}"
            )


def _with_clock(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection with the function that a shared database's server answers with its clock."""
    connection.create_function("clock_seconds", 0, lambda: time.time())
    return connection


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
_UNWRITTEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DECODING = re.compile("Could not decode|no such (table|column|index)|.*has no column named")
"""Messages for a file whose schema or text has changed."""

_NO_ROOM = 65_536
"""Bytes: with less, SQLite cannot lay out its files and says `disk I/O error`."""

_EFFECTIVE = os.access in os.supports_effective_ids


def writable(path: Path) -> bool:
    """True if this process may write a file and its folder, or create the file if it is missing."""
    if path.exists() and not os.access(path, os.W_OK, effective_ids=_EFFECTIVE):
        return False
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return True  # creating it raises an error that says why
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE)


def discard(path: Path) -> None:
    """Delete a SQLite file with its logs, so that a new file never meets an old log."""
    for end in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{end}").unlink(missing_ok=True)


def reading_connection(path: Path, timeout: float) -> sqlite3.Connection:
    """A read-only connection to a SQLite file, also in a folder that cannot be written.

    A file with a log is read together with it. Without one, SQLite would have to create a log in
    the folder: there the file is read as it is, and statements are refused once another process has
    written to it.

    Raises:
        sqlite3.Error: It is not a SQLite file, cannot be read, or another process holds it.
    """
    address = path.absolute().as_uri()
    try:
        return _opened(f"{address}?mode=ro", timeout, sqlite3.Connection)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _UNWRITTEN or _begun(path):
            raise
        connection = _opened(f"{address}?mode=ro&immutable=1", timeout, _AsItLies)
        connection.watch(path)
        return connection


def copy_database(path: Path, copy: Path) -> None:
    """Copy a SQLite file with what its log holds; a copy that is there is replaced.

    Raises:
        StoreError: It cannot be read, or the copy cannot be written.
    """
    copy.unlink(missing_ok=True)
    try:
        with (
            closing(reading_connection(path, 30.0)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    except sqlite3.Error as error:
        raise file_error(error, path) from error


class _AsItLies(sqlite3.Connection):
    """Reads a file that SQLite treats as immutable; checks that nothing has written to it."""

    _path: Path | None = None
    _watched_state: tuple[int, ...] = ()

    def watch(self, path: Path) -> None:
        """Remember the present state of the file."""
        self._watched_state = _state_of(path)
        self._path = path
        self._check()

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement; its result is refused if the file was written before or meanwhile."""
        self._check()
        try:
            cursor = super().execute(*arguments)
        except sqlite3.DatabaseError:
            self._check()  # a file that looks damaged may have been written meanwhile
            raise
        self._check()
        return cursor

    def _check(self) -> None:
        path = self._path
        if path is not None and (_state_of(path) != self._watched_state or _begun(path)):
            error = sqlite3.OperationalError("another process began to write while it was read")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error


def _state_of(path: Path) -> tuple[int, ...]:
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _begun(path: Path) -> bool:
    """True if a log or a journal shows a write in progress or one that was cut off."""
    for end in ("-wal", "-journal"):
        with suppress(FileNotFoundError):
            if Path(f"{path}{end}").stat().st_size:
                return True
    return False


C = TypeVar("C", bound=sqlite3.Connection)


def _opened(address: str, timeout: float, kind: type[C]) -> C:
    connection = sqlite3.connect(
        address,
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        factory=kind,
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def file_error(
    error: sqlite3.Error | OSError | ValueError, path: Path, *, busy: str = "", damaged: str = ""
) -> StoreError:
    """An error of SQLite or the system about a file, as one of ours with a hint.

    Args:
        error: What was raised; a ValueError means stored bytes that do not decode.
        path: The file, or the folder, that it is about.
        busy: Hint if another process holds it too long.
        damaged: Hint if it is damaged.
    """
    if isinstance(error, sqlite3.Error) and path.is_dir():
        error = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if isinstance(error, OSError):
        return _system_error(error, path)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusyError(
            "another process holds the file",
            where=str(path),
            hint=busy or "wait for it to finish, or stop it, and run again",
        )
    full = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _no_room(path)
    if full or code == sqlite3.SQLITE_FULL:
        return _full(path)
    if isinstance(error, ValueError) or code in _DAMAGED or _DECODING.match(str(error)):
        # SQLite quotes text that does not decode, which is stored content
        hidden = isinstance(error, ValueError) or "decode" in str(error)
        reason = "its content cannot be decoded" if hidden else error
        return StoreDamagedError(
            f"{path.name} is damaged or not a store: {reason}",
            where=str(path),
            hint=damaged or "restore it from a backup",
        )
    if code in _UNWRITTEN:
        return _refused(path, str(error))
    return StoreError(
        f"the file cannot be used: {error}",
        where=str(path),
        hint="check the disk and its free space, and run it again",
    )


def _system_error(error: OSError, path: Path) -> StoreError:
    if error.errno in _FULL:
        return _full(path)
    place = Path(os.fsdecode(error.filename)) if error.filename else path
    reason = error.strerror or str(error)
    if error.errno == errno.EISDIR:
        return StoreDamagedError(
            f"{place.name} is a folder where a file should be",
            where=str(place),
            hint="move the folder away and run the command again",
        )
    if error.errno in _REFUSED:
        return _refused(place, reason)
    return StoreError(
        f"the file cannot be used: {reason}",
        where=str(place),
        hint="check the rights of the folder and the free space of the disk",
    )


def _full(path: Path) -> StoreFullError:
    return StoreFullError(
        "the disk is full; everything committed before is intact",
        where=str(path),
        hint="free some space and run it again",
    )


def _refused(path: Path, reason: str) -> StoreError:
    if path.exists() and not os.access(path, os.R_OK, effective_ids=_EFFECTIVE):
        return StoreError(
            f"the file cannot be read: {reason}",
            where=str(path),
            hint="give this user the right to read the file",
        )
    log = Path(f"{path}-wal")
    if log.exists() and not writable(path):
        return StoreError(
            "the file was left by a process that was killed, and cannot be read as it is: "
            f"{reason}",
            where=str(path),
            hint="run any command there once as a user who may write in the folder",
        )
    return StoreError(
        f"the file cannot be written: {reason}",
        where=str(path),
        hint="give this user the right to write in the folder, on a disk that is not mounted "
        "read-only",
    )


def _no_room(path: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(path.absolute().parent).free < _NO_ROOM
    return False


_LINE = 65
"""Bytes of a line: a SHA-256 in hexadecimal, and its end."""


class Erasures:
    """A file to which every erasure adds lines; its size is the number of the last erasure.

    Work notes :attr:`position` before it reads text. Before it stores or shows what came of it, it
    asks :meth:`touch`. The file holds hashes, so that it does not name what was erased.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def position(self) -> int:
        """The position of the next erasure; 0 before the first one."""
        try:
            return self.file.stat().st_size
        except FileNotFoundError:
            return 0

    def add(self, names: Iterable[str]) -> None:
        """Add names that are being erased; the caller makes sure that nobody works meanwhile.

        Raises:
            OSError: It cannot be written.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with appending(self.file, "".join(f"{_hashed(name)}\n" for name in names).encode()):
            pass

    def touch(self, since: int, names: Iterable[str]) -> bool:
        """True if one of these was erased after a position.

        Raises:
            OSError: The file cannot be read.
        """
        if self.position == since:
            return False
        with self.file.open("rb") as file:
            file.seek(since - since % _LINE)
            erased = set(file.read().decode("ascii", "replace").split())
        return any(_hashed(name) in erased for name in names)


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
