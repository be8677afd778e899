"""Comparison of personas and generators on one testset, as a stored, resumable run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ...core import ConfigError, TestsetError
from ...flow import Flow, Forecast, Job, RunSummary
from ...measure import Measure
from ...project import Project, refuse_forget
from ...testsets import Testset, questions_of
from ..evaluations import (
    Evaluating,
    RunOptions,
    answering_settings,
    judging,
    plan_evaluation,
    run_named,
)
from ._generators import (
    GridRow,
    PersonaModelGrid,
    grid_of,
    read_body,
    read_of,
    read_row,
    readings_of,
)


@dataclass(frozen=True, slots=True)
class GridOptions(RunOptions):
    """Options of the comparison.

    Attributes:
        personas: Personas for which every question is answered; if empty, those of the rows.
        generators: Chat models that answer; if empty, the configured one.
    """

    personas: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _GridWork:
    measures: Sequence[Measure]
    manifest: Mapping[str, Any]
    items: Sequence[tuple[str, Callable[[], Flow[GridRow]]]]
    notes: tuple[str, ...]


@refuse_forget("diagnose --readers")
def compare_generators(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
) -> tuple[PersonaModelGrid, RunSummary]:
    """Answer every question for every persona by every generator, and compare them in pairs.

    Raises:
        ConfigError: There is nothing to compare, or a model cannot be used.
        PromptError: There is no such persona.
        TestsetError: The testset cannot be measured.
    """
    work = _grid_work(project, testset, measures, options)
    job = Job(
        kind="readers",
        manifest=work.manifest,
        items=work.items,
        encode=read_body,
        sources=lambda row: list(dict.fromkeys(row.result.ranking)),
    )
    summary = run_named(project.runner, project.runs, job, options)
    stored = list(project.runs.rows(summary.run))
    rows = [read_of(row.body) for row in stored if row.state == "done"]
    if not rows:
        reason = next((str(row.body.get("what", row.state)) for row in stored), "no rows")
        raise TestsetError(
            "no question was answered", where=testset.name, hint=f"the first one: {reason}"
        )
    grid = grid_of(rows, work.measures, seed=options.seed)
    failed = len(stored) - len(rows)
    notes = (f"{failed} of {len(stored)} answers failed and are left out",) if failed else ()
    silent = tuple(name for name in options.generators if name not in grid.generators)
    best = {} if silent else grid.best
    notes = (*work.notes, *grid.notes, *notes)
    return replace(grid, best=best, notes=notes, silent=silent), summary


def forecast_generators(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
) -> Forecast:
    """Calls and cost of the comparison."""
    return project.runner.forecast(
        make for _, make in _grid_work(project, testset, measures, options).items
    )


def _grid_work(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
) -> _GridWork:
    rows, wanted_measures, base = plan_evaluation(project, testset, measures, Evaluating())
    readings = readings_of(rows.rows, options.personas, options.generators)
    personas = list(dict.fromkeys(reading.row.persona_name for reading in readings))
    if len(personas) < 2 and len(options.generators) < 2:
        raise ConfigError(
            "one persona and one generator: there is nothing to compare",
            where="--personas, --compare-models",
            hint="give two or more personas or generators",
        )
    persona_by_name = {name: project.persona(name) for name in personas}
    plan = project.plan(stream=False)
    pipeline, setup = (project.target(), plan), judging(project)
    manifest = {
        **base.manifest,
        **answering_settings(project, personas, plan),
        "readers": [asdict(persona_by_name[name]) for name in personas],
        "generators": list(options.generators),
    }
    items = [
        (
            reading.key,
            partial(
                read_row,
                reading,
                persona_by_name[reading.row.persona_name],
                pipeline,
                wanted_measures,
                setup,
            ),
        )
        for reading in readings
    ]
    return _GridWork(wanted_measures, manifest, items, (*rows.notes, *questions_of(rows.rows)[1]))
