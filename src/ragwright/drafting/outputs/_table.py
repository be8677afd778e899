"""The file of outputs: one connection that writes, and connections that read."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from ...flow import Database
from ._schema import SCHEMA, VERSION
from ._times import now_utc, timestamp


class OutputTable:
    """The file of outputs, opened; several processes may write it.

    Args:
        path: File to use; made with mode 0600.
        power_safe: Wait for the disk at each commit.
        clock: Tells the time.
    """

    def __init__(
        self, path: Path, *, power_safe: bool = False, clock: Callable[[], datetime] = now_utc
    ) -> None:
        self._database = Database(path, SCHEMA, VERSION, power_safe)
        self._connection = self._database.connect()
        self._lock = threading.Lock()
        self._clock = clock

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._connection.close()

    def now(self) -> str:
        """The time as it is stored: ISO 8601, UTC."""
        return timestamp(self._clock())

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction, committed at the end or rolled back."""
        db = self._connection
        with self._lock:
            try:
                with self._database.explained():
                    db.execute("BEGIN IMMEDIATE")
                    yield db
                    db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A separate connection, on one state of the file: a half-read cursor blocks no others."""
        with closing(self._database.connect()) as db, self._database.explained():
            db.execute("BEGIN")
            yield db
