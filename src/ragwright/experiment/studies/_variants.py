"""Studies checked against a project, and the project under the settings of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...answer import prompt_parts
from ...core import ConfigError, PromptError, StudyError
from ...project import Overrides, Project, Settings, load_settings, project_sections
from ._sampling import Trial, grid_points
from ._study import Axis, Study, load_study

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
    overrides = Overrides({**values}, study.places)
    return load_settings(project.folder.file, project.session.overrides, overrides)
