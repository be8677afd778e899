"""Judges beside people: other scales, people's own agreement, paired differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats

from ragwright.core import MeasureError
from ragwright.measure import (
    Estimate,
    MeasureScale,
    judge_difference,
    people_agreement,
    rank_agreement,
)

LABELS = {
    str(row): tuple(float(label) for label in labels)
    for row, labels in enumerate(
        np.clip(
            np.random.default_rng(1).integers(1, 5, (40, 1))
            + np.random.default_rng(2).integers(-1, 2, (40, 3)),
            1,
            4,
        )
    )
}
SHARES = {
    key: float(np.mean(labels) / 4 + noise)
    for (key, labels), noise in zip(
        LABELS.items(), np.random.default_rng(3).uniform(-0.2, 0.0, 40), strict=True
    )
}


def test_scores_from_0_to_1_are_held_against_grades_from_1_to_4() -> None:
    found = rank_agreement(SHARES, LABELS, scale=MeasureScale(0, 1), label_scale=MeasureScale(1, 4))
    shares = [SHARES[key] for key, labels in LABELS.items() for _ in labels]
    grades = [label for labels in LABELS.values() for label in labels]
    assert found.spearman.value == pytest.approx(scipy.stats.spearmanr(shares, grades).statistic)
    assert found.kendall.value == pytest.approx(scipy.stats.kendalltau(shares, grades).statistic)
    assert found.bias.value == pytest.approx(np.mean(shares) * 3 + 1 - np.mean(grades))
    assert found.mapped == "0-1 mapped to 1-4"
    assert found.kappa == found.auc == Estimate()
    assert (found.n, found.labels, found.clusters) == (40, 120, None)
    assert rank_agreement(SHARES, LABELS).bias == Estimate()


def test_a_measure_whose_lower_values_are_better_is_turned_round() -> None:
    distance = {key: 1 - share for key, share in SHARES.items()}
    lower = MeasureScale(0, 1, higher_is_better=False)
    turned = rank_agreement(distance, LABELS, scale=lower, label_scale=MeasureScale(1, 4))
    plain = rank_agreement(SHARES, LABELS, scale=MeasureScale(0, 1), label_scale=MeasureScale(1, 4))
    assert turned.spearman.value == pytest.approx(plain.spearman.value)
    assert turned.bias.value == pytest.approx(plain.bias.value)
    assert "turned round" in turned.mapped


def test_people_are_held_against_the_mean_of_the_others() -> None:
    found = people_agreement(LABELS)
    left_out = [
        (label, (sum(labels) - label) / 2) for labels in LABELS.values() for label in labels
    ]
    assert found.spearman.value == pytest.approx(scipy.stats.spearmanr(*np.transpose(left_out))[0])
    pairs = [pair for labels in LABELS.values() for pair in itertools.permutations(labels, 2)]
    equal = np.mean([one == two for one, two in pairs])
    shares = [np.mean([one == level for one, _ in pairs]) for level in (1, 2, 3, 4)]
    chance = np.sum(np.square(shares))
    assert found.kappa.value == pytest.approx((equal - chance) / (1 - chance))
    assert people_agreement({"a": 1.0, "b": (2.0,)}).n == 0


def test_the_ceiling_of_binary_labels_is_an_auc() -> None:
    labels = {"a": (1.0, 1.0), "b": (0.0, 0.0), "c": (1.0, 0.0), "d": (1.0, 1.0)}
    found = people_agreement(labels)
    # 5 labels of 1, of which 4 have a mean of 1 beside them; of 3 zeros 2 have 0, 1 has 1
    assert found.auc.value == pytest.approx((4 * (2 + 0.5) + 1 * (2 * 0.5)) / 15)


def test_the_difference_of_two_judges_is_paired() -> None:
    """Nearly equal judges differ little, although each figure alone is uncertain."""
    near = {key: share + 0.001 * (int(key) % 3) for key, share in SHARES.items()}
    found = judge_difference(near, SHARES, LABELS)
    alone = rank_agreement(SHARES, LABELS).spearman
    assert found.spearman.low is not None
    assert found.spearman.high is not None
    assert alone.low is not None
    assert alone.high is not None
    assert found.spearman.high - found.spearman.low < (alone.high - alone.low) / 4
    none = judge_difference(SHARES, SHARES, LABELS)
    assert none.spearman == none.kendall == Estimate(0.0, 0.0, 0.0)


def test_a_judge_that_guesses_is_told_from_one_that_does_not() -> None:
    guesses = dict(zip(LABELS, np.random.default_rng(9).uniform(0, 1, 40), strict=True))
    clusters = {key: int(key) // 2 for key in LABELS}
    found = judge_difference(SHARES, guesses, LABELS, clusters=clusters)
    assert found.clusters == 20
    for estimate in (found.spearman, found.kendall):
        assert estimate.low is not None
        assert estimate.low > 0


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(MeasureError, match="no labelled row"):
        rank_agreement({"other": 1.0}, LABELS)
    with pytest.raises(MeasureError, match="not a finite number"):
        rank_agreement({"0": float("nan")}, LABELS)
    with pytest.raises(MeasureError, match="has no cluster"):
        people_agreement(LABELS, clusters={"0": "a"})
