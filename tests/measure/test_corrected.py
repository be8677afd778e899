"""How many labels of people it takes to know their mean, with a judge and without."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from ragwright.core import MeasureError
from ragwright.measure import labels_needed

Values = NDArray[np.float64]


def topics(
    generator: np.random.Generator, count: int, lean: float = 0.2
) -> tuple[Values, Values, NDArray[np.int64]]:
    """Judge, people and topic: 5 to 25 rows each; people around 3, the judge off by topic."""
    sizes = generator.integers(5, 26, count)
    groups = np.repeat(np.arange(count), sizes)
    human = np.repeat(generator.normal(3, 0.5, count), sizes) + generator.normal(
        0, 0.5, groups.size
    )
    judge = human + np.repeat(generator.normal(0.3, lean, count), sizes)
    return judge + generator.normal(0, 0.5, groups.size), human, groups


def half_width(labelled: int, generator: np.random.Generator) -> float:
    """Half of the 95 % interval of people's mean, by its definition over whole clusters (CR3)."""
    every, human, groups = topics(generator, 600)
    n = int((groups < labelled).sum())
    off = (human - every)[:n]
    judge = np.bincount(groups, every - every.mean()) / len(every)
    people = np.bincount(groups[:n], off - off.mean(), len(judge)) / n
    first, rest = people[:labelled] + judge[:labelled], judge[labelled:]
    spread = float(((first - first.mean()) ** 2).sum()) + float(rest.var(ddof=1)) * len(rest)
    quantile = scipy.stats.t.ppf(0.975, labelled - 1) * labelled / (labelled - 1)
    return float(quantile * np.sqrt(spread))


def test_the_labels_that_are_needed_give_the_margin() -> None:
    generator = np.random.default_rng(8)
    need = labels_needed(*topics(generator, 200), 0.15, unit="topic")
    reached = np.mean([half_width(need.clusters, generator) for _ in range(30)])
    assert reached == pytest.approx(0.15, rel=0.15)
    assert need.saving > 0.4
    assert f"({need.clusters} topics)" in need.text
    assert "the judge saves" in need.text


def test_the_sentence_admits_where_a_judge_does_not_help() -> None:
    generator = np.random.default_rng(9)
    human, rows = generator.normal(3, 1, 200), np.arange(200)
    noise = labels_needed(generator.normal(3, 2, 200), human, rows, 0.1)
    assert noise.labels == noise.clusters
    assert noise.saving < 0
    assert "saves none" in noise.text
    near = labels_needed(human + 0.1 * generator.normal(0, 1, 200), human, rows, 0.1)
    assert near.labels_alone == pytest.approx(390, rel=0.2)


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan")])
def test_a_margin_must_be_positive(margin: float) -> None:
    with pytest.raises(MeasureError, match="margin above 0"):
        labels_needed(np.ones(3), np.ones(3), np.arange(3), margin)
