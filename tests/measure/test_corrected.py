"""The mean of people's labels from a few labelled clusters, and how many labels it takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from ragwright.core import MeasureError
from ragwright.measure import (
    Estimate,
    Labelled,
    MeasureScale,
    corrected_mean,
    labels_needed,
)


def topics(
    generator: np.random.Generator, labelled: int, count: int, lean: float = 0.2
) -> Labelled:
    """Topics of 5 to 25 rows; people around 3, the judge off by topic; the first are labelled."""
    sizes = generator.integers(5, 26, count)
    groups = np.repeat(np.arange(count), sizes)
    human = np.repeat(generator.normal(3, 0.5, count), sizes) + generator.normal(
        0, 0.5, groups.size
    )
    judge = human + np.repeat(generator.normal(0.3, lean, count), sizes)
    judge = judge + generator.normal(0, 0.5, groups.size)
    n = int(sizes[:labelled].sum())
    return Labelled(judge[:n], human[:n], judge[n:], groups)


def covers(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


@pytest.mark.parametrize(("labelled", "count"), [(8, 30), (11, 22), (20, 20)])
def test_the_corrected_mean_covers_where_topics_are_sampled(labelled: int, count: int) -> None:
    generator = np.random.default_rng(1)
    found = [corrected_mean(topics(generator, labelled, count)) for _ in range(400)]
    share = np.mean([covers(estimate, 3) for estimate in found])
    assert 0.925 <= share <= 0.985


def test_rows_taken_as_independent_do_not_cover() -> None:
    generator = np.random.default_rng(1)
    samples = [topics(generator, 11, 22) for _ in range(100)]
    blind = [corrected_mean(replace(sample, groups=None)) for sample in samples]
    assert np.mean([covers(estimate, 3) for estimate in blind]) < 0.7


def test_a_judge_narrows_the_interval_of_the_labels() -> None:
    generator = np.random.default_rng(4)
    sample = topics(generator, 10, 60)
    nothing = replace(sample, judge=np.zeros_like(sample.judge), rest=np.zeros_like(sample.rest))
    assert width(corrected_mean(sample)) < 0.8 * width(corrected_mean(nothing))
    assert corrected_mean(nothing).value == pytest.approx(sample.human.mean())


def test_over_clusters_of_one_row_it_is_students_interval_of_labels() -> None:
    """All rows labelled: the mean of labels; CR3 widens Student's by the root of n / (n - 1)."""
    human = np.array([1.0, 2.0, 4.0, 3.0, 5.0])
    found = corrected_mean(Labelled(np.full(5, 3.0), human, np.empty(0), np.arange(5)))
    half = scipy.stats.t.ppf(0.975, 4) * scipy.stats.sem(human) * np.sqrt(5 / 4)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3 - half, 3 + half))


def test_the_mean_of_exactly_these_topics_is_known_once_all_are_labelled() -> None:
    generator = np.random.default_rng(5)
    some, every = topics(generator, 10, 20), topics(generator, 20, 20)
    assert width(corrected_mean(some, finite=True)) < width(corrected_mean(some))
    assert width(corrected_mean(every, finite=True)) == 0
    assert corrected_mean(every, finite=True).value == pytest.approx(every.human.mean())


def test_a_half_labelled_topic_counts_with_all_its_scores() -> None:
    judge, human = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 3.0])
    sample = Labelled(judge, human, np.array([5.0]), np.array([0, 0, 1, 1]))
    found = corrected_mean(sample, finite=True)
    assert found.value == pytest.approx(11 / 4 + 1 / 3)
    assert found == corrected_mean(sample)  # not whole: no finite correction


def test_equal_differences_do_not_promise_an_exact_mean() -> None:
    scale = MeasureScale(1, 5)
    groups = np.repeat(np.arange(10), 4)
    steady = Labelled(np.full(20, 4.0), np.full(20, 4.0), np.full(20, 4.0), groups)
    found = corrected_mean(steady, scale)
    assert found.value == 4
    assert width(found) > 1
    assert found.high is not None
    assert found.high <= 5


def test_one_labelled_cluster_has_no_interval() -> None:
    sample = Labelled(np.ones(2), np.array([1.0, 2.0]), np.ones(3), np.array([0, 0, 1, 1, 2]))
    assert corrected_mean(sample) == Estimate(1.5)


def reached(count: int, generator: np.random.Generator) -> float:
    """Mean half width of the intervals of that many labelled topics out of very many."""
    widths = [width(corrected_mean(topics(generator, count, 600))) / 2 for _ in range(30)]
    return float(np.mean(widths))


def test_the_labels_that_are_needed_give_the_margin() -> None:
    generator = np.random.default_rng(8)
    need = labels_needed(topics(generator, 200, 200), 0.15, unit="topic")
    assert need.clusters is not None
    assert need.clusters_alone is not None
    assert reached(need.clusters, generator) == pytest.approx(0.15, rel=0.15)
    assert need.saving is not None
    assert need.saving > 0.4
    assert f"({need.clusters} topics)" in need.text
    assert "the judge saves" in need.text


def test_the_sentence_admits_where_a_judge_does_not_help() -> None:
    generator = np.random.default_rng(9)
    human: NDArray[np.float64] = generator.normal(3, 1, 200)
    noise = labels_needed(Labelled(generator.normal(3, 2, 200), human, np.empty(0)), 0.1)
    assert noise.clusters is None
    assert noise.saving is not None
    assert noise.saving < 0
    assert "saves none" in noise.text
    near = Labelled(human + 0.1 * generator.normal(0, 1, 200), human, np.empty(0))
    few = labels_needed(near, 0.1, scored=50)
    assert few.labels is None
    assert "too few rows are scored" in few.text
    assert labels_needed(near, 0.1).labels_alone == pytest.approx(390, rel=0.2)


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan")])
def test_a_margin_must_be_positive(margin: float) -> None:
    with pytest.raises(MeasureError, match="margin above 0"):
        labels_needed(Labelled(np.ones(3), np.ones(3), np.empty(0)), margin)
