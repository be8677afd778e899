"""Judges beside people: ranks on different scales, people's own agreement, paired differences."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import MeasureError
from .._compare import check_clusters
from .._definition import MeasureScale
from ..statistics import (
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
)

Labels = Mapping[str, float | Sequence[float]]
"""Row id -> the label of a person, or one label for each person."""

_MOST_POINTS = 11
"""Most different values that count as points of a scale, not as a continuum."""


@dataclass(frozen=True, slots=True)
class Agreement:
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
    spearman: Estimate = Estimate()
    kendall: Estimate = Estimate()
    auc: Estimate = Estimate()
    kappa: Estimate = Estimate()
    weighted_kappa: Estimate = Estimate()
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
    upward = judge if scale is None or scale.higher_is_better else -judge
    ratings = ratings_of(units, upward)
    points = scale == label_scale and (
        scale is not None or bool(np.isin(judge, ratings.label).all())
    )
    bias, mapped = Estimate(), ""
    resampling = _Resampling(seed, groups)
    moved = map_to_label_scale(judge, scale, label_scale)
    if moved is not None and scale is not None and label_scale is not None:
        human = np.array([math.fsum(unit) / len(unit) for unit in units])
        width = label_scale.width or 0.0
        bias = resampling.mean(moved - human, (-width, width))
        turned = "" if scale.higher_is_better else " turned round and"
        mapped = f"{scale}{turned} mapped to {label_scale}"
    figures = _statistics_of(ratings, points=points)
    figures = {name: figures[name] for name in figures if not only or name in only}
    return replace(_agreement_of(units, figures, resampling), bias=bias, mapped=mapped)


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
    labels: Labels,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
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
    return _agreement_of(units, figures, _Resampling(seed, _groups_of(keys, clusters)))


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
    resampling = _Resampling(seed, _groups_of(keys, clusters))
    both = [
        ratings_of(units, np.array([scores[key] for key in keys], dtype=np.float64))
        for scores in (first, second)
    ]
    points = all(bool(np.isin(ratings.score, ratings.label).all()) for ratings in both)
    ours, theirs = (_statistics_of(ratings, points=points) for ratings in both)
    names = [name for name in ours if name in theirs and (not only or name in only)]
    apart = {name: difference(ours[name], theirs[name]) for name in names}
    return _agreement_of(units, apart, resampling)


@dataclass(frozen=True, slots=True)
class _Resampling:
    """How intervals are resampled.

    Attributes:
        seed: Seed of the bootstrap.
        groups: Number of each row's cluster; None where rows are independent.
    """

    seed: int
    groups: NDArray[np.int64] | None = None

    def __call__(self, statistic: Statistic, rows: int) -> Estimate:
        """A statistic of that many rows with its interval."""
        return bootstrap_statistic(statistic, rows, self.seed, self.groups)

    def mean(self, values: Values, ends: tuple[float, float | None] | None) -> Estimate:
        """The mean of a value per row with its interval, on a scale with these ends."""
        interval, _ = mean_interval(values, self.seed, scale=ends, clusters=self.groups)
        return Estimate(math.fsum(values) / len(values), *(interval or (None, None)))


def _groups_of(
    keys: Sequence[str], clusters: Mapping[str, Hashable] | None
) -> NDArray[np.int64] | None:
    """Number of each row's cluster; None without clusters.

    Raises:
        MeasureError: A row has no cluster.
    """
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
    if _is_binary(ratings.label):
        figures["auc"] = auc(ratings)
    return figures | (_kappas(ratings) if points else {})


def _is_binary(values: Values) -> bool:
    """True if there are no values but 0 and 1."""
    return bool(np.isin(values, (0.0, 1.0)).all())


def _scale_points(ratings: Ratings) -> tuple[float, ...]:
    """Values of labels and scores, ascending; empty if they are too many for points of a scale."""
    points = np.unique(np.concatenate([ratings.score, ratings.label]))
    return tuple(float(level) for level in points) if len(points) <= _MOST_POINTS else ()


def _kappas(ratings: Ratings) -> dict[str, Statistic]:
    if not (levels := _scale_points(ratings)):
        return {}
    return {
        "kappa": kappa(ratings, levels),
        "weighted_kappa": kappa(ratings, levels, quadratic=True),
    }


def _agreement_of(
    units: Sequence[Sequence[float]], figures: Mapping[str, Statistic], resampling: _Resampling
) -> Agreement:
    """The figures with their intervals, over rows with these labels."""
    groups = resampling.groups
    fields: dict[str, Any] = {
        name: resampling(statistic, len(units)) for name, statistic in figures.items()
    }
    return Agreement(
        n=len(units),
        labels=sum(map(len, units)),
        clusters=None if groups is None else len(np.unique(groups)),
        seed=resampling.seed,
        **fields,
    )


def _leave_one_out(units: Sequence[Sequence[float]]) -> Ratings:
    """Each label, with the mean of the other labels of its row as the score."""
    ratings = ratings_of(units, np.array([math.fsum(unit) for unit in units]))
    others = np.round((ratings.score - ratings.label) / (1 / ratings.share - 1), 12)
    return Ratings(ratings.row, ratings.label, others, ratings.share, ratings.rows)


def _pairs_of_people(units: Sequence[Sequence[float]]) -> Ratings:
    """Each label with each other label of its row."""
    pairs = [
        (row, label, other, 1 / (len(unit) * (len(unit) - 1)))
        for row, unit in enumerate(units)
        for at, label in enumerate(unit)
        for place, other in enumerate(unit)
        if place != at
    ]
    row, label, other, share = np.array(pairs, dtype=np.float64).T
    return Ratings(row.astype(np.int64), label, other, share, len(units))
