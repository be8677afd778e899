"""Means that carry n, coverage, an interval and their seed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings, strategies as st

from ragwright.core import MeasureError, Score, ScoreState
from ragwright.measure import (
    Tally,
    Values,
    aggregate,
    clopper_pearson,
    incomplete_beta,
    mean_interval,
    student_quantile,
)


def scored(*values: float) -> list[Score]:
    return [Score("nDCG@10", "scored", value) for value in values]


VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=30)


@pytest.mark.slow
@settings(deadline=None)
@given(VALUES)
def test_agrees_with_the_standard_library(values: list[float]) -> None:
    summary = aggregate(scored(*values))
    assert summary.mean == pytest.approx(statistics.mean(values))
    assert summary.median == pytest.approx(statistics.median(values))
    assert summary.sd == pytest.approx(statistics.stdev(values), abs=1e-9)
    assert (summary.n, summary.coverage) == (len(values), 1.0)
    assert summary.low is not None
    assert summary.high is not None
    if min(values) < max(values):
        assert -1e-9 <= summary.low <= summary.high <= 1 + 1e-9
    else:
        assert summary.low <= values[0] <= summary.high


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


@settings(deadline=None)
@given(st.floats(0.5, 500), st.floats(0.5, 500), st.floats(0, 1))
def test_the_incomplete_beta_is_scipys(a: float, b: float, x: float) -> None:
    assert incomplete_beta(a, b, x) == pytest.approx(scipy.special.betainc(a, b, x), abs=1e-10)


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(1, 3000), st.data())
def test_shares_have_exact_intervals(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    theirs = scipy.stats.binomtest(hits, n).proportion_ci(0.95, "exact")
    assert clopper_pearson(hits, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_a_share_is_known_by_its_values() -> None:
    summary = aggregate([Score("ExactMatch", "scored", float(at < 3)) for at in range(20)])
    assert summary.interval == "exact"
    assert (summary.low, summary.high) == pytest.approx((0.0321, 0.3789), abs=1e-4)


def test_the_bootstrap_is_scipys() -> None:
    values = np.random.default_rng(1).beta(0.5, 2, 60)  # skewed: bias and acceleration matter
    ours = aggregate(scored(*values))
    wide = float(np.sqrt(60 / 59) * scipy.stats.t.ppf(0.975, 59))  # Hesterberg 2015
    theirs = scipy.stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=20_000,
        confidence_level=1 - 2 * float(scipy.stats.norm.sf(wide)),
        method="BCa",
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert ours.interval == "bootstrap"
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


@pytest.mark.parametrize("degrees", [1, 2, 4, 9, 30, 400])
def test_students_quantile_is_scipys(degrees: int) -> None:
    assert student_quantile(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees))


LEVELS = np.array([1.0, 2, 3, 4, 5])
GRADES = (0.05, 0.05, 0.1, 0.3, 0.5)
DIFFERENCES = (0.1, 0.25, 0.4, 0.2, 0.05)


def plain_bca(values: Values, seed: int) -> tuple[float, float]:
    """Efron's interval as it was before, without anything for few values."""
    draws = values[np.random.default_rng(seed).integers(0, len(values), (2000, len(values)))]
    means = np.round(draws.mean(axis=1), 12)
    middle = round(float(values.mean()), 12)
    below = float((means < middle).mean() + (means <= middle).mean()) / 2
    shift = float(scipy.stats.norm.ppf(min(max(below, 1 / 4000), 1 - 1 / 4000)))
    away = values - values.mean()
    bend = float((away**3).sum() / (6 * (away**2).sum() ** 1.5))
    z = shift + scipy.stats.norm.ppf([0.025, 0.975])
    low, high = np.quantile(means, scipy.stats.norm.cdf(shift + z / (1 - bend * z)))
    return float(low), float(high)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "before", "now"),
    [(5, (0.72, 0.80), 0.94), (10, (0.84, 0.90), 0.90), (20, (0.90, 0.95), 0.92)],
)
def test_few_grades_have_wide_intervals(n: int, before: tuple[float, float], now: float) -> None:
    """Coverage of the true mean on a scale of five points, as docs/guide/statistics.md has it."""
    truth = float(LEVELS @ GRADES)
    generator = np.random.default_rng(1)
    held: list[tuple[bool, bool]] = []
    for seed in range(400):
        values = generator.choice(LEVELS, n, p=GRADES)
        ours, _ = mean_interval(values, seed, scale=(1.0, 5.0))
        assert ours is not None
        was = ours if values.min() == values.max() else plain_bca(values, seed)
        held.append((was[0] <= truth <= was[1], ours[0] <= truth <= ours[1]))
    shares = np.mean(held, axis=0)
    assert before[0] <= shares[0] <= before[1]
    assert shares[1] >= now


@pytest.mark.slow
def test_a_loss_of_just_the_margin_is_rarely_called_none() -> None:
    """A lower end above the true difference lets a gate pass: 2.5 times in 100 are due."""
    steps = LEVELS - 3
    truth = float(steps @ DIFFERENCES)
    generator = np.random.default_rng(3)
    passed: list[tuple[bool, bool]] = []
    for seed in range(600):
        values = generator.choice(steps, 6, p=DIFFERENCES)
        if values.min() == values.max():
            continue
        ours, _ = mean_interval(values, seed)
        assert ours is not None
        passed.append((plain_bca(values, seed)[0] >= truth, ours[0] >= truth))
    before, now = np.mean(passed, axis=0)
    assert before > 0.05
    assert now < 0.04


def test_an_interval_stays_on_the_scale() -> None:
    summary = aggregate(scored(0.9, 1.0, 0.95))
    assert summary.high == 1.0
    assert summary.low is not None
    assert 0 <= summary.low < 0.83
    assert aggregate(scored(0.2, 0.4)).low == 0.0  # two values say next to nothing


def test_equal_values_are_no_certainty() -> None:
    """Ten perfect rows do not prove a perfect system."""
    perfect = aggregate(scored(*[1.0] * 10))
    assert (perfect.low, perfect.high) == pytest.approx(clopper_pearson(10, 10))
    middle = aggregate([Score("ChunkScore", "scored", 0.5)] * 10)
    assert middle.interval == "no spread"
    assert middle.low == pytest.approx(0.5 - 1.5 * 0.3085, abs=1e-3)
    assert middle.high == pytest.approx(0.5 + 0.5 * 0.3085, abs=1e-3)
    endless = aggregate([Score("Perplexity", "scored", 2.0)] * 10)
    assert (endless.low, endless.high, endless.interval) == (None, None, "")


def test_rows_of_one_document_are_not_independent() -> None:
    """Between 20 documents of 10 equal rows: the interval is that of 20 values."""
    generator = np.random.default_rng(11)
    of_document = generator.uniform(0, 1, 20)
    scores = scored(*np.repeat(of_document, 10))
    names = [f"d{at // 10}" for at in range(200)]
    blind, aware = aggregate(scores), aggregate(scores, clusters=names)
    alone = aggregate(scored(*of_document))
    assert (aware.mean, aware.n, aware.clusters) == (blind.mean, 200, 20)
    assert aware.interval == "clusters"
    assert (aware.low, aware.high) == pytest.approx((alone.low, alone.high))
    assert blind.low is not None
    assert aware.low is not None
    assert blind.low > aware.low + 0.05


@pytest.mark.slow
def test_clustered_intervals_cover_the_mean() -> None:
    generator = np.random.default_rng(5)
    inside = dict.fromkeys(("clusters", "rows"), 0)
    for at in range(150):
        centres = generator.normal(0.5, 0.1, 30)
        scores = scored(*(np.repeat(centres, 5) + generator.normal(0, 0.02, 150)))
        for name, keys in (("clusters", [n // 5 for n in range(150)]), ("rows", None)):
            found = aggregate(scores, at, clusters=keys)
            assert found.low is not None
            assert found.high is not None
            inside[name] += found.low <= 0.5 <= found.high
    assert 132 <= inside["clusters"] <= 150
    assert inside["rows"] < 110


def test_clusters_go_with_scores() -> None:
    with pytest.raises(MeasureError, match="2 clusters for 1"):
        aggregate(scored(0.5), clusters=["a", "b"])
    tally = Tally()
    tally.add(scored(0.5)[0], "a")
    with pytest.raises(MeasureError, match="only some"):
        tally.add(scored(0.5)[0])


def test_missing_rows_bound_the_mean() -> None:
    lost = [Score("nDCG@10", "judge_invalid", reason="why")] * 2
    summary = aggregate([*scored(0.5, 1.0), *lost])
    assert (summary.worst, summary.best) == (1.5 / 4, 3.5 / 4)
    whole = aggregate(scored(0.5, 1.0))
    assert whole.worst == whole.best == whole.mean
    far = aggregate([Score("QADistance", "scored", 0.5), Score("QADistance", "errored")])
    assert (far.worst, far.best) == (1.25, 0.25)  # lower is better
    endless = aggregate([Score("Perplexity", "scored", 3.0), Score("Perplexity", "errored")])
    assert (endless.worst, endless.best) == (None, 2.0)
    unknown = aggregate([Score("Theirs", "scored", 3.0), Score("Theirs", "errored")])
    assert (unknown.worst, unknown.best) == (None, None)


def likert(*values: float) -> Mapping[str, int]:
    """The histogram of a judged measure on a scale from 1 to 5."""
    return aggregate([Score("Faithfulness", "scored", value) for value in values]).histogram


def test_judged_scales_have_a_histogram() -> None:
    assert likert(4, 4, 5, 1) == {"1": 1, "2": 0, "3": 0, "4": 2, "5": 1}
    assert likert(4, 4.5) == {"1": 0, "2": 0, "3": 0, "4": 1, "4.5": 1, "5": 0}
    assert likert(*np.linspace(1, 5, 40)) == {}
    assert aggregate(scored(0.0, 1.0)).histogram == {}


@pytest.mark.slow
def test_a_tally_holds_values_not_rows() -> None:
    tally = Tally("nDCG@10")
    for at in range(1000):
        tally.add(Score("nDCG@10", "scored", at / 1000))
    assert tally.summary(3) == aggregate(scored(*(at / 1000 for at in range(1000))), 3)
