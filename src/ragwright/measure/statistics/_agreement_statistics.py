"""Statistics of agreement over rows, each for many bootstrap resamples of the rows at once.

A statistic is a function of row weights: an array of R resamples times n rows with the number of
times each row was drawn. It returns R values, NaN if the statistic is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._intervals import RESAMPLES, TAIL, Values

AlphaLevel: TypeAlias = Literal["", "nominal", "ordinal", "interval"]
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


def resampled(statistic: Statistic, rows: int, seed: int) -> Estimate:
    """A statistic with the percentiles of 2,000 resamples of the rows (Efron 1979).

    Without an interval if it is undefined in more than one resample of twenty.
    """
    value = float(statistic(np.ones((1, rows)))[0])
    if np.isnan(value):
        return Estimate()
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // rows)
    statistics = []
    for start in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - start)
        drawn = generator.integers(0, rows, (size, rows)) + np.arange(size)[:, None] * rows
        times = np.bincount(drawn.ravel(), minlength=size * rows).astype(np.float64)
        statistics.append(statistic(times.reshape(size, rows)))
    values = np.concatenate(statistics)
    values = values[~np.isnan(values)]
    if len(values) < 0.95 * RESAMPLES:
        return Estimate(value)
    low, high = np.quantile(values, [TAIL, 1 - TAIL])
    return Estimate(value, float(low), float(high))


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


def pearson(ratings: Ratings) -> Statistic:
    """Linear correlation of labels and scores, undefined if one of them does not vary."""
    x, y = ratings.label - ratings.label.mean(), ratings.score - ratings.score.mean()
    moments = ratings.summed(np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1))
    largest = float(np.max(x * x)), float(np.max(y * y))

    def statistic(of_rows: Values) -> Values:
        n, a, b, aa, bb, ab = (of_rows @ moments).T
        return _correlation_of(n, aa - a * a / n, bb - b * b / n, ab - a * b / n, largest)

    return statistic


def spearman(ratings: Ratings) -> Statistic:
    """Correlation of ranks (Spearman 1904); equal values share their mean rank."""
    x, y = _Ranking(ratings.label), _Ranking(ratings.score)

    def statistic(of_rows: Values) -> Values:
        weights = ratings.weights(of_rows)
        n, a, b = weights.sum(axis=1), x.ranks(weights), y.ranks(weights)
        largest = len(ratings.row) ** 2, len(ratings.row) ** 2
        aa, bb, ab = ((weights * left * two).sum(axis=1) for left, two in ((a, a), (b, b), (a, b)))
        return _correlation_of(n, aa, bb, ab, largest)

    return statistic


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


def krippendorff(units: Sequence[Sequence[float]], level: AlphaLevel) -> Statistic:
    """Krippendorff's alpha of people who labelled the same rows (Krippendorff 2011).

    Args:
        units: Labels of each row, two or more; their order does not matter.
        level: Cost of a disagreement: ``nominal`` 1, ``ordinal`` the square of the ranks
            between two labels, ``interval`` the square of their difference.
    """
    values, code = np.unique(np.concatenate([np.asarray(u) for u in units]), return_inverse=True)
    code = np.asarray(code).ravel()
    sizes = np.array([len(unit) for unit in units])
    unit = np.repeat(np.arange(len(units)), sizes)
    if level == "interval":
        return _interval_alpha(values[code], unit, sizes)
    label_counts = np.zeros((len(units), len(values)))
    np.add.at(label_counts, (unit, code), 1.0)
    pairs = label_counts[:, :, None] * label_counts[:, None, :]
    at = np.arange(len(values))
    pairs[:, at, at] -= label_counts
    pairs = (pairs / (sizes - 1)[:, None, None]).reshape(len(units), -1)

    def statistic(of_rows: Values) -> Values:
        counts = of_rows @ label_counts
        cost = _ranks_between(counts) if level == "ordinal" else (1.0 - np.eye(len(values)))[None]
        coincided = (of_rows @ pairs).reshape(-1, len(values), len(values))
        observed = (coincided * cost).sum(axis=(1, 2)) * (counts.sum(axis=1) - 1)
        chance = (counts[:, :, None] * counts[:, None, :] * cost).sum(axis=(1, 2))
        return 1 - _safe_ratio(observed, chance)

    return statistic


def _ranks_between(counts: Values) -> Values:
    """Squared ranks between two values, counting half of each value's own."""
    middle = counts.cumsum(axis=1) - counts / 2
    squares: Values = (middle[:, :, None] - middle[:, None, :]) ** 2
    return squares


def _interval_alpha(values: Values, unit: NDArray[np.int64], sizes: NDArray[np.int64]) -> Statistic:
    """Alpha of the interval level by sums, for any number of different values."""
    values = values - values.mean()
    sums = np.bincount(unit, weights=values)
    squares = np.bincount(unit, weights=values * values)
    within = (sizes * squares - sums * sums) / (sizes - 1)

    def statistic(of_rows: Values) -> Values:
        n = of_rows @ sizes.astype(np.float64)
        spread = n * (of_rows @ squares) - (of_rows @ sums) ** 2
        spread = np.where(spread > _ROUNDING * n * (of_rows @ squares), spread, 0.0)
        return 1 - _safe_ratio((of_rows @ within) * (n - 1), spread)

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


def _correlation_of(
    n: Values, xx: Values, yy: Values, xy: Values, largest: tuple[float, float]
) -> Values:
    """Correlation from sums of squares and products about the mean.

    ``largest`` are the largest squares in ``xx`` and ``yy``: less than their rounding error counts
    as no variance.
    """
    flat = (xx <= _ROUNDING * n * largest[0]) | (yy <= _ROUNDING * n * largest[1])
    spread = np.sqrt(np.maximum(xx, 0.0)) * np.sqrt(np.maximum(yy, 0.0))
    return np.clip(_safe_ratio(xy, np.where(flat, 0.0, spread)), -1, 1)


def _safe_ratio(above: Values, below: Values) -> Values:
    """A quotient, NaN if the divisor is 0."""
    is_defined = below > 0
    ratio: Values = np.where(is_defined, above / np.where(is_defined, below, 1.0), np.nan)
    return ratio
