"""The number of rows that would prove a difference: power, estimated from the sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ._intervals import FEW_SEEN, NORMAL

LEVEL = 0.05
POWER = 0.8
_TEN_PERCENT = NORMAL.inv_cdf(0.9)  # standard errors to the 10 % point
_ENDLESS = 10**9  # more rows or clusters than anyone will collect


def smallest_difference(error: float, tests: int = 1) -> float:
    """Smallest difference detected with 80 % power at the 5 % level, two-sided.

    ``(z(1 - 0.05 / (2 tests)) + z(0.8)) * error``, ``error`` being the standard error of the
    difference (Cohen 1988; for evaluations Miller 2024); several tests share the level, as in the
    strictest step of Holm's method.
    """
    return (NORMAL.inv_cdf(1 - LEVEL / (2 * tests)) + NORMAL.inv_cdf(POWER)) * error


@dataclass(frozen=True, slots=True)
class RowsNeeded:
    """Number of rows needed to detect a difference with 80 % power, estimated from the sample.

    Attributes:
        error: Standard error of the difference; None if it is unknown.
        rows: Rows of the sample, ``units`` its independent observations: clusters or rows.
        against: Share of the rows on the rarer side of 0.
        width: Largest difference of two values; None if the scale is unbounded.
        tests: Tests that share the level.
    """

    error: float | None
    rows: int
    units: int
    against: float
    width: float | None
    tests: int

    @property
    def smallest(self) -> float | None:
        """Smallest difference that the sample detects; None if unknown, 0 or beyond the scale."""
        if self.error is None:
            return None
        smallest = smallest_difference(self.error, self.tests)
        # A smaller mean could be reversed by rows that a sample of this size can miss.
        if self.width is not None and self.against * self.units < FEW_SEEN:
            missed = self.width * math.expm1(math.log(2 * self.tests / LEVEL) / self.units)
            smallest = max(smallest, missed + NORMAL.inv_cdf(POWER) * self.error)
        return None if not smallest or smallest > (self.width or math.inf) else smallest

    def around(self, difference: float) -> tuple[int | None, int | None, int | None]:
        """Further rows for the largest likely difference, the observed and the smallest one.

        All None if no number of rows is enough for the smallest.
        """
        error = _TEN_PERCENT * (self.error or 0.0)
        most = self.more_rows(difference - error)
        if most is None:
            return None, None, None
        return self.more_rows(difference + error), self.more_rows(difference), most

    def more_rows(self, difference: float) -> int | None:
        """Further rows needed, at least 1; None if no number of rows would be enough."""
        if difference <= 0 or self.error is None or (not self.error and self.width is None):
            return None
        noise = smallest_difference(self.error, self.tests) / difference
        log_p = math.log(2 * self.tests / LEVEL)
        # Flips of k units give no p below 2 / 2^k, for any difference.
        units = max(self.units * noise * noise, log_p / math.log(2))
        if self.width is not None:
            # Too few may be missed to reverse it, for the power: n = unseen + spread sqrt(n).
            unseen = log_p / math.log1p(difference / self.width)
            spread = NORMAL.inv_cdf(POWER) * self.error * math.sqrt(self.units) / difference
            missed = (spread + math.hypot(spread, 2 * math.sqrt(unseen))) ** 2 / 4
            units = max(units, min(missed, FEW_SEEN / self.against if self.against else missed))
        if units > _ENDLESS:
            return None
        # at least one: the test has shown that these rows are not enough
        return max(1, math.ceil(math.ceil(units) * self.rows / self.units - self.rows))
