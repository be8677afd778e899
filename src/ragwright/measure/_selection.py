"""The best of many candidates, and the proof that a system is as good as before."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from ..core import MeasureError, Score
from ._definition import MeasureScale
from ._statistics import find_scale
from .statistics import TAIL, Values, difference_interval, number_clusters, unseen_interval

_FLIPS = 10_000
_RESAMPLES = 2_000
_BLOCK = 4_000_000
"""Most random numbers in memory at once."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The best of several candidates against one incumbent, on the rows that selected it.

    Attributes:
        best: Name of the candidate with the best mean difference.
        candidates: Number of candidates.
        n: Rows compared: both it and the incumbent have a score, or one of them lacks it.
        difference: Its mean difference to the incumbent, in the measure's direction: as observed,
            and biased by the selection.
        optimism: Part of it that is due to the selection, at least (bootstrap over rows of the
            whole selection; Efron 1983): in simulations it is 60 to 77 % of that part.
        p: Two-sided p-value of the best lead, corrected for the selection among all candidates:
            paired sign flips of the largest studentised difference (Westfall and Young 1993). At
            most 10,000 flips.
        seed: Seed of flips and resampling.
        lost: Rows of ``n`` on which it or the incumbent lacks a score although the row has gold: it
            abstained, failed, or was not judged. They count as the worst value.
        left_out: Such rows for a measure whose scale has no worst end: not part of ``n``.
        questions: What the rows are if a program made them: ``generated questions``.
    """

    best: str
    candidates: int
    n: int
    difference: float
    optimism: float
    p: float
    seed: int = 0
    lost: int = 0
    left_out: int = 0
    questions: str = "questions"

    @property
    def expected(self) -> float:
        """The difference minus that optimism: at most so much is expected on other rows."""
        return self.difference - self.optimism


def choose_best(
    incumbent: Mapping[str, Score],
    candidates: Mapping[str, Mapping[str, Score]],
    *,
    higher_is_better: bool = True,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
    scale: MeasureScale | None = None,
) -> Selection:
    """Choose the candidate with the best mean difference, and estimate the effect of the choice.

    A missing score (although the row has gold) counts as the worst value of the scale, for the
    incumbent and the candidates: otherwise refusing hard questions would win. If the scale has no
    worst end, or no system has a score, the row is left out.

    Args:
        incumbent: Row id -> score of the current settings.
        candidates: Name -> (row id -> score), in any order.
        higher_is_better: Direction of the measure.
        seed: Seed of flips and resampling.
        clusters: Row id -> cluster, where rows depend on each other: flipped and drawn whole.
        scale: Scale of the measure, if its text does not define it.

    Raises:
        MeasureError: No candidate shares a scored row with the incumbent.
    """
    comparable = {
        name: scores
        for name, scores in candidates.items()
        if any(_has_value(score) and _has_value(incumbent.get(at)) for at, score in scores.items())
    }
    if not comparable:
        raise MeasureError(
            "no candidate shares a scored row with the current settings",
            hint="check why their rows have no score",
        )
    names, systems = list(comparable), comparable.values()
    scored = {row for scores in (incumbent, *systems) for row, s in scores.items() if _has_value(s)}
    rows = [row for row in incumbent if row in scored]
    scale = scale or find_scale(next(iter(incumbent.values())).measure)
    worst = None if scale is None else scale.low if higher_is_better else scale.high
    sign = 1.0 if higher_is_better else -1.0
    differences = sign * np.array([_row_differences(incumbent, s, rows, worst) for s in systems])
    sums, counts = _cluster_sums(differences, rows, clusters)
    means = sums.sum(axis=1) / counts.sum(axis=1)
    best = int(np.argmax(np.round(means, 6)))
    chosen = comparable[names[best]]
    lost = sum(_lacks_value(incumbent[at]) or _lacks_value(chosen.get(at)) for at in rows)
    return Selection(
        best=names[best],
        candidates=len(names),
        n=int(counts[best].sum()),
        difference=float(means[best]),
        optimism=_selection_optimism(sums, counts, best, seed),
        p=_correct_p(sums, best, seed),
        seed=seed,
        lost=0 if worst is None else lost,
        left_out=lost if worst is None else 0,
    )


def _has_value(score: Score | None) -> bool:
    return score is not None and score.value is not None


def _lacks_value(score: Score | None) -> bool:
    return score is not None and score.lost


def _row_differences(
    a: Mapping[str, Score], b: Mapping[str, Score], rows: list[str], worst: float | None
) -> list[float]:
    """Difference b - a on each row, NaN if one of them has no value."""

    def value(score: Score | None) -> float:
        number = worst if _lacks_value(score) else None
        if score is not None and score.value is not None:
            number = score.value
        return math.nan if number is None else number

    return [value(b.get(row)) - value(a[row]) for row in rows]


def _cluster_sums(
    differences: Values, rows: list[str], clusters: Mapping[str, Hashable] | None
) -> tuple[Values, Values]:
    """Sums and counts per cluster, shape (candidates, clusters); per row without clusters."""
    is_known = np.isfinite(differences)
    filled = np.where(is_known, differences, 0.0)
    if clusters is None:
        return filled, is_known.astype(float)
    places = number_clusters([clusters.get(row, ("row", row)) for row in rows])
    width = int(places.max()) + 1
    member = np.zeros((len(rows), width))
    member[np.arange(len(rows)), places] = 1.0
    return filled @ member, is_known.astype(float) @ member


def _correct_p(sums: Values, best: int, seed: int) -> float:
    """Share of sign flips whose largest studentised mean reaches the best one's, doubled.

    Each candidate is studentised on its own rows, so that one with few rows gets no more weight
    than one with all.
    """
    scale = np.sqrt((sums**2).sum(axis=1))
    still = scale == 0  # no row differs: nothing to flip
    scale[still] = 1.0
    observed = sums.sum(axis=1) / scale
    if still[best] or observed[best] <= 0:
        return 1.0
    draw = np.random.default_rng(seed)
    groups, reached = sums.shape[1], 0
    standard = (sums / scale[:, None]).T
    for size in _block_sizes(_FLIPS, groups):
        signs = draw.integers(0, 2, (size, groups)) * 2.0 - 1.0
        reached += int(((signs @ standard).max(axis=1) >= observed[best] - 1e-12).sum())
    return min(1.0, 2 * (reached + 1) / (_FLIPS + 1))


def _selection_optimism(sums: Values, counts: Values, best: int, seed: int) -> float:
    """Mean over resamples of the selected candidate's gain on the rows that selected it.

    The resampled means of a candidate with fewer rows vary like those of the best one's number.
    """
    draw = np.random.default_rng(seed)
    groups, gained = sums.shape[1], 0.0
    sizes = counts.sum(axis=1)
    means = sums.sum(axis=1) / sizes
    steadier = np.minimum(1.0, np.sqrt(sizes / sizes[best]))
    even = np.full(groups, 1 / groups)
    for size in _block_sizes(_RESAMPLES, max(groups, len(means))):
        draws = draw.multinomial(groups, even, size).astype(float)
        drawn_counts = draws @ counts.T
        resampled = np.divide(
            draws @ sums.T, drawn_counts, out=np.tile(means, (size, 1)), where=drawn_counts > 0
        )
        moved = (resampled - means) * steadier
        chosen = (means + moved).argmax(axis=1)
        gained += float(moved[np.arange(size), chosen].sum())
    return gained / _RESAMPLES


def _block_sizes(count: int, width: int) -> list[int]:
    step = max(1, _BLOCK // width)
    return [min(step, count - start) for start in range(0, count, step)]


def most_lost(
    whole: Mapping[str, Score],
    less: Mapping[str, Score],
    scale: MeasureScale,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
) -> float | None:
    """The largest mean loss of ``less`` against ``whole`` that is compatible with their rows.

    The upper end of the 95 % interval of the paired difference, in the worse direction; it allows
    for large losses too rare to be in the sample (see :func:`least_rows`). A margin above it is a
    proof of non-inferiority at 2.5 % (Wellek 2010). A row without a score in ``less`` but with one
    in ``whole`` counts as a loss over the whole scale, and so does a row on which only one of the
    two abstained. Abstaining on a row marked unanswerable is not a loss.

    Args:
        whole: Row id -> score of the present system.
        less: Likewise of the one that would replace it.
        scale: Range and direction of the measure.
        seed: Seed of the bootstrap.
        clusters: Row id -> cluster, if rows are not independent.

    Returns:
        The loss in units of the measure, from 0; None below two rows, or if the scale has no upper
        end.
    """
    reach = scale.width
    if reach is None:
        return None
    by_row = {
        row: _row_loss(score, less[row], reach, scale.higher_is_better)
        for row, score in whole.items()
        if row in less
    }
    losses = {row: loss for row, loss in by_row.items() if loss is not None}
    keys = [row if clusters is None else clusters[row] for row in losses]
    values = np.array(list(losses.values()), dtype=np.float64)
    ends = difference_interval(
        values, seed, reach=reach, clusters=None if clusters is None else number_clusters(keys)
    )
    if ends is None:
        return None
    unseen = unseen_interval(float(values.mean()), len(set(keys)), (-reach, reach))
    return max(0.0, ends[1], unseen[1])


def least_rows(margin: float) -> int:
    """Least number of rows that can show a loss below a share of the scale.

    Even if no row differs, n rows can miss a loss over the whole scale on ``1 - 0.025 ** (1 / n)``
    of all rows (Clopper and Pearson 1934).

    Args:
        margin: Share of the scale, above 0 and below 1.
    """
    return math.floor(math.log(TAIL) / math.log1p(-margin)) + 1


def _row_loss(score: Score, lesser: Score, reach: float, upward: bool) -> float | None:
    """Loss on a row, None if the row gives no information."""
    if score.value is not None and lesser.value is not None:
        return round(score.value - lesser.value if upward else lesser.value - score.value, 6)
    if lesser.unanswerable:
        return None
    if lesser.state != score.state and (score.value is not None or score.state == "abstained"):
        return reach
    return None
