"""Files that are kept: which can be written, how to read those that cannot, what errors mean."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from ._errors import StoreBusyError, StoreError, StoreFullError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}
_UNWRITTEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}

_NO_ROOM = 65_536
"""Bytes: with less, SQLite cannot lay out its files and says `disk I/O error`."""

_EFFECTIVE = os.access in os.supports_effective_ids


def writable(path: Path) -> bool:
    """Whether this process may write a file and beside it, or make it where it is missing."""
    if path.exists() and not os.access(path, os.W_OK, effective_ids=_EFFECTIVE):
        return False
    folder = path.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return True  # whoever makes it is told what is in the way
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE)


def reading_connection(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection to a SQLite file that is only read, also where nothing beside it can be made.

    A file with a log is read together with it. Without one, SQLite would have to make one in the
    folder: there the file is read as it lies. Whoever holds such a connection while somebody
    else writes may read a torn state, so it is to be short-lived.

    Raises:
        sqlite3.Error: It is no such file, or cannot be read.
    """
    address = path.absolute().as_uri()
    try:
        return _opened(f"{address}?mode=ro", timeout)
    except sqlite3.OperationalError:
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        return _opened(f"{address}?mode=ro&immutable=1", timeout)


def _opened(address: str, timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def file_error(
    error: sqlite3.Error | OSError, path: Path, *, busy: str = "", damaged: str = ""
) -> StoreError:
    """What SQLite or the system says of a file, as one of ours with a way out.

    Args:
        error: What was raised.
        path: The file, or the folder, that it is about.
        busy: What to do where another process holds it too long.
        damaged: What to do where it is damaged.
    """
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
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreError(
            f"the file is damaged or not a store: {error}",
            where=str(path),
            hint=damaged or "restore it from a backup; a reply cache may simply be deleted",
        )
    if code in _UNWRITTEN:
        return _refused(path, str(error))
    return StoreError(
        f"the file cannot be used: {error}",
        where=str(path),
        hint="see whether the disk has room and is sound, and run it again",
    )


def _system_error(error: OSError, path: Path) -> StoreError:
    if error.errno in _FULL:
        return _full(path)
    place = Path(os.fsdecode(error.filename)) if error.filename else path
    said = error.strerror or str(error)
    if error.errno in _REFUSED:
        return _refused(place, said)
    return StoreError(
        f"the file cannot be used: {said}",
        where=str(place),
        hint="see whether the folder can be written and the disk has room",
    )


def _full(path: Path) -> StoreFullError:
    return StoreFullError(
        "the disk is full; everything committed before is intact",
        where=str(path),
        hint="free some space and run it again",
    )


def _refused(path: Path, said: str) -> StoreError:
    if path.exists() and not os.access(path, os.R_OK, effective_ids=_EFFECTIVE):
        return StoreError(
            f"the file cannot be read: {said}",
            where=str(path),
            hint="let this user read the file",
        )
    log = Path(f"{path}-wal")
    if log.exists() and not writable(path):
        return StoreError(
            f"the file was left by a process that was cut off, and cannot be read as it is: {said}",
            where=str(path),
            hint="run a command there once as a user who may write in the folder",
        )
    return StoreError(
        f"the file cannot be written: {said}",
        where=str(path),
        hint="let this user write in the folder, on a disk that is not mounted read-only",
    )


def _no_room(path: Path) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(path.absolute().parent).free < _NO_ROOM
    return False
