"""How many labels of people it takes to know their mean, with a judge and without."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from ragwright.core import MeasureError
from ragwright.measure import (
    Labelled,
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


def half_width(sample: Labelled) -> float:
    """Half of the 95 % interval of people's mean, by its definition over whole clusters (CR3)."""
    groups, every = sample.groups, np.concatenate([sample.judge, sample.rest])
    assert groups is not None
    n, off = len(sample.human), sample.human - sample.judge
    judge = np.bincount(groups, every - every.mean()) / len(every)
    people = np.bincount(groups[:n], off - off.mean(), len(judge)) / n
    count = int(groups[:n].max()) + 1
    labelled, rest = people[:count] + judge[:count], judge[count:]
    spread = float(((labelled - labelled.mean()) ** 2).sum())
    spread += float(rest.var(ddof=1)) * len(rest)
    quantile = scipy.stats.t.ppf(0.975, count - 1) * count / (count - 1)
    return float(quantile * np.sqrt(spread))


def reached(count: int, generator: np.random.Generator) -> float:
    """Mean half width of the intervals of that many labelled topics out of very many."""
    widths = [half_width(topics(generator, count, 600)) for _ in range(30)]
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
