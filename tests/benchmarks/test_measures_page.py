"""The figures of docs/measures.md: intervals over clusters."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.measures import Settings, auc, interval


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
