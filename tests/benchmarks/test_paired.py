"""Differences of paired scores, against exact enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.paired import paired


def test_agreement_on_every_query_is_equal_not_luck() -> None:
    found = paired([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert found.verdict == "equal"


def test_the_permutation_test_agrees_with_all_sign_flips() -> None:
    ours = [0.4, 0.9, 0.6, 0.7, 0.2, 0.8, 0.5, 0.9]
    theirs = [0.3, 0.5, 0.7, 0.4, 0.2, 0.6, 0.1, 0.8]
    given = np.subtract(ours, theirs)
    observed = abs(given.mean())
    flips = [abs(np.mean(given * signs)) for signs in product((-1, 1), repeat=given.size)]
    exact = np.mean([flip >= observed - 1e-12 for flip in flips])
    assert paired(ours, theirs).p == pytest.approx(exact, abs=0.01)


def test_the_interval_agrees_with_the_normal_one_on_many_queries() -> None:
    generator = np.random.default_rng(5)
    theirs = generator.random(400)
    ours = theirs + generator.normal(0.02, 0.1, 400)
    found = paired(ours.tolist(), theirs.tolist())
    given = ours - theirs
    width = 1.96 * given.std(ddof=1) / 20
    assert found.low == pytest.approx(given.mean() - width, abs=0.002)
    assert found.high == pytest.approx(given.mean() + width, abs=0.002)


def test_sides_are_told_apart_and_repeat() -> None:
    high, low = [0.9] * 20 + [0.5], [0.5] * 20 + [0.6]
    assert paired(high, low).verdict == "above"
    assert paired(low, high).verdict == "below"
    assert paired([0.1, 0.9], [0.9, 0.1]).verdict == "not distinguishable"
    assert paired(high, low, seed=3) == paired(high, low, seed=3)


def test_queries_must_match() -> None:
    with pytest.raises(ValueError, match="1 and 2 queries"):
        paired([0.5], [0.5, 0.6])
