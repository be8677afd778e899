"""Money: meters of callers, the budget of a runner, and the daily one that processes share."""

from __future__ import annotations

import asyncio
import math
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..core import BudgetStopped, Usage
from ..ledger import Connection, Ledger, Place


@dataclass(frozen=True, slots=True)
class Meter:
    """Gets what calls cost.

    Attributes:
        note: Gets the usage of each call that was sent, as soon as it ended, on the runner's
            thread: it must be quick. A call that was cut off or timed out counts with the most it
            can cost, because it may have been billed; its tokens are unknown and 0.
        priced: Refuse calls of a model that costs and has no price.
    """

    note: Callable[[Usage], None]
    priced: bool = False


_METER: ContextVar[Meter | None] = ContextVar("ragwright_meter", default=None)


@contextmanager
def meter_costs(meter: Meter) -> Iterator[None]:
    """Note what the calls cost that work started inside the block makes, whatever drives it.

    It follows tasks and ``asyncio.to_thread``, as context variables do. A call that several flows
    share is noted once, for the flow that started it; a stored reply is not noted.
    """
    token = _METER.set(meter)
    try:
        yield
    finally:
        _METER.reset(token)


def present_meter() -> Meter | None:
    """The meter of the present task."""
    return _METER.get()


class Budget:
    """What may be spent: by those who share this object, and by everybody in a day.

    A call reserves the most it can cost before it is sent and is settled with its real cost.
    If a reservation does not fit, it waits for calls in flight to settle; if none is in flight
    and it still does not fit, the work stops. Runners on several threads may share one.

    Args:
        max_cost: Most money to spend, None for no bound; may be changed at any time.
        daily: What all processes may spend in a day, None for no bound.

    Attributes:
        spent: Money spent so far, calls that may have been billed included.
    """

    def __init__(self, max_cost: float | None = None, daily: Spending | None = None) -> None:
        self.max_cost = max_cost
        self.daily = daily
        self.spent = 0.0
        self._reserved = 0.0
        self._lock = threading.Lock()

    @property
    def bounded(self) -> bool:
        """True if there is a bound: then a model that costs must have a price."""
        return self.max_cost is not None or self.daily is not None

    async def reserve(self, amount: float) -> str:
        """Reserve money for a call; returns the name of the reservation of the day, if any.

        Raises:
            BudgetStopped: It does not fit, and nothing in flight could make it fit.
        """
        while not self._fits(amount):
            await asyncio.sleep(_WAIT_SECONDS)
        try:
            return await self.daily.reserve(amount) if self.daily and amount else ""
        except BaseException:
            self.settle("", amount, 0.0)
            raise

    def _fits(self, amount: float) -> bool:
        with self._lock:
            most = math.inf if self.max_cost is None else self.max_cost
            if self.spent + self._reserved + amount <= most + 1e-12:
                self._reserved += amount
                return True
            if self._reserved > 1e-12:
                return False
            raise BudgetStopped(
                f"the budget of {most:g} does not cover the next call "
                f"(spent {self.spent:.6g}, the call may cost {amount:.6g})",
                hint="raise --max-cost and run again: what was paid for is kept",
            )

    def settle(self, name: str, amount: float, cost: float) -> None:
        """Replace a reservation by the real cost of the call."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - amount)
            self.spent += cost
        if self.daily is not None and name:
            self.daily.settle(name, cost)

    def close(self) -> None:
        """Close the database of the day; safe to call twice."""
        if self.daily is not None:
            self.daily.close()


_WAIT_SECONDS = 0.02
_DAY = 86_400
_PAUSE_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
"""How long a call waits for money that calls of other processes hold; killed ones keep it."""


class Spending:
    """A daily bound that is kept by a database, so that it holds for all who open it.

    A call reserves the most it can cost before it is sent, while no other process reserves;
    afterwards the reservation becomes the real cost. What a killed process had reserved counts as
    spent, because it may have been billed.

    Args:
        place: File to use, made with mode 0600; or a shared database.
        bound: Most money of a day (UTC).
    """

    def __init__(self, place: Place, bound: float) -> None:
        self._ledger = Ledger(place)
        self._bound = bound
        self._in_flight = 0

    def today(self) -> float:
        """Money spent and reserved today."""

        def work(connection: Connection) -> float:
            paid, held, _ = _sums(connection, _today(connection), "")
            return paid + held

        return self._ledger.writer.call(work)

    async def reserve(self, amount: float) -> str:
        """Reserve money for a call; the name of the reservation.

        Raises:
            BudgetStopped: It does not fit, and no call in flight could make it fit.
        """
        name = uuid.uuid4().hex

        def work(connection: Connection) -> tuple[bool, float, float]:
            day = _today(connection)
            paid, held, known = _sums(connection, day, name)
            if known:  # its first commit was not answered
                return True, paid, held
            fits = paid + held + amount <= self._bound + 1e-9
            if fits:
                row = (name, day, amount)
                connection.execute("INSERT INTO reserved (name, day, amount) VALUES (?, ?, ?)", row)
            return fits, paid, held

        waited = 0.0
        while True:
            reserved = self._ledger.writer.submit(work)
            try:
                fits, paid, held = await asyncio.wrap_future(reserved)
            except asyncio.CancelledError:
                self._in_flight += 1
                self.settle(name, 0.0)  # queued behind the reservation
                raise
            if fits:
                self._in_flight += 1
                return name
            over = paid + amount > self._bound + 1e-9
            if not self._in_flight and (over or waited > _PATIENCE_SECONDS):
                raise BudgetStopped(
                    f"the daily budget of {self._bound:g} does not cover the next call (spent "
                    f"today {paid + held:.6g}, the call may cost {amount:.6g})",
                    hint="raise budget.daily_cost, or run it again tomorrow: what was paid for "
                    "is kept",
                )
            await asyncio.sleep(_PAUSE_SECONDS)
            waited += _PAUSE_SECONDS

    def settle(self, name: str, cost: float) -> None:
        """Replace a reservation by the real cost of the call; does not wait.

        Where that cannot be written, the higher reservation stays.
        """
        self._in_flight -= 1

        def work(connection: Connection) -> None:
            taken = "DELETE FROM reserved WHERE name = ? RETURNING day"
            row = connection.execute(taken, (name,)).fetchone()
            if row is not None and cost:
                connection.execute(
                    "INSERT INTO spending (day, cost) VALUES (?, ?) "
                    "ON CONFLICT (day) DO UPDATE SET cost = spending.cost + excluded.cost",
                    (row[0], cost),
                )

        self._ledger.writer.submit(work)

    def close(self) -> None:
        """Write what is queued, and close; safe to call twice."""
        self._ledger.close()


def _today(connection: Connection) -> int:
    (seconds,) = connection.execute("SELECT clock_seconds()").fetchone()
    return int(seconds // _DAY)


def _sums(connection: Connection, day: int, name: str) -> tuple[float, float, bool]:
    paid, held, known = connection.execute(
        "SELECT (SELECT COALESCE(SUM(cost), 0) FROM spending WHERE day = ?), "
        "(SELECT COALESCE(SUM(amount), 0) FROM reserved WHERE day = ?), "
        "EXISTS (SELECT 1 FROM reserved WHERE name = ?)",
        (day, day, name),
    ).fetchone()
    return float(paid), float(held), bool(known)
