"""Paired comparison of two systems on the same queries: bootstrap interval and permutation test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

RESAMPLES = 10_000
_BLOCK = 2_000_000  # most values held at once

Verdict = Literal["above", "below", "equal", "not distinguishable"]


@dataclass(frozen=True)
class Difference:
    """Ours minus theirs, in the mean over queries.

    Attributes:
        mean: The difference.
        low: Lower end of its 95 % interval, ``high`` the upper: percentiles of the seeded
            bootstrap over queries (Efron 1979), both systems resampled together.
        p: Two-sided p-value of the paired permutation test: signs of the differences are
            flipped at random (Fisher's randomisation test), the observed one counted in.
        equal: True where the two agree on every query.
    """

    mean: float
    low: float
    high: float
    p: float
    equal: bool

    @property
    def verdict(self) -> Verdict:
        """What the interval says."""
        if self.equal:
            return "equal"
        if self.low > 0:
            return "above"
        return "below" if self.high < 0 else "not distinguishable"


def paired(ours: Sequence[float], theirs: Sequence[float], seed: int = 0) -> Difference:
    """Compare scores of the same queries, in the same order.

    Raises:
        ValueError: The two have different lengths, or no query.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"{len(ours)} and {len(theirs)} queries cannot be paired")
    # Rounded, so that the last bit of a sum is not taken for a difference.
    given = np.round(np.asarray(ours, dtype=np.float64) - np.asarray(theirs), 9)
    n = given.size
    generator = np.random.default_rng(seed)
    means, flipped = [], []
    step = max(1, _BLOCK // n)
    for at in range(0, RESAMPLES, step):
        size = (min(step, RESAMPLES - at), n)
        means.append(given[generator.integers(0, n, size)].mean(axis=1))
        signs = generator.integers(0, 2, size, dtype=np.int8) * 2 - 1
        flipped.append((signs @ given) / n)
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    mean = float(given.mean())
    extreme = int((np.abs(np.concatenate(flipped)) >= abs(mean) - 1e-12).sum())
    p = (extreme + 1) / (RESAMPLES + 1)
    return Difference(mean, float(low), float(high), p, not given.any())
