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
"""Consecutive repeated points after which a search ends."""


class TpeSampler(Sampler):
    """Gets trials from Optuna in batches of ``study.batch``, and reports their results.

    With several objectives it searches for the Pareto front. The stored result of a repeated point
    is reported again.
    """

    def __init__(self, study: Study, objectives: Sequence[Objective]) -> None:
        import optuna

        self._optuna = optuna
        self._options = study.options
        self._axes = study.axes
        self._size = study.size
        self._space = {axis.key: _axis_distribution(optuna, axis) for axis in study.axes}
        with _quiet_optuna(optuna):
            self._search = optuna.create_study(
                sampler=optuna.samplers.TPESampler(seed=study.options.seed, constant_liar=True),
                directions=["maximize" if o.higher_is_better else "minimize" for o in objectives],
            )
        self._suggestions: dict[int, Any] = {}
        self._points: dict[str, int] = {}
        self._results: dict[int, Sequence[float] | None] = {}

    def ask(self) -> Sequence[Trial]:
        """Up to ``batch`` new points; fewer if nearby points were all run before."""
        batch: list[Trial] = []
        remaining = self._options.trials - len(self._suggestions)
        for _ in range(min(self._options.batch, remaining)):
            trial = self._suggest()
            if trial is None:
                break
            batch.append(trial)
        return batch

    def tell(self, trial: Trial, values: Sequence[float] | None) -> None:
        """Report a result, in the order of the trials, not in the order in which they ended."""
        self._results[trial.number] = values
        self._report_to_optuna(self._suggestions[trial.number], values)

    def _report_to_optuna(self, suggestion: Any, values: Sequence[float] | None) -> None:
        if values is None:
            self._search.tell(suggestion, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._search.tell(suggestion, list(values))

    def _suggest(self) -> Trial | None:
        for _ in range(_TRIES):
            if self._size is not None and len(self._points) >= self._size:
                return None
            suggestion = self._search.ask(self._space)
            point = {
                axis.key: _axis_value(axis, suggestion.params[axis.key]) for axis in self._axes
            }
            key = canonical_json(point)
            known = self._points.get(key)
            if known is None:
                number = self._points[key] = len(self._points) + 1
                self._suggestions[number] = suggestion
                return Trial(number, point)
            self._report_to_optuna(suggestion, self._results.get(known))
        return None


@contextmanager
def _quiet_optuna(optuna: Any) -> Iterator[None]:
    """Silence Optuna's log; its level is restored afterwards."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _axis_distribution(optuna: Any, axis: Axis) -> Any:
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


def _axis_value(axis: Axis, drawn: Any) -> Any:
    if axis.range is None:
        return axis.values[drawn]
    return drawn if axis.range.whole else round(drawn, 6)


def sampler_of(study: Study, objectives: Sequence[Objective]) -> Sampler:
    """Return the sampler of a study's search."""
    if study.options.search == "tpe":
        return TpeSampler(study, objectives)
    if study.options.search == "random":
        return ListSampler(random_points(study))
    return ListSampler(grid_points(study))
