"""The number of rows that would prove a difference: power, estimated from the sample."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ._intervals import FEW_SEEN, NORMAL, Values, number_clusters, standard_error

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

        The last two are None if no number of rows is enough for the smallest.
        """
        error = _TEN_PERCENT * (self.error or 0.0)
        least, most = self.more_rows(difference + error), self.more_rows(difference - error)
        return least, None if most is None else self.more_rows(difference), most

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


@dataclass(frozen=True, slots=True)
class ScoreSpread:
    """How much scores of a kind vary: what the number of rows for a margin depends on.

    Attributes:
        kind: Kind of score, or text of a measure.
        sd: Standard deviation of a row's score, as a share of the scale's width if there is one.
        correlation: Of the scores of two systems on the same rows.
        design_effect: Variance of the mean over clusters divided by that over independent rows,
            1 where rows are independent (Kish 1965).
        source: Where the numbers come from.
        n: Rows they were measured on; None if they were assumed.
    """

    kind: str
    sd: float
    correlation: float = 0.7
    design_effect: float = 2.0
    source: str = "assumed"
    n: int | None = None

    def rows(self, margin: float) -> tuple[int, int, int]:
        """Rows that detect a difference of the margin: paired, unpaired (each), clustered pairs.

        With 80 % power at the 5 % level, two-sided, by the normal approximation (Cohen 1988).
        """
        paired = 2 * (1 - self.correlation)
        factor = (smallest_difference(self.sd) / margin) ** 2
        return _whole_rows(factor * paired, factor * 2, factor * paired * self.design_effect)

    @property
    def smallest(self) -> float | None:
        """Smallest difference that the measured rows detect if paired and clustered as measured."""
        if self.n is None:
            return None
        variance = 2 * (1 - self.correlation) * self.design_effect / self.n
        return smallest_difference(self.sd * math.sqrt(variance))


def _whole_rows(paired: float, unpaired: float, clustered: float) -> tuple[int, int, int]:
    """Numbers of rows, rounded up, at least two."""
    least = (max(2, math.ceil(rows - 1e-9)) for rows in (paired, unpaired, clustered))
    first, second, third = least
    return first, second, third


TYPICAL_SPREADS = (
    ScoreSpread("share of right answers", 0.40, source="assumed: 80 % right"),
    ScoreSpread("mean of 0 to 1", 0.25),
    ScoreSpread("nDCG", 0.35),
    ScoreSpread("grade of 1 to 5", 0.25, source="assumed: standard deviation of 1 grade"),
)
"""Assumed spreads; a run gives measured ones."""

PLAN_MARGINS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.10)


def score_spread(
    kind: str,
    values: Values,
    other: Values | None = None,
    *,
    groups: Sequence[Hashable] | None = None,
    width: float | None = None,
) -> ScoreSpread | None:
    """The spread of some scores; None below two rows, and where nothing varies.

    Args:
        kind: Text of the measure.
        values: One per row.
        other: Scores of another system on the same rows, for the correlation; without them, or if
            the two differ by the same on every row, it is assumed.
        groups: Cluster of each row, for the design effect; None where rows are independent.
        width: Width of the scale; None if it is unbounded, then numbers are in points.
    """
    numbers = None if groups is None else number_clusters(groups)
    if len(values) < 2 or not np.ptp(values):
        return None
    seen, source = values, "measured, correlation assumed"
    sd, correlation = float(np.std(values, ddof=1)), ScoreSpread("", 0.0).correlation
    if other is not None and np.ptp(other) and np.ptp(other - values):
        correlation = float(np.corrcoef(values, other)[0, 1])
        seen, source = other - values, "measured"
    plain, whole = standard_error(seen), standard_error(seen, numbers)
    effect = (whole / plain) ** 2 if plain and whole else 1.0
    return ScoreSpread(kind, sd / (width or 1.0), correlation, effect, source, len(values))
