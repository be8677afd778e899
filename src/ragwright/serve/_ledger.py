"""What was asked under each key, and what it cost: shared by all workers, kept over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from ..core import StoreError, Usage
from .. import ledger

if TYPE_CHECKING:
    from ..project import ProjectFolder

log = logging.getLogger("ragwright.serve")

T = TypeVar("T")

_KEPT_MINUTES = 10


class Ledger:
    """Requests and spend per key. A thread of its own does what is asked for, in order.

    Args:
        folder: The project.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self._ledger = ledger.Ledger(folder.ledger)
        self._database = self._ledger.database
        self._connection = self._database.connect()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ragwright-ledger")
        self._unstored: dict[tuple[str, str], Usage] = {}

    def close(self) -> None:
        """Store what is queued and close the file; safe to call twice."""
        self._thread.shutdown()
        self._connection.close()
        self._ledger.close()

    def charge(self, key: str, usage: Usage) -> None:
        """Count what a call cost; from any thread, at once.

        What cannot be stored (a full disk) is kept in memory, counts, and is stored later.
        """
        with contextlib.suppress(RuntimeError):  # closed
            self._thread.submit(self._charge, (key, _today()), usage)

    async def admit(self, key: str, per_minute: int) -> float:
        """Count a request of this minute; seconds to wait where there were too many, else 0."""
        return await self._done(lambda: self._admit(key, per_minute))

    async def spent(self, key: str | None = None) -> float:
        """What the calls of today (UTC) cost under a key; under all of them for None."""
        return await self._done(lambda: self._spent(key))

    async def _done(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._thread.submit(work))

    # -- on the thread ---------------------------------------------------------------------

    def _admit(self, key: str, per_minute: int) -> float:
        now = time.time()
        minute = int(now // 60)
        with self._database.explained():
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

    def _charge(self, whose: tuple[str, str], usage: Usage) -> None:
        self._unstored[whose] = self._unstored.get(whose, Usage()) + usage
        try:
            for (key, day), found in list(self._unstored.items()):
                self._store(key, day, found)
                del self._unstored[key, day]
        except StoreError as error:
            log.error("spend is kept in memory, because it cannot be stored: %s", error)

    def _store(self, key: str, day: str, usage: Usage) -> None:
        counts = (usage.calls, usage.cost or 0.0, usage.prompt_tokens, usage.completion_tokens)
        with self._database.explained():
            self._connection.execute(
                "INSERT INTO served_calls VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
                "calls = calls + excluded.calls, cost = cost + excluded.cost, "
                "prompt_tokens = prompt_tokens + excluded.prompt_tokens, "
                "completion_tokens = completion_tokens + excluded.completion_tokens",
                (key, day, *counts),
            )

    def _spent(self, key: str | None) -> float:
        today = _today()
        condition, values = ("", [today]) if key is None else (" AND key = ?", [today, key])
        with self._database.explained():
            row = self._connection.execute(
                f"SELECT COALESCE(SUM(cost), 0) FROM served_calls WHERE day = ?{condition}",  # noqa: S608
                values,
            ).fetchone()
        waiting = (
            usage.cost or 0.0
            for (whose, day), usage in self._unstored.items()
            if day == today and key in (None, whose)
        )
        return float(row[0]) + sum(waiting)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
