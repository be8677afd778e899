"""Compare a judge with people: how far its scores agree, and the corrected mean."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import MeasureError, Score
from .._compare import check_clusters
from .._definition import MeasureScale
from .._statistics import known_scale
from ..statistics import (
    AlphaLevel,
    Estimate,
    Ratings,
    Statistic,
    Values,
    auc,
    kappa,
    kendall,
    krippendorff,
    mean_interval,
    numbered,
    pearson,
    ratings_of,
    resampled,
    spearman,
)
from ._corrected import Labelled, corrected_mean, difference_range

_MOST_POINTS = 11
"""Most different values that count as points of a scale, not as a continuum."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores of a judge (or any measure) compared with people's labels, row by row.

    If several people labelled a row, means (bias, the corrected mean) use the mean of their labels.
    Statistics of scale points (equal, kappa, the confusion) or pairs (correlations, AUC) compare
    the judge with each person separately; the labels of a row share the weight 1.

    Attributes:
        measure: Text of the measure.
        n: Rows with both a score and a label.
        labels: Labels of these rows, of all people together.
        unscored: Labelled rows whose score is missing: invalid, errored, not applicable.
        unlabelled: Scored rows without a label.
        unknown: Labels of rows that were not scored.
        agreement: Share of rows where judge and person are equal; exact interval if each row has
            one label.
        kappa: Cohen's kappa of judge and one person, agreement beyond chance (Cohen 1960);
            ``weighted_kappa`` with quadratic weights, for scales (Cohen 1968). None if values are
            not points of a scale.
        alpha: Krippendorff's alpha among the people (Krippendorff 2011), over the rows with two or
            more labels; None if there are none. No judge can be expected to agree with people
            better than they agree with each other.
        alpha_level: ``nominal`` for labels of 0 and 1, ``ordinal`` for points of a scale,
            ``interval`` for a continuum; empty without ``alpha``.
        labelled_twice: Number of rows behind ``alpha``.
        bias: Mean of score minus label; above 0 the judge is too lenient.
        pearson: Linear correlation; ``spearman`` that of ranks, ``kendall`` tau-b.
        auc: For labels 0 and 1: how often a row labelled 1 scores above one labelled 0, equal
            scores counting half; 0.5 is chance. None for other labels.
        levels: Points of the scale that occur, ascending; empty for a continuum.
        confusion: Labels by label (outer) and score (inner), both in the order of ``levels``.
        judge_mean: Mean of all scores; ``human_mean`` of all labels with a score.
        corrected: Estimated mean of people's labels over all scored rows, see
            :func:`corrected_mean`.
        seed: Seed of the bootstrap.
        scale: Range and direction of the measure; None if unknown.
        clusters: Number of clusters of rows with both that the intervals resample as wholes; None
            if rows are independent.
    """

    measure: str
    n: int = 0
    labels: int = 0
    unscored: int = 0
    unlabelled: int = 0
    unknown: int = 0
    agreement: Estimate = Estimate()
    kappa: Estimate = Estimate()
    weighted_kappa: Estimate = Estimate()
    alpha: Estimate = Estimate()
    alpha_level: AlphaLevel = ""
    labelled_twice: int = 0
    bias: Estimate = Estimate()
    pearson: Estimate = Estimate()
    spearman: Estimate = Estimate()
    auc: Estimate = Estimate()
    levels: tuple[float, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    judge_mean: Estimate = Estimate()
    human_mean: Estimate = Estimate()
    corrected: Estimate = Estimate()
    seed: int = 0
    scale: MeasureScale | None = None
    kendall: Estimate = Estimate()
    clusters: int | None = None


def calibrate(
    scores: Mapping[str, Score],
    labels: Mapping[str, float | Sequence[float]],
    *,
    seed: int = 0,
    scale: MeasureScale | None = None,
    clusters: Mapping[str, Hashable] | None = None,
) -> Calibration:
    """Compare the scores of one measure with labels of the same rows.

    Args:
        scores: Row id -> score, in any state.
        labels: Row id -> label, on the measure's scale: a number, or one for each person.
        seed: Seed of the bootstrap (percentiles of 2,000 resamples; Efron 1979).
        scale: Scale of the measure, if its text does not define it.
        clusters: Row id -> task, topic or document, if rows share one: then whole clusters are
            resampled.

    Raises:
        MeasureError: The scores are of several measures, a label is outside the scale, a scored
            row has no cluster, or no row has both.
    """
    name = _only_name(scores)
    scale = scale or known_scale(name)
    ratings_by_row = _checked_labels(name, labels, scale)
    valued = {key: score.value for key, score in scores.items() if score.value is not None}
    if not (labelled_keys := [key for key in valued if key in ratings_by_row]):
        raise MeasureError(f"no labelled row has a score for {name}", hint="label rows of this run")
    units = [ratings_by_row[key] for key in labelled_keys]
    rest_keys = [key for key in valued if key not in ratings_by_row]
    judge: Values = np.array([valued[key] for key in labelled_keys], dtype=np.float64)
    human: Values = np.array([math.fsum(unit) / len(unit) for unit in units], np.float64)
    rest: Values = np.array([valued[key] for key in rest_keys], np.float64)
    groups = groups_of([*labelled_keys, *rest_keys], clusters)
    labelled = None if groups is None else groups[: len(labelled_keys)]
    resampling, of_all = Resampling(seed, labelled), Resampling(seed, groups)
    sampled = Labelled(judge, human, rest, groups)
    ends = None if scale is None else scale.ends
    return Calibration(
        measure=name,
        n=len(labelled_keys),
        labels=sum(map(len, units)),
        unscored=sum(key in ratings_by_row and key not in valued for key in scores),
        unlabelled=len(rest),
        unknown=sum(key not in scores for key in ratings_by_row),
        bias=resampling.mean(judge - human, difference_range(scale)),
        judge_mean=of_all.mean(np.concatenate([judge, rest]), ends),
        human_mean=resampling.mean(human, ends),
        corrected=corrected_mean(sampled, scale),
        seed=seed,
        scale=scale,
        clusters=None if labelled is None else len(np.unique(labelled)),
        **_agreement_fields(units, judge, resampling),
    )


@dataclass(frozen=True, slots=True)
class Resampling:
    """How intervals are resampled.

    Attributes:
        seed: Seed of the bootstrap.
        groups: Number of each row's cluster; None where rows are independent.
    """

    seed: int
    groups: NDArray[np.int64] | None = None

    def __call__(self, statistic: Statistic, rows: int) -> Estimate:
        """A statistic of that many rows with its interval."""
        return resampled(statistic, rows, self.seed, self.groups)

    def mean(self, values: Values, ends: tuple[float, float | None] | None) -> Estimate:
        """The mean of a value per row with its interval, on a scale with these ends."""
        interval, _ = mean_interval(values, self.seed, scale=ends, clusters=self.groups)
        return Estimate(math.fsum(values) / len(values), *(interval or (None, None)))

    def of_rows(self, chosen: Sequence[int]) -> Resampling:
        """The same for some of the rows."""
        return Resampling(self.seed, None if self.groups is None else self.groups[list(chosen)])


def groups_of(
    keys: Sequence[str], clusters: Mapping[str, Hashable] | None
) -> NDArray[np.int64] | None:
    """Number of each row's cluster; None without clusters.

    Raises:
        MeasureError: A row has no cluster.
    """
    check_clusters(keys, clusters)
    return None if clusters is None else numbered([clusters[key] for key in keys])


def _agreement_fields(
    labels: Sequence[tuple[float, ...]], judge: Values, resampling: Resampling
) -> dict[str, Any]:
    """The fields of a calibration that compare single labels with scores or each other."""
    ratings = ratings_of(labels, judge)
    people = np.unique(ratings.label)
    levels = scale_points(ratings)
    figures: dict[str, Any] = {}
    if levels:
        equal = np.bincount(ratings.row, (ratings.label == ratings.score) * ratings.share)
        figures["agreement"] = resampling.mean(np.round(equal, 12), (0.0, 1.0))
        figures["kappa"] = resampling(kappa(ratings, levels), len(labels))
        weighted = kappa(ratings, levels, quadratic=True)
        figures["weighted_kappa"] = resampling(weighted, len(labels))
    binary = is_binary(people)
    if binary:
        figures["auc"] = resampling(auc(ratings), len(labels))
    if several := [at for at, row_labels in enumerate(labels) if len(row_labels) > 1]:
        level: AlphaLevel = "ordinal" if len(people) <= _MOST_POINTS else "interval"
        level = "nominal" if binary else level
        statistic = krippendorff([labels[at] for at in several], level)
        alpha = resampling.of_rows(several)(statistic, len(several))
        figures |= {"alpha": alpha, "alpha_level": level, "labelled_twice": len(several)}
    return {
        **figures,
        "pearson": resampling(pearson(ratings), len(labels)),
        "spearman": resampling(spearman(ratings), len(labels)),
        "kendall": resampling(kendall(ratings), len(labels)),
        "levels": levels,
        "confusion": _confusion_table(ratings, levels),
    }


def is_binary(values: Values) -> bool:
    """True if there are no values but 0 and 1."""
    return bool(np.isin(values, (0.0, 1.0)).all())


def scale_points(ratings: Ratings) -> tuple[float, ...]:
    """Values of labels and scores, ascending; empty if they are too many for points of a scale."""
    points = np.unique(np.concatenate([ratings.score, ratings.label]))
    return tuple(float(level) for level in points) if len(points) <= _MOST_POINTS else ()


def _confusion_table(ratings: Ratings, levels: tuple[float, ...]) -> tuple[tuple[int, ...], ...]:
    human, judge = ratings.label, ratings.score
    return tuple(
        tuple(int(np.count_nonzero((human == row) & (judge == column))) for column in levels)
        for row in levels
    )


def _only_name(scores: Mapping[str, Score]) -> str:
    """The measure of all scores."""
    names = sorted({score.measure for score in scores.values()})
    if len(names) != 1:
        raise MeasureError(
            "expected scores of one measure, got " + (" and ".join(names) or "none"),
            hint="calibrate each measure separately",
        )
    return names[0]


def _checked_labels(
    name: str, labels: Mapping[str, float | Sequence[float]], scale: MeasureScale | None
) -> dict[str, tuple[float, ...]]:
    """The labels of each row, each on the scale; rows without one are left out."""
    low, high = (-math.inf, None) if scale is None else scale.ends
    top = math.inf if high is None else high
    by_row: dict[str, tuple[float, ...]] = {}
    for key, label_or_labels in labels.items():
        several = (
            tuple(label_or_labels) if isinstance(label_or_labels, Sequence) else (label_or_labels,)
        )
        for label in several:
            if not _is_finite(label) or not low <= label <= top:
                raise MeasureError(
                    f"the label {str(label)[:40]} of row {key!r} is outside the scale of {name}",
                    hint=f"labels must be between {low:g} and "
                    f"{'any' if high is None else f'{high:g}'}",
                )
        if several:
            by_row[key] = tuple(float(label) for label in several)
    return by_row


def _is_finite(label: float) -> bool:
    try:
        return math.isfinite(label)
    except OverflowError:  # a whole number beyond any float
        return False
