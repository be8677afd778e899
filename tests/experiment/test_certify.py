"""The arithmetic of a promise: exact bounds, rows needed, fixed sequences, evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from ragwright.experiment import (
    Plan,
    auc,
    certify_steps,
    choose_plan,
    passing_chance,
    plan_of,
    risk_bound,
    risk_p,
    rows_needed,
)


def binomial_p(errors: int, answered: int, risk: float) -> float:
    """P(X <= errors), term by term."""
    return math.fsum(
        math.comb(answered, k) * risk**k * (1 - risk) ** (answered - k) for k in range(errors + 1)
    )


@given(st.integers(1, 150), st.integers(0, 150), st.sampled_from([0.01, 0.05, 0.2, 0.5]))
def test_the_p_value_is_the_sum_of_the_binomial(answered: int, errors: int, risk: float) -> None:
    wrong = min(errors, answered)
    expected = binomial_p(wrong, answered, risk)
    assert risk_p(wrong, answered, risk) == pytest.approx(expected, abs=1e-9)


def test_the_bound_is_where_the_p_value_meets_the_level() -> None:
    for errors, answered in ((0, 59), (3, 212), (10, 40)):
        bound = risk_bound(errors, answered, 0.05)
        assert binomial_p(errors, answered, bound) == pytest.approx(0.05, abs=1e-6)
    assert risk_p(0, 0, 0.05) == 1.0  # no answer proves nothing
    assert risk_bound(0, 0, 0.05) == risk_bound(7, 7, 0.05) == 1.0


def test_rows_needed() -> None:
    assert [rows_needed(0.05, 0.05, rate) for rate in (0.0, 0.05)] == [59, None]
    assert [rows_needed(0.1, 0.05, 0.0), rows_needed(0.05, 0.01, 0.0)] == [29, 90]
    # Where a share of them is wrong, so many pass four times of five.
    needed = rows_needed(0.05, 0.05, 0.02)
    assert needed is not None
    assert passes(needed, 0.02) >= 0.8
    assert all(passes(rows, 0.02) < 0.8 for rows in range(60, needed))


def passes(rows: int, rate: float) -> float:
    """Chance of so many answered rows to certify 5 % where a share of them is wrong."""
    most = int((binom.cdf(np.arange(rows), rows, 0.05) <= 0.05).sum()) - 1
    return 0.0 if most < 0 else float(binom.cdf(most, rows, rate))


def test_the_chance_of_passing_and_of_luck_are_those_of_drawn_rows() -> None:
    draw = np.random.default_rng(2)
    rates = draw.beta(2.5, 98.5, 40_000)  # after 2 errors of 100
    passed = draw.binomial(120, rates) <= 1  # of 120 rows, 1 error may be made for 5 %
    assert binomial_p(1, 120, 0.05) < 0.05 < binomial_p(2, 120, 0.05)
    chance, luck = passing_chance(2, 100, 120, risk=0.05, alpha=0.05)
    assert chance == pytest.approx(passed.mean(), abs=0.01)
    assert luck == pytest.approx((rates[passed] > 0.05).mean(), abs=0.01)


def test_the_chance_of_passing_does_not_count_the_luck_of_the_choice() -> None:
    """Scores that say nothing: the best of many thresholds only looks good."""
    draw, promised, passed = np.random.default_rng(4), [], []
    for _ in range(12):
        wrong = draw.random(500) < 0.12
        scores = {f"s{n}": draw.random(500) for n in range(4)}
        tune = {name: values[:200] for name, values in scores.items()}
        plan, _ = choose_plan(tune, wrong[:200], risk=0.1, alpha=0.05, rows=300)
        steps, _ = certify_steps(plan, scores[plan.score][200:], wrong[200:], risk=0.1, alpha=0.05)
        promised.append(plan.chance)
        passed.append(bool(steps))
    assert np.mean(promised) < np.mean(passed) + 0.15
    assert np.mean(promised) < 0.35


def test_auc_counts_ties_half_and_leaves_out_what_is_not_answered() -> None:
    scores = np.array([3.0, 2.0, 2.0, 1.0, -np.inf])
    wrong = np.array([False, False, True, True, False])
    assert auc(scores, wrong) == pytest.approx(3.5 / 4)
    assert auc(scores, np.zeros(5, np.bool_)) is None


def test_thresholds_go_from_strict_to_loose_and_the_better_score_is_chosen() -> None:
    rng = np.random.default_rng(1)
    wrong = rng.random(400) < 0.3
    good = np.where(wrong, rng.normal(0, 1, 400), rng.normal(4, 1, 400))
    noise = rng.normal(0, 1, 400)
    plan, candidates = choose_plan(
        {"noise": noise, "good": good}, wrong, risk=0.05, alpha=0.05, rows=400
    )
    assert plan.score == "good"
    assert list(plan.thresholds) == sorted(plan.thresholds, reverse=True)
    assert [candidate.score for candidate in candidates] == ["noise", "good"]
    assert candidates[0].coverage == 0
    assert candidates[1].coverage == plan.coverage > 0.5


def test_a_sequence_ends_at_its_first_failure() -> None:
    """A looser threshold that would pass by chance is not reached."""
    scores = np.concatenate([np.full(100, 3.0), np.full(40, 2.0), np.full(2000, 1.0)])
    right = np.zeros(len(scores), np.bool_)
    plan = Plan("s", (3.0, 2.0, 1.0), 1.0, 0.0)
    wrong = right.copy()
    wrong[100:120] = True  # half of the second step
    steps, failed = certify_steps(plan, scores, wrong, risk=0.05, alpha=0.05)
    assert [step.threshold for step in steps] == [3.0]
    assert failed is not None
    assert (failed.threshold, failed.answered, failed.errors) == (2.0, 140, 20)
    assert risk_p(20, 2140, 0.05) < 0.05, "the last one alone would have passed"
    none = np.full(10, -np.inf)  # a set without answers has no sequence
    plan = plan_of("s", none, np.zeros(10, np.bool_), risk=0.05, alpha=0.05, rows=100)
    assert (plan.thresholds, plan.hopeless) == ((), True)
    assert plan.questions_needed(0.05, 0.05) is None


def test_certificates_are_wrong_as_rarely_as_stated() -> None:
    """Rows are drawn from a population whose risk at every threshold is known."""
    rng, risk, alpha, rounds = np.random.default_rng(5), 0.1, 0.1, 300
    grid = np.linspace(0, 1, 4001)
    chance = 0.4 * (1 - grid) ** 2  # of being wrong, by score; the risk above t is its mean
    wrong_certificates = naive_wrong = given_certificates = 0
    for _ in range(rounds):
        scores = rng.random(700)
        wrong = rng.random(700) < 0.4 * (1 - scores) ** 2
        plan, _ = choose_plan({"s": scores[:250]}, wrong[:250], risk=risk, alpha=alpha, rows=450)
        steps, _ = certify_steps(plan, scores[250:], wrong[250:], risk=risk, alpha=alpha)
        if steps:
            given_certificates += 1
            wrong_certificates += chance[grid >= steps[-1].threshold].mean() > risk
        order = np.argsort(-scores)
        shares = np.cumsum(wrong[order]) / np.arange(1, 701)
        threshold = scores[order][np.flatnonzero(shares <= risk)[-1]]
        naive_wrong += chance[grid >= threshold].mean() > risk
    assert given_certificates > 0.9 * rounds
    # at most alpha; three standard errors above it would be .152
    assert wrong_certificates / rounds <= 0.15
    assert naive_wrong / rounds > 0.3, "the threshold that looks right on its own rows is not"
