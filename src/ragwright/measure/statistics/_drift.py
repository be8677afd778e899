"""Drift of a mean that is looked at again and again: intervals that stay valid at every look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bounds: TypeAlias = NDArray[np.float64]
DriftVerdict: TypeAlias = Literal["worse", "better", "unproven"]

_LARGEST_BET = 0.5
"""Constant c of the source: no single value may move the sequence further."""


@dataclass(frozen=True, slots=True)
class AnytimeMean:
    """The mean of the values so far, with an interval that may be looked at after every value.

    ``mean``, ``low`` and ``high`` are None without a value.
    """

    n: int
    mean: float | None
    low: float | None
    high: float | None

    @property
    def moved(self) -> bool:
        """True if the mean moved within the period: the interval is of a mean that stays."""
        if self.mean is None or self.low is None or self.high is None:
            return False
        return not self.low <= self.mean <= self.high


@dataclass(frozen=True, slots=True)
class Drift:
    """The comparison of the latest values with those of a reference period.

    Attributes:
        verdict: ``worse`` or ``better`` where the two intervals were apart at a look, else
            ``unproven``.
        reference: Of the reference period.
        current: Of the newest window.
        window: Its number, from 1.
    """

    verdict: DriftVerdict
    reference: AnytimeMean
    current: AnytimeMean
    window: int


def confidence_sequence(
    values: Sequence[float], low: float, high: float, alpha: float = 0.05, *, running: bool = True
) -> tuple[Bounds, Bounds]:
    """Bounds of a mean after each value that hold at all looks at once.

    The mean lies within all of the intervals with probability 1 - alpha or more, however often
    and whenever somebody looks, for values of any distribution within their range. This is the
    predictable plug-in empirical Bernstein sequence of Waudby-Smith and Ramdas (2024), "Estimating
    means of bounded random variables by betting", theorem 2, with the running intersection.

    Args:
        values: In the order in which they came.
        low: Least possible value.
        high: Greatest possible value.
        alpha: Probability of an error at any look, 0 to 1.
        running: Narrow each interval to what all before it allow. That is valid for a mean that
            stays; where it moves, the bounds cross. Without it they never do.

    Returns:
        Lower and upper bounds, each of the length of ``values``.

    Raises:
        ValueError: A value is out of range.
    """
    data = np.asarray(values, np.float64)
    if data.size and (data.min() < low or data.max() > high):
        raise ValueError(f"values must be from {low:g} to {high:g}")
    x = (data - low) / (high - low)
    count = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (count + 1)
    before = np.concatenate(([0.5], means[:-1]))
    spread = (0.25 + np.cumsum((x - means) ** 2)) / (count + 1)
    variance_before = np.concatenate(([0.25], spread[:-1]))
    bets = np.minimum(
        np.sqrt(2 * math.log(2 / alpha) / (variance_before * count * np.log1p(count))), _LARGEST_BET
    )
    penalty = 4 * (x - before) ** 2 * (-np.log1p(-bets) - bets) / 4
    total = np.cumsum(bets)
    centre = np.cumsum(bets * x) / total
    width = (math.log(2 / alpha) + np.cumsum(penalty)) / total
    lows, highs = np.clip(centre - width, 0.0, 1.0), np.clip(centre + width, 0.0, 1.0)
    if running:
        lows, highs = np.maximum.accumulate(lows), np.minimum.accumulate(highs)
    return low + lows * (high - low), low + highs * (high - low)


def drift(
    reference: Sequence[float],
    windows: Sequence[Sequence[float]],
    scale: tuple[float, float],
    *,
    lower_is_better: bool = False,
    alpha: float = 0.05,
) -> Drift:
    """Compare the newest window with the reference period; may be asked after every value.

    A window is a stretch of time, such as four weeks, within which values are added. An old window
    is never looked at again. Half of ``alpha`` is spent on the reference and half on the windows
    (window k gets a share of 1 / (k (k + 1))), so that all looks of all windows together raise a
    false alarm with probability ``alpha`` or less.

    Args:
        reference: Values of the reference period, which is closed.
        windows: Values of each window since, the newest last.
        scale: Least and greatest possible value.
        lower_is_better: Low values are good.
        alpha: Probability of any false alarm ever.
    """
    number = max(1, len(windows))
    newest = windows[-1] if windows else ()
    baseline = _watched_mean(reference, scale, period_alpha(0, alpha))
    current = _watched_mean(newest, scale, period_alpha(number, alpha))
    verdict: DriftVerdict = "unproven"
    if baseline.low is not None and baseline.high is not None and len(newest):
        lows, highs = confidence_sequence(newest, *scale, period_alpha(number, alpha))
        if highs[-1] < baseline.low:  # at any look of this window: it stays proven
            verdict = "better" if lower_is_better else "worse"
        elif lows[-1] > baseline.high:
            verdict = "worse" if lower_is_better else "better"
    return Drift(verdict, baseline, current, number)


def period_alpha(number: int, alpha: float = 0.05) -> float:
    """The part of ``alpha`` that :func:`drift` spends on the reference (0) or on a window (from 1).

    The parts of all windows that ever come add up to half of it.
    """
    return alpha / 2 if not number else alpha / 2 / (number * (number + 1))


def _watched_mean(values: Sequence[float], scale: tuple[float, float], alpha: float) -> AnytimeMean:
    if not len(values):
        return AnytimeMean(0, None, None, None)
    lows, highs = confidence_sequence(values, *scale, alpha, running=False)
    return AnytimeMean(len(values), float(np.mean(values)), float(lows[-1]), float(highs[-1]))
