"""Means that carry n, coverage, an interval and their seed."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragwright.core import MeasureError, Score, ScoreState
from ragwright.measure import aggregate


def scored(*values: float) -> list[Score]:
    return [Score("nDCG@10", "scored", value) for value in values]


VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=30)


@given(VALUES)
def test_agrees_with_the_standard_library(values: list[float]) -> None:
    summary = aggregate(scored(*values))
    assert summary.mean == pytest.approx(statistics.mean(values))
    assert summary.median == pytest.approx(statistics.median(values))
    assert summary.sd == pytest.approx(statistics.stdev(values), abs=1e-9)
    assert (summary.n, summary.coverage) == (len(values), 1.0)
    assert summary.low is not None
    assert summary.high is not None
    assert min(values) - 1e-9 <= summary.low <= summary.high <= max(values) + 1e-9


def test_the_interval_covers_the_mean_about_95_times_in_100() -> None:
    generator = np.random.default_rng(7)
    inside = 0
    for at in range(200):
        sample = generator.normal(0.5, 0.1, 40)
        summary = aggregate(scored(*sample), seed=at)
        assert summary.low is not None
        assert summary.high is not None
        inside += summary.low <= 0.5 <= summary.high
    assert 180 <= inside <= 199


def test_the_interval_is_near_the_normal_one_for_many_rows() -> None:
    values = np.random.default_rng(3).uniform(0, 1, 2000)
    summary = aggregate(scored(*values))
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    assert summary.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert summary.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_equal_seeds_give_equal_intervals() -> None:
    values = list(np.random.default_rng(5).uniform(0, 1, 50))
    assert aggregate(scored(*values), seed=1) == aggregate(scored(*values), seed=1)
    first, second = (aggregate(scored(*values), seed=seed) for seed in (1, 2))
    assert (first.low, first.high) != (second.low, second.high)
    assert first.seed == 1


def test_only_scored_rows_are_averaged_and_the_others_counted() -> None:
    states: list[ScoreState] = [
        "abstained",
        "not_applicable",
        "judge_invalid",
        "errored",
        "skipped",
        "errored",
    ]
    others = [Score("nDCG@10", state, reason="why") for state in states]
    summary = aggregate([*scored(0.0, 1.0), *others])
    assert summary.mean == 0.5
    assert summary.n == 2
    assert summary.coverage == 2 / 8
    assert summary.states == {
        "scored": 2,
        "abstained": 1,
        "not_applicable": 1,
        "judge_invalid": 1,
        "errored": 2,
        "skipped": 1,
    }


def test_the_mean_of_nothing_is_nothing() -> None:
    for summary in (aggregate([]), aggregate([Score("MRR", "errored", reason="why")])):
        assert summary.mean is summary.median is summary.sd is summary.low is summary.high is None
        assert (summary.n, summary.coverage, summary.states["scored"]) == (0, 0.0, 0)


def test_one_row_has_a_mean_but_no_spread() -> None:
    summary = aggregate(scored(0.25))
    assert summary.mean == summary.median == 0.25
    assert summary.sd is summary.low is summary.high is None


def test_measures_do_not_mix() -> None:
    with pytest.raises(MeasureError, match="together"):
        aggregate([Score("MRR", "scored", 1.0), Score("MAP", "scored", 1.0)])


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(MeasureError):
        aggregate(scored(0.5, float("nan")))
