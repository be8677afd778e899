"""The tables of outputs in the ledger: one connection that writes, and connections that read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime

from ...ledger import Connection, Ledger, Place
from ._times import now_utc, timestamp


class OutputTable:
    """The outputs, opened; several processes may write them.

    Args:
        place: File to use, made with mode 0600; or a shared database.
        clock: Returns the time.
    """

    def __init__(self, place: Place, *, clock: Callable[[], datetime] = now_utc) -> None:
        self._ledger = Ledger(place)
        self._database = self._ledger.database
        self._connection = self._database.connect()
        self._lock = threading.Lock()
        self._clock = clock

    def close(self) -> None:
        """Close it; safe to call twice."""
        self._connection.close()
        self._ledger.close()

    def now(self) -> str:
        """Return the time as it is stored: ISO 8601, UTC."""
        return timestamp(self._clock())

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open one write transaction, committed at the end or rolled back."""
        db = self._connection
        with self._lock:
            try:
                with self._database.explained():
                    self._database.begin(db)
                    yield db
                    db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection on one state of the file: a half-read cursor blocks no others."""
        with closing(self._database.connect()) as db, self._database.explained():
            self._database.begin_reading(db)
            yield db
