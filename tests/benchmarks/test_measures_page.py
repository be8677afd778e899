"""The figures of docs/measures.md: AUC, ranks and intervals against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.measures import Settings, auc, interval, made_rows, midranks, spearman
from hypothesis import given, settings, strategies as st
from scipy import stats

VALUES = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=3, max_size=40)


@pytest.mark.slow
@settings(deadline=None)
@given(VALUES)
def test_auc_and_ranks_are_those_of_scipy(pairs: list[tuple[int, bool]]) -> None:
    values = np.array([float(v) for v, _ in pairs])
    labels = np.array([float(label) for _, label in pairs])
    assert midranks(values) == pytest.approx(stats.rankdata(values))
    good, bad = values[labels > 0], values[labels == 0]
    if len(good) and len(bad):
        due = stats.mannwhitneyu(good, bad).statistic / (len(good) * len(bad))
        assert auc(values, labels) == pytest.approx(due)
    if len(set(values)) > 1 and len(set(labels)) > 1:
        assert spearman(values, labels) == pytest.approx(stats.spearmanr(values, labels).statistic)


def test_rows_of_one_cluster_come_and_go_together() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 60).astype(float)
    values = labels + draw.normal(size=60)
    many = [str(n) for n in range(60)]
    few = [str(n // 20) for n in range(60)]
    wanted = Settings(resamples=200)
    low, high = interval(auc, values, labels, many, wanted)
    assert low < auc(values, labels) < high
    assert interval(auc, values, labels, many, wanted) == (low, high)
    # a cluster taken three times over adds nothing: its copies are no further evidence
    tripled = interval(auc, np.tile(values, 3), np.tile(labels, 3), many * 3, wanted)
    assert tripled == pytest.approx((low, high))
    assert interval(auc, values, labels, few, wanted) != (low, high)


def test_made_rows_do_not_depend_on_how_many_are_read() -> None:
    assert list(made_rows(5))[:3] == list(made_rows(3))
