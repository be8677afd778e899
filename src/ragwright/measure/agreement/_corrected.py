"""How many labels of people a judge's mean needs, and a mean without the judge's bias."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core import MeasureError, count_noun
from .._definition import MeasureScale
from ..statistics import Estimate, Values, student_quantile

_MOST_UNITS = 10_000_000
"""Most clusters or rows that anybody could label."""


@dataclass(frozen=True, slots=True)
class LabelsNeeded:
    """Labels until a mean is known within a margin, with a judge and without.

    Attributes:
        margin: Half of the 95 % interval.
        labels: Labels with the judge's scores of many more rows.
        clusters: Clusters of these labels.
        labels_alone: Labels without the judge; ``clusters_alone`` likewise.
        unit: Name of a cluster, for the sentence.
    """

    margin: float
    labels: int
    clusters: int
    labels_alone: int
    clusters_alone: int
    unit: str = "cluster"

    @property
    def saving(self) -> float:
        """Share of the labels that the judge saves; below 0 it costs some."""
        return 1 - self.labels / self.labels_alone

    @property
    def text(self) -> str:
        """The numbers in a sentence."""
        own, alone = (
            f"{count_noun(labels, 'label')} ({count_noun(clusters, self.unit)})"
            for labels, clusters in (
                (self.labels, self.clusters),
                (self.labels_alone, self.clusters_alone),
            )
        )
        goal = f"a 95 % interval of ±{self.margin:g}"
        if self.saving <= 0:
            return f"{alone} give {goal}; this judge saves none ({own} with it)."
        return f"{own} give the corrected mean {goal}; without the judge it takes {alone}: " + (
            f"the judge saves {self.saving:.0%} of the labels."
        )


def labels_needed(
    judge: Values,
    human: Values,
    groups: NDArray[np.int64],
    margin: float,
    *,
    unit: str = "cluster",
) -> LabelsNeeded:
    """Number of labels until the mean of people is known within a margin, from a pilot.

    With the judge it is the judge's mean over all rows plus the mean of ``people - judge`` over the
    labelled ones, which are a random sample of all (prediction-powered inference, Angelopoulos et
    al. 2023, Science 382), with the variance of the sums of whole clusters (CR3, Bell and McCaffrey
    2002). The variances are those of the pilot, so the number is an estimate: a pilot of ten
    clusters may easily be wrong by half.

    Args:
        judge: Scores of the rows of the pilot.
        human: Their labels; the mean if several people labelled a row.
        groups: Number of each row's cluster: two clusters or more.
        margin: Half of the 95 % interval, above 0.
        unit: Name of a cluster: ``topic``.

    Raises:
        MeasureError: The margin is not above 0, or there are fewer than two clusters.
    """
    places = np.unique(groups, return_inverse=True)[1].ravel()
    count = len(np.unique(places))
    if not margin > 0 or count < 2:
        raise MeasureError(
            "labels_needed takes a margin above 0 and a pilot of two labelled units or more",
            hint="label more rows" if margin > 0 else "give half of the interval's width",
        )
    rows = len(human) / count

    def units(values: Values) -> int:
        sums = np.bincount(places, values - values.mean()) / rows
        return _units_until(margin, math.fsum(sums**2) / (count - 1))

    own, alone = units(human - judge), units(human)
    return LabelsNeeded(margin, math.ceil(own * rows), own, math.ceil(alone * rows), alone, unit)


def _units_until(margin: float, variance: float) -> int:
    """Smallest number of units whose interval is within the margin."""

    def is_enough(units: int) -> bool:
        quantile = student_quantile(units - 1) * math.sqrt(units / (units - 1))
        return quantile * math.sqrt(variance / units) <= margin

    low, high = 1, _MOST_UNITS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def clip_estimate(estimate: Estimate, scale: MeasureScale | None) -> Estimate:
    """An estimate of a mean, cut to its scale."""
    if scale is None:
        return estimate
    high = math.inf if scale.high is None else scale.high
    cut = [
        None if end is None else min(max(end, scale.low), high)
        for end in (estimate.value, estimate.low, estimate.high)
    ]
    return Estimate(*cut)


def subtract_bias(mean: Estimate, bias: Estimate, scale: MeasureScale | None = None) -> Estimate:
    """A mean minus the bias measured on other rows, by MOVER (Zou and Donner 2008), cut to the
    scale.

    For unlabelled rows, scored by a judge whose bias is known from similar rows.
    """
    turned = Estimate(
        None if bias.value is None else -bias.value,
        None if bias.high is None else -bias.high,
        None if bias.low is None else -bias.low,
    )
    return clip_estimate(_estimate_sum(mean, turned), scale)


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
