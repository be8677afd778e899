"""What all processes and machines of a project spend in a day, and the bound that they share."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ..core import BudgetStopped
from ._database import Connection, Place, Tables
from ._opening import open_database
from ._writer import Writer, committed

_DAY = 86_400
_PAUSE_SECONDS = 0.2
_TABLES = Tables(
    "spending",
    (
        """CREATE TABLE IF NOT EXISTS spending (
        day INTEGER PRIMARY KEY,         -- days since 1970-01-01, UTC, by the database's clock
        cost REAL NOT NULL               -- paid, and reserved for calls in flight
    )""",
    ),
    1,
    damaged="delete it: what was spent today is then counted from 0",
)


class Spending:
    """A daily bound that is kept by a database, so that it holds for all who open it.

    A call reserves the most it can cost before it is sent, by one statement that the database
    carries out whole; afterwards the reservation becomes the real cost. What a killed process had
    reserved counts as spent, because it may have been billed.

    Args:
        place: File to use, made with mode 0600; or a shared database.
        bound: Most money of a day (UTC).
    """

    def __init__(self, place: Place, bound: float) -> None:
        self._database = open_database(place, _TABLES)
        self._writer = Writer(self._database)
        self._bound = bound
        self._in_flight = 0

    def today(self) -> float:
        """What was spent and is reserved today."""

        def work(connection: Connection) -> float:
            return _spent(connection, _today(connection))

        return self._writer.call(work)

    async def reserve(self, amount: float) -> int:
        """Reserve money for a call; the day it counts for.

        Raises:
            BudgetStopped: It does not fit, and no call of this process in flight could make it fit.
        """
        while True:
            future, done = committed()

            def work(connection: Connection) -> tuple[int, float, bool]:
                day = _today(connection)
                connection.execute(
                    "INSERT INTO spending (day, cost) VALUES (?, 0) ON CONFLICT (day) DO NOTHING",
                    (day,),
                )
                made = connection.execute(
                    "UPDATE spending SET cost = cost + ? WHERE day = ? AND cost + ? <= ? "
                    "RETURNING cost",
                    (amount, day, amount, self._bound + 1e-9),
                ).fetchone()
                return day, _spent(connection, day), made is not None

            self._writer.submit(work, done)
            try:
                day, spent, made = await asyncio.shield(future)
            except asyncio.CancelledError:
                future.add_done_callback(partial(self._give_back, amount))
                raise
            if made:
                self._in_flight += 1
                return int(day)
            if not self._in_flight:
                raise BudgetStopped(
                    f"the daily budget of {self._bound:g} does not cover the next call (spent "
                    f"today {spent:.6g}, the call may cost {amount:.6g})",
                    hint="raise budget.daily_cost, or run it again tomorrow: what was paid for "
                    "is kept",
                )
            await asyncio.sleep(_PAUSE_SECONDS)

    def _give_back(self, amount: float, future: asyncio.Future[tuple[int, float, bool]]) -> None:
        """Undo the reservation of a call that was given up while it waited."""
        if not future.cancelled() and future.exception() is None and future.result()[2]:
            self._in_flight += 1
            self.settle(future.result()[0], amount, 0.0)

    def settle(self, day: int, reserved: float, cost: float) -> None:
        """Replace a reservation by the real cost of the call; does not wait."""
        self._in_flight -= 1

        def work(connection: Connection) -> None:
            connection.execute(
                "UPDATE spending SET cost = cost - ? + ? WHERE day = ?", (reserved, cost, day)
            )

        self._writer.submit(work, _ignore)

    def close(self) -> None:
        """Write what is queued, and close; safe to call twice."""
        self._writer.close()
        self._database.close()


def _today(connection: Connection) -> int:
    (seconds,) = connection.execute("SELECT clock_seconds()").fetchone()
    return int(seconds // _DAY)


def _spent(connection: Connection, day: int) -> float:
    row = connection.execute("SELECT cost FROM spending WHERE day = ?", (day,)).fetchone()
    return max(0.0, float(row[0])) if row else 0.0


def _ignore(result: Any, error: BaseException | None) -> None:
    """Nobody waits for it; a cost that is not written leaves the higher reservation."""
