"""Trials suggested by earlier results, by Optuna's tree-structured Parzen estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core import canonical_json
from ._leaderboard import Objective
from ._sampling import ListSampler, Sampler, Trial, grid_points, random_points
from ._study import Axis, Study

_TRIES = 20
"""Number of repeated points in a row after which a search ends."""


class TpeSampler(Sampler):
    """Gets trials from Optuna in batches of ``study.batch``, and reports their results.

    With several objectives it searches for the Pareto front. A repeated point is reported again,
    not run again.
    """

    def __init__(self, study: Study, objectives: Sequence[Objective]) -> None:
        import optuna

        self._optuna = optuna
        self._options = study.options
        self._axes = study.axes
        self._size = study.size
        self._space = {axis.key: _distribution(optuna, axis) for axis in study.axes}
        with _quiet(optuna):
            self._search = optuna.create_study(
                sampler=optuna.samplers.TPESampler(seed=study.options.seed, constant_liar=True),
                directions=["maximize" if o.higher_is_better else "minimize" for o in objectives],
            )
        self._asked: dict[int, Any] = {}
        self._points: dict[str, int] = {}
        self._told: dict[int, Sequence[float] | None] = {}

    def ask(self) -> Sequence[Trial]:
        """Up to ``batch`` new points; fewer if nearby points were all run before."""
        batch: list[Trial] = []
        left = self._options.trials - len(self._asked)
        for _ in range(min(self._options.batch, left)):
            trial = self._new()
            if trial is None:
                break
            batch.append(trial)
        return batch

    def tell(self, trial: Trial, values: Sequence[float] | None) -> None:
        """Reported in the order of the trials, not in the order in which they ended."""
        self._told[trial.number] = values
        self._tell(self._asked[trial.number], values)

    def _tell(self, asked: Any, values: Sequence[float] | None) -> None:
        if values is None:
            self._search.tell(asked, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._search.tell(asked, list(values))

    def _new(self) -> Trial | None:
        for _ in range(_TRIES):
            if self._size is not None and len(self._points) >= self._size:
                return None
            asked = self._search.ask(self._space)
            point = {axis.key: _value(axis, asked.params[axis.key]) for axis in self._axes}
            key = canonical_json(point)
            known = self._points.get(key)
            if known is None:
                number = self._points[key] = len(self._points) + 1
                self._asked[number] = asked
                return Trial(number, point)
            self._tell(asked, self._told.get(known))
        return None


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Optuna without its log lines; its log level is restored afterwards."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _distribution(optuna: Any, axis: Axis) -> Any:
    among = axis.range
    if among is None:
        return optuna.distributions.CategoricalDistribution(list(range(len(axis.values))))
    if among.whole:
        step = 1 if among.step is None else int(among.step)
        return optuna.distributions.IntDistribution(
            int(among.low), int(among.high), log=among.log, step=step
        )
    return optuna.distributions.FloatDistribution(
        among.low, among.high, log=among.log, step=among.step
    )


def _value(axis: Axis, drawn: Any) -> Any:
    if axis.range is None:
        return axis.values[drawn]
    return drawn if axis.range.whole else round(drawn, 6)


def sampler_of(study: Study, objectives: Sequence[Objective]) -> Sampler:
    """The search of a study."""
    if study.options.search == "tpe":
        return TpeSampler(study, objectives)
    if study.options.search == "random":
        return ListSampler(random_points(study))
    return ListSampler(grid_points(study))
