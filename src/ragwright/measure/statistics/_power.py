"""How many rows would prove a difference: power, estimated from the sample."""

from __future__ import annotations

import math

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


class RowsNeeded:
    """Number of rows needed to detect a difference with 80 % power, estimated from the sample.

    Args:
        error: Standard error of the difference; None if it is unknown.
        rows: Rows of the sample, ``units`` its independent observations: clusters or rows.
        against: Share of the rows on the rarer side of 0.
        width: Largest difference of two values; None if the scale is unbounded.
        tests: Tests that share the level.
    """

    def __init__(
        self,
        error: float | None,
        rows: int,
        units: int,
        *,
        against: float,
        width: float | None,
        tests: int,
    ) -> None:
        self._known = error is not None
        self.error = error or 0.0
        self._n = rows
        self._units = units
        self._against = against
        self._width = width
        self._tests = tests

    @property
    def smallest(self) -> float | None:
        """The sample's evidence; None if there is none, or if its spread is unknown."""
        found = self._shown_by(self._units) if self._known else 0.0
        return None if not found or found > (self._width or math.inf) else found

    def around(self, difference: float) -> tuple[int | None, int | None, int | None]:
        """Further rows for the largest likely difference, the observed and the smallest one.

        All None if no number of rows is enough for the smallest.
        """
        error = _TEN_PERCENT * self.error
        most = self.more_rows(difference - error)
        if most is None:
            return None, None, None
        return self.more_rows(difference + error), self.more_rows(difference), most

    def more_rows(self, difference: float) -> int | None:
        """Further rows needed, at least 1; None if no number of rows would be enough."""
        if difference <= 0 or not self._known or not self._shown_by(self._units):
            return None
        # Flips of k units give no p below 2 / 2^k, for any difference.
        few = math.ceil(math.log2(2 * self._tests / LEVEL))
        many = max(few, self._units)
        while self._shown_by(many) > difference:
            many *= 2
            if many > _ENDLESS:
                return None
        while few < many:
            middle = (few + many) // 2
            if self._shown_by(middle) <= difference:
                many = middle
            else:
                few = middle + 1
        # at least one: the test has shown that these rows are not enough
        return max(1, math.ceil(many * self._n / self._units - self._n))

    def _shown_by(self, units: int) -> float:
        """Smallest difference that this many rows or clusters detect, see smallest_difference."""
        error = self.error * math.sqrt(self._units / units)
        # A smaller mean could be reversed by rows that a sample of this size can miss.
        missed = 0.0
        if self._width is not None and self._against * units < FEW_SEEN:
            missed = self._width * math.expm1(-math.log(LEVEL / (2 * self._tests)) / units)
        noise = smallest_difference(error, self._tests)
        return max(noise, missed + NORMAL.inv_cdf(POWER) * error)
