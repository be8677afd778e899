from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ragwright.measure import confidence_sequence, drift

DAYS, WINDOW = 365, 28


def year(rng: np.random.Generator, mean: float, per_day: int, later: float | None = None) -> int:
    """The first day of a year on which an alarm was raised, 0 where none was.

    The first 28 days are the reference; ``later`` is the mean from day 180 on.
    """
    daily = [
        rng.binomial(1, mean if later is None or day < 180 else later, per_day)
        for day in range(DAYS)
    ]
    reference = np.concatenate(daily[:WINDOW]).tolist()
    for begin in range(WINDOW, DAYS, WINDOW):
        seen: list[float] = []
        number = begin // WINDOW
        for day in range(begin, min(begin + WINDOW, DAYS)):
            seen.extend(daily[day])
            found = drift(reference, [()] * (number - 1) + [seen], (0, 1))
            if found.verdict != "unproven":
                return day
    return 0


@pytest.mark.slow
def test_at_most_five_percent_of_quiet_years_raise_an_alarm() -> None:
    rng = np.random.default_rng(5)
    alarms = sum(year(rng, 0.8, 8) > 0 for _ in range(60))
    assert alarms <= 5, "60 years at 5 %: more than 5 alarms have probability .03"


@pytest.mark.slow
def test_a_fall_is_noticed_within_a_window() -> None:
    rng = np.random.default_rng(6)
    days = [year(rng, 0.9, 20, later=0.6) for _ in range(10)]
    assert all(180 < day <= 180 + 2 * WINDOW for day in days)


@pytest.mark.parametrize("kind", ["coin", "even", "skewed", "likert"])
def test_the_sequence_covers_the_mean_at_every_look_at_once(kind: str) -> None:
    rng = np.random.default_rng(7)
    draws: dict[str, tuple[Callable[[int], Any], float, tuple[float, float]]] = {
        "coin": (lambda n: rng.binomial(1, 0.95, n), 0.95, (0, 1)),
        "even": (lambda n: rng.uniform(size=n), 0.5, (0, 1)),
        "skewed": (lambda n: rng.beta(0.3, 3, n), 0.3 / 3.3, (0, 1)),
        "likert": (lambda n: rng.choice([1, 2, 5], n), 8 / 3, (1, 5)),
    }
    draw, mean, scale = draws[kind]
    missed = 0
    for _ in range(200):
        lows, highs = confidence_sequence(draw(400), *scale)
        missed += bool((lows > mean).any() or (highs < mean).any())
    assert missed <= 17, "200 at 5 %: more than 17 have probability .01"


def test_a_plain_interval_would_raise_alarms_in_most_years() -> None:
    """The reason for all of this: looking daily at 95 % intervals for one look."""
    rng = np.random.default_rng(8)
    missed = 0
    for _ in range(100):
        values = rng.binomial(1, 0.5, 365 * 8)
        count = np.arange(8, len(values) + 1, 8)
        means = np.cumsum(values)[7::8] / count
        wrong = abs(means - 0.5) > 1.96 * np.sqrt(0.25 / count)
        missed += bool(wrong.any())
    assert missed > 40


def test_the_interval_narrows_and_direction_is_minded() -> None:
    lows, highs = confidence_sequence([0.5] * 2000, 0, 1)
    assert highs[-1] - lows[-1] < 0.05
    assert (np.diff(lows) >= 0).all()
    good, bad = [0.9] * 300, [0.1] * 300
    assert drift(good, [bad], (0, 1)).verdict == "worse"
    assert drift(good, [bad], (0, 1), lower_is_better=True).verdict == "better"
    assert drift(good, [], (0, 1)).verdict == "unproven"
    assert drift([], [bad], (0, 1)).current.n == 300


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        confidence_sequence([0.2, 1.5], 0, 1)
