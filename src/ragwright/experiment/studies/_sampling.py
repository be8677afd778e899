"""Settings of trials: a grid, random points, or suggestions by earlier results."""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...answer import prompt_parts
from ...core import ConfigError, PromptError, StudyError, canonical_json
from ...project import Overrides, Project, Settings, load_settings, project_sections
from ._leaderboard import Objective
from ._study import Axis, Study, SweptRange, load_study

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
        point = {
            axis.key: axis.values[draw.randrange(len(axis.values))]
            if axis.range is None
            else place_in_range(axis.range, draw.random())
            for axis in study.axes
        }
        key = canonical_json(point)
        if key in seen:
            missed += 1
            continue
        missed = 0
        seen.add(key)
        yield point


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


_TRIED = 200
"""Most combinations tried for a value that is invalid with the current settings."""


def read_study(project: Project, file: Path) -> Study:
    """The study in a file, with every value checked against the project file.

    Raises:
        ConfigError: With the file and line of the key or value that is wrong.
        StudyError: Nothing is swept, the grid is too large, or there is no testset.
    """
    study = load_study(file, project_sections(project.settings))
    if not study.options.testset:
        raise StudyError(
            "the study has no testset",
            where=str(file),
            hint="write  study: {testset: testsets/mine.jsonl}",
        )
    for axis in study.axes:
        for value in axis.values:
            _check_value(project, study, axis, value)
    _check_personas(project, study)
    return study


def _check_personas(project: Project, study: Study) -> None:
    names = [(name, "study.personas") for name in study.options.personas]
    for axis in study.axes:
        if axis.path == ("answer", "persona"):
            names += [(str(value), axis.where) for value in axis.values if value]
    for name, where in names:
        if name not in project.personas:
            raise StudyError(
                f"unknown persona {name!r}",
                where=where,
                hint=f"known: {', '.join(sorted(project.personas))}",
            )


def _check_value(project: Project, study: Study, axis: Axis, value: Any) -> None:
    """Build settings with a value; a value that is invalid alone may be valid with others."""
    try:
        settings = _trial_settings(project, study, {**study.fixed, axis.path: value})
    except ConfigError as error:
        among = replace(study, axes=tuple(a for a in study.axes if a != axis and a.values))
        for point in islice(grid_points(among), _TRIED):
            with suppress(ConfigError):
                _trial_settings(project, study, {**among.settings_of(point), axis.path: value})
                return
        raise ConfigError(error.what, where=axis.where, hint=error.hint) from error
    if axis.path[0] == "prompt":
        try:
            prompt_parts(settings.prompt)
        except PromptError as error:
            raise ConfigError(error.what, where=axis.where, hint=error.hint) from error


def variant_of(project: Project, study: Study, trial: Trial) -> Project:
    """The project under a trial's settings; trial 0 is the project with its current settings.

    It is judged like the trials: with the study's judge settings, and by the first of several
    judges. Ranked trials have one judge.

    Raises:
        ConfigError: The values are incompatible.
    """
    judge = {path: value for path, value in study.fixed.items() if path[0] == "judge"}
    judge |= {axis.path: axis.values[0] for axis in study.judging if axis.values}
    values = study.settings_of(trial.values) if trial.number else judge
    return project.variant(_trial_settings(project, study, values))


def _trial_settings(
    project: Project, study: Study, values: Mapping[tuple[str, ...], Any]
) -> Settings:
    return load_settings(
        project.folder.file, project.session.overrides, Overrides({**values}, study.places)
    )
