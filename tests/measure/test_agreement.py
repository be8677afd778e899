"""A judge held against people: known formulas, planted bias, honest gaps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ragwright.core import MeasureError, Score
from ragwright.measure import Estimate, MeasureScale, calibrate
from ragwright.measure._agreement import (
    cohen_kappa,
    corrected_mean,
    pearson,
    shifted_mean,
    spearman,
)

PAIRS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=3, max_size=40)


def scores(*values: float | None, measure: str = "Theirs") -> dict[str, Score]:
    return {
        str(at): Score(measure, "judge_invalid", reason="why")
        if value is None
        else Score(measure, "scored", value)
        for at, value in enumerate(values)
    }


@settings(deadline=None)
@given(PAIRS)
def test_correlations_are_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert pearson(x, y) is spearman(x, y) is None
        return
    assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y).statistic, abs=1e-9)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-9)


@settings(deadline=None)
@given(PAIRS)
def test_kappa_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    human, judge = np.array(pairs).T
    table = np.zeros((5, 5))
    np.add.at(table, (human - 1, judge - 1), 1)
    for quadratic in (False, True):
        ours = cohen_kappa(table, quadratic=quadratic)
        if ours is None:
            assert len(set(human) | set(judge)) == 1
            continue
        theirs = metrics.cohen_kappa_score(
            human, judge, labels=[1, 2, 3, 4, 5], weights="quadratic" if quadratic else None
        )
        assert ours == pytest.approx(theirs)


def test_a_table_worked_by_hand() -> None:
    """Cohen's own layout: 45 of 60 equal, chance 0.5."""
    judge = [1.0] * 30 + [0.0] * 30
    human = [1.0] * 20 + [0.0] * 10 + [0.0] * 25 + [1.0] * 5
    found = calibrate(scores(*judge), {str(at): v for at, v in enumerate(human)})
    assert found.agreement.value == 45 / 60
    assert found.kappa.value == pytest.approx((0.75 - 0.5) / 0.5)
    assert found.weighted_kappa.value == pytest.approx(found.kappa.value)  # two levels
    assert found.levels == (0.0, 1.0)
    assert found.confusion == ((25, 10), (5, 20))  # labels outside, scores inside
    assert found.bias.value == pytest.approx(5 / 60)
    assert found.agreement.low is not None
    assert found.agreement.high is not None
    assert found.agreement.low < 0.75 < found.agreement.high
    assert found.kappa.low is not None
    assert found.kappa.high is not None
    assert found.kappa.low < 0.5 < found.kappa.high


def test_points_nobody_gave_still_count_as_distance() -> None:
    """A judge that says 5 for 1 is four points off, whether or not anybody said 3."""
    judge, human = [1.0, 5.0, 5.0, 1.0, 2.0], [1.0, 5.0, 1.0, 1.0, 2.0]
    found = calibrate(scores(*judge), {str(at): v for at, v in enumerate(human)})
    table = np.zeros((5, 5))
    for h, j in zip(human, judge, strict=True):
        table[int(h) - 1, int(j) - 1] += 1
    assert found.weighted_kappa.value == pytest.approx(cohen_kappa(table, quadratic=True))


def test_every_row_is_counted_somewhere() -> None:
    found = calibrate(scores(4.0, None, 3.0, 5.0), {"0": 4, "1": 2, "2": 4, "elsewhere": 1})
    assert (found.n, found.unscored, found.unlabelled, found.unknown) == (2, 1, 1, 1)


def test_a_planted_bias_is_found_and_taken_out() -> None:
    generator = np.random.default_rng(9)
    truth = generator.integers(1, 5, 1000).astype(float)
    judged = truth + (generator.uniform(size=1000) < 0.5)  # half a point too kind
    labels = {str(at): truth[at] for at in range(150)}
    found = calibrate(scores(*judged), labels)
    assert found.bias.low is not None
    assert found.bias.low > 0.3
    assert found.bias.value == pytest.approx(0.5, abs=0.1)
    assert found.judge_mean.value == pytest.approx(truth.mean() + 0.5, abs=0.1)
    assert found.corrected.low is not None
    assert found.corrected.high is not None
    assert found.corrected.low <= truth.mean() <= found.corrected.high
    assert found.human_mean.low is not None
    assert found.human_mean.high is not None
    width = found.corrected.high - found.corrected.low
    assert width < found.human_mean.high - found.human_mean.low


def test_the_corrected_mean_covers_95_times_in_100() -> None:
    generator = np.random.default_rng(12)
    inside = 0
    for _ in range(400):
        truth = generator.normal(3, 1, 540)
        judged = 0.8 * truth + 1.2 + generator.normal(0, 0.4, 540)
        found = corrected_mean(judged[:40], truth[:40], judged[40:])
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 3 <= found.high
    assert 366 <= inside <= 396


def test_without_further_scores_the_corrected_mean_is_that_of_people() -> None:
    human = np.array([1.0, 2.0, 4.0])
    found = corrected_mean(np.array([5.0, 5.0, 5.0]), human, np.array([]))
    assert found.value == pytest.approx(human.mean())
    assert corrected_mean(human[:1], human[:1], human).value is None


def test_the_corrected_mean_stays_on_its_scale_and_admits_what_it_has_not_seen() -> None:
    scale = MeasureScale(1, 5)
    rest = np.array([5.0] * 30 + [4.0])
    kind = corrected_mean(np.full(10, 4.0), np.full(10, 5.0), rest, scale)  # people are kinder
    assert (kind.value, kind.high) == (5.0, 5.0)
    assert kind.low is not None
    assert kind.low < 4.5  # ten labels of one kind prove little
    loose = corrected_mean(np.full(10, 4.0), np.full(10, 5.0), rest)
    assert loose.high is not None
    assert loose.high > 5


def test_the_bounded_interval_still_covers_95_times_in_100() -> None:
    generator = np.random.default_rng(3)
    inside = 0
    for _ in range(400):
        truth = generator.choice([3.0, 4.0, 5.0], 240, p=[0.03, 0.07, 0.9])
        judged = np.minimum(5.0, truth + (generator.uniform(size=240) < 0.2))
        found = corrected_mean(judged[:40], truth[:40], judged[40:], MeasureScale(1, 5))
        assert found.low is not None
        assert found.high is not None
        assert 1 <= found.low <= found.high <= 5
        inside += found.low <= 4.87 <= found.high
    assert inside >= 366


def test_a_bias_found_elsewhere_widens_the_interval() -> None:
    mean, bias = Estimate(4.0, 3.8, 4.2), Estimate(0.5, 0.2, 0.8)
    found = shifted_mean(mean, bias, MeasureScale(1, 5))
    assert found.value == pytest.approx(3.5)
    assert found.low == pytest.approx(3.5 - np.hypot(0.2, 0.3))
    assert found.high == pytest.approx(3.5 + np.hypot(0.2, 0.3))


def test_a_continuum_has_no_kappa() -> None:
    values = np.random.default_rng(1).uniform(0, 1, 40)
    found = calibrate(
        scores(*values, measure="TokenF1"), {str(at): v * 0.9 for at, v in enumerate(values)}
    )
    assert not found.levels
    assert not found.confusion
    assert found.kappa.value is found.agreement.value is None
    assert found.pearson.value == pytest.approx(1)


def test_a_judge_that_never_varies_has_no_correlation() -> None:
    found = calibrate(scores(4.0, 4.0, 4.0), {"0": 3, "1": 4, "2": 5})
    assert found.pearson.value is found.spearman.value is None
    same = calibrate(scores(4.0, 4.0), {"0": 4, "1": 4})
    assert same.kappa.value is None
    assert same.agreement.value == 1


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(MeasureError, match="one measure"):
        calibrate({}, {"0": 1})
    with pytest.raises(MeasureError, match="no labelled row"):
        calibrate(scores(None), {"0": 1})
    with pytest.raises(MeasureError, match="off the scale"):
        calibrate(scores(0.5, measure="TokenF1"), {"0": 5})


def test_weights_are_distances_of_values_where_points_lie_between() -> None:
    """The mean of two orders gives half points; 4.5 is half a step from 5 and 3.5 from 1."""
    human = [1, 5, 5, 1, 5, 1, 5]
    judge = [1, 4.5, 5, 4.5, 1, 1, 5]
    found = calibrate(
        {str(at): Score("Pairwise", "scored", value) for at, value in enumerate(judge)},
        {str(at): float(label) for at, label in enumerate(human)},
    )
    apart = sum((a - b) ** 2 for a, b in zip(judge, human, strict=True)) / len(human)
    chance = sum((a - b) ** 2 for a in judge for b in human) / len(human) ** 2
    assert found.weighted_kappa.value == pytest.approx(1 - apart / chance)
    assert found.weighted_kappa.value == pytest.approx(0.451, abs=5e-4)
