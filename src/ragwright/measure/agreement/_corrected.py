"""The mean of people's labels, estimated from a few labels and many scores of a judge."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core import MeasureError, counted
from .._definition import MeasureScale
from ..statistics import Estimate, Values, mean_interval, standard_error, student_quantile

_ROUNDING = 1e-12
_MOST_UNITS = 10_000_000
"""Most clusters or rows that anybody could label."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A judge's scores of all rows, and people's labels of some of them.

    Attributes:
        judge: Scores of the n labelled rows.
        human: Labels of these rows; the mean if several people labelled a row.
        rest: Scores of the m - n rows without a label.
        groups: Number of each row's cluster, from 0, labelled rows first; None where rows are
            independent. Labelled clusters are a random sample of all.
    """

    judge: Values
    human: Values
    rest: Values
    groups: NDArray[np.int64] | None = None

    @property
    def every(self) -> Values:
        """Scores of all rows, labelled rows first."""
        return np.concatenate([self.judge, self.rest])

    @property
    def off(self) -> Values:
        """Label minus score of the labelled rows."""
        return self.human - self.judge

    @property
    def value(self) -> float:
        """The estimate: the judge's mean plus the mean difference of people from it."""
        every = self.every
        return math.fsum(every) / len(every) + math.fsum(self.off) / len(self.off)


def corrected_mean(
    sample: Labelled, scale: MeasureScale | None = None, *, finite: bool = False
) -> Estimate:
    """Estimates the mean of people's labels from a few labels and many scores.

    Prediction-powered inference (Angelopoulos et al. 2023, Science 382): the mean of the judge
    over all m rows plus ``mean(human - judge)`` over the n labelled ones. The labelled rows must be
    a random sample of all. They are part of both means, so the variance is

        ``var(judge) / m + var(human - judge) / n + 2 cov(judge, human - judge) / m``

    with Student's quantile (n - 1 degrees) for the interval. If every row is labelled, this is the
    mean of the labels with its interval.

    If all labels differ from the judge by the same amount, other rows may still differ: for the
    share of rows without a label, the bound of :mod:`_intervals` replaces the variance. If the
    judge does not vary either, the interval is that of the labels alone. Intervals are cut to the
    scale, where the mean must lie, which does not reduce their coverage.

    With clusters, the variance is that of the sums of whole clusters about both means (Liang and
    Zeger 1986), the labelled ones divided by ``1 - 1 / G`` before they are squared (CR3, Bell and
    McCaffrey 2002), with G - 1 degrees for G labelled clusters. The judge counts fully: a tuned
    weight (PPI++, Angelopoulos, Duchi and Zrnic 2023) needs more clusters than people label, see
    ``docs/results/people-coverage.md``.

    Args:
        sample: Scores and labels.
        scale: Scale of the measure, None if unbounded.
        finite: The mean of exactly these rows is estimated, not that of all rows like them. Has an
            effect only on clusters that are wholly labelled.
    """
    if sample.groups is not None:
        return within(_clustered_mean(sample, sample.groups, scale, finite), scale)
    judge, human, rest = sample.judge, sample.human, sample.rest
    if len(human) < 2:
        return Estimate()
    every, off, value = sample.every, sample.off, sample.value
    n, m = len(human), len(every)
    alike = _is_constant(off)
    if not len(rest) or (alike and _is_constant(every)):
        return within(_mean_of_labels(value, human, scale), scale)
    quantile = student_quantile(n - 1)
    of_judge = quantile * math.sqrt(float(np.var(every, ddof=1)) / m)
    if alike:
        below, above = _unseen(float(off[0]), n, len(rest) / m, scale)
        ends = value - math.hypot(of_judge, below), value + math.hypot(of_judge, above)
        return within(Estimate(value, *ends), scale)
    of_people = quantile * math.sqrt(float(np.var(off, ddof=1)) / n)
    shared = 0.0 if _is_constant(judge) else float(np.corrcoef(judge, off)[0, 1]) * math.sqrt(n / m)
    half = math.sqrt(of_judge**2 + of_people**2 + 2 * shared * of_judge * of_people)
    return within(Estimate(value, value - half, value + half), scale)


def _unseen(
    off: float, units: int, share: float, scale: MeasureScale | None
) -> tuple[float, float]:
    """How far below and above the mean may be if all differences seen are equal."""
    ends, _ = mean_interval(np.full(units, off), 0, scale=difference_range(scale))
    low, high = ends or (off, off)
    return share * abs(low - off), share * abs(high - off)


def _clustered_mean(
    sample: Labelled, groups: NDArray[np.int64], scale: MeasureScale | None, finite: bool
) -> Estimate:
    """The corrected mean where whole clusters were sampled."""
    if not len(sample.human):
        return Estimate()
    parts = _ClusterParts.of(sample, groups)
    count, value = len(parts.off), sample.value
    if count < 2:
        return Estimate(value)
    quantile = student_quantile(count - 1) * count / (count - 1)
    if finite and parts.whole:
        half = quantile * math.sqrt(max(0.0, 1 - count / parts.clusters) * math.fsum(parts.off**2))
        return Estimate(value, value - half, value + half)
    labelled, rest = parts.off + parts.judge, parts.rest
    spread = math.fsum((labelled - labelled.mean()) ** 2)
    if len(rest):
        apart = math.fsum((rest - rest.mean()) ** 2)
        spread += apart * (len(rest) / (len(rest) - 1) if len(rest) > 1 else 1.0)
    half = quantile * math.sqrt(spread)
    off = float(sample.off[0])
    if not _is_constant(sample.off):
        return Estimate(value, value - half, value + half)
    # where all labels differ alike, clusters that were not labelled may still differ
    share = len(rest) / parts.clusters if len(rest) else 0.0
    if _is_constant(sample.every):
        off, share = float(sample.human[0]), 1.0
    below, above = _unseen(off, count, share, scale)
    return Estimate(value, value - math.hypot(half, below), value + math.hypot(half, above))


@dataclass(frozen=True, slots=True)
class _ClusterParts:
    """What each cluster contributes to the corrected mean, about the means.

    Attributes:
        off: Labelled clusters: people minus judge.
        judge: Labelled clusters: the judge.
        rest: Clusters without a label: the judge.
        clusters: Number of clusters.
        whole: No labelled cluster has rows without a label.
        rows: Mean number of labels of a labelled cluster.
    """

    off: Values
    judge: Values
    rest: Values
    clusters: int
    whole: bool
    rows: float

    @classmethod
    def of(cls, sample: Labelled, groups: NDArray[np.int64]) -> _ClusterParts:
        """The contributions of every cluster that has rows."""
        every, off, n = sample.every, sample.off, len(sample.human)
        count = int(groups.max()) + 1
        labels = np.bincount(groups[:n], minlength=count)
        rows = np.bincount(groups, minlength=count)
        of_judge = np.bincount(groups, every - every.mean(), count) / len(every)
        of_people = np.bincount(groups[:n], off - off.mean(), count) / n
        has_labels, has_rows = labels > 0, rows > 0
        return cls(
            of_people[has_labels],
            of_judge[has_labels],
            of_judge[has_rows & ~has_labels],
            int(has_rows.sum()),
            bool((labels[has_labels] == rows[has_labels]).all()),
            float(labels[has_labels].mean()),
        )


@dataclass(frozen=True, slots=True)
class LabelsNeeded:
    """Labels until a mean is known within a margin, with a judge and without.

    Attributes:
        margin: Half of the 95 % interval.
        labels: Labels with the judge's scores of all rows; None if no number is enough, because too
            few rows are scored.
        clusters: Clusters of these labels; None where rows are independent.
        labels_alone: Labels without the judge; ``clusters_alone`` likewise.
        unit: Name of a cluster, for the sentence.
    """

    margin: float
    labels: int | None
    clusters: int | None
    labels_alone: int
    clusters_alone: int | None
    unit: str = "cluster"

    @property
    def saving(self) -> float | None:
        """Share of the labels that the judge saves; None if no number of labels is enough."""
        return None if self.labels is None else 1 - self.labels / self.labels_alone

    @property
    def text(self) -> str:
        """The numbers in a sentence."""
        alone = _amount(self.labels_alone, self.clusters_alone, self.unit)
        goal = f"a 95 % interval of ±{self.margin:g}"
        if self.saving is None:
            return (
                f"No number of labels gives the corrected mean {goal}: too few rows are scored; "
                f"without the judge it takes {alone}."
            )
        own = _amount(self.labels or 0, self.clusters, self.unit)
        if self.saving <= 0:
            return f"{alone} give {goal}; this judge saves none ({own} with it)."
        return f"{own} give the corrected mean {goal}; without the judge it takes {alone}: " + (
            f"the judge saves {self.saving:.0%} of the labels."
        )


def labels_needed(
    pilot: Labelled, margin: float, *, scored: int | None = None, unit: str = "cluster"
) -> LabelsNeeded:
    """Number of labels until the corrected mean is known within a margin, from a pilot.

    The variances are those of the pilot, so the number is an estimate: a pilot of ten clusters may
    easily be wrong by half. Intervals are those of :func:`corrected_mean`.

    Args:
        pilot: At least two labelled rows, or clusters of them.
        margin: Half of the 95 % interval, above 0.
        scored: Clusters (or rows) that the judge scores; None for as many as it takes. Needs whole
            clusters.
        unit: Name of a cluster: ``topic``.

    Raises:
        MeasureError: The margin is not above 0, or the pilot has fewer than two labelled units.
    """
    groups = pilot.groups
    if groups is None:
        groups = np.arange(len(pilot.every))
    parts = _ClusterParts.of(pilot, groups) if len(pilot.human) else None
    if not margin > 0 or parts is None or len(parts.off) < 2:
        raise MeasureError(
            "labels_needed takes a margin above 0 and a pilot of two labelled units or more",
            hint="label more rows" if margin > 0 else "give half of the interval's width",
        )
    count = len(parts.off)
    human = pilot.human - pilot.human.mean()
    alone = np.bincount(groups[: len(human)], human, int(groups.max()) + 1) / len(human) * count
    judge = np.concatenate([parts.judge, parts.rest]) * parts.clusters
    off = parts.off * count
    # variance that more labels do not remove: that of the judge's own mean
    both = 2 * float(np.mean(off * parts.judge)) * parts.clusters * count / (count - 1)
    fixed = float(np.var(judge, ddof=1)) + both if scored else 0.0
    floor = max(0.0, fixed) / scored if scored else 0.0
    spread = math.fsum(alone**2) / (count - 1)
    own = _units_until(margin, math.fsum(off**2) / (count - 1), floor)
    bare = _units_until(margin, spread, 0.0) or _MOST_UNITS
    own = None if own is None or (scored and own > scored) else own
    clustered = pilot.groups is not None
    return LabelsNeeded(
        margin,
        None if own is None else math.ceil(own * parts.rows),
        own if clustered else None,
        math.ceil(bare * parts.rows),
        bare if clustered else None,
        unit,
    )


def _units_until(margin: float, variance: float, floor: float) -> int | None:
    """Smallest number of units whose interval is within the margin; None if there is none."""

    def is_enough(units: int) -> bool:
        quantile = student_quantile(units - 1) * math.sqrt(units / (units - 1))
        return quantile * math.sqrt(variance / units + floor) <= margin

    if not is_enough(_MOST_UNITS):
        return None
    low, high = 1, _MOST_UNITS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _amount(labels: int, clusters: int | None, unit: str) -> str:
    """``240 labels (12 topics)``."""
    amount = counted(labels, "label")
    return amount if clusters is None else f"{amount} ({counted(clusters, unit)})"


def _is_constant(values: Values) -> bool:
    """True if nothing varies except the last digits of differences and means."""
    return float(np.ptp(values)) <= _ROUNDING * max(1.0, float(np.abs(values).max()))


def _mean_of_labels(value: float, labels: Values, scale: MeasureScale | None) -> Estimate:
    """A mean of labels with Student's interval; if nothing varies, with the bound for that."""
    error = standard_error(labels) or 0.0
    if _is_constant(labels):
        ends = None if scale is None else scale.ends
        bound, _ = mean_interval(np.full(len(labels), labels[0]), 0, scale=ends)
        return Estimate(value, *(bound or (value, value)))
    half = student_quantile(len(labels) - 1) * error
    return Estimate(value, value - half, value + half)


def within(estimate: Estimate, scale: MeasureScale | None) -> Estimate:
    """An estimate of a mean, cut to its scale."""
    if scale is None:
        return estimate
    high = math.inf if scale.high is None else scale.high
    cut = [
        None if end is None else min(max(end, scale.low), high)
        for end in (estimate.value, estimate.low, estimate.high)
    ]
    return Estimate(*cut)


def shifted_mean(mean: Estimate, bias: Estimate, scale: MeasureScale | None = None) -> Estimate:
    """A mean minus the bias measured on other rows, by MOVER (Zou and Donner 2008), cut to the
    scale.

    For unlabelled rows, scored by a judge whose bias is known from similar rows.
    """
    turned = Estimate(
        None if bias.value is None else -bias.value,
        None if bias.high is None else -bias.high,
        None if bias.low is None else -bias.low,
    )
    return within(_estimate_sum(mean, turned), scale)


def _estimate_sum(first: Estimate, second: Estimate) -> Estimate:
    """Sum of two independent estimates."""
    if first.value is None or second.value is None:
        return Estimate()
    value = first.value + second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Estimate(value)
    below = math.hypot(first.value - first.low, second.value - second.low)
    above = math.hypot(first.high - first.value, second.high - second.value)
    return Estimate(value, value - below, value + above)


def difference_range(scale: MeasureScale | None) -> tuple[float, float | None] | None:
    """The range of differences on a measure's scale."""
    if scale is None or scale.high is None:
        return None
    return scale.low - scale.high, scale.high - scale.low
