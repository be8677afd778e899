"""Judges beside people: known formulas, other scales, paired differences, labels needed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from ragwright.core import MeasureError
from ragwright.measure import (
    Agreement,
    Estimate,
    MeasureScale,
    judge_difference,
    krippendorff,
    labels_needed,
    people_agreement,
    rank_agreement,
)
from ragwright.measure.statistics import bootstrap_statistic, kendall, ratings_of

Values = NDArray[np.float64]
LIKERT = MeasureScale(1, 5)
PAIRS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=3, max_size=40)


def held(
    judge: Sequence[float] | Values,
    labels: Sequence[float] | Values,
    clusters: Sequence[object] = (),
    scale: MeasureScale | None = None,
) -> Agreement:
    """A judge's scores beside the labels of the same rows."""
    rows = [str(at) for at in range(len(labels))]
    return rank_agreement(
        dict(zip(rows, map(float, judge), strict=False)),
        dict(zip(rows, map(float, labels), strict=True)),
        clusters=dict(zip(rows, clusters, strict=False)) if len(clusters) else None,
        scale=scale,
        label_scale=scale,
    )


def ends(found: Estimate) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def inside(found: Estimate, truth: float) -> bool:
    low, high = ends(found)
    return low <= truth <= high


@given(PAIRS)
def test_correlations_of_ranks_are_scipys(pairs: list[tuple[int, int]]) -> None:
    human, judge = np.array(pairs, dtype=np.float64).T
    found = held(judge, human)
    if len(set(human)) == 1 or len(set(judge)) == 1:
        assert found.spearman.value is found.kendall.value is None
        return
    theirs = scipy.stats.spearmanr(human, judge), scipy.stats.kendalltau(human, judge)
    assert found.spearman.value == pytest.approx(theirs[0].statistic, abs=1e-9)
    assert found.kendall.value == pytest.approx(theirs[1].statistic, abs=1e-9)


@pytest.mark.slow
@pytest.mark.needs_torch
@given(PAIRS)
def test_kappa_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    from sklearn import metrics

    human, judge = np.array(pairs).T
    found = held(judge, human, scale=LIKERT)
    for weights, ours in ((None, found.kappa), ("quadratic", found.weighted_kappa)):
        if ours.value is None:
            assert len(set(human) | set(judge)) == 1
            continue
        levels = [1, 2, 3, 4, 5]
        theirs = metrics.cohen_kappa_score(human, judge, labels=levels, weights=weights)
        assert ours.value == pytest.approx(theirs)


def test_auc_kappa_and_alpha_worked_by_hand() -> None:
    """Of 12 pairs of a good and a bad row 9 are in order and one is equal: 9.5 / 12."""
    found = held([5, 4, 2, 4, 3, 1, 1], [1, 1, 1, 0, 0, 0, 0])
    assert found.auc.value == pytest.approx(9.5 / 12)
    assert inside(found.auc, 9.5 / 12)
    assert held([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).auc == Estimate()
    # Cohen's own layout: 45 of 60 equal, chance 0.5
    human = [1.0] * 20 + [0.0] * 10 + [0.0] * 25 + [1.0] * 5
    found = held([1.0] * 30 + [0.0] * 30, human, scale=MeasureScale(0, 1))
    assert found.kappa.value == pytest.approx((0.75 - 0.5) / 0.5)
    assert found.weighted_kappa.value == pytest.approx(found.kappa.value)  # two levels
    assert found.bias.value == pytest.approx(5 / 60)
    assert inside(found.kappa, 0.5)
    # Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section A
    binary = [tuple(map(float, unit)) for unit in zip("0100000010", "1110010000", strict=True)]
    alpha = bootstrap_statistic(krippendorff(binary), 10, 0)
    assert alpha.value == pytest.approx(0.095, abs=5e-4)
    assert inside(alpha, 0.095)
    certain = bootstrap_statistic(krippendorff([(2.0, 2.0)] * 3), 3, 0)
    assert certain.value is None  # chance is certain
    # a judge that never varies
    assert held([4.0, 4.0, 4.0], [3.0, 4.0, 5.0]).spearman.value is None
    assert held([4.0, 4.0], [4.0, 4.0]).kappa.value is None


@pytest.mark.parametrize(
    ("judge", "human", "scale", "due"),
    [
        # a judge that says 5 for 1 is four points off, whether or not anybody said 3
        ([1, 5, 5, 1, 2], [1, 5, 1, 1, 2], None, None),
        # the mean of two orders gives half points; 4.5 is half a step from 5 and 3.5 from 1
        ([1, 4.5, 5, 4.5, 1, 1, 5], [1, 5, 5, 1, 5, 1, 5], LIKERT, 0.451),
    ],
)
def test_weights_are_distances_of_values(
    judge: list[float], human: list[float], scale: MeasureScale | None, due: float | None
) -> None:
    found = held(judge, human, scale=scale).weighted_kappa.value
    chance = np.mean([(h - j) ** 2 for h in human for j in judge])
    apart = np.mean([(h - j) ** 2 for h, j in zip(human, judge, strict=True)])
    assert found == pytest.approx(1 - apart / chance)
    assert due is None or found == pytest.approx(due, abs=5e-4)


def test_kendalls_tau_of_a_resample_is_that_of_the_drawn_rows() -> None:
    generator = np.random.default_rng(6)
    human, judge = generator.normal(size=60).round(1), generator.normal(size=60)
    statistic = kendall(ratings_of([[label] for label in human], judge))
    times = generator.integers(0, 3, 60)
    drawn = np.repeat(np.arange(60), times)
    due = scipy.stats.kendalltau(human[drawn], judge[drawn]).statistic
    assert statistic(times[None].astype(float))[0] == pytest.approx(due)


def test_clusters_are_resampled_as_wholes() -> None:
    """Copies of a row say nothing new: over clusters of them, intervals are those of 12 rows."""
    generator = np.random.default_rng(2)
    human = generator.normal(0, 1, 12) + generator.normal(0, 0.5, 12)
    judge = human + generator.normal(0, 0.5, 12)
    wide = held(np.repeat(judge, 10), np.repeat(human, 10), [at // 10 for at in range(120)])
    few = held(judge, human, range(12))
    assert (wide.clusters, few.clusters, wide.n) == (12, 12, 120)
    assert ends(wide.spearman) == pytest.approx(ends(few.spearman))
    assert ends(wide.kendall) == pytest.approx(ends(few.kendall))
    blind = held(np.repeat(judge, 10), np.repeat(human, 10))
    assert ends(wide.spearman)[0] < ends(blind.spearman)[0]
    lone = held([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], "aaa", LIKERT)
    assert (lone.spearman.value, lone.bias.value) == pytest.approx((1.0, -1 / 3))
    assert lone.spearman.low is lone.bias.low is None
    assert lone.clusters == 1


# -- Several people, other scales ------------------------------------------------------------------

GRADES = np.random.default_rng(1).integers(1, 5, (40, 1))
GRADES = np.clip(GRADES + np.random.default_rng(2).integers(-1, 2, (40, 3)), 1, 4)
NOISE = np.random.default_rng(3).uniform(-0.2, 0.0, 40)
LABELS: Mapping[str, tuple[float, ...]] = {
    str(row): tuple(float(label) for label in labels) for row, labels in enumerate(GRADES)
}
SHARES = {key: float(np.mean(LABELS[key]) / 4 + NOISE[int(key)]) for key in LABELS}
GRADED = MeasureScale(1, 4)


def test_scores_from_0_to_1_are_held_against_grades_from_1_to_4() -> None:
    found = rank_agreement(SHARES, LABELS, scale=MeasureScale(0, 1), label_scale=GRADED)
    shares = [SHARES[key] for key, labels in LABELS.items() for _ in labels]
    grades = [label for labels in LABELS.values() for label in labels]
    assert found.spearman.value == pytest.approx(scipy.stats.spearmanr(shares, grades).statistic)
    assert found.kendall.value == pytest.approx(scipy.stats.kendalltau(shares, grades).statistic)
    assert found.bias.value == pytest.approx(np.mean(shares) * 3 + 1 - np.mean(grades))
    assert found.mapped == "0-1 mapped to 1-4"
    assert found.kappa == found.auc == Estimate()
    assert (found.n, found.labels, found.clusters) == (40, 120, None)
    assert rank_agreement(SHARES, LABELS).bias == Estimate()
    distance = {key: 1 - share for key, share in SHARES.items()}
    lower = MeasureScale(0, 1, higher_is_better=False)
    turned = rank_agreement(distance, LABELS, scale=lower, label_scale=GRADED)
    assert turned.spearman.value == pytest.approx(found.spearman.value)
    assert turned.bias.value == pytest.approx(found.bias.value)
    assert "turned round" in turned.mapped


def test_people_are_held_against_the_mean_of_the_others() -> None:
    found = people_agreement(LABELS)
    rest = [(label, (sum(labels) - label) / 2) for labels in LABELS.values() for label in labels]
    assert found.spearman.value == pytest.approx(scipy.stats.spearmanr(*np.transpose(rest))[0])
    pairs = [pair for labels in LABELS.values() for pair in itertools.permutations(labels, 2)]
    equal = np.mean([one == two for one, two in pairs])
    shares = [np.mean([one == level for one, _ in pairs]) for level in (1, 2, 3, 4)]
    chance = np.sum(np.square(shares))
    assert found.kappa.value == pytest.approx((equal - chance) / (1 - chance))
    assert people_agreement({"a": 1.0, "b": (2.0,)}).n == 0
    ones, zeros = (1.0, 1.0), (0.0, 0.0)
    binary = people_agreement({"a": ones, "b": zeros, "c": (1.0, 0.0), "d": ones})
    # 5 labels of 1, of which 4 have a mean of 1 beside them; of 3 zeros 2 have 0, 1 has 1
    assert binary.auc.value == pytest.approx((4 * (2 + 0.5) + 1 * (2 * 0.5)) / 15)


def test_the_difference_of_two_judges_is_paired() -> None:
    """Nearly equal judges differ little, although each figure alone is uncertain."""
    near = {key: share + 0.001 * (int(key) % 3) for key, share in SHARES.items()}
    low, high = ends(judge_difference(near, SHARES, LABELS).spearman)
    alone = ends(rank_agreement(SHARES, LABELS).spearman)
    assert high - low < (alone[1] - alone[0]) / 4
    none = judge_difference(SHARES, SHARES, LABELS)
    assert none.spearman == none.kendall == Estimate(0.0, 0.0, 0.0)
    guesses = dict(zip(LABELS, np.random.default_rng(9).uniform(0, 1, 40), strict=True))
    clusters = {key: int(key) // 2 for key in LABELS}
    found = judge_difference(SHARES, guesses, LABELS, clusters=clusters)
    assert found.clusters == 20
    assert min(ends(found.spearman)[0], ends(found.kendall)[0]) > 0


# -- How many labels of people it takes to know their mean, with a judge and without ---------------


def test_the_labels_that_are_needed_and_a_judge_that_does_not_help() -> None:
    generator = np.random.default_rng(9)
    human, rows = generator.normal(3, 1, 200), np.arange(200)
    noise = labels_needed(generator.normal(3, 2, 200), human, rows, 0.1)
    assert noise.labels == noise.clusters
    assert noise.saving < 0
    assert "saves none" in noise.text
    near = labels_needed(human + 0.1 * generator.normal(0, 1, 200), human, rows, 0.1, unit="row")
    assert near.labels_alone == pytest.approx(390, rel=0.2)
    quantile = scipy.stats.t.ppf(0.975, near.clusters_alone - 1)
    spread = human.std(ddof=1) / np.sqrt(near.clusters_alone - 1)
    assert quantile * spread == pytest.approx(0.1, rel=0.01)  # CR3 over lone rows
    assert near.saving > 0.9
    assert f"({near.clusters} rows)" in near.text


def test_what_cannot_be_held_against_people_is_refused() -> None:
    ones, rows = np.ones(3), np.arange(3)
    for wrong, said in (
        (lambda: rank_agreement({"other": 1.0}, LABELS), "no labelled row"),
        (lambda: rank_agreement({"0": float("nan")}, LABELS), "not a finite number"),
        (lambda: people_agreement(LABELS, clusters={"0": "a"}), "has no cluster"),
        (lambda: held([1, 2, 3], [1, 2, 4], "ab"), "row '2' has no cluster"),
        (lambda: labels_needed(ones, ones, rows, 0.0), "margin above 0"),
        (lambda: labels_needed(ones, ones, rows, -1.0), "margin above 0"),
        (lambda: labels_needed(ones, ones, rows, float("nan")), "margin above 0"),
    ):
        with pytest.raises(MeasureError, match=said):
            wrong()
