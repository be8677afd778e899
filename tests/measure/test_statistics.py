"""Means with n, coverage and an interval; scipy's tests and intervals; drift; a judge's spread."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, strategies as st

from ragwright.core import MeasureError, Score, ScoreState
from ragwright.measure import (
    FIRST_ORDER,
    SECOND_ORDER,
    Summary,
    Tally,
    aggregate,
    clopper_pearson,
    combine_repeats,
    confidence_sequence,
    drift,
    flip_rate,
    incomplete_beta,
    judge_spread,
    student_quantile,
)


def scored(*values: float, measure: str = "nDCG@10") -> list[Score]:
    return [Score(measure, "scored", value) for value in values]


def ends(summary: Summary) -> tuple[float, float]:
    assert summary.low is not None
    assert summary.high is not None
    return summary.low, summary.high


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_agrees_with_the_standard_library(values: list[float]) -> None:
    summary = aggregate(scored(*values))
    assert summary.mean == pytest.approx(statistics.mean(values))
    assert summary.median == pytest.approx(statistics.median(values))
    assert summary.sd == pytest.approx(statistics.stdev(values), abs=1e-9)
    assert (summary.n, summary.coverage) == (len(values), 1.0)
    low, high = ends(summary)
    if min(values) < max(values):
        assert -1e-9 <= low <= high <= 1 + 1e-9
    else:
        assert low <= values[0] <= high


def test_the_interval_is_near_the_normal_one_and_covers_the_mean_about_95_times_in_100() -> None:
    values = np.random.default_rng(3).uniform(0, 1, 2000)
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    due = (values.mean() - half, values.mean() + half)
    assert ends(aggregate(scored(*values))) == pytest.approx(due, abs=0.1 * half)
    generator = np.random.default_rng(7)
    inside = 0
    for at in range(200):
        low, high = ends(aggregate(scored(*generator.normal(0.5, 0.1, 40)), seed=at))
        inside += low <= 0.5 <= high
    assert 180 <= inside <= 199


def test_equal_seeds_give_equal_intervals_from_a_tally_too() -> None:
    values = list(np.random.default_rng(5).uniform(0, 1, 50))
    assert aggregate(scored(*values), seed=1) == aggregate(scored(*values), seed=1)
    first, second = (aggregate(scored(*values), seed=seed) for seed in (1, 2))
    assert ends(first) != ends(second)
    assert first.seed == 1
    tally = Tally("nDCG@10")
    for score in scored(*values):
        tally.add(score)
    assert tally.summary(3) == aggregate(scored(*values), 3)


def test_only_scored_rows_are_averaged_and_the_others_counted() -> None:
    states: list[ScoreState] = [
        "abstained",
        "not_applicable",
        "judge_invalid",
        "errored",
        "skipped",
    ]
    others = [Score("nDCG@10", state, reason="why") for state in [*states, "errored"]]
    summary = aggregate([*scored(0.0, 1.0), *others])
    assert (summary.mean, summary.n, summary.coverage) == (0.5, 2, 2 / 8)
    assert summary.states == {**dict.fromkeys(states, 1), "scored": 2, "errored": 2}
    for none in (aggregate([]), aggregate([Score("MRR", "errored", reason="why")])):
        assert none.mean is none.median is none.sd is none.low is none.high is None
        assert (none.n, none.coverage, none.states["scored"]) == (0, 0.0, 0)
    one = aggregate(scored(0.25))
    assert one.mean == one.median == 0.25
    assert one.sd is one.low is one.high is None


def test_what_cannot_be_averaged_is_refused() -> None:
    tally = Tally()
    tally.add(scored(0.5)[0], "a")
    for wrong, said in (
        (lambda: aggregate([*scored(1.0), *scored(1.0, measure="MAP")]), "together"),
        (lambda: aggregate(scored(0.5, float("nan"))), "not a number"),
        (lambda: aggregate(scored(0.5), clusters=["a", "b"]), "2 clusters for 1"),
        (lambda: tally.add(scored(0.5)[0]), "only some"),
    ):
        with pytest.raises(MeasureError, match=said):
            wrong()


@given(st.floats(0.5, 500), st.floats(0.5, 500), st.floats(0, 1))
def test_the_incomplete_beta_is_scipys(a: float, b: float, x: float) -> None:
    assert incomplete_beta(a, b, x) == pytest.approx(scipy.special.betainc(a, b, x), abs=1e-10)


@pytest.mark.slow
@given(st.integers(1, 3000), st.data())
def test_shares_have_exact_intervals(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    theirs = scipy.stats.binomtest(hits, n).proportion_ci(0.95, "exact")
    assert clopper_pearson(hits, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_the_bootstrap_and_students_quantile_are_scipys() -> None:
    for degrees in (1, 2, 4, 9, 30, 400):
        assert student_quantile(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees))
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
    assert ends(ours) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_an_interval_stays_on_the_scale_and_equal_values_are_no_certainty() -> None:
    low, high = ends(aggregate(scored(0.9, 1.0, 0.95)))
    assert high == 1.0
    assert 0 <= low < 0.83
    assert aggregate(scored(0.2, 0.4)).low == 0.0  # two values say next to nothing
    share = aggregate(scored(*(float(at < 3) for at in range(20)), measure="ExactMatch"))
    assert share.interval == "exact"
    assert ends(share) == pytest.approx((0.0321, 0.3789), abs=1e-4)
    # ten perfect rows do not prove a perfect system
    assert ends(aggregate(scored(*[1.0] * 10))) == pytest.approx(clopper_pearson(10, 10))
    middle = aggregate(scored(*[0.5] * 10, measure="ChunkScore"))
    assert middle.interval == "no spread"
    assert ends(middle) == pytest.approx((0.5 - 1.5 * 0.3085, 0.5 + 0.5 * 0.3085), abs=1e-3)
    endless = aggregate(scored(*[2.0] * 10, measure="Perplexity"))
    assert (endless.low, endless.high, endless.interval) == (None, None, "")


def test_rows_of_one_document_are_not_independent() -> None:
    """Between 20 documents of 10 equal rows: the interval is that of 20 values."""
    of_document = np.random.default_rng(11).uniform(0, 1, 20)
    scores = scored(*np.repeat(of_document, 10))
    blind = aggregate(scores)
    aware = aggregate(scores, clusters=[f"d{at // 10}" for at in range(200)])
    assert (aware.mean, aware.n, aware.clusters) == (blind.mean, 200, 20)
    assert aware.interval == "clusters"
    assert ends(aware) == pytest.approx(ends(aggregate(scored(*of_document))))
    assert ends(blind)[0] > ends(aware)[0] + 0.05


def test_missing_rows_bound_the_mean() -> None:
    lost = [Score("nDCG@10", "judge_invalid", reason="why")] * 2
    summary = aggregate([*scored(0.5, 1.0), *lost])
    assert (summary.worst, summary.best) == (1.5 / 4, 3.5 / 4)
    whole = aggregate(scored(0.5, 1.0))
    assert whole.worst == whole.best == whole.mean
    for measure, value, bounds in (
        ("QADistance", 0.5, (1.25, 0.25)),  # lower is better
        ("Perplexity", 3.0, (None, 2.0)),
        ("Theirs", 3.0, (None, None)),
    ):
        found = aggregate([*scored(value, measure=measure), Score(measure, "errored")])
        assert (found.worst, found.best) == bounds


def test_judged_scales_have_a_histogram() -> None:
    def likert(*values: float) -> object:
        return aggregate(scored(*values, measure="Faithfulness")).histogram

    assert likert(4, 4, 5, 1) == {"1": 1, "2": 0, "3": 0, "4": 2, "5": 1}
    assert likert(4, 4.5) == {"1": 0, "2": 0, "3": 0, "4": 1, "4.5": 1, "5": 0}
    assert likert(*np.linspace(1, 5, 40)) == {}
    assert aggregate(scored(0.0, 1.0)).histogram == {}


# -- Drift -----------------------------------------------------------------------------------------

DAYS, WINDOW = 365, 28


def year(rng: np.random.Generator, mean: float, per_day: int, later: float | None = None) -> int:
    """The first day of a year on which an alarm was raised, 0 where none was.

    The first 28 days are the reference; ``later`` is the mean from day 180 on.
    """
    means = [mean if later is None or day < 180 else later for day in range(DAYS)]
    daily = [rng.binomial(1, of_day, per_day) for of_day in means]
    reference = np.concatenate(daily[:WINDOW]).tolist()
    for begin in range(WINDOW, DAYS, WINDOW):
        seen: list[float] = []
        for day in range(begin, min(begin + WINDOW, DAYS)):
            seen.extend(daily[day])
            found = drift(reference, [()] * (begin // WINDOW - 1) + [seen], (0, 1))
            if found.verdict != "unproven":
                return day
    return 0


RNG = np.random.default_rng(7)
DRAWS: dict[str, tuple[Callable[[int], Any], float, tuple[float, float]]] = {
    "coin": (lambda n: RNG.binomial(1, 0.95, n), 0.95, (0, 1)),
    "even": (lambda n: RNG.uniform(size=n), 0.5, (0, 1)),
    "skewed": (lambda n: RNG.beta(0.3, 3, n), 0.3 / 3.3, (0, 1)),
    "likert": (lambda n: RNG.choice([1, 2, 5], n), 8 / 3, (1, 5)),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_the_sequence_covers_the_mean_at_every_look_at_once(kind: str) -> None:
    draw, mean, scale = DRAWS[kind]
    missed = 0
    for _ in range(200):
        lows, highs = confidence_sequence(draw(400), *scale)
        missed += bool((lows > mean).any() or (highs < mean).any())
    assert missed <= 17, "200 at 5 %: more than 17 have probability .01"


def test_the_sequence_narrows_and_drift_minds_the_direction() -> None:
    lows, highs = confidence_sequence([0.5] * 2000, 0, 1)
    assert highs[-1] - lows[-1] < 0.05
    assert (np.diff(lows) >= 0).all()
    good, bad = [0.9] * 300, [0.1] * 300
    assert drift(good, [bad], (0, 1)).verdict == "worse"
    assert drift(good, [bad], (0, 1), lower_is_better=True).verdict == "better"
    assert drift(good, [], (0, 1)).verdict == "unproven"
    assert drift([], [bad], (0, 1)).current.n == 300
    with pytest.raises(ValueError, match="from 0 to 1"):
        confidence_sequence([0.2, 1.5], 0, 1)


# -- The judge's own spread, apart from the spread over questions ----------------------------------


def row(*values: float | None) -> Score:
    invalid = Score("Faithfulness", "judge_invalid", reason="no")
    return combine_repeats(
        [
            invalid if value is None else Score("Faithfulness", "scored", value, detail="so")
            for value in values
        ]
    )


def test_spread_by_hand() -> None:
    spread = judge_spread([row(3, 5), row(4, 4), row(2), row(None, None)])
    assert (spread.rows, spread.samples) == (2, 4)
    assert (spread.within, spread.sd, spread.difference) == (1.0, 1.0, 1.0)  # (2 + 0) / 2
    assert spread.agree == 0.5
    assert spread.between == 0.0  # both means are 4, less the noise in them
    noisy = judge_spread([row(1, 5), row(5, 1), row(1, 5)])
    assert noisy.sd is not None
    assert noisy.sd > 2
    assert noisy.between == 0
    steady = judge_spread([row(1, 1), row(5, 5), row(3, 3)])
    assert (steady.sd, steady.between) == (0, 4)
    assert judge_spread([row(3), row(4)]).within is flip_rate([row(3)]).rate is None
    assert judge_spread([]).rows == 0
    # a row needs more than half of its repeats
    assert row(4, None).state == "judge_invalid"
    assert row(4, 5, None).value == 4.5
    assert row(None, 4, None).reason == "1 of 3 repeats are valid. no"


def pair(first: float, second: float) -> Score:
    parts = {FIRST_ORDER: first, SECOND_ORDER: second}
    return Score("Pairwise", "scored", (first + second) / 2, parts=parts)


def test_flips_by_hand_and_those_of_repeats_do_not_cancel_out() -> None:
    rate = flip_rate([pair(5, 3), pair(4, 4), pair(3, 4), Score("Pairwise", "skipped")])
    assert (rate.rows, rate.judgments, rate.flipped) == (3, 3, 2)
    assert (rate.rate, rate.difference, rate.lean) == pytest.approx((2 / 3, 1.0, 1 / 3))
    twice = combine_repeats([pair(5, 3), pair(3, 5)])
    assert twice.parts[FIRST_ORDER] == twice.parts[SECOND_ORDER] == 4
    rate = flip_rate([twice, pair(4, 4)])
    assert (rate.rows, rate.judgments, rate.flipped) == (2, 3, 2)
    assert (rate.rate, rate.difference, rate.lean) == pytest.approx((2 / 3, 4 / 3, 0))
    invalid = Score("Pairwise", "judge_invalid", reason="no")
    found = flip_rate([combine_repeats([pair(5, 3), invalid, pair(4, 4)])])
    assert (found.judgments, found.flipped) == (2, 1)
    assert judge_spread([twice]).samples == 2  # orders are no repeats
