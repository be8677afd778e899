"""Requests and costs under each key: shared by all workers, kept over restarts."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..core import StoreError, Usage
from ..ledger import Connection, Ledger, committed

if TYPE_CHECKING:
    from ..project import ProjectFolder

log = logging.getLogger("ragwright.serve")

T = TypeVar("T")

_KEPT_MINUTES = 10


class Charges:
    """Requests and spend per key, in the ledger; its writer does what is asked for, in order.

    Args:
        folder: The project.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self._ledger = Ledger(folder.ledger)
        self._writer = self._ledger.writer  # opened here, not at the first request
        self._unstored: dict[tuple[str, str], Usage] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Store what is queued and close the ledger; safe to call twice."""
        self._ledger.close()

    def charge(self, key: str, usage: Usage) -> None:
        """Count what a call cost; from any thread, at once.

        What cannot be stored (a full disk) is kept in memory, counts, and is stored later.
        """
        account = (key, _utc_day())
        with self._lock:
            costs, self._unstored = self._unstored, {}
        costs[account] = costs.get(account, Usage()) + usage
        with contextlib.suppress(StoreError):  # closed
            self._writer.submit(partial(_add_costs, costs), partial(self._keep_unstored, costs))

    def _keep_unstored(
        self, costs: dict[tuple[str, str], Usage], _: object, error: BaseException | None
    ) -> None:
        if error is None:
            return
        with self._lock:
            for account, usage in costs.items():
                self._unstored[account] = self._unstored.get(account, Usage()) + usage
        log.error("spend is kept in memory, because it cannot be stored: %s", error)

    async def admit(self, key: str, per_minute: int) -> float:
        """Count a request of this minute; seconds to wait where there were too many, else 0."""
        now = time.time()
        minute = int(now // 60)

        def work(connection: Connection) -> bool:
            row = connection.execute(
                "INSERT INTO served_minutes VALUES (?, ?, 1) ON CONFLICT DO UPDATE "
                "SET requests = requests + 1 WHERE requests < ? RETURNING requests",
                (key, minute, per_minute),
            ).fetchone()
            if row is not None and row[0] == 1:
                old = "DELETE FROM served_minutes WHERE minute < ?"
                connection.execute(old, (minute - _KEPT_MINUTES,))
            return row is not None

        return 0.0 if await self._committed_result(work) else (minute + 1) * 60 - now

    async def spent(self, key: str | None = None) -> float:
        """Return what the calls of today (UTC) cost under a key; under all of them for None."""
        today = _utc_day()
        condition, values = ("", [today]) if key is None else (" AND key = ?", [today, key])
        query = f"SELECT COALESCE(SUM(cost), 0) FROM served_calls WHERE day = ?{condition}"  # noqa: S608
        stored = await self._committed_result(
            lambda c: float(c.execute(query, values).fetchone()[0])
        )
        with self._lock:
            waiting = [
                usage.cost or 0.0
                for (account, day), usage in self._unstored.items()
                if day == today and key in (None, account)
            ]
        return stored + sum(waiting)

    async def _committed_result(self, work: Callable[[Connection], T]) -> T:
        future, done = committed()
        self._writer.submit(work, done)
        result: T = await future
        return result


def _add_costs(costs: dict[tuple[str, str], Usage], connection: Connection) -> None:
    for (key, day), usage in costs.items():
        counts = (usage.calls, usage.cost or 0.0, usage.prompt_tokens, usage.completion_tokens)
        connection.execute(
            "INSERT INTO served_calls VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "calls = calls + excluded.calls, cost = cost + excluded.cost, "
            "prompt_tokens = prompt_tokens + excluded.prompt_tokens, "
            "completion_tokens = completion_tokens + excluded.completion_tokens",
            (key, day, *counts),
        )


def _utc_day() -> str:
    return datetime.now(UTC).date().isoformat()
