"""Requests and costs under each key: shared by all workers, kept over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias, TypeVar

from anyio import CapacityLimiter

from ..core import StoreError, Usage
from ..ledger import Connection, Ledger, Place
from ._errors import ApiError, log

T = TypeVar("T")

_KEPT_MINUTES = 10


Budgets: TypeAlias = Sequence[tuple[str | None, float]]
"""Budgets of today (UTC): a key, or None for all of them, and its amount."""


class Charges:
    """Requests and spend per key, in the ledger; its writer does what is asked for, in order.

    Args:
        place: The ledger of the project; a shared one counts for the servers of all machines.
    """

    def __init__(self, place: Place) -> None:
        self._ledger = Ledger(place)
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
            self._writer.submit(partial(_add_costs, costs)).add_done_callback(
                partial(self._keep_unstored, costs)
            )

    def _keep_unstored(self, costs: dict[tuple[str, str], Usage], stored: Future[object]) -> None:
        error = stored.exception()
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
                "INSERT INTO served_minutes VALUES (?, ?, 1) ON CONFLICT (key, minute) DO UPDATE "
                "SET requests = served_minutes.requests + 1 WHERE served_minutes.requests < ? "
                "RETURNING requests",
                (key, minute, per_minute),
            ).fetchone()
            if row is not None and row[0] == 1:
                old = "DELETE FROM served_minutes WHERE minute < ?"
                connection.execute(old, (minute - _KEPT_MINUTES,))
            return row is not None

        return 0.0 if await self._committed_result(work) else (minute + 1) * 60 - now

    async def require_left(self, budgets: Budgets) -> None:
        """Refuse where the calls of today have spent a budget.

        Raises:
            ApiError: 429.
        """
        _refuse_spent(await self._committed_result(partial(self._find_spent, budgets, _SPENT)))

    async def reserve(self, key: str, budgets: Budgets, seconds: float) -> str:
        """Hold for a request what calls under its key cost on average today; the name of it.

        So requests that begin at the same moment, on any machine, do not all find the last money
        of a budget.

        Args:
            key: Name of the key.
            budgets: Those that bound it.
            seconds: Time after which it counts no longer, if its process was killed.

        Raises:
            ApiError: 429; a budget is spent.
        """
        name, now, today = secrets.token_hex(12), time.time(), _utc_day()

        def work(connection: Connection) -> list[str | None]:
            connection.execute("DELETE FROM served_reserved WHERE ends < ?", (now,))
            spent = self._find_spent(budgets, (*_SPENT, *_HELD), connection)
            if not spent:
                calls, cost = connection.execute(
                    "SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(cost), 0) FROM served_calls "
                    "WHERE day = ? AND key = ?",
                    (today, key),
                ).fetchone()
                row = (name, key, today, float(cost) / calls if calls else 0.0, now + seconds)
                connection.execute("INSERT INTO served_reserved VALUES (?, ?, ?, ?, ?)", row)
            return spent

        _refuse_spent(await self._committed_result(work))
        return name

    def _find_spent(
        self, budgets: Budgets, sums: Sequence[str], connection: Connection
    ) -> list[str | None]:
        """The budgets that are spent, by their keys."""
        today, spent = _utc_day(), []
        for key, most in budgets:
            condition, values = ("", [today]) if key is None else (" AND key = ?", [today, key])
            total = sum(
                float(connection.execute(f"{sum_} WHERE day = ?{condition}", values).fetchone()[0])
                for sum_ in sums
            )
            with self._lock:
                total += sum(
                    usage.cost or 0.0
                    for (account, day), usage in self._unstored.items()
                    if day == today and key in (None, account)
                )
            if total >= most:
                spent.append(key)
        return spent

    def release(self, reserved: str) -> None:
        """Give back what a request held; from any thread, at once."""
        ending = "DELETE FROM served_reserved WHERE name = ?"
        with contextlib.suppress(StoreError):  # closed: it ends by itself
            self._writer.submit(lambda c: c.execute(ending, (reserved,)).rowcount)

    async def _committed_result(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.wrap_future(self._writer.submit(work))


_SUMS = ", ".join(
    f"{name} = served_calls.{name} + excluded.{name}"
    for name in ("calls", "cost", "prompt_tokens", "completion_tokens")
)

_ADD = (
    "INSERT INTO served_calls VALUES (?, ?, ?, ?, ?, ?) "  # noqa: S608
    f"ON CONFLICT (key, day) DO UPDATE SET {_SUMS}"
)


def _add_costs(costs: dict[tuple[str, str], Usage], connection: Connection) -> None:
    for (key, day), usage in costs.items():
        counts = (usage.calls, usage.cost or 0.0, usage.prompt_tokens, usage.completion_tokens)
        connection.execute(_ADD, (key, day, *counts))


_SPENT = ("SELECT COALESCE(SUM(cost), 0) FROM served_calls",)
_HELD = ("SELECT COALESCE(SUM(amount), 0) FROM served_reserved",)


def _refuse_spent(budgets: Sequence[str | None]) -> None:
    for name in budgets:
        limit_owner = "the server's" if name is None else f"the key {name!r}'s"
        raise ApiError(429, f"{limit_owner} budget of today is spent", "insufficient_quota")


def _utc_day() -> str:
    return datetime.now(UTC).date().isoformat()


class Turns:
    """Limits on the requests that are worked on at once, and on those that wait for their turn."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)
        self._most = 1

    @property
    def taken(self) -> int:
        """The number of requests that are worked on now."""
        return self._limiter.borrowed_tokens

    def limit(self, at_once: int, waiting: int) -> None:
        """Set the limits; requests that have or wait for a turn keep their place."""
        self._limiter.total_tokens, self._most = at_once, waiting

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn; gives whether it had to wait.

        Raises:
            ApiError: 503, where too many wait already.
        """
        request, wait = object(), self._limiter.available_tokens <= 0
        if wait and self._limiter.statistics().tasks_waiting >= self._most:
            raise ApiError(
                503, "too many requests wait for an answer", "overloaded", retry_after=2.0
            )
        await self._limiter.acquire_on_behalf_of(request)
        try:
            yield wait
        finally:
            self._limiter.release_on_behalf_of(request)
