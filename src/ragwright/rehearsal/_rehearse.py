"""The driver of a rehearsal: both sides are asked, compared, and grouped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core import EVERYONE, counted
from ..flow import Forecast, run_job
from ..project import (
    IngestForecast,
    TrialSources,
    at_work,
    forecast_beside,
    forecast_like,
)
from ._asking import Rows, has_gold, rehearsal_rows, side_answers, side_job
from ._comparing import compared_answers, grouped_changes
from ._drafts import stale_drafts
from ._options import Rehearsing
from ._questions import rehearsed_questions
from ._readers import group_views, seen_documents
from ._reasons import Reasons
from ._records import AnswerChange, Rehearsal
from ._sides import Sides, opened_sides, plain_sides, require_change

if TYPE_CHECKING:
    from ..project import Project


@dataclass(frozen=True, slots=True)
class RehearsalForecast:
    """The forecast of a rehearsal.

    Attributes:
        questions: Number of questions.
        answers: Calls and cost of asking both sides; known replies cost nothing.
        index: What an index for the second side would embed; None if it needs none.
        notes: What the forecast leaves out.
    """

    questions: int
    answers: Forecast
    index: IngestForecast | None = None
    notes: tuple[str, ...] = ()


@at_work("rehearse")
def rehearse(project: Project, options: Rehearsing) -> Rehearsal:
    """Ask the present project and the changed one the same questions, and compare the answers.

    Both sides are asked now, by the same runner; what they asked before is known and costs
    nothing. Finished answers are stored: the same call goes on where an earlier one was stopped.
    The store's present index is not changed: changed settings get an index of their own beside
    it, changed sources a copy in the cache.

    Raises:
        ConfigError: Nothing would change, there is no question, or a configuration is unknown.
        StoppedError: The budget or a key stopped it; finished answers are stored.
        TestsetError: The test set cannot be read.
    """
    require_change(options)
    questions, notes = rehearsed_questions(project, options)
    rows = rehearsal_rows(project, questions, options)
    with opened_sides(project, options) as sides:
        answers, runs = [], []
        for side in (sides.before, sides.after):
            side.project.share_budget()
            job = side_job(side.project, rows, options)
            summary = run_job(side.project.runner, side.project.runs, job)
            if summary.reason is not None:
                raise summary.reason
            runs.append(summary.run)
            answers.append(dict(side_answers(side.project, summary.run)))
        reasons = Reasons(sides, options.groups)
        documents = seen_documents(sides, options)
        changes = tuple(
            compared_answers(
                question,
                (answers[0][question.row.id], answers[1][question.row.id]),
                rows.measures,
                reasons,
            )
            for question in questions
        )
        return Rehearsal(
            name=_name(options),
            settings=sides.settings,
            documents=documents,
            changes=changes,
            groups=grouped_changes(changes),
            readers=group_views(sides, rows, options),
            drafts=stale_drafts(project, documents, options.scope),
            measures=tuple(map(str, rows.measures)),
            searched_only=options.search_only,
            notes=(*notes, *_notes(sides, rows, options, changes)),
            runs=tuple(runs),
            as_groups=options.groups,
        )


def forecast_rehearsal(project: Project, options: Rehearsing) -> RehearsalForecast:
    """Forecast the calls and cost of a rehearsal; no model is called and no index is built."""
    require_change(options)
    questions, notes = rehearsed_questions(project, options)
    rows = rehearsal_rows(project, questions, options)
    remarks = list(notes)
    with ExitStack() as stack:
        sides = plain_sides(project, options, stack)
        after = sides.after.project
        index: IngestForecast | None
        if options.sources:
            index = forecast_beside(project, TrialSources(options.sources, options.prune))
        else:
            index = forecast_like(after, project)
        standing_in = after
        if not after.store.holds(after.pair):
            standing_in = _on_present_index(after, project)
            remarks.append(
                "the index of the change is not built: its answers are forecast with the model, "
                "prompt and settings of the change, the passages of the present index, and no "
                "known replies"
            )
        elif options.sources:
            remarks.append("answers after the change are forecast with the present documents")
        total = project.runner.forecast(make for _, make in side_job(project, rows, options).items)
        changed = side_job(standing_in, rows, options)
        total = total + standing_in.runner.forecast(make for _, make in changed.items)
        return RehearsalForecast(len(questions), total, index, tuple(remarks))


def _on_present_index(after: Project, project: Project) -> Project:
    """The changed project, searching the present index; replies that are known do not count.

    Its passages will be others than those of known replies, so that the answers must be paid.
    """
    present, session = project.settings, replace(project.session, reuse=False)
    settings = replace(
        after.settings,
        chunk=present.chunk,
        keyword=present.keyword,
        embed=present.embed,
        store=present.store,
    )
    return project.variant(settings, session)


def _name(options: Rehearsing) -> str:
    parts = [*options.settings]
    if options.config:
        parts.append(f"configuration {options.config}")
    if options.sources:
        parts.append(f"sources {', '.join(options.sources)}")
    if options.groups is not None:
        parts.append(f"asked as readers of {', '.join(options.groups or (EVERYONE,))}")
    return "; ".join(parts)


def _notes(
    sides: Sides, rows: Rows, options: Rehearsing, changes: Sequence[AnswerChange]
) -> list[str]:
    """What the reader must know about the numbers."""
    notes = []
    golden = sum(has_gold(question.row) for question in rows.questions)
    if golden < len(rows.questions):
        without = counted(len(rows.questions) - golden, "question has", "questions have")
        notes.append(f"{without} no gold: better or worse is unknown for them")
    if not options.readers and not options.search_only:
        notes.append("no keys with filters or groups: every reader sees the same documents")
    if sides.report is not None and sides.report.failures:
        unread = sides.report.failures
        names = ", ".join(failure.source for failure in unread[:3])
        notes.append(f"{counted(len(unread), 'source', 'sources')} could not be read: {names}")
    failed = sum(bool(change.before.error) and bool(change.after.error) for change in changes)
    if failed:
        notes.append(
            f"{counted(failed, 'question', 'questions')} failed on both sides and "
            "cannot be compared; --retry-errors asks again"
        )
    unexplained = sum(
        reason.kind == "unexplained" for change in changes for reason in change.reasons
    )
    if unexplained:
        notes.append(
            f"{unexplained} changed without a cause: the model does not repeat its answers; "
            "without --no-cache known replies are compared"
        )
    return notes
