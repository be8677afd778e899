"""A judge held against people: known formulas, planted bias, honest gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from ragwright.core import MeasureError, Score
from ragwright.measure import (
    Agreement,
    Estimate,
    GateOptions,
    JudgeCheck,
    MeasureScale,
    aggregate,
    gate,
    krippendorff,
    rank_agreement,
)
from ragwright.measure.statistics import (
    bootstrap_statistic,
    kendall,
    ratings_of,
    spearman,
)

LIKERT = MeasureScale(1, 5)
PAIRS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=3, max_size=40)
BINARY = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5)), min_size=3, max_size=40)


def held(
    judge: Sequence[float] | NDArray[np.float64],
    labels: Sequence[float | Sequence[float]] | NDArray[np.float64],
    clusters: Sequence[object] = (),
    scale: MeasureScale | None = None,
) -> Agreement:
    """A judge's scores beside the labels of the same rows."""
    rows = [str(at) for at in range(len(labels))]
    people = [
        tuple(map(float, one)) if isinstance(one, Sequence | np.ndarray) else float(one)
        for one in labels
    ]
    return rank_agreement(
        dict(zip(rows, map(float, judge), strict=False)),
        dict(zip(rows, people, strict=True)),
        clusters=dict(zip(rows, clusters, strict=False)) if len(clusters) else None,
        scale=scale,
        label_scale=scale,
    )


def inside(found: Estimate, truth: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


@settings(deadline=None, max_examples=30)
@given(PAIRS)
def test_the_correlation_of_ranks_is_scipys(pairs: list[tuple[int, int]]) -> None:
    human, judge = np.array(pairs, dtype=np.float64).T
    found = held(judge, human)
    if len(set(human)) == 1 or len(set(judge)) == 1:
        assert found.spearman.value is None
        return
    theirs = scipy.stats.spearmanr(human, judge)
    assert found.spearman.value == pytest.approx(theirs.statistic, abs=1e-9)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(PAIRS)
@pytest.mark.needs_torch
def test_kappa_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    from sklearn import metrics

    human, judge = np.array(pairs).T
    found = held(judge, human, scale=LIKERT)
    for quadratic, ours in ((False, found.kappa), (True, found.weighted_kappa)):
        if ours.value is None:
            assert len(set(human) | set(judge)) == 1
            continue
        theirs = metrics.cohen_kappa_score(
            human, judge, labels=[1, 2, 3, 4, 5], weights="quadratic" if quadratic else None
        )
        assert ours.value == pytest.approx(theirs)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(BINARY)
def test_auc_is_the_share_of_pairs_that_mann_and_whitney_count(
    pairs: list[tuple[int, int]],
) -> None:
    human, judge = np.array(pairs, dtype=np.float64).T
    found = held(judge, human).auc.value
    good, bad = judge[human == 1], judge[human == 0]
    if not len(good) or not len(bad):
        assert found is None
        return
    counted = scipy.stats.mannwhitneyu(good, bad).statistic
    assert found == pytest.approx(counted / (len(good) * len(bad)))


def test_auc_worked_by_hand_and_its_interval() -> None:
    """Of 12 pairs of a good and a bad row 9 are in order and one is equal: 9.5 / 12."""
    found = held([5, 4, 2, 4, 3, 1, 1], [1, 1, 1, 0, 0, 0, 0])
    assert found.auc.value == pytest.approx(9.5 / 12)
    assert inside(found.auc, 9.5 / 12)
    assert held([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).auc == Estimate()


def units(*observers: str) -> list[tuple[float, ...]]:
    """Labels of each unit; a dot is a label that was not given."""
    return [
        tuple(float(said) for said in unit if said != ".") for unit in zip(*observers, strict=True)
    ]


def test_alpha_is_krippendorffs_in_his_own_example() -> None:
    """Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section A."""
    binary = units("0100000010", "1110010000")
    found = bootstrap_statistic(krippendorff(binary), 10, 0)
    assert found.value == pytest.approx(0.095, abs=5e-4)
    assert inside(found, 0.095)
    assert (
        bootstrap_statistic(krippendorff([(2.0, 2.0)] * 3), 3, 0).value is None
    )  # chance is certain


def raters(generator: np.random.Generator, rows: int, count: int) -> NDArray[np.float64]:
    """People who see the same quality with the same errors, on 1 to 5; the mean is 3."""
    quality = generator.normal(3, 1, (rows, 1))
    return np.clip(np.round(quality + generator.normal(0, 0.8, (rows, count))), 1, 5)


def test_a_table_worked_by_hand() -> None:
    """Cohen's own layout: 45 of 60 equal, chance 0.5."""
    judge = [1.0] * 30 + [0.0] * 30
    human = [1.0] * 20 + [0.0] * 10 + [0.0] * 25 + [1.0] * 5
    found = held(judge, human, scale=MeasureScale(0, 1))
    assert found.kappa.value == pytest.approx((0.75 - 0.5) / 0.5)
    assert found.weighted_kappa.value == pytest.approx(found.kappa.value)  # two levels
    assert found.bias.value == pytest.approx(5 / 60)
    assert inside(found.kappa, 0.5)


def test_points_nobody_gave_still_count_as_distance() -> None:
    """A judge that says 5 for 1 is four points off, whether or not anybody said 3."""
    judge, human = [1.0, 5.0, 5.0, 1.0, 2.0], [1.0, 5.0, 1.0, 1.0, 2.0]
    found = held(judge, human)
    chance = np.mean([(h - j) ** 2 for h in human for j in judge])
    apart = np.mean([(h - j) ** 2 for h, j in zip(human, judge, strict=True)])
    assert found.weighted_kappa.value == pytest.approx(1 - apart / chance)


def follows(generator: np.random.Generator, rows: int) -> tuple[NDArray[np.float64], ...]:
    """A judge too kind and too flat, people around 3."""
    truth = generator.normal(3, 0.5, rows)
    return 0.8 * truth + 1.2 + generator.normal(0, 0.2, rows), truth


def test_a_bias_found_elsewhere_widens_the_interval() -> None:
    """By MOVER (Zou and Donner 2008)."""
    summary = aggregate([Score("Faithfulness", "scored", 4.0 + at % 2) for at in range(40)])
    assert summary.low is not None
    options = GateOptions(corrected=True, sure=True)

    def said(check: JudgeCheck) -> str:
        found = gate([summary], ["Faithfulness>=4"], options, checked={"Faithfulness": check})
        return found.checks[0].reason

    low = 4.0 - np.hypot(4.5 - summary.low, 0.3)
    assert f"4.0000 on 40 rows ({low:.4f} to" in said(JudgeCheck(40, bias=Estimate(0.5, 0.2, 0.8)))


def test_a_judge_that_never_varies_has_no_correlation() -> None:
    assert held([4.0, 4.0, 4.0], [3.0, 4.0, 5.0]).spearman.value is None
    assert held([4.0, 4.0], [4.0, 4.0]).kappa.value is None


def test_weights_are_distances_of_values_where_points_lie_between() -> None:
    """The mean of two orders gives half points; 4.5 is half a step from 5 and 3.5 from 1."""
    human = [1, 5, 5, 1, 5, 1, 5]
    judge = [1, 4.5, 5, 4.5, 1, 1, 5]
    found = held(judge, human, scale=LIKERT)
    apart = sum((a - b) ** 2 for a, b in zip(judge, human, strict=True)) / len(human)
    chance = sum((a - b) ** 2 for a in judge for b in human) / len(human) ** 2
    assert found.weighted_kappa.value == pytest.approx(1 - apart / chance)
    assert found.weighted_kappa.value == pytest.approx(0.451, abs=5e-4)


@settings(deadline=None, max_examples=30)
@given(PAIRS)
def test_kendalls_tau_is_scipys(pairs: list[tuple[int, int]]) -> None:
    human, judge = np.array(pairs, dtype=np.float64).T
    found = held(judge, human).kendall.value
    if len(set(human)) == 1 or len(set(judge)) == 1:
        assert found is None
        return
    assert found == pytest.approx(scipy.stats.kendalltau(human, judge).statistic, abs=1e-9)


def test_kendalls_tau_of_a_resample_is_that_of_the_drawn_rows() -> None:
    generator = np.random.default_rng(6)
    human, judge = generator.normal(size=60).round(1), generator.normal(size=60)
    statistic = kendall(ratings_of([[label] for label in human], judge))
    times = generator.integers(0, 3, 60)
    drawn = np.repeat(np.arange(60), times)
    assert statistic(times[None].astype(float))[0] == pytest.approx(
        scipy.stats.kendalltau(human[drawn], judge[drawn]).statistic
    )


def clustered(generator: np.random.Generator, size: int) -> tuple[NDArray[np.float64], ...]:
    """Judge and people on 12 topics of some rows, on which a topic shifts both alike."""
    topic = np.repeat(generator.normal(0, 1, 12), size)
    human = topic + generator.normal(0, 0.5, topic.size)
    return human + generator.normal(0, 0.5, topic.size), human


def test_clusters_are_resampled_as_wholes() -> None:
    """Copies of a row say nothing new: over clusters of them, intervals are those of 12 rows."""
    generator = np.random.default_rng(2)
    judge, human = clustered(generator, 1)
    wide = held(np.repeat(judge, 10), np.repeat(human, 10), [at // 10 for at in range(120)])
    few = held(judge, human, range(12))
    assert (wide.clusters, few.clusters, wide.n) == (12, 12, 120)
    for name in ("spearman", "kendall"):
        one, two = getattr(wide, name), getattr(few, name)
        assert (one.low, one.high) == (pytest.approx(two.low), pytest.approx(two.high))
    blind = held(np.repeat(judge, 10), np.repeat(human, 10))
    assert blind.spearman.low is not None
    assert wide.spearman.low is not None
    assert wide.spearman.low < blind.spearman.low


def test_a_row_without_a_cluster_is_refused_and_one_cluster_has_no_interval() -> None:
    with pytest.raises(MeasureError, match="row '2' has no cluster"):
        held([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], "ab")
    lone = held([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], "aaa", LIKERT)
    assert lone.spearman.value == pytest.approx(1.0)
    assert lone.bias.value == pytest.approx(-1 / 3)
    assert lone.spearman.low is lone.bias.low is None
    assert lone.clusters == 1


@pytest.mark.slow
def test_the_clustered_interval_of_a_correlation_covers_and_the_blind_one_does_not() -> None:
    """20 topics of 8 rows, each lifting both and making the judge kinder or stricter: 60 draws."""
    generator = np.random.default_rng(3)

    def drawn(topics: int) -> tuple[NDArray[np.float64], ...]:
        lean = np.repeat(generator.normal(0, 0.6, topics), 8)
        human = np.repeat(generator.normal(0, 1, topics), 8) + generator.normal(0, 0.5, lean.size)
        return human + lean + generator.normal(0, 0.3, lean.size), human

    judge, human = drawn(10_000)
    truth = scipy.stats.spearmanr(judge, human).statistic
    topics = np.repeat(np.arange(20), 8)
    covered = {"clusters": 0, "rows": 0}
    for _ in range(60):
        judge, human = drawn(20)
        statistic = spearman(ratings_of([[label] for label in human], judge))
        for name, clusters in (("clusters", topics), ("rows", None)):
            covered[name] += inside(bootstrap_statistic(statistic, 160, 0, clusters), truth)
    print(covered)
    # Three standard errors of 60 draws below 95 %, 3 * sqrt(0.95 * 0.05 / 60) = 0.084, reject the
    # blind interval, which covers 67 %.
    assert covered["clusters"] >= 0.866 * 60
    assert covered["rows"] < 0.866 * 60
