"""The best of many: how much of its lead is there because it was chosen as the best."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from ..core import MeasureError, Score
from ._intervals import Values, numbered

_FLIPS = 10_000
_RESAMPLES = 2_000
_BLOCK = 4_000_000
"""Most random numbers held at once."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The best of several candidates against one incumbent, on the very rows that chose it.

    Attributes:
        best: Name of the candidate with the best mean difference.
        candidates: How many there were to choose from.
        n: Rows on which both it and the incumbent have a score.
        difference: Its mean difference to the incumbent, in the measure's direction: as seen, and
            flattered by the choice.
        optimism: How much of that the choice is expected to have added (bootstrap over rows of
            the whole choice; Efron 1983).
        p: Two-sided p-value of the best lead, corrected for having been chosen among all
            candidates: paired sign flips of the largest studentised difference (Westfall and
            Young 1993). At most 10,000 flips.
        seed: Seed of flips and resampling.
    """

    best: str
    candidates: int
    n: int
    difference: float
    optimism: float
    p: float
    seed: int = 0

    @property
    def expected(self) -> float:
        """The difference without what the choice added."""
        return self.difference - self.optimism


def best_of(
    incumbent: Mapping[str, Score],
    candidates: Mapping[str, Mapping[str, Score]],
    *,
    higher_is_better: bool = True,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
) -> Selection:
    """Choose the candidate with the best mean difference, and say what the choice is worth.

    Args:
        incumbent: Row id -> score of what is there now.
        candidates: Name -> (row id -> score), in any order; rows without a score on either side
            count for nothing.
        higher_is_better: Direction of the measure.
        seed: Seed of flips and resampling.
        clusters: Row id -> cluster, where rows are not independent: whole clusters are flipped
            and resampled.

    Raises:
        MeasureError: No candidate shares a scored row with the incumbent.
    """
    rows = [row for row, score in incumbent.items() if score.value is not None]
    names = list(candidates)
    found = np.array([_differences(incumbent, candidates[name], rows) for name in names])
    if not higher_is_better:
        found = -found
    found = found.reshape(len(names), len(rows))
    usable = np.isfinite(found).any(axis=1) if len(rows) else np.zeros(len(names), bool)
    if not usable.any():
        raise MeasureError(
            "no candidate has a scored row in common with what is there now",
            hint="see why their rows have no score",
        )
    names = [name for name, kept in zip(names, usable, strict=True) if kept]
    sums, counts = _by_cluster(found[usable], rows, clusters)
    means = sums.sum(axis=1) / counts.sum(axis=1)
    best = int(np.argmax(np.round(means, 6)))
    return Selection(
        best=names[best],
        candidates=len(names),
        n=int(counts[best].sum()),
        difference=float(means[best]),
        optimism=_optimism(sums, counts, means, seed),
        p=_corrected_p(sums, counts, best, seed),
        seed=seed,
    )


def _differences(a: Mapping[str, Score], b: Mapping[str, Score], rows: list[str]) -> list[float]:
    """B - a on each row, not a number where b has no score."""
    values = []
    for row in rows:
        other = b.get(row)
        left = a[row].value
        missing = other is None or other.value is None or left is None
        values.append(float("nan") if missing else other.value - left)  # type: ignore[union-attr,operator]
    return values


def _by_cluster(
    found: Values, rows: list[str], clusters: Mapping[str, Hashable] | None
) -> tuple[Values, Values]:
    """Sums and counts a cluster, shape (candidates, clusters); each row its own without."""
    known = np.isfinite(found)
    filled = np.where(known, found, 0.0)
    if clusters is None:
        return filled, known.astype(float)
    places = numbered([clusters.get(row, ("row", row)) for row in rows])
    width = int(places.max()) + 1
    member = np.zeros((len(rows), width))
    member[np.arange(len(rows)), places] = 1.0
    return filled @ member, known.astype(float) @ member


def _corrected_p(sums: Values, counts: Values, best: int, seed: int) -> float:
    """Share of sign flips whose largest studentised mean reaches the best one's, doubled."""
    scale = np.sqrt((sums**2).sum(axis=1))
    still = scale == 0  # no row differs: nothing to flip
    scale[still] = 1.0
    seen = sums.sum(axis=1) / scale
    if still[best] or seen[best] <= 0:
        return 1.0
    draw = np.random.default_rng(seed)
    groups = sums.shape[1]
    left, reached = _FLIPS, 0
    step = max(1, _BLOCK // groups)
    standard = (sums / scale[:, None]).T
    while left:
        size = min(step, left)
        signs = draw.integers(0, 2, (size, groups)) * 2.0 - 1.0
        reached += int(((signs @ standard).max(axis=1) >= seen[best] - 1e-12).sum())
        left -= size
    return min(1.0, 2 * (reached + 1) / (_FLIPS + 1))


def _optimism(sums: Values, counts: Values, means: Values, seed: int) -> float:
    """Mean over resamples of what the chosen candidate gains on the rows that chose it."""
    draw = np.random.default_rng(seed)
    groups = sums.shape[1]
    even = np.full(groups, 1 / groups)
    left, gained = _RESAMPLES, 0.0
    step = max(1, _BLOCK // max(groups, len(means)))
    while left:
        size = min(step, left)
        taken = draw.multinomial(groups, even, size).astype(float)
        held = taken @ counts.T
        resampled = np.divide(
            taken @ sums.T, held, out=np.full(held.shape, -np.inf), where=held > 0
        )
        chosen = resampled.argmax(axis=1)
        gained += float((resampled[np.arange(size), chosen] - means[chosen]).sum())
        left -= size
    return gained / _RESAMPLES
