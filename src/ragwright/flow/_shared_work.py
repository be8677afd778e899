"""A lock for work on several machines: many may work, or one must be alone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..core import StoreBusyError, text_hash
from ..ledger import REPLY_TABLES, Connection, SharedPlace, open_database

log = logging.getLogger("ragwright.flow")


class SharedWork:
    """The lock, kept by the server of a shared database; it ends with the connection.

    Threads of one process share one connection.

    Args:
        place: The shared database.
    """

    def __init__(self, place: SharedPlace) -> None:
        self._database = open_database(place, REPLY_TABLES)
        self._number = int(text_hash(f"work {place.schema}")[:15], 16)
        self._connection: Connection | None = None
        self._workers = 0
        self._lock = threading.Lock()

    def reach(self) -> None:
        """Check that the server answers, without waiting for one that is away.

        Raises:
            StoreUnreachableError: It does not.
        """
        with self._database.explained():
            connection = self._database.connect()
            try:
                connection.execute("SELECT 1")
            finally:
                connection.close()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold the lock together with any number of others.

        Raises:
            StoreBusyError: Somebody holds it alone for longer than 30 seconds.
        """
        with self._lock:
            if not self._workers:
                self._connection = self._take("SELECT pg_advisory_lock_shared(?)")
            self._workers += 1
        try:
            yield
        finally:
            with self._lock:
                self._workers -= 1
                if not self._workers and self._connection is not None:
                    self._give_back(self._connection, "_shared")
                    self._connection = None

    @contextmanager
    def alone(self, what: str, *, wait: float = 2.0, hint: str = "") -> Iterator[None]:
        """Hold the lock alone, once all others have ended.

        Raises:
            StoreBusyError: Others work for longer than ``wait`` seconds.
        """
        end = time.monotonic() + wait
        connection = self._database.connect()
        try:
            with self._database.explained():
                while not connection.execute(
                    "SELECT pg_try_advisory_lock(?)", (self._number,)
                ).fetchone()[0]:
                    if time.monotonic() > end:
                        raise StoreBusyError(
                            f"{what} cannot begin: another process or machine works with the "
                            "shared database",
                            where=self._database.where,
                            hint=hint,
                        )
                    time.sleep(0.05)
        except BaseException:
            connection.close()
            raise
        try:
            yield
        finally:
            self._give_back(connection, "")

    def close(self) -> None:
        """Close its connections; safe to call twice."""
        self._database.close()

    def _take(self, lock: str) -> Connection:
        connection = self._database.connect()
        try:
            with self._database.explained():
                connection.execute(lock, (self._number,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Connection, kind: str) -> None:
        held = False
        with suppress(Exception):  # a lost connection has given the lock back
            (held,) = connection.execute(
                f"SELECT pg_advisory_unlock{kind}(?)", (self._number,)
            ).fetchone()
        connection.close()
        if not held:
            log.warning(
                "the connection to the shared database was lost during the work, and with it the "
                "lock against `forget`: if something was forgotten meanwhile, forget it again"
            )
