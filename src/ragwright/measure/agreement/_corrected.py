"""How many labels of people a judge's mean needs, and a mean without the judge's bias."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core import MeasureError, counted
from .._definition import MeasureScale
from ..statistics import Estimate, Values, student_quantile

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


@dataclass(frozen=True, slots=True)
class _ClusterParts:
    """What each cluster contributes to the mean of people, about the means.

    Attributes:
        off: Labelled clusters: people minus judge.
        judge: Labelled clusters: the judge.
        rest: Clusters without a label: the judge.
        clusters: Number of clusters.
        rows: Mean number of labels of a labelled cluster.
    """

    off: Values
    judge: Values
    rest: Values
    clusters: int
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
    """Number of labels until the mean of people is known within a margin, from a pilot.

    With the judge it is the judge's mean over all rows plus the mean of ``people - judge`` over the
    labelled ones, which are a random sample of all (prediction-powered inference, Angelopoulos et
    al. 2023, Science 382), with the variance of the sums of whole clusters (CR3, Bell and McCaffrey
    2002). The variances are those of the pilot, so the number is an estimate: a pilot of ten
    clusters may easily be wrong by half.

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
