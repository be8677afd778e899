"""95 % intervals, p-values and power, in numpy alone.

Three methods: exact for shares (Clopper and Pearson 1934); else the seeded bias-corrected and
accelerated bootstrap (Efron 1987) at the expanded percentiles of Hesterberg 2015; over whole
clusters if rows share one. The bootstrap of a few values is still too narrow, since it never leaves
their range: below 20 values each end extends at least as far as Student's interval. Values without
spread have no bootstrap: instead, how often another value can have been missed is bounded exactly.
Intervals of a difference allow for such missed values on a side of 0 with few observations, because
a few large losses can outweigh many small gains.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
Interval: TypeAlias = tuple[float, float]
Scale: TypeAlias = tuple[float, float | None]
"""Smallest and largest value of a measure, None if unbounded."""

Method: TypeAlias = Literal["", "exact", "bootstrap", "clusters", "no spread"]

RESAMPLES = 2000
TAIL = 0.025
NORMAL = NormalDist()
_FEW = 20
"""Number of values or clusters below which Student's interval is used too."""

FEW_SEEN = 5
"""Number of rows or clusters on one side of 0 below which rare values there are allowed for."""

_BLOCK = 1_000_000  # most resampled values held at once


def mean_interval(
    values: Values,
    seed: int,
    *,
    scale: Scale | None = None,
    clusters: NDArray[np.int64] | None = None,
) -> tuple[Interval | None, Method]:
    """The 95 % interval of a mean and the method that gave it; None below two values or clusters.

    Args:
        values: One per row.
        seed: Seed of the bootstrap.
        scale: Range of the values: needed for ``exact`` and ``no spread``.
        clusters: Number of each row's cluster, from 0; None where rows are independent.
    """
    sums, sizes = _sum_by_cluster(values, clusters)
    if len(sums) < 2:
        return None, ""
    if float(values.min()) == float(values.max()):
        if scale is None or scale[1] is None:
            return None, ""
        return unseen_interval(float(values[0]), len(sums), (scale[0], scale[1])), "no spread"
    alone = len(sums) == len(values)
    method: Method = "bootstrap" if alone else "clusters"
    if alone and scale == (0.0, 1.0) and bool(np.isin(values, (0.0, 1.0)).all()):
        return clopper_pearson(int(values.sum()), len(values)), "exact"
    low, high = bootstrap(sums, sizes, seed)
    if len(sums) < _FEW:
        mean, error = math.fsum(sums) / math.fsum(sizes), standard_error(values, clusters) or 0.0
        half = student_quantile(len(sums) - 1) * error
        low, high = min(low, mean - half), max(high, mean + half)
    if scale is not None:
        low, high = max(low, scale[0]), high if scale[1] is None else min(high, scale[1])
    return (low, high), method


def difference_interval(
    differences: Values,
    seed: int,
    *,
    reach: float | None,
    clusters: NDArray[np.int64] | None = None,
) -> Interval | None:
    """The 95 % interval of a mean paired difference, allowing for rows too rare to be sampled.

    The interval of :func:`mean_interval`. If fewer than five rows (or clusters) are on one side of
    0, the end there extends at least as far as :func:`unseen_interval`. A bootstrap cannot see such
    rows: most differences may be small gains, a few a large loss.

    Args:
        differences: One per row.
        seed: Seed of the bootstrap.
        reach: Largest difference that two values of the measure can have; None if the scale is
            unbounded. Then rows that were not sampled are unbounded too, and not allowed for.
        clusters: Number of each row's cluster, from 0; None where rows are independent.

    Returns:
        None below two rows or clusters, and for equal differences on an unbounded scale.
    """
    scale = None if reach is None else (-reach, reach)
    ends, _ = mean_interval(differences, seed, scale=scale, clusters=clusters)
    if ends is None or scale is None:
        return ends
    sums, sizes = _sum_by_cluster(differences, clusters)
    low, high = unseen_interval(math.fsum(sums) / math.fsum(sizes), len(sums), scale)
    if np.count_nonzero(sums < 0) < FEW_SEEN:
        ends = min(ends[0], low), ends[1]
    if np.count_nonzero(sums > 0) < FEW_SEEN:
        ends = ends[0], max(ends[1], high)
    return ends


def unseen_interval(mean: float, count: int, scale: Interval) -> Interval:
    """Range of a mean if the rows that were not sampled are at an end of the scale.

    Args:
        mean: Mean of the sampled rows.
        count: Number of rows, or clusters of them.
        scale: Smallest and largest value.
    """
    # The exact upper bound of a share with no observation in the sample (Clopper and Pearson 1934).
    unseen = -math.expm1(math.log(TAIL) / count)
    low = mean - unseen * max(0.0, mean - scale[0])
    high = mean + unseen * max(0.0, scale[1] - mean)
    return low, high


def number_clusters(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    """Number of each key's cluster, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def standard_error(values: Values, clusters: NDArray[np.int64] | None = None) -> float | None:
    """Standard error of a mean; over clusters as in Miller 2024; None below two of them."""
    sums, sizes = _sum_by_cluster(values, clusters)
    m, n = len(sums), len(values)
    if m < 2:
        return None
    spread = sums - sizes * (math.fsum(values) / n)
    return math.sqrt(m / (m - 1) * math.fsum(spread * spread)) / n


def bootstrap(sums: Values, sizes: Values, seed: int) -> Interval:
    """Interval of ``sum(sums) / sum(sizes)`` by the BCa bootstrap over its entries.

    Bias and acceleration are those of Efron 1987, the latter from the jackknife, which has a
    closed form for a ratio of sums.
    """
    generator = np.random.default_rng(seed)
    count = len(sums)
    alone = bool((sizes == 1).all())
    rows = max(1, _BLOCK // count)
    means = []
    for at in range(0, RESAMPLES, rows):
        drawn = generator.integers(0, count, (min(rows, RESAMPLES - at), count))
        divisors = count if alone else sizes[drawn].sum(axis=1)
        means.append(sums[drawn].sum(axis=1) / divisors)
    resampled = np.concatenate(means)
    return bca(
        resampled, math.fsum(sums) / math.fsum(sizes), _jackknife_acceleration(sums, sizes), count
    )


def bca(resampled: Values, observed: float, acceleration: float, count: int) -> Interval:
    """The BCa interval of a statistic from its resampled values.

    A bootstrap of ``count`` values has the divisor n in its variance and the normal quantile in
    its tails; the percentiles are expanded to the divisor n - 1 and Student's quantile
    (Hesterberg 2015, The American Statistician 69).
    """
    wide = math.sqrt(count / (count - 1)) * student_quantile(count - 1)
    # Sums of the same numbers in another order differ in the last digits; that is not a bias.
    near = np.round(resampled, 12)
    middle = round(observed, 12)
    below = (np.count_nonzero(near < middle) + np.count_nonzero(near <= middle)) / 2 / len(near)
    shift = NORMAL.inv_cdf(min(max(below, 1 / (2 * len(near))), 1 - 1 / (2 * len(near))))
    ends = []
    for side in (-1, 1):
        z = shift + side * wide
        divisor = 1 - acceleration * z
        ends.append(NORMAL.cdf(shift + z / divisor) if divisor > 0 else float(z > 0))
    low, high = np.quantile(resampled, ends)
    return float(low), float(high)


def clopper_pearson(hits: int, n: int) -> Interval:
    """The exact interval of a share of ``hits`` in ``n`` (Clopper and Pearson 1934)."""
    low = 0.0 if hits == 0 else beta_quantile(TAIL, hits, n - hits + 1)
    high = 1.0 if hits == n else beta_quantile(1 - TAIL, hits + 1, n - hits)
    return low, high


@lru_cache(maxsize=256)
def student_quantile(degrees: int) -> float:
    """The 97.5 % point of Student's t distribution (Student 1908)."""
    share = beta_quantile(1 - 2 * TAIL, 0.5, degrees / 2)  # of t² / (degrees + t²)
    return math.sqrt(degrees * share / (1 - share))


def beta_quantile(share: float, a: float, b: float) -> float:
    """Quantile ``share`` of the beta distribution, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if incomplete_beta(a, b, middle) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, 0 to 1.

    By its continued fraction (Abramowitz and Stegun 26.5.8) with Lentz's algorithm.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, 1 - x) / b


def _continued_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 + term * d, 1 + term / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            step = c * d
            value *= step
        if abs(step - 1) < 1e-15:
            break
    return value


def _sum_by_cluster(values: Values, clusters: NDArray[np.int64] | None) -> tuple[Values, Values]:
    """Sum and number of the values of each cluster that has any."""
    if clusters is None:
        return values, np.ones(len(values))
    sizes = np.bincount(clusters).astype(np.float64)
    sums: Values = np.bincount(clusters, weights=values).astype(np.float64)
    return sums[sizes > 0], sizes[sizes > 0]


def _jackknife_acceleration(sums: Values, sizes: Values) -> float:
    left_out = (sums.sum() - sums) / (sizes.sum() - sizes)
    away = left_out.mean() - left_out
    largest = float(np.abs(away).max())
    if largest == 0:
        return 0.0
    away = away / largest  # squares of tiny numbers would underflow
    cube, square = math.fsum(away**3), math.fsum(away * away)
    return cube / (6 * math.pow(square, 1.5))


LEAST_P = 0.001
"""Smaller p-values are not told apart: they rest on the assumptions of the test."""
_EXACT = 16
"""Most differences for which all sign flips are enumerated (65,536)."""
_FLIPS = 10_000
_SIGN_BLOCK = 4_000_000  # most random signs held at once


def p_text(p: float) -> str:
    """A p-value in a sentence: ``p = 0.012``, ``p < 0.001``."""
    return "p < 0.001" if p < LEAST_P else f"p = {p:.3g}"


def permutation_p(differences: Values, seed: int) -> float:
    """Two-sided p-value of a mean difference under random signs.

    For up to 16 nonzero differences all sign flips are enumerated; beyond, 10,000 seeded flips are
    drawn and the observed one is added (Phipson and Smyth 2010), so that p is never 0.
    """
    moving = differences[differences != 0]
    if not len(moving):
        return 1.0
    observed = abs(math.fsum(moving))
    reached = observed - 1e-9 * float(np.abs(moving).sum())
    if len(moving) <= _EXACT:
        sums = np.zeros(1)
        for step in moving:
            sums = np.concatenate([sums - step, sums + step])
        return float(np.mean(np.abs(sums) >= reached))
    generator = np.random.default_rng(seed)
    rows = max(1, _SIGN_BLOCK // len(moving))
    beyond = 0
    for at in range(0, _FLIPS, rows):
        shape = (min(rows, _FLIPS - at), len(moving))
        signs = generator.integers(0, 2, shape, dtype=np.int8) * np.int8(2) - np.int8(1)
        beyond += int(np.count_nonzero(np.abs(signs @ moving) >= reached))
    return (beyond + 1) / (_FLIPS + 1)


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for multiple tests, in their order (Holm 1979)."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[at]))
        corrected[at] = highest
    return corrected


LEVEL = 0.05
POWER = 0.8


def smallest_difference(error: float, tests: int = 1) -> float:
    """Smallest difference detected with 80 % power at the 5 % level, two-sided.

    ``(z(1 - 0.05 / (2 tests)) + z(0.8)) * error``, ``error`` being the standard error of the
    difference (Cohen 1988; for evaluations Miller 2024); several tests share the level, as in the
    strictest step of Holm's method.
    """
    return (NORMAL.inv_cdf(1 - LEVEL / (2 * tests)) + NORMAL.inv_cdf(POWER)) * error
