"""Evaluations of a testset; rows of capability suites are answered from their own passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...answer import AskPlan
from ...core import Answer, Persona, Row, TestsetError
from ...flow import Flow, Forecast, RunSummary
from ...measure import Measure, MeasureSetup, check_setup, parse_measure, parse_measures
from ...project import Project, at_work
from ...testsets import (
    Testset,
    all_given,
    given_answer,
    project_testset,
)
from ._asked import asked_row
from ._evaluating import Work, run_work, scoring_work
from ._measuring import answering_settings, evaluate_project, forecast_project, judging
from ._notes import with_notes
from ._options import Evaluating
from ._results import Evaluation, RowResult

_TESTED = {
    "noise": ("Contains", "FalseRejectionRate"),
    "rejection": ("RejectionRate", "Contains"),
    "integration": ("Contains",),
    "counterfactual": ("ErrorDetection", "ErrorCorrection", "Contains"),
    "sources": ("Contains",),
}
"""Measures of the rows of each suite, needed for its curves."""

SHOWN = (
    "rows of capability suites: means over all doses are not informative; "
    "`ragwright suite curves` shows each dose"
)


@at_work("eval")
def evaluate_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    how: Evaluating,
) -> tuple[Evaluation, RunSummary]:
    """Run a testset through a project: rows of suites with their passages, others by retrieval."""
    if measures:
        measures = parse_measures(measures)  # a slip in a name is told before any file is read
    rows = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    if not all_given(rows.rows, rows.name):
        return evaluate_project(project, rows, measures, how)
    rows, wanted, work = _planned(project, rows, measures, how)
    evaluation, summary = run_work(project.runner, project.runs, work, rows, wanted, how)
    return with_notes(evaluation), summary


def forecast_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    how: Evaluating,
) -> Forecast:
    """Calls and cost of :func:`evaluate_testset`."""
    if measures:
        measures = parse_measures(measures)  # a slip in a name is told before any file is read
    rows = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    if not all_given(rows.rows, rows.name):
        return forecast_project(project, rows, measures, how)
    _, _, work = _planned(project, rows, measures, how)
    return project.runner.forecast(make for _, make in work.items)


def _planned(
    project: Project, rows: Testset, measures: str | Sequence[Measure], how: Evaluating
) -> tuple[Testset, Sequence[Measure], Work]:
    """The work of a suite, without an index."""
    if not how.answers:
        raise TestsetError(
            "rows of a capability suite have their own passages: retrieval is not run for it",
            where=rows.name,
            hint="leave out --retrieval-only",
        )
    setup = judging(project)
    wanted = _measures(rows.rows, measures)
    check_setup(wanted, setup)
    plan = project.plan()
    personas = {name: project.persona(name) for name in {row.persona_name for row in rows.rows}}
    items = [
        (row.id, partial(_given_row, row, personas[row.persona_name], plan, wanted, setup))
        for row in rows.rows
    ]
    work = scoring_work(rows, wanted, setup)
    manifest: Mapping[str, Any] = {
        **work.manifest,
        **answering_settings(project, personas, plan),
        "given": True,
    }
    work = replace(work, kind="eval", manifest=manifest, items=items, count=project.count)
    return replace(rows, notes=(*rows.notes, SHOWN)), wanted, work


def _given_row(
    row: Row, persona: Persona, plan: AskPlan, measures: Sequence[Measure], setup: MeasureSetup
) -> Flow[RowResult]:
    def asking(question: str, name: str) -> Flow[Answer]:
        return given_answer(row, persona, plan.setup)

    return (yield from asked_row(row, asking, measures, setup))


def _measures(rows: Sequence[Row], named: str | Sequence[Measure]) -> tuple[Measure, ...]:
    """The named measures, and those needed for the curves of the suites."""
    wanted = list(parse_measures(named)) if named else []
    suites = {str(row.metadata["suite"]) for row in rows}
    tested = (name for suite, names in _TESTED.items() if suite in suites for name in names)
    for name in (*tested, "Contains"):
        measure = parse_measure(name)
        if measure not in wanted:
            wanted.append(measure)
    return tuple(wanted)
