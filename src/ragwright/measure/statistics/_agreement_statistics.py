"""Statistics of agreement over resampled rows, and drift of a mean that is looked at again.

A statistic is a function of row weights: an array of R resamples times n rows with the number of
times each row was drawn. It returns R values, NaN if the statistic is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._intervals import NORMAL, RESAMPLES, TAIL, Values, student_quantile

Statistic: TypeAlias = Callable[[Values], Values]

_BLOCK = 1_000_000  # most weights held at once
_ROUNDING = 1e-12  # share of the largest square that may be rounding


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; None if undefined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Ratings:
    """Every label of a person with the score of the same row.

    Attributes:
        row: Position of the rated row, 0 to ``rows - 1``.
        label: The person's label.
        score: The judge's score.
        share: 1 over the number of labels of the row, so that every row has the weight 1.
        rows: Number of rows.
    """

    row: NDArray[np.int64]
    label: Values
    score: Values
    share: Values
    rows: int

    def weights(self, of_rows: Values) -> Values:
        """Weights of the labels, from weights of the rows."""
        return of_rows[:, self.row] * self.share

    def summed(self, values: Values) -> Values:
        """Values of the labels (one line each) summed by row, with their shares."""
        sums = np.zeros((self.rows, values.shape[1]))
        np.add.at(sums, self.row, values * self.share[:, None])
        return sums


def ratings_of(labels: Sequence[Sequence[float]], scores: Values) -> Ratings:
    """The labels of each row with its score."""
    counts = np.array([len(row_labels) for row_labels in labels])
    row = np.repeat(np.arange(len(labels)), counts)
    label: Values = np.array(
        [single for row_labels in labels for single in row_labels], dtype=np.float64
    )
    return Ratings(row, label, scores[row], 1.0 / counts[row], len(labels))


def bootstrap_statistic(
    statistic: Statistic, rows: int, seed: int, clusters: NDArray[np.int64] | None = None
) -> Estimate:
    """A statistic with the percentiles of 2,000 resamples of the rows (Efron 1979).

    Without an interval if it is undefined in more than one resample of twenty.

    Args:
        statistic: Values from row weights.
        rows: Number of rows.
        seed: Seed of the resamples.
        clusters: Number of each row's cluster; None where rows are independent. Whole clusters are
            drawn (Cameron, Gelbach and Miller 2008), at least two, and the percentiles are
            expanded to Student's quantile for their number (Hesterberg 2015), because a bootstrap
            of few clusters is too narrow.
    """
    value = float(statistic(np.ones((1, rows)))[0])
    units = rows if clusters is None else len(np.unique(clusters))
    if np.isnan(value):
        return Estimate()
    if clusters is not None and units < 2:
        return Estimate(value)
    values = np.concatenate([statistic(times) for times in _drawn(rows, seed, clusters)])
    values = values[~np.isnan(values)]
    if len(values) < 0.95 * RESAMPLES:
        return Estimate(value)
    tail = TAIL
    if clusters is not None:
        tail = NORMAL.cdf(-math.sqrt(units / (units - 1)) * student_quantile(units - 1))
    low, high = np.quantile(values, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))


def _drawn(rows: int, seed: int, clusters: NDArray[np.int64] | None) -> Iterator[Values]:
    """Yield how often each row was drawn, in blocks of resamples."""
    place = None if clusters is None else np.unique(clusters, return_inverse=True)[1].ravel()
    units = rows if place is None else int(place.max()) + 1
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // rows)
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        drawn = generator.integers(0, units, (size, units)) + np.arange(size)[:, None] * units
        times = np.bincount(drawn.ravel(), minlength=size * units).astype(np.float64)
        times = times.reshape(size, units)
        yield times if place is None else times[:, place]


def difference(first: Statistic, second: Statistic) -> Statistic:
    """The first statistic minus the second on the same rows and the same resamples: paired."""
    return lambda of_rows: first(of_rows) - second(of_rows)


def kappa(ratings: Ratings, levels: Sequence[float], *, quadratic: bool = False) -> Statistic:
    """Cohen's kappa of judge and one person, undefined if chance agreement is 1 (Cohen 1960).

    Each label of a row counts by its share. With quadratic weights a disagreement costs its squared
    distance on the scale (Cohen 1968).
    """
    points: Values = np.array(levels, dtype=np.float64)
    size = len(points)
    cell = np.searchsorted(points, ratings.label) * size + np.searchsorted(points, ratings.score)
    cells = ratings.summed(np.eye(size * size)[cell])
    apart = np.abs(points[:, None] - points[None, :])
    cost = apart**2 if quadratic else (apart > 0).astype(np.float64)

    def statistic(of_rows: Values) -> Values:
        table = (of_rows @ cells).reshape(-1, size, size)
        observed = (table * cost).sum(axis=(1, 2)) * table.sum(axis=(1, 2))
        chance = np.einsum("ri,ij,rj->r", table.sum(axis=2), cost, table.sum(axis=1))
        return 1 - _safe_ratio(observed, chance)

    return statistic


def spearman(ratings: Ratings) -> Statistic:
    """Correlation of ranks (Spearman 1904); equal values share their mean rank."""
    x, y = _Ranking(ratings.label), _Ranking(ratings.score)

    def statistic(of_rows: Values) -> Values:
        weights = ratings.weights(of_rows)
        n, a, b = weights.sum(axis=1), x.ranks(weights), y.ranks(weights)
        aa, bb, ab = ((weights * left * two).sum(axis=1) for left, two in ((a, a), (b, b), (a, b)))
        return _correlation_of(n, aa, bb, ab, float(len(ratings.row) ** 2))

    return statistic


def kendall(ratings: Ratings) -> Statistic:
    """Kendall's tau-b: pairs in the same order less pairs in the opposite one (Kendall 1945).

    ``2 (C - D) / sqrt((n^2 - sum t^2) (n^2 - sum u^2))`` with ``t`` and ``u`` the sizes of groups
    of equal labels and scores. Undefined if labels or scores do not vary. All pairs are counted:
    for every bit of the rank of one side, those that share the higher bits, in n log n steps.
    """
    sides = [np.unique(side, return_inverse=True) for side in (ratings.label, ratings.score)]
    (_, x), (_, y) = sorted(sides, key=lambda side: -len(side[0]))
    x, y = x.ravel(), y.ravel()
    cells, cell = np.unique(x * (int(y.max()) + 1) + y, return_inverse=True)
    order, x_cell, y_cell = _Ranking(cell.ravel()), cells // (y.max() + 1), cells % (y.max() + 1)
    passes = [_BitPass(x_cell, y_cell, bit) for bit in range(int(y.max()).bit_length())]
    groups = _Ranking(x_cell), _Ranking(y_cell)

    def statistic(of_rows: Values) -> Values:
        weights = order.counts(ratings.weights(of_rows))
        square = weights.sum(axis=1) ** 2
        xx, yy = (square - (group.counts(weights) ** 2).sum(axis=1) for group in groups)
        surplus: Values = np.zeros(len(weights))
        for bit_pass in passes:
            surplus = surplus + bit_pass.surplus(weights)
        return _correlation_of(square, xx, yy, 2 * surplus, 1.0)

    return statistic


class _BitPass:
    """Concordant minus discordant pairs whose ranks y differ first at this bit."""

    def __init__(self, x: NDArray[np.int64], y: NDArray[np.int64], bit: int) -> None:
        prefix = y >> (bit + 1)
        self._order = np.lexsort((x, prefix))
        prefix, x = prefix[self._order], x[self._order]
        bit_set = ((y[self._order] >> bit) & 1).astype(bool)
        self._zeros = (~bit_set).astype(np.float64)
        self._ones = np.flatnonzero(bit_set)
        key = prefix * (int(x.max()) + 1) + x
        ends = [
            np.searchsorted(keys, keys[self._ones], side)
            for keys in (key, prefix)
            for side in ("left", "right")
        ]
        self._ties, self._group = (ends[0], ends[1]), (ends[2], ends[3])

    def surplus(self, weights: Values) -> Values:
        """Sum of the products of weights, opposite orders counting negative."""
        weights = weights[:, self._order]
        sums = np.zeros((len(weights), weights.shape[1] + 1))
        np.cumsum(weights * self._zeros, axis=1, out=sums[:, 1:])
        (tie, tie_end), (start, end) = self._ties, self._group
        balance = sums[:, tie] + sums[:, tie_end] - sums[:, start] - sums[:, end]
        total: Values = (weights[:, self._ones] * balance).sum(axis=1)
        return total


def auc(ratings: Ratings) -> Statistic:
    """Area under the ROC curve: how often a row labelled 1 scores above one labelled 0.

    Equal scores count half (Mann and Whitney 1947; Hanley and McNeil 1982). Undefined without
    labels of both kinds.
    """
    positive = ratings.label == 1
    order = _Ranking(ratings.score)

    def statistic(of_rows: Values) -> Values:
        weights = ratings.weights(of_rows)
        ones, zeros = order.counts(weights * positive), order.counts(weights * ~positive)
        below = zeros.cumsum(axis=1) - zeros / 2
        return _safe_ratio((ones * below).sum(axis=1), ones.sum(axis=1) * zeros.sum(axis=1))

    return statistic


def krippendorff(units: Sequence[Sequence[float]]) -> Statistic:
    """Krippendorff's alpha of people who labelled the same rows, nominal (Krippendorff 2011).

    Args:
        units: Labels of each row, two or more; their order does not matter.
    """
    values, code = np.unique(np.concatenate([np.asarray(u) for u in units]), return_inverse=True)
    sizes = np.array([len(unit) for unit in units])
    label_counts = np.zeros((len(units), len(values)))
    np.add.at(
        label_counts, (np.repeat(np.arange(len(units)), sizes), np.asarray(code).ravel()), 1.0
    )
    # pairs of different labels, each counted by the number of the row's labels less one
    apart = (sizes**2 - (label_counts**2).sum(axis=1)) / (sizes - 1)

    def statistic(of_rows: Values) -> Values:
        counts = of_rows @ label_counts
        total = counts.sum(axis=1)
        return 1 - _safe_ratio((of_rows @ apart) * (total - 1), total**2 - (counts**2).sum(axis=1))

    return statistic


class _Ranking:
    """The order of some values, for ranks and counts under changing weights."""

    def __init__(self, values: Values) -> None:
        self._order = np.argsort(values, kind="stable")
        _, starts, place = np.unique(values[self._order], return_index=True, return_inverse=True)
        self._starts = starts
        self._place = np.empty(len(values), dtype=np.int64)
        self._place[self._order] = np.asarray(place).ravel()

    def counts(self, weights: Values) -> Values:
        """Weight of each different value, ascending."""
        totals: Values = np.add.reduceat(weights[:, self._order], self._starts, axis=1)
        return totals

    def ranks(self, weights: Values) -> Values:
        """Rank of every value, equal ones sharing their mean rank, around 0."""
        counts = self.counts(weights)
        middle = counts.cumsum(axis=1) - (counts + counts.sum(axis=1, keepdims=True)) / 2
        ranks: Values = middle[:, self._place]
        return ranks


def _correlation_of(n: Values, xx: Values, yy: Values, xy: Values, largest: float) -> Values:
    """Correlation from sums of squares and products about the mean.

    ``largest`` is the largest square in ``xx`` and ``yy``: less than its rounding error counts as
    no variance.
    """
    flat = (xx <= _ROUNDING * n * largest) | (yy <= _ROUNDING * n * largest)
    spread = np.sqrt(np.maximum(xx, 0.0)) * np.sqrt(np.maximum(yy, 0.0))
    return np.clip(_safe_ratio(xy, np.where(flat, 0.0, spread)), -1, 1)


def _safe_ratio(above: Values, below: Values) -> Values:
    is_defined = below > 0
    ratio: Values = np.where(is_defined, above / np.where(is_defined, below, 1.0), np.nan)
    return ratio


Bounds: TypeAlias = NDArray[np.float64]
DriftVerdict: TypeAlias = Literal["worse", "better", "unproven"]

_LARGEST_BET = 0.5
"""Constant c of the source: no single value may move the sequence further."""


@dataclass(frozen=True, slots=True)
class AnytimeMean:
    """The mean of the values so far, with an interval that may be looked at after every value.

    ``mean``, ``low`` and ``high`` are None without a value.
    """

    n: int
    mean: float | None
    low: float | None
    high: float | None

    @property
    def moved(self) -> bool:
        """True if the mean moved within the period: the interval is of a mean that stays."""
        if self.mean is None or self.low is None or self.high is None:
            return False
        return not self.low <= self.mean <= self.high


@dataclass(frozen=True, slots=True)
class Drift:
    """The comparison of the latest values with those of a reference period.

    Attributes:
        verdict: ``worse`` or ``better`` where the two intervals were apart at a look, else
            ``unproven``.
        reference: Of the reference period.
        current: Of the newest window.
        window: Its number, from 1.
    """

    verdict: DriftVerdict
    reference: AnytimeMean
    current: AnytimeMean
    window: int


def confidence_sequence(
    values: Sequence[float], low: float, high: float, alpha: float = 0.05, *, running: bool = True
) -> tuple[Bounds, Bounds]:
    """Bounds of a mean after each value that hold at all looks at once.

    The mean lies within all of the intervals with probability 1 - alpha or more, however often
    and whenever somebody looks, for values of any distribution within their range. This is the
    predictable plug-in empirical Bernstein sequence of Waudby-Smith and Ramdas (2024), "Estimating
    means of bounded random variables by betting", theorem 2, with the running intersection.

    Args:
        values: In the order in which they came.
        low: Least possible value.
        high: Greatest possible value.
        alpha: Probability of an error at any look, 0 to 1.
        running: Narrow each interval to what all before it allow. That is valid for a mean that
            stays; where it moves, the bounds cross. Without it they never do.

    Returns:
        Lower and upper bounds, each of the length of ``values``.

    Raises:
        ValueError: A value is out of range.
    """
    data = np.asarray(values, np.float64)
    if data.size and (data.min() < low or data.max() > high):
        raise ValueError(f"values must be from {low:g} to {high:g}")
    x = (data - low) / (high - low)
    count = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (count + 1)
    before = np.concatenate(([0.5], means[:-1]))
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (count + 1)
    variance_before = np.concatenate(([0.25], spread[:-1]))
    bets = np.minimum(
        np.sqrt(2 * math.log(2 / alpha) / (variance_before * count * np.log1p(count))), _LARGEST_BET
    )
    penalty = 4 * (x - before) ** 2 * (-np.log1p(-bets) - bets) / 4
    total = np.cumsum(bets)
    centre = np.cumsum(bets * x) / total
    width = (math.log(2 / alpha) + np.cumsum(penalty)) / total
    lows, highs = np.clip(centre - width, 0.0, 1.0), np.clip(centre + width, 0.0, 1.0)
    if running:
        lows, highs = np.maximum.accumulate(lows), np.minimum.accumulate(highs)
    return low + lows * (high - low), low + highs * (high - low)


def drift(
    reference: Sequence[float],
    windows: Sequence[Sequence[float]],
    scale: tuple[float, float],
    *,
    lower_is_better: bool = False,
    alpha: float = 0.05,
) -> Drift:
    """Compare the newest window with the reference period; may be asked after every value.

    A window is a stretch of time, such as four weeks, within which values are added. An old window
    is never looked at again. Half of ``alpha`` is spent on the reference and half on the windows
    (window k gets a share of 1 / (k (k + 1))), so that all looks of all windows together raise a
    false alarm with probability ``alpha`` or less.

    Args:
        reference: Values of the reference period, which is closed.
        windows: Values of each window since, the newest last.
        scale: Least and greatest possible value.
        lower_is_better: Low values are good.
        alpha: Probability of any false alarm ever.
    """
    number = max(1, len(windows))
    newest = windows[-1] if windows else ()
    baseline = _watch_mean(reference, scale, period_alpha(0, alpha))
    current = _watch_mean(newest, scale, period_alpha(number, alpha))
    verdict: DriftVerdict = "unproven"
    if baseline.low is not None and baseline.high is not None and len(newest):
        lows, highs = confidence_sequence(newest, *scale, period_alpha(number, alpha))
        if highs[-1] < baseline.low:  # at any look of this window: it stays proven
            verdict = "better" if lower_is_better else "worse"
        elif lows[-1] > baseline.high:
            verdict = "worse" if lower_is_better else "better"
    return Drift(verdict, baseline, current, number)


def period_alpha(number: int, alpha: float = 0.05) -> float:
    """The part of ``alpha`` that :func:`drift` spends on the reference (0) or on a window (from 1).

    The parts of all windows that ever come add up to half of it.
    """
    return alpha / 2 if not number else alpha / 2 / (number * (number + 1))


def _watch_mean(values: Sequence[float], scale: tuple[float, float], alpha: float) -> AnytimeMean:
    if not len(values):
        return AnytimeMean(0, None, None, None)
    lows, highs = confidence_sequence(values, *scale, alpha, running=False)
    return AnytimeMean(len(values), float(np.mean(values)), float(lows[-1]), float(highs[-1]))
