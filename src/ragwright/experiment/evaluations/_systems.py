"""An existing system under test: asked by the runner, scored, stored as a run.

The system needs no index: its answers are matched with the gold in the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...core import (
    GoldSpan,
    Row,
    Score,
    StoppedError,
    SystemCallError,
    case_folded,
    count_noun,
    text_hash,
    value_hash,
)
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
from ...models import SystemHandler, Systems, UnderTest, drop_thought, open_system
from ...project import Project, refuse_forget
from ...testsets import (
    Testset,
    declares_splits,
    load_testset,
    project_testset,
    rows_of,
    unread_columns,
    unread_note,
)
from ._evaluate import add_null_baselines, answer_row, clear_answer, convert_reply, turns_before
from ._evaluating import RunWork, run_work, scoring_work
from ._measuring import check_models, choose_measures, judging
from ._notes import add_notes, check_gold
from ._results import AnswerRecord, Evaluation, EvaluationOptions, RowResult

Match = Literal["auto", "text", "ids"]

_GOLD = "gold"
"""Document of gold passages that name none."""


def add_reply(row: Row, reply: SystemReply, match: Match = "auto") -> Row:
    """Add a system's reply to a row without an answer, and match its passages with the gold.

    By text (``match`` ``auto`` or ``text``, if gold has texts and the system returned passages): a
    passage covers a gold text if it holds all of it, its first or last half, or lies in it and is
    at least half as long, ignoring white space and case. Gold passages (``reference_contexts``)
    become gold spans. By ids: the document ids of the system are compared with ``reference_ids`` or
    the documents of the gold spans.
    """
    has_ids = reply.context_ids is not None
    row = replace(
        row,
        response=reply.response and drop_thought(reply.response),
        retrieved_contexts=reply.contexts,
        retrieved_context_ids=reply.context_ids or (),
        metadata={
            **row.metadata,
            **({"retrieved": True} if has_ids else {}),
            **({"abstained": True} if reply.abstained else {}),
        },
    )
    gold = _gold_spans(row) if match != "ids" else ()
    if gold and (reply.contexts or has_ids or reply.response is None):
        passages = tuple(_passage_span(text, gold) for text in reply.contexts)
        return replace(
            row,
            reference_spans=gold,
            retrieved_spans=passages,
            metadata={**row.metadata, "retrieved": True},
        )
    gold_ids = {span.document_id: 1 for span in row.reference_spans}
    if gold_ids and match != "text":
        return replace(row, reference_ids=row.reference_ids or gold_ids, reference_spans=())
    return row


def meets_gold(row: Row) -> bool:
    """True if a passage of a row is gold."""
    gold = {span.document_id for span in row.reference_spans}
    if row.retrieved_spans:
        return any(span.document_id in gold for span in row.retrieved_spans)
    return any(name in row.reference_ids for name in row.retrieved_context_ids)


def _gold_spans(row: Row) -> tuple[GoldSpan, ...]:
    """Return gold with texts: the spans of a row, or else its gold passages, in order."""
    if row.reference_spans:
        return row.reference_spans if all(s.text.strip() for s in row.reference_spans) else ()
    if row.reference_ids:
        return ()
    spans, start = [], 0
    for text in row.reference_contexts:
        if text.strip():
            spans.append(GoldSpan(_GOLD, start, start + len(text), text))
            start += len(text) + 1
    return tuple(spans)


def _passage_span(passage: str, gold: Sequence[GoldSpan]) -> GoldSpan:
    """Return a passage as the span of the gold that it covers, or as a span of its own document."""
    normalised = case_folded(passage)
    covered = [span for span in gold if _covers_gold(normalised, case_folded(span.text))]
    if not covered:
        return GoldSpan(f"passage {text_hash(normalised)[:12]}", 0, max(1, len(passage)), passage)
    first = covered[0]
    same_document = [span for span in covered if span.document_id == first.document_id]
    start, end = min(s.start for s in same_document), max(s.end for s in same_document)
    between = [
        s for s in gold if s.document_id == first.document_id and start <= s.start and s.end <= end
    ]
    if len(between) > len(
        same_document
    ):  # the range would claim gold that the passage does not hold
        start, end = first.start, first.end
    return GoldSpan(first.document_id, start, end, passage)


def _covers_gold(passage: str, gold: str) -> bool:
    if not gold or not passage:
        return False
    half = (len(gold) + 1) // 2
    if passage in gold:
        return len(passage) >= half
    return gold in passage or gold[:half] in passage or gold[-half:] in passage


Questions: TypeAlias = str | Path | Testset | Iterable[Row | Mapping[str, Any]]
"""A test set, its address, or rows in memory: objects, a data frame, a data set."""

_TRIED = 3
"""Rows that are tried before the run; if each of them fails, the run is refused."""

_LIKELY = SystemReply("an answer", ("a passage",), ("a document",))
"""Stand-in for the first reply in a dry run."""


@refuse_forget("eval")
def evaluate_system(
    project: Project,
    testset: Questions,
    measures: str | Sequence[Measure],
    options: EvaluationOptions,
    system: Any,
) -> tuple[Evaluation, RunSummary]:
    """Ask a system every question of a testset, and score its answers; see ``Workbench.evaluate``.

    The first rows are asked before the run starts: if the first three (or all) fail, nothing is
    stored, and the last failure is raised.

    Raises:
        SystemCallError: The first rows failed.
        ConfigError: The system cannot be found or asked.
    """
    rows, opened = _open_system(project, testset, measures, system)
    if measures:
        check_gold(rows, parse_measures(measures))
    opened = _set_round(project, rows, opened, resume=options.resume)
    _systems_of(project)[opened.name] = opened
    first = _first_reply(project.runner, rows.rows, opened)
    rows, wanted_measures, work = _system_plan(project, (rows, measures), opened, first)
    evaluation, summary = run_work(
        project.runner, project.runs, work, rows, wanted_measures, options
    )
    evaluation = add_null_baselines(evaluation, project.runner, judging(project), options.seed)
    return add_notes(add_gold_note(evaluation)), summary


def evaluate_rows_by(
    system: Any,
    rows: Testset,
    measures: str | Sequence[Measure],
    setup: MeasureSetup,
    runner: Runner,
) -> tuple[Testset, ChosenMeasures, Iterator[RowResult]]:
    """Ask a system the questions of rows and score its answers, without a project or a run.

    ``system`` is open and known to the runner. Returns the rows with notes, the measures, and the
    results, which are made as they are read; a row that fails is ``errored``.

    Raises:
        SystemCallError: The first rows fail, up to three of them.
        TestsetError: No row has the gold that the measures need.
    """
    if measures:
        check_gold(rows, parse_measures(measures))
    first = _first_reply(runner, rows.rows, system)
    rows, choice = _choose_measures(rows, measures, system, first, setup)
    flows = (_system_row_settled(row, system, choice.measures, setup) for row in rows.rows)
    return rows, choice, runner.map(flows)


def questions_in(rows: Questions) -> Testset:
    """Return rows to ask: a test set, its address (the tune split if rows name splits), or rows."""
    if isinstance(rows, Testset):
        return rows
    if isinstance(rows, str | Path):
        address = str(rows)
        return load_testset(address, split="tune" if declares_splits(address) else "all")
    rows_in_memory = tuple(rows_of(rows, questions=True))
    return Testset(
        "rows",
        rows_in_memory,
        unread_note(name for row in rows_in_memory for name in unread_columns(row)),
    )


def _system_row_settled(
    row: Row, system: UnderTest, measures: Sequence[Measure], setup: MeasureSetup
) -> Flow[RowResult]:
    """Ask and score one row; an error becomes the state ``errored``, with the reason."""
    try:
        return (yield from system_row(row, system, measures, setup))
    except StoppedError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {getattr(error, 'what', error)}"
        scores = tuple(Score(str(m), "errored", reason=reason) for m in measures)
        return RowResult(row.id, (), scores, clear_answer(row))


def forecast_system(
    project: Project, testset: Questions, measures: str | Sequence[Measure], system: Any
) -> Forecast:
    """Forecast the calls and cost of :func:`evaluate_system`; the system is not asked."""
    rows, opened = _open_system(project, testset, measures, system)
    _, _, work = _system_plan(project, (rows, measures), opened, _LIKELY)
    return project.runner.forecast(make for _, make in work.items)


def system_row(
    row: Row, system: UnderTest, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[RowResult]:
    """Ask a system one row's question and score the answer; raises errors of asking."""
    reply = yield from ask_under_test(system, row)
    answered_row = add_reply(clear_answer(row), reply, system.options.match)
    result = yield from answer_row(answered_row, measures, setup)
    if answered_row.response is None:  # a retriever: the row is still stored for its passages
        result = replace(result, row=answered_row)
    return replace(result, made=AnswerRecord(usage=reply.usage))


def ask_under_test(system: UnderTest, row: Row) -> Flow[SystemReply]:
    """Ask a system a row's question after its history; a chat model also gets the instructions.

    A ragwright server also returns its citations and abstentions.
    """
    options, question, history = system.options, row.user_input, turns_before(row)
    early_reply = system.early.pop((question, history), None)
    if early_reply is not None:
        return early_reply
    if not options.model:
        return (yield from ask_system(system.name, question, history))
    messages = [Message("system", options.instructions)] if options.instructions else []
    reply = yield from chat(options.model, [*messages, *history, Message("user", question)])
    return convert_reply(reply)


def _open_system(
    project: Project, testset: Questions, measures: str | Sequence[Measure], system: Any
) -> tuple[Testset, UnderTest]:
    """Open the rows and the system; faults of either are raised here."""
    if measures:
        parse_measures(measures)  # a misspelt name is reported before any file is read
    is_address = isinstance(testset, str | Path)
    rows = project_testset(project.folder, str(testset)) if is_address else questions_in(testset)
    opened = open_system(system)
    if opened.options.model:
        project.models.settings_of(opened.options.model)
    else:
        _systems_of(project)[opened.name] = opened
    return rows, opened


def _system_plan(
    project: Project,
    rows_and_measures: tuple[Testset, str | Sequence[Measure]],
    system: UnderTest,
    first: SystemReply,
) -> tuple[Testset, Sequence[Measure], RunWork]:
    setup = judging(project, rows_and_measures[1])
    rows, choice = _choose_measures(*rows_and_measures, system, first, setup)
    check_models(project.models, choice.measures, setup)
    work = scoring_work(rows, choice.measures, setup)
    items = [
        (row.id, partial(system_row, row, system, choice.measures, setup)) for row in rows.rows
    ]
    manifest: Mapping[str, Any] = {**work.manifest, **system.manifest}
    return rows, choice.measures, replace(work, kind="eval", manifest=manifest, items=items)


def _choose_measures(
    rows: Testset,
    measures: str | Sequence[Measure],
    system: UnderTest,
    first: SystemReply,
    setup: MeasureSetup,
) -> tuple[Testset, ChosenMeasures]:
    """Choose the measures, and add notes on those left out and on a system without history."""
    likely_rows = tuple(
        add_reply(clear_answer(row), first, system.options.match) for row in rows.rows
    )
    choice = choose_measures(measures, likely_rows, setup)
    check_setup(choice.measures, setup, likely_rows)
    check_gold(rows, choice.measures)
    notes = [choice.note] if choice.note else []
    after_turns = sum(bool(row.history) for row in rows.rows)
    if after_turns and not system.takes_turns:
        notes.append(
            f"{system.name} takes no history: {count_noun(after_turns, 'row')} with earlier turns "
            "asked by the last turn alone; give its function a parameter history or messages, or "
            "its body {messages}"
        )
    return replace(rows, notes=(*rows.notes, *notes)), choice


def _set_round(project: Project, rows: Testset, system: UnderTest, *, resume: bool) -> UnderTest:
    """Separate the system's replies from those of earlier runs; a resumed run uses its own.

    A system with a version shares its replies between runs.
    """
    if system.options.version:
        return system
    key = value_hash({**system.manifest, "testset": rows.name, "rows": rows.fingerprint})
    rule = "DO NOTHING" if resume else "(system) DO UPDATE SET round = excluded.round"
    insert = f"INSERT INTO system_rounds (system, round) VALUES (?, ?) ON CONFLICT {rule}"  # noqa: S608
    new = (key, uuid.uuid4().hex)
    with closing(Ledger(project.folder.ledger)) as ledger:
        ledger.write(lambda connection: connection.execute(insert, new).rowcount)
        known = ledger.select("SELECT round FROM system_rounds WHERE system = ?", (key,))
    return replace(system, round=known[0][0])


def _first_reply(runner: Runner, rows: Sequence[Row], system: UnderTest) -> SystemReply:
    """Return the first reply of the first rows; it is stored for its row.

    Raises:
        SystemCallError: Each of these rows failed.
    """
    failure: Exception | None = None
    first_rows = rows[:_TRIED]
    for row in first_rows:
        try:
            reply = runner.run(ask_under_test(system, row))
        except StoppedError:
            raise
        except Exception as error:
            failure = error
            continue
        system.early[row.user_input, turns_before(row)] = reply
        return reply
    if failure is None:
        return _LIKELY
    reason = getattr(failure, "what", str(failure))
    raise SystemCallError(
        f"the system failed on each of the first {len(first_rows)} rows; the last one: {reason}",
        where=getattr(failure, "where", None) or system.name,
        hint=getattr(failure, "hint", None) or "ask it one question by hand first",
    ) from failure


def add_gold_note(evaluation: Evaluation) -> Evaluation:
    """Add a note if no passage of any row is gold: texts or ids may be of another kind."""
    rows = [result.row for result in evaluation.results if result.row is not None]
    searched = [
        row
        for row in rows
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
        example = f"such as {ids[0]!r}" if ids else "none"
        note = (
            f"no id of {len(searched)} rows is gold: the system gives {example}, gold is {gold!r} "
            "(`ids` in the system's file names the metadata field to compare)"
        )
    return replace(evaluation, notes=(*evaluation.notes, note))


def _systems_of(project: Project) -> Systems:
    """The systems that the project's runners may ask; its variants have the same."""
    return project.attached(Systems, Systems)


def system_handler(project: Project) -> SystemHandler:
    """What carries out ``AskSystem`` requests for a project."""
    return SystemHandler(_systems_of(project))
