"""Sampling of trials: every point of a grid, or random points."""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core import canonical_json
from ._study import Axis, Study, SweptRange

_DRAWS = 1000
"""Draws without a new point after which a random search ends."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One choice of values for the swept keys of a study; number 0 is the project with its current
    settings.
    """

    number: int
    values: Mapping[str, Any]

    @property
    def id(self) -> str:
        """``T007``: sorts by number up to a thousand trials, and is a row's name in the run."""
        return f"T{self.number:03d}"


class Sampler(ABC):
    """Chooses trials in fixed batches; equal results give equal suggestions.

    An interrupted study is resumed by replaying it from the start with stored results, so the state
    of a search is never saved.
    """

    @abstractmethod
    def ask(self) -> Sequence[Trial]:
        """The next batch, empty once the search is over."""

    def tell(self, trial: Trial, values: Sequence[float] | None) -> None:
        """Report a trial's values, in objective order; None if it has none."""


class ListSampler(Sampler):
    """A fixed list of trials."""

    def __init__(self, points: Iterator[Mapping[str, Any]]) -> None:
        self._trials: Sequence[Trial] | None = [
            Trial(number, point) for number, point in enumerate(points, 1)
        ]

    def ask(self) -> Sequence[Trial]:
        """All of them, once."""
        trials, self._trials = self._trials, None
        return trials or ()


def grid_points(study: Study) -> Iterator[Mapping[str, Any]]:
    """Every combination of values, the last key changing first; or the listed points."""
    if study.points:
        yield from study.points
        return
    for values in itertools.product(*(axis.values for axis in study.axes)):
        yield {axis.key: value for axis, value in zip(study.axes, values, strict=True)}


def random_points(study: Study) -> Iterator[Mapping[str, Any]]:
    """Draw ``study.trials`` different points with the study's seed; fewer if there are fewer.

    Values of a list are drawn uniformly, those of a range uniformly or by their logarithm.
    """
    draw = random.Random(study.options.seed)  # noqa: S311 - a search, no secret
    seen: set[str] = set()
    missed = 0
    while len(seen) < study.options.trials and missed < _DRAWS:
        point = {axis.key: _drawn_value(axis, draw) for axis in study.axes}
        key = canonical_json(point)
        if key in seen:
            missed += 1
            continue
        missed = 0
        seen.add(key)
        yield point


def _drawn_value(axis: Axis, draw: random.Random) -> Any:
    if axis.range is None:
        return axis.values[draw.randrange(len(axis.values))]
    return place_in_range(axis.range, draw.random())


def place_in_range(among: SweptRange, share: float) -> float | int:
    """Return the value at a share (0 to 1) of a range; each of its steps has an equal share.

    On a logarithmic scale, a whole number's share is that of the values that round to it.
    """
    if among.steps is not None:
        value = among.low + min(int(share * among.steps), among.steps - 1) * (among.step or 1)
    elif among.log:
        margin = 0.5 if among.whole else 0.0
        low, high = math.log(among.low - margin), math.log(among.high + margin)
        value = math.exp(low + share * (high - low))
    else:
        value = among.low + share * (among.high - among.low)
    value = round(value) if among.whole else round(value, 6)
    return min(max(value, among.low), among.high)
