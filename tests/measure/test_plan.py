"""Rows that a margin needs, and whether they give the stated power."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from ragwright.measure import ScoreSpread, score_spread


def test_the_stated_rows_give_about_80_percent_power() -> None:
    """Paired differences of a true margin, by the t test, in 1,000 draws; likewise unpaired."""
    spread = ScoreSpread("nDCG", 0.35, correlation=0.7)
    paired, unpaired, _ = spread.rows(0.1)
    generator = np.random.default_rng(1)
    common = np.array([[1, 0.7], [0.7, 1]]) * 0.35**2
    pairs = generator.multivariate_normal((0.5, 0.6), common, (1000, paired))
    power = np.mean(scipy.stats.ttest_rel(pairs[..., 1], pairs[..., 0], axis=1).pvalue <= 0.05)
    assert power == pytest.approx(0.8, abs=0.05)
    two = generator.normal((0.5, 0.6), 0.35, (1000, unpaired, 2))
    power = np.mean(scipy.stats.ttest_ind(two[..., 1], two[..., 0], axis=1).pvalue <= 0.05)
    assert power == pytest.approx(0.8, abs=0.05)


def test_the_clustered_rows_give_about_80_percent_power() -> None:
    """Clusters of 5 rows whose differences correlate by 0.25: a design effect of 2."""
    spread = ScoreSpread("mean of 0 to 1", 0.25, correlation=0.5, design_effect=2.0)
    clusters = spread.rows(0.1)[2] // 5
    generator = np.random.default_rng(2)
    shared = generator.normal(0, 0.25 * 0.5, (1000, clusters, 1))
    own = generator.normal(0, 0.25 * np.sqrt(0.75), (1000, clusters, 5))
    means = (0.1 + shared + own).mean(axis=2)
    power = np.mean(scipy.stats.ttest_1samp(means, 0, axis=1).pvalue <= 0.05)
    assert power == pytest.approx(0.8, abs=0.06)


def test_a_run_gives_its_own_spread() -> None:
    generator = np.random.default_rng(3)
    topic = np.repeat(generator.normal(0, 1, 40), 5)
    first = generator.normal(0, 1, 200)
    second = first + topic + generator.normal(0, 0.2, 200)
    groups = [f"topic {at // 5}" for at in range(200)]
    spread = score_spread("Own", first, second, groups=groups, width=4.0)
    assert spread is not None
    assert spread.sd == pytest.approx(np.std(first, ddof=1) / 4)
    assert spread.correlation == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert spread.design_effect > 3
    assert spread.n == 200
    assert spread.smallest is not None
    blind = score_spread("Own", first, second, width=4.0)
    assert blind is not None
    assert blind.smallest is not None
    assert spread.smallest > 1.5 * blind.smallest
    assert score_spread("Own", np.ones(5)) is None
