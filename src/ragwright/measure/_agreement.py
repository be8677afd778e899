"""Judges beside people: agreement, labels needed, and a mean without the judge's bias."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import MeasureError, count_noun
from ._compare import check_clusters
from ._definition import MeasureScale
from .statistics import (
    Estimate,
    Ratings,
    Statistic,
    Values,
    auc,
    bootstrap_statistic,
    difference,
    kappa,
    kendall,
    mean_interval,
    number_clusters,
    ratings_of,
    spearman,
    student_quantile,
)

Labels = Mapping[str, float | Sequence[float]]
"""Row id -> the label of a person, or one label for each person."""

_MOST_POINTS = 11
"""Most different values that count as points of a scale, not as a continuum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFigures:
    """Figures of agreement by rank and by point, with 95 % intervals; empty where undefined.

    Attributes:
        spearman: Correlation of ranks (Spearman 1904); ``kendall`` tau-b (Kendall 1945).
        kendall: See ``spearman``.
        kappa: Agreement beyond chance (Cohen 1960); ``weighted_kappa`` with quadratic weights. None
            unless both sides use the same few points.
        weighted_kappa: See ``kappa``.
        auc: For labels 0 and 1: how often a row labelled 1 scores above one labelled 0.
    """

    spearman: Estimate = Estimate()
    kendall: Estimate = Estimate()
    kappa: Estimate = Estimate()
    weighted_kappa: Estimate = Estimate()
    auc: Estimate = Estimate()


@dataclass(frozen=True, slots=True)
class Agreement(RankFigures):
    """Figures of agreement with people, or differences of such figures, with 95 % intervals.

    Every label of a row is compared separately; the labels of a row share the weight 1.

    Attributes:
        n: Rows compared.
        labels: Labels of these rows.
        clusters: Number of clusters that the intervals resample; None if rows are independent.
        spearman: Correlation of ranks; ``kendall`` tau-b.
        auc: For labels 0 and 1: how often a row labelled 1 scores above one labelled 0.
        kappa: Agreement beyond chance; ``weighted_kappa`` with quadratic weights. None unless both
            sides use the same few points.
        bias: Mean of score minus label in points of the people's scale, after ``mapped``; None if
            one of the two scales is unknown or unbounded.
        mapped: The linear map of scores to the people's scale, in words; empty without ``bias``.
        seed: Seed of the bootstrap.
    """

    n: int = 0
    labels: int = 0
    clusters: int | None = None
    bias: Estimate = Estimate()
    mapped: str = ""
    seed: int = 0


def rank_agreement(
    scores: Mapping[str, float],
    labels: Labels,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
    scale: MeasureScale | None = None,
    label_scale: MeasureScale | None = None,
    only: Sequence[str] = (),
) -> Agreement:
    """Compare scores with labels that may be on another scale, by their order.

    Kappa needs the same points on both sides: equal scales, or, if both are unknown, scores that
    are all among the labels. Scores of a measure whose lower values are better are turned round.

    Args:
        scores: Row id -> score.
        labels: Row id -> labels of people, higher being better.
        seed: Seed of the bootstrap, 2,000 resamples.
        clusters: Row id -> task, topic or document, if rows share one.
        scale: Scale of the scores, for the bias.
        label_scale: Scale of the labels, for the bias.
        only: Names of the figures to compute besides the bias; all by default.

    Raises:
        MeasureError: No row has both, a number is not finite, or a row has no cluster.
    """
    keys, units = _common_rows(labels, scores)
    groups = _groups_of(keys, clusters)
    judge: Values = np.array([scores[key] for key in keys], dtype=np.float64)
    ratings = ratings_of(units, judge if scale is None or scale.higher_is_better else -judge)
    points = scale == label_scale and (
        scale is not None or bool(np.isin(judge, ratings.label).all())
    )
    bias, mapped = Estimate(), ""
    moved = map_to_label_scale(judge, scale, label_scale)
    if moved is not None and scale is not None and label_scale is not None:
        human = np.array([math.fsum(unit) / len(unit) for unit in units])
        width = label_scale.width or 0.0
        apart: Values = moved - human
        ends, _ = mean_interval(apart, seed, scale=(-width, width), clusters=groups)
        bias = Estimate(math.fsum(apart) / len(apart), *(ends or (None, None)))
        turned = "" if scale.higher_is_better else " turned round and"
        mapped = f"{scale}{turned} mapped to {label_scale}"
    figures = _statistics_of(ratings, points=points)
    figures = {name: figures[name] for name in figures if not only or name in only}
    return replace(_agreement_of(units, figures, seed, groups), bias=bias, mapped=mapped)


def map_to_label_scale(
    scores: Values, scale: MeasureScale | None, label_scale: MeasureScale | None
) -> Values | None:
    """Scores mapped linearly from their scale to that of the labels, higher being better.

    None if a scale is unknown or open.
    """
    if scale is None or label_scale is None or not scale.width or not label_scale.width:
        return None
    upward = scores if scale.higher_is_better else -scores
    low = scale.low if scale.higher_is_better else -(scale.high or 0.0)
    return (upward - low) * (label_scale.width / scale.width) + label_scale.low


def people_agreement(
    labels: Labels, *, seed: int = 0, clusters: Mapping[str, Hashable] | None = None
) -> Agreement:
    """Compare each label with the mean of the others of its row (leave one out).

    Kappa is that between the labels of a row, pair by pair. It is the most that can be expected of
    a judge. Rows with one label are left out.

    Args:
        labels: Row id -> labels of people.
        seed: Seed of the bootstrap, 2,000 resamples.
        clusters: Row id -> task, topic or document, if rows share one.

    Returns:
        Empty if no row has two labels.

    Raises:
        MeasureError: A number is not finite, or a row has no cluster.
    """
    keys, units = _common_rows(labels, least=2)
    if not keys:
        return Agreement()
    figures = _statistics_of(_leave_one_out(units), points=False)
    figures |= _kappas(_pairs_of_people(units))
    return _agreement_of(units, figures, seed, _groups_of(keys, clusters))


def judge_difference(
    first: Mapping[str, float],
    second: Mapping[str, float],
    labels: Labels,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
    only: Sequence[str] = (),
) -> Agreement:
    """Agreement of the first judge with people minus that of the second, on the same rows.

    Both are computed over the same resamples (paired). Kappa needs both judges on the points of the
    labels.

    Args:
        first: Row id -> score, higher being better.
        second: Likewise of the other judge.
        labels: Row id -> labels of people.
        seed: Seed of the bootstrap, 2,000 resamples.
        clusters: Row id -> task, topic or document, if rows share one.
        only: Names of the figures to compute; all by default.

    Raises:
        MeasureError: No row has all three, a number is not finite, or a row has no cluster.
    """
    keys, units = _common_rows(labels, first, second)
    groups = _groups_of(keys, clusters)
    both = [
        ratings_of(units, np.array([scores[key] for key in keys], dtype=np.float64))
        for scores in (first, second)
    ]
    points = all(bool(np.isin(ratings.score, ratings.label).all()) for ratings in both)
    ours, theirs = (_statistics_of(ratings, points=points) for ratings in both)
    apart = {
        name: difference(ours[name], theirs[name])
        for name in ours
        if name in theirs and (not only or name in only)
    }
    return _agreement_of(units, apart, seed, groups)


def _groups_of(
    keys: Sequence[str], clusters: Mapping[str, Hashable] | None
) -> NDArray[np.int64] | None:
    """Number of each row's cluster; None without clusters."""
    check_clusters(keys, clusters)
    return None if clusters is None else number_clusters([clusters[key] for key in keys])


def _common_rows(
    labels: Labels, *judges: Mapping[str, float], least: int = 1
) -> tuple[list[str], list[tuple[float, ...]]]:
    """Ids and labels of the rows that have a score of every judge and enough labels."""
    keys, units = [], []
    for key, given in labels.items():
        unit = tuple(map(float, given)) if isinstance(given, Sequence) else (float(given),)
        if len(unit) < least or not all(key in scores for scores in judges):
            continue
        if not all(map(math.isfinite, [*unit, *(scores[key] for scores in judges)])):
            raise MeasureError(
                f"row {key!r} has a label or score that is not a finite number",
                hint="leave the row out",
            )
        keys.append(key)
        units.append(unit)
    if not keys and least == 1:
        raise MeasureError(
            "no labelled row has a score of each judge",
            hint="check that scores and labels use the same row ids",
        )
    return keys, units


def _statistics_of(ratings: Ratings, *, points: bool) -> dict[str, Statistic]:
    """Name of a field of Agreement -> its statistic; kappa if both sides use the same points."""
    figures = {"spearman": spearman(ratings), "kendall": kendall(ratings)}
    if np.isin(ratings.label, (0.0, 1.0)).all():
        figures["auc"] = auc(ratings)
    return figures | (_kappas(ratings) if points else {})


def _kappas(ratings: Ratings) -> dict[str, Statistic]:
    points = np.unique(np.concatenate([ratings.score, ratings.label]))
    if not 0 < len(points) <= _MOST_POINTS:
        return {}
    levels = tuple(float(level) for level in points)
    return {
        "kappa": kappa(ratings, levels),
        "weighted_kappa": kappa(ratings, levels, quadratic=True),
    }


def _agreement_of(
    units: Sequence[Sequence[float]],
    figures: Mapping[str, Statistic],
    seed: int,
    groups: NDArray[np.int64] | None,
) -> Agreement:
    fields: dict[str, Any] = {
        name: bootstrap_statistic(statistic, len(units), seed, groups)
        for name, statistic in figures.items()
    }
    return Agreement(
        n=len(units),
        labels=sum(map(len, units)),
        clusters=None if groups is None else len(np.unique(groups)),
        seed=seed,
        **fields,
    )


def _leave_one_out(units: Sequence[Sequence[float]]) -> Ratings:
    """Each label, with the mean of the other labels of its row as the score."""
    ratings = ratings_of(units, np.array([math.fsum(unit) for unit in units]))
    others = np.round((ratings.score - ratings.label) / (1 / ratings.share - 1), 12)
    return Ratings(ratings.row, ratings.label, others, ratings.share, ratings.rows)


def _pairs_of_people(units: Sequence[Sequence[float]]) -> Ratings:
    pairs = [
        (row, label, other, 1 / (len(unit) * (len(unit) - 1)))
        for row, unit in enumerate(units)
        for at, label in enumerate(unit)
        for place, other in enumerate(unit)
        if place != at
    ]
    row, label, other, share = np.array(pairs, dtype=np.float64).T
    return Ratings(row.astype(np.int64), label, other, share, len(units))


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
    judge: Values, human: Values, groups: NDArray[np.int64], margin: float, *, unit: str = "cluster"
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

    def is_enough(units: int) -> bool:
        quantile = student_quantile(units - 1) * math.sqrt(units / (units - 1))
        return quantile * math.sqrt(variance / units) <= margin

    return bisect_left(range(_MOST_UNITS), True, lo=2, key=is_enough)
