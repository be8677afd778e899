"""A system that already exists, under test: asked by the runner, scored, stored as a run.

The system needs no index: rows carry the gold, and what it answers is matched with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ...core import Row, Score, StoppedError, SystemCallError, value_hash
from ...flow import (
    Flow,
    Forecast,
    Message,
    Runner,
    RunSummary,
    SystemReply,
    ask_system,
    chat,
)
from ...ledger import Ledger
from ...measure import ChosenMeasures, Measure, MeasureSetup, check_setup, parse_measures
from ...models import UnderTest, open_system
from ...project import Project, at_work
from ...testsets import (
    Testset,
    declared_splits,
    load_testset,
    project_testset,
    rows_of,
    unread_columns,
    unread_note,
)
from ._asked import served_reply, unanswered
from ._baselines import with_baselines
from ._evaluate import answer_row
from ._evaluating import Work, run_work, scoring_work
from ._gold_notes import check_gold
from ._measuring import check_models, chosen_measures, judging
from ._notes import with_notes
from ._options import Evaluating
from ._results import Evaluation, Made, RowResult
from ._system_gold import meets_gold, with_reply

Questions: TypeAlias = str | Path | Testset | Iterable[Row | Mapping[str, Any]]
"""A test set, its address, or rows in memory: objects, a data frame, a data set."""

_TRIED = 3
"""Rows that are tried before the run; where each of them fails, the system is at fault."""

_LIKELY = SystemReply("an answer", ("a passage",), ("a document",))
"""Stands for the first reply where none was asked for: in a dry run."""


@at_work("eval")
def evaluate_system(
    project: Project,
    testset: Questions,
    measures: str | Sequence[Measure],
    how: Evaluating,
    system: Any,
) -> tuple[Evaluation, RunSummary]:
    """Ask a system every question of a testset, and score what it says; see ``Workbench.evaluate``.

    The first rows are asked before the run is made: where up to three of them fail, nothing is
    stored, and the last failure is raised.

    Raises:
        SystemCallError: So it is.
        ConfigError: The system cannot be found or asked.
    """
    rows, under = _opened(project, testset, measures, system)
    if measures:
        check_gold(rows, parse_measures(measures))
    under = _round(project, rows, under, resume=how.resume)
    project.systems.add(under)
    first = _first_reply(project.runner, rows.rows, under)
    rows, wanted, work = _planned(project, (rows, measures), under, first)
    evaluation, summary = run_work(project.runner, project.runs, work, rows, wanted, how)
    evaluation = with_baselines(evaluation, project.runner, judging(project), how.seed)
    return with_notes(beside_gold(evaluation)), summary


def evaluate_rows_by(
    system: Any,
    rows: Testset,
    measures: str | Sequence[Measure],
    setup: MeasureSetup,
    runner: Runner,
) -> tuple[Testset, ChosenMeasures, Iterator[RowResult]]:
    """Ask a system the questions of rows and score what it says, without a project or a run.

    ``system`` is open and known to the runner. Returns the rows with notes, the measures, and the
    results, which are made as they are read; a row that fails is ``errored``.

    Raises:
        SystemCallError: The first rows fail, up to three of them.
        TestsetError: No measure can be taken, for want of gold.
    """
    if measures:
        check_gold(rows, parse_measures(measures))
    first = _first_reply(runner, rows.rows, system)
    rows, chosen = _chosen(rows, measures, system, first, setup)
    flows = (_settled(row, system, chosen.measures, setup) for row in rows.rows)
    return rows, chosen, runner.map(flows)


def questions_in(rows: Questions) -> Testset:
    """Rows to ask: a test set, its address (the tune split where rows name splits), or rows."""
    if isinstance(rows, Testset):
        return rows
    if isinstance(rows, str | Path):
        address = str(rows)
        return load_testset(address, split="tune" if declared_splits(address) else "all")
    held = tuple(rows_of(rows, questions=True))
    return Testset("rows", held, unread_note(name for row in held for name in unread_columns(row)))


def _settled(
    row: Row, under: UnderTest, measures: Sequence[Measure], setup: MeasureSetup
) -> Flow[RowResult]:
    """One row; what asking raises becomes the state ``errored``, with the reason."""
    try:
        return (yield from system_row(row, under, measures, setup))
    except StoppedError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {getattr(error, 'what', error)}"
        scores = tuple(Score(str(m), "errored", reason=reason) for m in measures)
        return RowResult(row.id, (), scores, unanswered(row))


def forecast_system(
    project: Project, testset: Questions, measures: str | Sequence[Measure], system: Any
) -> Forecast:
    """What :func:`evaluate_system` would ask and cost; the system is not asked."""
    rows, under = _opened(project, testset, measures, system)
    _, _, work = _planned(project, (rows, measures), under, _LIKELY)
    return project.runner.forecast(make for _, make in work.items)


def system_row(
    row: Row, under: UnderTest, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[RowResult]:
    """Ask a system one row's question and score what it says; raises what asking raises."""
    reply = yield from asked(under, row.user_input)
    answered = with_reply(unanswered(row), reply, under.options.match)
    result = yield from answer_row(answered, measures, setup)
    if answered.response is None:  # a retriever: the row is kept for its passages all the same
        result = replace(result, row=answered)
    return replace(result, made=Made(usage=reply.usage))


def asked(under: UnderTest, question: str) -> Flow[SystemReply]:
    """What a system says to a question; a chat model gets it with the instructions alone.

    A ragwright server also says what it cites, and whether it abstained.
    """
    how, early = under.options, under.early.pop(question, None)
    if early is not None:
        return early
    if not how.model:
        return (yield from ask_system(under.name, question))
    turns = [Message("system", how.instructions)] if how.instructions else []
    reply = yield from chat(how.model, [*turns, Message("user", question)])
    return served_reply(reply)


def _opened(
    project: Project, testset: Questions, measures: str | Sequence[Measure], system: Any
) -> tuple[Testset, UnderTest]:
    """The rows and the system; what can be wrong with them is said here."""
    if measures:
        parse_measures(measures)  # a slip in a name is told before any file is read
    held = isinstance(testset, str | Path)
    rows = project_testset(project.folder, str(testset)) if held else questions_in(testset)
    under = open_system(system)
    if under.options.model:
        project.models.settings_of(under.options.model)
    else:
        project.systems.add(under)
    return rows, under


def _planned(
    project: Project,
    asked_for: tuple[Testset, str | Sequence[Measure]],
    under: UnderTest,
    first: SystemReply,
) -> tuple[Testset, Sequence[Measure], Work]:
    setup = judging(project, asked_for[1])
    rows, chosen = _chosen(*asked_for, under, first, setup)
    check_models(project.models, chosen.measures, setup)
    work = scoring_work(rows, chosen.measures, setup)
    items = [(row.id, partial(system_row, row, under, chosen.measures, setup)) for row in rows.rows]
    manifest: Mapping[str, Any] = {**work.manifest, **under.manifest}
    return rows, chosen.measures, replace(work, kind="eval", manifest=manifest, items=items)


def _chosen(
    rows: Testset,
    measures: str | Sequence[Measure],
    under: UnderTest,
    first: SystemReply,
    setup: MeasureSetup,
) -> tuple[Testset, ChosenMeasures]:
    """The measures, and the rows with a note on those that were left out."""
    likely = tuple(_likely(rows.rows, first, under))
    chosen = chosen_measures(measures, likely, setup)
    check_setup(chosen.measures, setup, likely)
    check_gold(rows, chosen.measures)
    return replace(rows, notes=(*rows.notes, *([chosen.note] if chosen.note else []))), chosen


def _likely(rows: Iterable[Row], first: SystemReply, under: UnderTest) -> Iterable[Row]:
    """Rows as they will be once they are answered, as far as measures are chosen by it."""
    return (with_reply(unanswered(row), first, under.options.match) for row in rows)


def _round(project: Project, rows: Testset, under: UnderTest, *, resume: bool) -> UnderTest:
    """The system, its replies kept apart from those of earlier runs; a resumed run finds its own.

    With a version, replies are kept under that alone.
    """
    if under.options.version:
        return under
    key = value_hash({**under.manifest, "testset": rows.name, "rows": rows.fingerprint})
    rule = "DO NOTHING" if resume else "(system) DO UPDATE SET round = excluded.round"
    insert = f"INSERT INTO system_rounds (system, round) VALUES (?, ?) ON CONFLICT {rule}"  # noqa: S608
    new = (key, uuid.uuid4().hex)
    with closing(Ledger(project.folder.ledger)) as ledger:
        ledger.write(lambda connection: connection.execute(insert, new).rowcount)
        known = ledger.select("SELECT round FROM system_rounds WHERE system = ?", (key,))
    return replace(under, round=known[0][0])


def _first_reply(runner: Runner, rows: Sequence[Row], under: UnderTest) -> SystemReply:
    """The first reply of the first rows; it is kept for its row.

    Raises:
        SystemCallError: Each of these rows failed.
    """
    failure: Exception | None = None
    tried = rows[:_TRIED]
    for row in tried:
        try:
            reply = runner.run(asked(under, row.user_input))
        except StoppedError:
            raise
        except Exception as error:
            failure = error
            continue
        under.early[row.user_input] = reply
        return reply
    if failure is None:
        return _LIKELY
    what = getattr(failure, "what", str(failure))
    raise SystemCallError(
        f"the system failed on each of the first {len(tried)} rows; the last one: {what}",
        where=getattr(failure, "where", None) or under.name,
        hint=getattr(failure, "hint", None) or "ask it one question by hand first",
    ) from failure


def beside_gold(evaluation: Evaluation) -> Evaluation:
    """A note where no passage of any row met gold: texts or ids may be of another kind."""
    kept = [result.row for result in evaluation.results if result.row is not None]
    searched = [
        row
        for row in kept
        if (row.retrieved_contexts or row.retrieved_context_ids)
        and (row.reference_spans or row.reference_ids)
    ]
    if not searched or any(map(meets_gold, searched)):
        return evaluation
    row = searched[0]
    if row.retrieved_spans:
        note = (
            f"no passage of {len(searched)} rows holds a gold text: are the passages verbatim? "
            "(`match: ids` in the system's file compares ids)"
        )
    else:
        ids, gold = row.retrieved_context_ids, next(iter(row.reference_ids))
        given = f"such as {ids[0]!r}" if ids else "none"
        note = (
            f"no id of {len(searched)} rows is gold: the system gives {given}, gold is {gold!r} "
            "(`ids` in the system's file names the metadata field to compare)"
        )
    return replace(evaluation, notes=(*evaluation.notes, note))
