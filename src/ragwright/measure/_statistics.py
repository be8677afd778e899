"""From scores to a mean that carries its doubts with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ..core import MeasureError, Score, ScoreState

RESAMPLES = 2000
_BLOCK = 1_000_000  # most resampled values held at once


@dataclass(frozen=True, slots=True)
class Summary:
    """Scores of one measure over rows; every number but the counts is None when undefined.

    Attributes:
        measure: Text of the measure.
        mean: Mean of the scored rows; likewise ``median``.
        sd: Sample standard deviation (divisor n - 1), None below two scored rows.
        n: Number of scored rows.
        coverage: Share of all rows, whatever their state, that are scored, 0 to 1.
        low: Lower end of the 95 % interval of the mean, ``high`` its upper end: percentiles
            of the seeded bootstrap over rows; None below two scored rows.
        states: State -> number of rows; ``scored`` and every other state that occurs.
        seed: Seed of the bootstrap.
    """

    measure: str = ""
    mean: float | None = None
    median: float | None = None
    sd: float | None = None
    n: int = 0
    coverage: float = 0.0
    low: float | None = None
    high: float | None = None
    states: Mapping[ScoreState, int] = field(default_factory=dict)
    seed: int = 0


def aggregate(scores: Iterable[Score], seed: int = 0) -> Summary:
    """Summarise the scores of one measure; only those in the state ``scored`` are averaged.

    Raises:
        MeasureError: The scores are of several measures, or a value is not finite.
    """
    scores = list(scores)
    names = sorted({score.measure for score in scores})
    if len(names) > 1:
        raise MeasureError(
            f"scores of {' and '.join(names)} cannot be averaged together",
            hint="aggregate each measure by itself",
        )
    counts = Counter(score.state for score in scores)
    states: dict[ScoreState, int] = {
        state: counts[state] for state in get_args(ScoreState) if counts[state] or state == "scored"
    }
    name = names[0] if names else ""
    values = np.array([s.value for s in scores if s.value is not None], dtype=np.float64)
    n = len(values)
    if not n:
        return Summary(name, states=states, seed=seed)
    if not np.isfinite(values).all():
        raise MeasureError(
            f"{name} has a value that is not a number",
            hint="a measure that is undefined for a row must say so by its state",
        )
    low, high = _interval(values, seed) if n > 1 else (None, None)
    return Summary(
        measure=name,
        mean=math.fsum(values) / n,
        median=float(np.median(values)),
        sd=float(np.std(values, ddof=1)) if n > 1 else None,
        n=n,
        coverage=n / len(scores),
        low=low,
        high=high,
        states=states,
        seed=seed,
    )


def _interval(values: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of means resampled with replacement (Efron 1979)."""
    generator = np.random.default_rng(seed)
    n = len(values)
    rows = max(1, _BLOCK // n)
    means = np.concatenate(
        [
            values[generator.integers(0, n, (min(rows, RESAMPLES - at), n))].mean(axis=1)
            for at in range(0, RESAMPLES, rows)
        ]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
