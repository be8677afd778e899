"""Evaluations of a testset; rows of capability suites are answered from their own passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...core import Row, TestsetError
from ...flow import Forecast, RunSummary
from ...measure import Measure, check_setup, parse_measure, parse_measures
from ...project import Project, refuse_forget
from ...testsets import (
    Testset,
    all_given,
    answer_from_given,
    project_testset,
)
from ._asked import answer_and_score_row
from ._evaluating import RunWork, run_work, scoring_work
from ._measuring import answering_settings, evaluate_project, forecast_project, judging
from ._notes import add_notes
from ._results import Evaluating, Evaluation

_TESTED: Mapping[str, tuple[str, ...]] = {
    "noise": ("Contains", "FalseRejectionRate"),
    "rejection": ("RejectionRate", "Contains"),
    "integration": ("Contains",),
    "counterfactual": ("ErrorDetection", "ErrorCorrection", "ErrorCorrection(all)", "Contains"),
    "sources": ("Contains",),
}
"""Measures that the curves of each suite need."""

SHOWN = (
    "rows of capability suites: means over all doses are not informative; "
    "`ragwright suite curves` shows each dose"
)


@refuse_forget("eval")
def evaluate_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    options: Evaluating,
) -> tuple[Evaluation, RunSummary]:
    """Run a testset through a project: rows of suites with their passages, others by retrieval."""
    if measures:
        measures = parse_measures(measures)  # a misspelt name is reported before any file is read
    rows = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    if not all_given(rows.rows, rows.name):
        return evaluate_project(project, rows, measures, options)
    rows, wanted_measures, work = _suite_plan(project, rows, measures, options)
    evaluation, summary = run_work(
        project.runner, project.runs, work, rows, wanted_measures, options
    )
    return add_notes(evaluation), summary


def forecast_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    options: Evaluating,
) -> Forecast:
    """Forecast the calls and cost of :func:`evaluate_testset`."""
    if measures:
        measures = parse_measures(measures)  # a misspelt name is reported before any file is read
    rows = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    if not all_given(rows.rows, rows.name):
        return forecast_project(project, rows, measures, options)
    _, _, work = _suite_plan(project, rows, measures, options)
    return project.runner.forecast(make for _, make in work.items)


def _suite_plan(
    project: Project, rows: Testset, measures: str | Sequence[Measure], options: Evaluating
) -> tuple[Testset, Sequence[Measure], RunWork]:
    """Plan the work of a suite, without an index."""
    if not options.answers:
        raise TestsetError(
            "rows of a capability suite have their own passages: retrieval is not run for it",
            where=rows.name,
            hint="leave out --retrieval-only",
        )
    setup = judging(project)
    wanted_measures = _suite_measures(rows.rows, measures)
    check_setup(wanted_measures, setup)
    plan = project.plan()
    personas = {name: project.persona(name) for name in {row.persona_name for row in rows.rows}}
    items = [
        (
            row.id,
            partial(
                answer_and_score_row,
                row,
                partial(answer_from_given, persona=personas[row.persona_name], setup=plan.setup),
                wanted_measures,
                setup,
            ),
        )
        for row in rows.rows
    ]
    work = scoring_work(rows, wanted_measures, setup)
    manifest: Mapping[str, Any] = {
        **work.manifest,
        **answering_settings(project, personas, plan),
        "given": True,
    }
    work = replace(work, kind="eval", manifest=manifest, items=items, count=project.count)
    return replace(rows, notes=(*rows.notes, SHOWN)), wanted_measures, work


def _suite_measures(rows: Sequence[Row], measures: str | Sequence[Measure]) -> tuple[Measure, ...]:
    """Return the named measures, and those needed for the curves of the suites."""
    complete = list(parse_measures(measures)) if measures else []
    suites = {str(row.metadata["suite"]) for row in rows}
    tested = (name for suite, names in _TESTED.items() if suite in suites for name in names)
    for name in (*dict.fromkeys(tested), "Contains"):
        measure = parse_measure(name)
        if measure not in complete:
            complete.append(measure)
    return tuple(complete)
