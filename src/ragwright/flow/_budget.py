"""Money: what was spent, what is reserved, and when to stop."""

from __future__ import annotations

import asyncio

from ..core import BudgetStopped


class Budget:
    """Worst-case reservations against a ceiling.

    A call reserves the most it can cost before it is sent and is settled with its real cost.
    When a reservation does not fit, it waits for calls in flight to settle; when none is in
    flight and it still does not fit, the work stops. Lives on the runner's loop.

    Args:
        ceiling: Most money to spend, None for no bound.
    """

    def __init__(self, ceiling: float | None) -> None:
        self.ceiling = ceiling
        self.spent = 0.0
        self.reserved = 0.0
        self._settled: list[asyncio.Future[None]] = []

    async def reserve(self, amount: float) -> None:
        """Reserve money for a call.

        Raises:
            BudgetStopped: It does not fit, and nothing in flight could make it fit.
        """
        if self.ceiling is None:
            self.reserved += amount
            return
        while self.spent + self.reserved + amount > self.ceiling + 1e-12:
            if self.reserved <= 1e-12:
                raise BudgetStopped(
                    f"the budget of {self.ceiling:g} does not cover the next call "
                    f"(spent {self.spent:.6g}, the call may cost {amount:.6g})",
                    hint="raise --max-cost and run again: what was paid for is kept",
                )
            settled = asyncio.get_running_loop().create_future()
            self._settled.append(settled)
            await settled
        self.reserved += amount

    def settle(self, reserved: float, cost: float | None) -> float:
        """Replace a reservation by the real cost of the call; returns what counts as spent.

        If the cost is unknown (None), that is the whole reservation.
        """
        self.reserved = max(0.0, self.reserved - reserved)
        spent = reserved if cost is None else cost
        self.spent += spent
        waiting, self._settled = self._settled, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        return spent
