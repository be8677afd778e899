"""Copies of SQLite files while others write to them: all of one moment."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from ._kept_files import file_error, reading_connection

_WAIT_SECONDS = 30.0
_PAGES = 4096
"""Pages that are copied between two reports of progress."""


class HeldFile:
    """A SQLite file at one moment: what others write later is not seen.

    Attributes:
        path: The file.
        version: Its schema version.
        size: Its bytes at that moment.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self.version, pages, page = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("user_version", "page_count", "page_size")
        )
        self.size = pages * page

    def copy(self, target: Path, copied: Callable[[int], None] = lambda _: None) -> None:
        """Copy it to a new file with mode 0600; ``copied`` gets the bytes copied so far.

        Raises:
            StoreError: It cannot be read, or the copy cannot be written.
        """
        try:
            os.close(os.open(target, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600))
            with closing(sqlite3.connect(target)) as copy:
                self._connection.backup(
                    copy,
                    pages=_PAGES,
                    progress=lambda _, left, pages: copied(
                        round(self.size * (pages - left) / max(1, pages))
                    ),
                )
        except (sqlite3.Error, OSError) as error:
            raise file_error(error, self.path) from error


@contextmanager
def held_files(paths: Sequence[Path]) -> Iterator[list[HeldFile]]:
    """SQLite files as they are now, within milliseconds of each other; nothing is locked.

    Raises:
        StoreError: One cannot be read.
    """
    with ExitStack() as stack:
        held = []
        for path in paths:
            try:
                connection = reading_connection(path, _WAIT_SECONDS)
                stack.enter_context(closing(connection))
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                held.append(HeldFile(path, connection))
            except sqlite3.Error as error:
                raise file_error(error, path) from error
        yield held


def in_use(path: Path) -> bool:
    """True while another connection, of this or another process, has a SQLite file open.

    Otherwise its log is merged into the file. A file that cannot be read is not in use.
    """
    busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # refused while it is open elsewhere
    except sqlite3.Error as error:
        return error.sqlite_errorcode & 0xFF in busy
    return False
