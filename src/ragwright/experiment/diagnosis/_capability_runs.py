"""Capability suites of a project: made from its corpus, run through its generator."""

from __future__ import annotations

from collections import Counter
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
    SuiteOptions,
    Testset,
    all_given,
    corpus_evidence,
    given_answer,
    open_corpus,
    project_testset,
    rgb_rows,
    suite_rows,
)
from ..evaluations import (
    Evaluating,
    Evaluation,
    RowResult,
    Work,
    answering_settings,
    asked_row,
    evaluate_project,
    forecast_project,
    judging,
    run_work,
    scoring_work,
    with_notes,
)

_TESTED = {
    "noise": ("Contains", "FalseRejectionRate"),
    "rejection": ("RejectionRate", "Contains"),
    "integration": ("Contains",),
    "counterfactual": ("ErrorDetection", "ErrorCorrection", "Contains"),
    "sources": ("Contains",),
}
"""What is measured of the rows of each suite; its curves rest on these."""

SHOWN = (
    "rows of capability suites: means over all doses say little, `ragwright suite curves` shows "
    "them dose by dose"
)


@at_work("suite")
def make_suite(
    project: Project, testset: str | Testset, options: SuiteOptions | None = None
) -> Testset:
    """Capability suites from a project's own corpus, or from a file of RGB.

    Every question needs a reference answer and gold: spans, or documents that hold the answer.
    What had to be left out, and why, is in the notes.

    Args:
        project: The project, its documents ingested; for ``rgb:FILE/SUITE`` they are not needed.
        testset: Its address, or its rows; of rows that name splits the tune split.
        options: Which suites, which doses, which distractors.

    Raises:
        TestsetError: The testset is wrong, or no row can be made of it.
        RetrieveError: Nothing is ingested.
    """
    chosen = options or SuiteOptions()
    if isinstance(testset, str) and testset.startswith("rgb:"):
        made = rgb_rows(testset, chosen)
        return Testset(testset, made.rows, made.notes)
    given = project_testset(project.folder, testset) if isinstance(testset, str) else testset
    target = project.target()
    corpus = project.runner.run(open_corpus(target, project.settings.retrieve, chosen))
    gathered = list(project.runner.map(corpus_evidence(row, corpus) for row in given.rows))
    reasons = Counter(one.reason for one in gathered if one.evidence is None)
    dropped: Counter[str] = Counter()
    for one in gathered:
        dropped.update(one.dropped)
    notes = [
        f"{count} of {len(given.rows)} questions are left out: {reason}"
        for reason, count in sorted(reasons.items())
    ]
    notes += [f"{count} {what} are left out" for what, count in sorted(dropped.items())]
    evidence = [one.evidence for one in gathered if one.evidence is not None]
    if not evidence:
        raise TestsetError(
            "no question of the testset can be part of a suite",
            where=given.name,
            hint="; ".join(notes) or "the testset is empty",
        )
    made = suite_rows(evidence, chosen, where=given.name)
    return Testset(f"suites of {given.name}", made.rows, (*given.notes, *notes, *made.notes))


@at_work("eval")
def evaluate_testset(
    project: Project,
    testset: str | Testset,
    measures: str | Sequence[Measure],
    how: Evaluating,
) -> tuple[Evaluation, RunSummary]:
    """Run a testset through a project: a suite's rows from their passages, others by searching."""
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
    """What :func:`evaluate_testset` would call and cost."""
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
    """The work of a suite: no index is opened, for nothing is searched."""
    if not how.answers:
        raise TestsetError(
            "the rows of a capability suite carry their passages: nothing is searched",
            where=rows.name,
            hint="leave --retrieval-only out",
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
    """The measures that are named, and those that the curves of the suites rest on."""
    wanted = list(parse_measures(named)) if named else []
    suites = {str(row.metadata["suite"]) for row in rows}
    tested = (name for suite, names in _TESTED.items() if suite in suites for name in names)
    for name in (*tested, "Contains"):
        measure = parse_measure(name)
        if measure not in wanted:
            wanted.append(measure)
    return tuple(wanted)
