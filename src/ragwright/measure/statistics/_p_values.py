"""P-values of paired differences, their correction for several tests, and their text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ._intervals import Values

LEAST_P = 0.001
"""Smaller p-values are not told apart: they rest on the assumptions of the test."""
_EXACT = 16
"""Most differences for which all sign flips are enumerated (65,536)."""
_FLIPS = 10_000
_BLOCK = 4_000_000  # most random signs held at once


def p_text(p: float) -> str:
    """A p-value in a sentence: ``p = 0.012``, ``p < 0.001``."""
    return "p < 0.001" if p < LEAST_P else f"p = {p:.3g}"


def permutation_p(differences: Values, seed: int) -> tuple[float, bool]:
    """Two-sided p-value of a mean difference under random signs, and whether it is exact.

    For up to 16 nonzero differences all sign flips are enumerated; beyond, 10,000 seeded flips are
    drawn and the observed one is added (Phipson and Smyth 2010), so that p is never 0.
    """
    moving = differences[differences != 0]
    if not len(moving):
        return 1.0, True
    observed = abs(math.fsum(moving))
    reached = observed - 1e-9 * float(np.abs(moving).sum())
    if len(moving) <= _EXACT:
        sums = np.zeros(1)
        for step in moving:
            sums = np.concatenate([sums - step, sums + step])
        return float(np.mean(np.abs(sums) >= reached)), True
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // len(moving))
    beyond = 0
    for at in range(0, _FLIPS, rows):
        shape = (min(rows, _FLIPS - at), len(moving))
        signs = generator.integers(0, 2, shape, dtype=np.int8) * np.int8(2) - np.int8(1)
        beyond += int(np.count_nonzero(np.abs(signs @ moving) >= reached))
    return (beyond + 1) / (_FLIPS + 1), False


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for multiple tests, in their order (Holm 1979)."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[at]))
        corrected[at] = highest
    return corrected
