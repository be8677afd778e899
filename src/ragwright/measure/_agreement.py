"""A judge held against people: how far its scores can be believed, and what the mean really is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..core import MeasureError, Score
from ._definition import MeasureScale
from ._intervals import (
    NORMAL,
    RESAMPLES,
    TAIL,
    Values,
    clopper_pearson,
    mean_interval,
)
from ._statistics import known_scale

_MOST_POINTS = 11
"""Most different values that are still read as points of a scale, not as a continuum."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; None where it is undefined."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores of a judge (or any measure) held against labels of people, row by row.

    Attributes:
        measure: Text of the measure.
        n: Rows with both a score and a label.
        unscored: Labelled rows whose score is missing: invalid, errored, not applicable.
        unlabelled: Scored rows without a label.
        unknown: Labels whose row was not scored at all.
        agreement: Share of rows where both are equal; exact interval.
        kappa: Cohen's kappa, agreement beyond chance (Cohen 1960); ``weighted_kappa`` with
            quadratic weights, for scales (Cohen 1968). None where values are no points of a
            scale.
        bias: Mean of score minus label; above 0 the judge is too kind.
        pearson: Linear correlation; ``spearman`` that of ranks.
        levels: Points of the scale that occur, ascending; empty for a continuum.
        confusion: Rows by label (outer) and score (inner), both in the order of ``levels``.
        judge_mean: Mean of all scores; ``human_mean`` of all labels with a score.
        corrected: Mean of all scored rows as people would score them, see :func:`corrected_mean`.
        seed: Seed of the bootstrap.
        scale: Range and direction of the measure; None where they are not known.
    """

    measure: str
    n: int = 0
    unscored: int = 0
    unlabelled: int = 0
    unknown: int = 0
    agreement: Estimate = Estimate()
    kappa: Estimate = Estimate()
    weighted_kappa: Estimate = Estimate()
    bias: Estimate = Estimate()
    pearson: Estimate = Estimate()
    spearman: Estimate = Estimate()
    levels: tuple[float, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    judge_mean: Estimate = Estimate()
    human_mean: Estimate = Estimate()
    corrected: Estimate = Estimate()
    seed: int = 0
    scale: MeasureScale | None = None


def calibrate(
    scores: Mapping[str, Score],
    labels: Mapping[str, float],
    *,
    seed: int = 0,
    scale: MeasureScale | None = None,
) -> Calibration:
    """Hold the scores of one measure against labels of the same rows.

    Args:
        scores: Row id -> score, in any state.
        labels: Row id -> what people say, on the measure's scale.
        seed: Seed of the bootstrap (percentiles of 2,000 resamples of rows; Efron 1979).
        scale: That of the measure, where its text does not say it.

    Raises:
        MeasureError: The scores are of several measures, a label is off the scale, or no row
            has both.
    """
    names = sorted({score.measure for score in scores.values()})
    if len(names) != 1:
        raise MeasureError(
            "scores of one measure are due, given " + (" and ".join(names) or "none"),
            hint="calibrate each measure by itself",
        )
    scale = scale or known_scale(names[0])
    ends = None if scale is None else scale.ends
    _check_labels(names[0], labels, scale)
    valued = {key: score.value for key, score in scores.items() if score.value is not None}
    if not (both := [key for key in valued if key in labels]):
        raise MeasureError(
            f"no labelled row has a score of {names[0]}", hint="label rows of the run itself"
        )
    judge: Values = np.array([valued[key] for key in both], dtype=np.float64)
    human: Values = np.array([labels[key] for key in both], dtype=np.float64)
    rest: Values = np.array([v for key, v in valued.items() if key not in labels], np.float64)
    levels = _levels(judge, human)
    same = int(np.count_nonzero(judge == human))
    equal = Estimate(same / len(both), *clopper_pearson(same, len(both)))
    kappa, weighted = _kappas(human, judge, levels, seed) if levels else (Estimate(), Estimate())
    return Calibration(
        measure=names[0],
        n=len(both),
        unscored=sum(key in labels and key not in valued for key in scores),
        unlabelled=len(rest),
        unknown=sum(key not in scores for key in labels),
        agreement=equal if levels else Estimate(),
        kappa=kappa,
        weighted_kappa=weighted,
        bias=_mean(judge - human, seed, _width(scale)),
        pearson=_resampled(pearson, human, judge, seed),
        spearman=_resampled(spearman, human, judge, seed),
        levels=levels,
        confusion=_confusion(human, judge, levels),
        judge_mean=_mean(np.concatenate([judge, rest]), seed, ends),
        human_mean=_mean(human, seed, ends),
        corrected=corrected_mean(judge, human, rest, scale),
        seed=seed,
        scale=scale,
    )


def corrected_mean(
    judge: Values, human: Values, rest: Values, scale: MeasureScale | None = None
) -> Estimate:
    """The mean that people would have given, from a few labels and many scores.

    Prediction-powered inference (Angelopoulos et al. 2023, Science 382): ``mean(rest) +
    mean(human - judge)``, with the variance ``var(rest) / N + var(human - judge) / n`` and the
    normal quantile. The labelled rows must be a random choice of all. Without unlabelled rows
    it is the mean of the labels.

    On a scale, a part whose values are all equal gets the bound of :mod:`_intervals` instead of the
    variance 0 (ten labels that agree do not prove that all would), and the two parts are joined
    by the squares of their half-widths, each side for itself (MOVER; Zou and Donner 2008); with
    spread in both this is the formula above. What then lies off the scale is cut off: the mean
    cannot lie there, so that the interval holds it no less often.

    Args:
        judge: Scores of the n labelled rows.
        human: Labels of these rows.
        rest: Scores of the N rows without a label.
        scale: That of the measure, None where it has no end.
    """
    if len(human) < 2 or len(rest) == 1:
        return Estimate()
    ends = None if scale is None else scale.ends
    if not len(rest):
        return within(_around(human, ends), scale)
    return within(_sum(_around(rest, ends), _around(human - judge, _width(scale))), scale)


def within(found: Estimate, scale: MeasureScale | None) -> Estimate:
    """An estimate of a mean with what lies off its scale cut off."""
    if scale is None:
        return found
    high = math.inf if scale.high is None else scale.high
    cut = [
        None if end is None else min(max(end, scale.low), high)
        for end in (found.value, found.low, found.high)
    ]
    return Estimate(*cut)


def shifted_mean(mean: Estimate, bias: Estimate, scale: MeasureScale | None = None) -> Estimate:
    """A mean less the bias found elsewhere, by MOVER (Zou and Donner 2008), cut to the scale.

    For rows that nobody labelled, scored by a judge whose bias is known from others of that kind.
    """
    turned = Estimate(
        None if bias.value is None else -bias.value,
        None if bias.high is None else -bias.high,
        None if bias.low is None else -bias.low,
    )
    return within(_sum(mean, turned), scale)


def _sum(one: Estimate, other: Estimate) -> Estimate:
    """Sum of two independent estimates."""
    if one.value is None or other.value is None:
        return Estimate()
    value = one.value + other.value
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Estimate(value)
    below = math.hypot(one.value - one.low, other.value - other.low)
    above = math.hypot(one.high - one.value, other.high - other.value)
    return Estimate(value, value - below, value + above)


def _around(values: Values, ends: tuple[float, float | None] | None) -> Estimate:
    """A mean with its normal interval; where nothing varies, with the bound for that."""
    value = math.fsum(values) / len(values)
    if float(values.min()) == float(values.max()):
        bound, _ = mean_interval(values, 0, scale=ends)
        return Estimate(value, *(bound or (value, value)))
    error = math.sqrt(float(np.var(values, ddof=1)) / len(values))
    half = NORMAL.inv_cdf(1 - TAIL) * error
    return Estimate(value, value - half, value + half)


def cohen_kappa(
    table: Values, *, quadratic: bool = False, levels: Values | None = None
) -> float | None:
    """Agreement beyond chance from a square table of counts; None where chance is certain.

    With quadratic weights a miss costs the square of its distance (Cohen 1968): that of the
    values that rows and columns stand for, ``levels``, where they are given, else in places.
    """
    points: Values = np.arange(len(table), dtype=np.float64) if levels is None else levels
    apart = np.abs(points[:, None] - points[None, :])
    cost = apart**2 if quadratic else (apart > 0).astype(np.float64)
    total = table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    by_chance = float((cost * expected).sum())
    if by_chance == 0:
        return None
    return 1 - float((cost * table).sum()) / by_chance


def pearson(x: Values, y: Values) -> float | None:
    """Linear correlation, None where one of the two does not vary."""
    if len(x) < 2 or float(x.min()) == float(x.max()) or float(y.min()) == float(y.max()):
        return None
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x @ y) / math.sqrt(float(x @ x) * float(y @ y)), -1, 1))


def spearman(x: Values, y: Values) -> float | None:
    """Correlation of ranks (Spearman 1904), equal values sharing their mean rank."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: Values) -> Values:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Values = (ends - (counts - 1) / 2)[inverse]
    return shared


def _resampled(
    statistic: Callable[[Values, Values], float | None], x: Values, y: Values, seed: int
) -> Estimate:
    """A statistic of pairs with the percentiles of its bootstrap.

    Without an interval where more than one resample in twenty leaves it undefined.
    """
    value = statistic(x, y)
    if value is None:
        return Estimate()
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        drawn = generator.integers(0, len(x), len(x))
        again = statistic(x[drawn], y[drawn])
        if again is not None:
            found.append(again)
    if len(found) < 0.95 * RESAMPLES:
        return Estimate(value)
    low, high = np.quantile(found, [TAIL, 1 - TAIL])
    return Estimate(value, float(low), float(high))


def _kappas(
    human: Values, judge: Values, levels: tuple[float, ...], seed: int
) -> tuple[Estimate, Estimate]:
    """Kappa without and with quadratic weights; the weights count distances on the scale.

    1 against 5 is four apart, whether or not anybody gave a point between.
    """
    points: Values = np.array(levels, dtype=np.float64)
    x, y = np.searchsorted(points, human), np.searchsorted(points, judge)

    def table(a: Values, b: Values) -> Values:
        flat = np.bincount((a * len(points) + b).astype(int), minlength=len(points) ** 2)
        return flat.reshape(len(points), len(points)).astype(np.float64)

    def kappa(a: Values, b: Values) -> float | None:
        return cohen_kappa(table(a, b))

    def weighted(a: Values, b: Values) -> float | None:
        return cohen_kappa(table(a, b), quadratic=True, levels=points)

    given = x.astype(np.float64), y.astype(np.float64)
    return _resampled(kappa, *given, seed), _resampled(weighted, *given, seed)


def _levels(judge: Values, human: Values) -> tuple[float, ...]:
    found = np.unique(np.concatenate([judge, human]))
    return tuple(float(level) for level in found) if len(found) <= _MOST_POINTS else ()


def _confusion(
    human: Values, judge: Values, levels: tuple[float, ...]
) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(int(np.count_nonzero((human == row) & (judge == column))) for column in levels)
        for row in levels
    )


def _mean(values: Values, seed: int, scale: tuple[float, float | None] | None) -> Estimate:
    ends, _ = mean_interval(values, seed, scale=scale)
    return Estimate(math.fsum(values) / len(values), *(ends or (None, None)))


def _width(scale: MeasureScale | None) -> tuple[float, float | None] | None:
    """The range of differences on a measure's scale."""
    if scale is None or scale.high is None:
        return None
    return scale.low - scale.high, scale.high - scale.low


def _check_labels(name: str, labels: Mapping[str, float], scale: MeasureScale | None) -> None:
    low, high = (-math.inf, None) if scale is None else scale.ends
    for key, label in labels.items():
        if not math.isfinite(label) or label < low or (high is not None and label > high):
            raise MeasureError(
                f"the label {label} of row {key!r} is off the scale of {name}",
                hint=f"labels lie between {low:g} and {'any' if high is None else f'{high:g}'}",
            )
