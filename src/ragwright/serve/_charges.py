"""Requests and costs under each key: shared by all workers, kept over restarts."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

from ..core import StoreError, Usage
from ..ledger import Connection, Ledger, Place
from ._errors import ApiError, log

T = TypeVar("T")

_KEPT_MINUTES = 10


class Reservation(NamedTuple):
    """What a request holds of budgets.

    Attributes:
        name: Its name; empty where a budget is spent.
        spent: Which of the limits that is.
    """

    name: str
    spent: int = -1


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

    async def reserve(
        self, key: str, limits: Sequence[tuple[str | None, float]], seconds: float
    ) -> Reservation:
        """Hold for a request what calls under its key cost on average today.

        So requests that begin at the same moment, on any machine, do not all find the last money
        of a budget.

        Args:
            key: Name of the key.
            limits: Budgets of today: a key, or None for all of them, and its amount.
            seconds: Time after which it counts no longer, if its process was killed.
        """
        name, now, today = secrets.token_hex(12), time.time(), _utc_day()

        def work(connection: Connection) -> Reservation:
            connection.execute("DELETE FROM served_reserved WHERE ends < ?", (now,))
            for at, (bounded, most) in enumerate(limits):
                if _spent_and_held(connection, today, bounded) >= most:
                    return Reservation("", at)
            calls, cost = connection.execute(
                "SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(cost), 0) FROM served_calls "
                "WHERE day = ? AND key = ?",
                (today, key),
            ).fetchone()
            row = (name, key, today, float(cost) / calls if calls else 0.0, now + seconds)
            connection.execute("INSERT INTO served_reserved VALUES (?, ?, ?, ?, ?)", row)
            return Reservation(name)

        return await self._committed_result(work)

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


def _spent_and_held(connection: Connection, day: str, key: str | None) -> float:
    condition, values = ("", [day]) if key is None else (" AND key = ?", [day, key])
    return sum(
        float(
            connection.execute(
                f"SELECT COALESCE(SUM({column}), 0) FROM {table} WHERE day = ?{condition}",  # noqa: S608
                values,
            ).fetchone()[0]
        )
        for table, column in (("served_calls", "cost"), ("served_reserved", "amount"))
    )


def _utc_day() -> str:
    return datetime.now(UTC).date().isoformat()


class Turns:
    """Limits on the requests that are worked on at once, and on those that wait for their turn."""

    def __init__(self) -> None:
        self._at_once = self._most = 1
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def taken(self) -> int:
        """The number of requests that are worked on now."""
        return self._taken

    def limit(self, at_once: int, waiting: int) -> None:
        """Set the limits; requests that have or wait for a turn keep their place."""
        self._at_once, self._most = at_once, waiting
        self._pass_on()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn; gives whether it had to wait.

        Raises:
            ApiError: 503, where too many wait already.
        """
        wait = self._taken >= self._at_once
        if wait and len(self._waiting) >= self._most:
            raise ApiError(
                503, "too many requests wait for an answer", "overloaded", retry_after=2.0
            )
        self._taken += not wait
        if wait:
            await self._wait_for_turn()
        try:
            yield wait
        finally:
            self._taken -= 1
            self._pass_on()

    async def _wait_for_turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):  # passed over at the same moment
                    self._waiting.remove(turn)
            else:  # it came at the same moment
                self._taken -= 1
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting and self._taken < self._at_once:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
