"""Sessions of readers who signed in on the pages: random ids, kept by the server until they end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from ..ledger import Connection, Ledger, Place
from ._keys import ServeKey, ServeKeys, hashed

LIFE = 7 * 24 * 3600
"""Seconds after which a reader has to sign in again."""

_ID_BYTES = 32
_MOST = 10_000
"""Sessions that are kept; the oldest end first."""


class Sessions:
    """The sessions of a project, in its ledger, which holds hashes of their ids.

    A session is worth nothing once its key is revoked, and cannot be used in place of the key
    anywhere else.

    Args:
        place: Its ledger.
        keys: Its keys.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self, place: Place, keys: ServeKeys, clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger = Ledger(place)
        self._keys = keys
        self._clock = clock

    def close(self) -> None:
        """Close the ledger; safe to call twice."""
        self._ledger.close()

    def begin(self, key: str) -> str:
        """Begin a session of the key with this hash; the session's id.

        Raises:
            StoreError: It cannot be stored.
        """
        session, now = secrets.token_urlsafe(_ID_BYTES), self._clock()

        def work(connection: Connection) -> None:
            connection.execute("DELETE FROM serve_sessions WHERE ends <= ?", (now,))
            connection.execute(
                "DELETE FROM serve_sessions WHERE id NOT IN "
                "(SELECT id FROM serve_sessions ORDER BY ends DESC LIMIT ?)",
                (_MOST - 1,),
            )
            row = (hashed(session), key, now + LIFE)
            connection.execute("INSERT INTO serve_sessions (id, key, ends) VALUES (?, ?, ?)", row)

        self._ledger.write(work)
        return session

    def key(self, session: str) -> ServeKey | None:
        """The key that a session was begun with, None once the session or the key has ended."""
        return self._keys.of_session(session, self._clock())

    def end(self, session: str) -> None:
        """End a session; an unknown one has ended.

        Raises:
            StoreError: It cannot be stored.
        """
        row = (hashed(session),)
        if self._ledger.select("SELECT 1 FROM serve_sessions WHERE id = ?", row):
            ending = "DELETE FROM serve_sessions WHERE id = ?"
            self._ledger.write(lambda connection: connection.execute(ending, row).rowcount)
