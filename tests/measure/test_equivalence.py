"""Non-inferiority: how often a deletion that costs the margin is called safe."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ragwright.core import Score
from ragwright.measure import MeasureScale, most_lost

SHARE = MeasureScale(0.0, 1.0)
MARGIN = 0.05
TRIES = 200

Draw = Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]


def scores(values: object) -> dict[str, Score]:
    return {
        f"r{n}": Score("m", "scored", round(float(value), 6))
        for n, value in enumerate(np.asarray(values))
    }


def rare(draw: np.random.Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """One row of twenty is lost altogether."""
    return (draw.random(n) < MARGIN).astype(np.float64)


def mixed(draw: np.random.Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Replies differ either way, a little more often for the worse."""
    return draw.choice([1.0, 0.0, -1.0], size=n, p=[0.1, 0.85, 0.05])


def noisy(draw: np.random.Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Every row differs a little."""
    return np.clip(draw.normal(MARGIN, 0.2, n), -1, 1)


def skewed(draw: np.random.Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Few rows lose nearly everything, the others a little: what a bootstrap alone misses."""
    small = draw.normal((MARGIN - 0.027) / 0.97, 0.05, n)
    return np.where(draw.random(n) < 0.03, 0.9, small)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [rare, mixed, noisy, skewed])
@pytest.mark.parametrize("rows", [40, 120])
def test_a_loss_of_the_margin_is_rarely_called_safe(shape: Draw, rows: int) -> None:
    draw = np.random.default_rng(7)
    called = 0
    for seed in range(TRIES):
        losses = shape(draw, rows)
        bound = most_lost(scores(0.5 + losses / 2), scores(0.5 - losses / 2), SHARE, seed=seed)
        called += bound is not None and bound < MARGIN
    # 2.5 % at most, and what so few tries can be off by chance
    assert called / TRIES <= 0.025 + 3 * (0.025 * 0.975 / TRIES) ** 0.5


def test_what_costs_nothing_is_called_safe_once_there_are_rows_enough() -> None:
    draw = np.random.default_rng(3)
    for rows, wanted in ((71, False), (72, True)):
        value = draw.random(rows)
        bound = most_lost(scores(value), scores(value), SHARE)
        assert bound is not None
        assert (bound < MARGIN) is wanted
        assert bound == pytest.approx(1 - 0.025 ** (1 / rows))
    noise = draw.normal(0, 0.05, 300)
    bound = most_lost(scores(0.5 + noise), scores(0.5 - noise), SHARE)
    assert bound is not None
    assert bound < MARGIN


def test_direction_and_scale_count() -> None:
    whole, less = scores([1.0] * 100), scores([2.0] * 100)
    up, down = MeasureScale(1.0, 5.0), MeasureScale(1.0, 5.0, False)
    gained, lost = most_lost(whole, less, up), most_lost(whole, less, down)
    assert gained is not None
    assert gained == 0.0
    assert lost is not None
    assert 1.0 < lost < 1.2
    assert most_lost(whole, less, MeasureScale(0.0, None)) is None
    assert most_lost(scores([1.0]), scores([1.0]), up) is None


def test_rows_that_only_one_answers_count_as_lost() -> None:
    whole = scores([1.0] * 100)
    kept = most_lost(whole, whole, SHARE)
    gone = {**whole, "r3": Score("m", "abstained"), "r4": Score("m", "errored", reason="no")}
    said = {**whole, "r3": Score("m", "abstained")}
    lost = most_lost(whole, gone, SHARE)
    unsaid = most_lost(said, whole, SHARE)
    assert kept is not None
    assert lost is not None
    assert unsaid is not None
    assert lost > unsaid > kept
    assert most_lost({**whole, "r3": Score("m", "errored", reason="no")}, whole, SHARE) < lost  # type: ignore[operator]


def test_clusters_are_what_is_counted() -> None:
    value = scores([1.0] * 100)
    pairs = {row: int(row[1:]) // 2 for row in value}
    alone, paired = most_lost(value, value, SHARE), most_lost(value, value, SHARE, clusters=pairs)
    assert alone == pytest.approx(1 - 0.025 ** (1 / 100))
    assert paired == pytest.approx(1 - 0.025 ** (1 / 50))
