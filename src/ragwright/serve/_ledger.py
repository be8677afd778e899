"""What was asked under each key, and what it cost: shared by all workers, kept over restarts."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..flow import Database

if TYPE_CHECKING:
    from ..core import Usage
    from ..project import ProjectFolder

_VERSION = 1
_SCHEMA = (
    "CREATE TABLE served_minutes (key TEXT, minute INTEGER, requests INTEGER, "
    "PRIMARY KEY (key, minute)) WITHOUT ROWID",
    "CREATE TABLE served_days (key TEXT, day TEXT, answers INTEGER, cost REAL, "
    "prompt_tokens INTEGER, completion_tokens INTEGER, PRIMARY KEY (key, day)) WITHOUT ROWID",
    "CREATE TABLE served_answers (id TEXT PRIMARY KEY, output TEXT, key TEXT, scope TEXT) "
    "WITHOUT ROWID",
)
_KEPT_MINUTES = 10


class Ledger:
    """Requests and spend per key, and which output an answer was stored as.

    Args:
        folder: The project.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self._database = Database(folder.data / "serve" / "served.sqlite", _SCHEMA, _VERSION, False)
        self._connection = self._database.connect()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._connection.close()

    def admit(self, key: str, per_minute: int) -> float:
        """Count a request of this minute; seconds to wait where there were too many, else 0."""
        now = time.time()
        minute = int(now // 60)
        with self._lock, self._database.explained():
            row = self._connection.execute(
                "INSERT INTO served_minutes VALUES (?, ?, 1) ON CONFLICT DO UPDATE "
                "SET requests = requests + 1 WHERE requests < ? RETURNING requests",
                (key, minute, per_minute),
            ).fetchone()
            if row is not None and row[0] == 1:
                self._connection.execute(
                    "DELETE FROM served_minutes WHERE minute < ?", (minute - _KEPT_MINUTES,)
                )
        return 0.0 if row is not None else (minute + 1) * 60 - now

    def charge(self, key: str, usage: Usage) -> None:
        """Count what an answer cost."""
        with self._lock, self._database.explained():
            self._connection.execute(
                "INSERT INTO served_days VALUES (?, ?, 1, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "answers = answers + 1, cost = cost + excluded.cost, "
                "prompt_tokens = prompt_tokens + excluded.prompt_tokens, "
                "completion_tokens = completion_tokens + excluded.completion_tokens",
                (key, _today(), usage.cost or 0.0, usage.prompt_tokens, usage.completion_tokens),
            )

    def spent(self, key: str | None = None) -> float:
        """What the answers of today (UTC) cost under a key; under all of them for None."""
        condition, values = ("", [_today()]) if key is None else (" AND key = ?", [_today(), key])
        with self._lock, self._database.explained():
            row = self._connection.execute(
                f"SELECT COALESCE(SUM(cost), 0) FROM served_days WHERE day = ?{condition}",  # noqa: S608
                values,
            ).fetchone()
        return float(row[0])

    def remember(self, answer: str, output: str, key: str, scope: str) -> None:
        """Which stored output an answer is, and whose."""
        with self._lock, self._database.explained():
            self._connection.execute(
                "INSERT OR REPLACE INTO served_answers VALUES (?, ?, ?, ?)",
                (answer, output, key, scope),
            )

    def output_of(self, answer: str, key: str | None) -> str | None:
        """The stored output of an answer that was made for a key; for any key where None."""
        with self._lock, self._database.explained():
            row = self._connection.execute(
                "SELECT output, key FROM served_answers WHERE id = ?", (answer,)
            ).fetchone()
        return None if row is None or key not in (None, row[1]) else str(row[0])


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
