"""Scoring of rows as they are (of a file, of a stored run), and of the answers of another system.

A system under test needs no index: its answers are matched with the gold in the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from ..core import Row, Score, StoppedError, SystemCallError, count_noun, value_hash
from ..drafting import OutputSample, SampledOutputs, project_outputs, sample_outputs
from ..flow import (
    AskSystem,
    Flow,
    Forecast,
    HandlerSource,
    Runner,
    RunnerOptions,
    RunSummary,
    SystemReply,
)
from ..ledger import Ledger
from ..measure import ChosenMeasures, Measure, MeasureSetup, check_setup, parse_measures
from ..models import (
    EmbedOptions,
    Models,
    SystemHandler,
    Systems,
    UnderTest,
    model_handlers,
    open_system,
)
from ..project import Project, configuration_from, keep_configuration, refuse_forget
from ..testsets import Testset, declares_splits, load_testset, project_testset, rows_of
from ._evaluate import check_models, choose_measures, judging
from ._given import pair_given_answers, read_given_rows, read_stored_or_given
from ._notes import check_gold
from ._results import Evaluation, EvaluationOptions, RowResult
from ._rows import (
    add_reply,
    answer_row,
    ask_under_test,
    baseline_flows,
    clear_answer,
    compute_results,
    meets_gold,
    system_row,
    turns_before,
)
from ._stored_runs import (
    GivenRows,
    RowPlan,
    add_row_notes,
    forecast_plan,
    plan_rows,
    run_plan,
    score_given_row,
    summarise,
)

OnResult: TypeAlias = Callable[[RowResult], None]
OnForecast: TypeAlias = Callable[[Forecast], None]

Questions: TypeAlias = str | Path | Testset | Iterable[Row | Mapping[str, Any]]
"""A test set, its address, or rows in memory: objects, a data frame, a data set."""


def evaluate(
    rows: Questions,
    measures: str | Sequence[Measure] = (),
    setup: MeasureSetup | None = None,
    *,
    system: object = None,
    models: Models | None = None,
    seed: int = 0,
    each: OnResult | None = None,
) -> Evaluation:
    """Score rows of any system, without a project; only judged measures need a model.

    With ``system`` the rows are questions, and the system answers them first; nothing is stored.

    The evaluation holds every row with its scores, so its memory grows with the rows. With ``each``
    it holds only summaries, and rows of a file are read one at a time: any number of them in
    bounded memory (besides their ids, and 8 bytes per score for the intervals).

    Args:
        rows: A file (JSONL, JSON, CSV, Excel, Parquet; ragas' names, or those of ragas v1,
            DeepEval, MLflow, RAGChecker), which is read twice; or rows, objects in these names, a
            data frame of pandas or polars, an Arrow table, a data set.
        measures: Text with commas or measures; by default those that suit the rows.
        setup: Models, language and cues.
        system: A function of the question, an object of LangChain or LlamaIndex, an address; see
            ``Workbench.evaluate``.
        models: Settings of models, such as addresses and prices; keys come from the environment.
        seed: Seed of the intervals.
        each: Called with the result of every row, in order; the evaluation holds only summaries.

    Raises:
        TestsetError: Rows cannot be read; with file and line, or number. Raised before the first
            row is scored.
        MeasureError: A measure is unknown, or needs a model that is not set.
        SystemCallError: The system fails on the first rows.
    """
    all_models = models or Models({}, EmbedOptions(), Path())
    judge = setup or MeasureSetup()
    if system is not None:
        return _evaluate_answered(rows, measures, (judge, all_models), system, seed, each)
    given_set, choice = _check_rows(read_given_rows(rows), measures, judge)
    check_models(all_models, choice.measures, judge)
    with Runner(model_handlers(all_models), RunnerOptions(seed=seed)) as runner:
        if _uses_model(choice.measures):
            flows = (answer_row(row, choice.measures, judge) for row in given_set.rows)
            results: Iterable[RowResult] = runner.map(flows)
        else:
            results = compute_results(given_set.rows, choice.measures, judge)
        return summarise(results, given_set, choice.measures, (runner, judge), seed, each)


def _evaluate_answered(
    questions: Questions,
    measures: str | Sequence[Measure],
    setup_and_models: tuple[MeasureSetup, Models],
    system: object,
    seed: int,
    each: OnResult | None,
) -> Evaluation:
    """Answer the rows by a system, and score them; a row that fails is ``errored``."""
    setup, known = setup_and_models
    rows, opened, systems = questions_in(questions), open_system(system), Systems()
    systems[opened.name] = opened
    handlers: dict[type[Any], HandlerSource] = {
        **model_handlers(known),
        AskSystem: SystemHandler(systems),
    }
    with Runner(handlers, RunnerOptions(seed=seed)) as runner:
        if measures:
            check_gold(rows, parse_measures(measures))
        first = _first_reply(runner, rows.rows, opened)
        rows, chosen = _choose_measures(rows, measures, opened, first, setup)
        flows = (_system_row_settled(row, opened, chosen, setup) for row in rows.rows)
        evaluation = summarise(runner.map(flows), rows, chosen, (runner, setup), seed, each)
    return evaluation if each else _add_gold_note(evaluation)


def forecast_rows(
    rows: str | Path | Iterable[Row | Mapping[str, Any]],
    measures: str | Sequence[Measure] = (),
    setup: MeasureSetup | None = None,
    *,
    models: Models | None = None,
) -> Forecast:
    """Forecast the calls and cost of :func:`evaluate`, without calling any model.

    Raises:
        TestsetError: As :func:`evaluate`.
        MeasureError: As :func:`evaluate`.
    """
    judge = setup or MeasureSetup()
    given_set, choice = _check_rows(read_given_rows(rows), measures, judge)
    with Runner(model_handlers(models or Models({}, EmbedOptions(), Path()))) as runner:
        flows = (partial(answer_row, row, choice.measures, judge) for row in given_set.rows)
        return runner.forecast((*flows, *baseline_flows(given_set.rows, choice.measures, judge)))


@refuse_forget("score")
def score_stored(
    project: Project,
    rows: str | Testset,
    measures: str | Sequence[Measure],
    options: EvaluationOptions,
    *,
    on_forecast: OnForecast | None = None,
    each: OnResult | None = None,
) -> tuple[Evaluation, RunSummary]:
    """Score rows of a file, or of a stored run; see ``Project.score``."""
    return run_scoring(project, plan_scoring(project, rows, measures), options, on_forecast, each)


def run_scoring(
    project: Project,
    plan: RowPlan[GivenRows],
    options: EvaluationOptions,
    on_forecast: OnForecast | None,
    each: OnResult | None,
) -> tuple[Evaluation, RunSummary]:
    """Score the rows of a plan; the forecast is given before, if a model may be called."""
    if on_forecast is not None and _uses_model(plan.measures):
        on_forecast(forecast_plan(project, plan))
    return run_plan(project, plan, options, each)


def forecast_stored(
    project: Project, rows: str | Testset, measures: str | Sequence[Measure]
) -> Forecast:
    """Forecast the calls and cost of scoring rows."""
    return forecast_plan(project, plan_scoring(project, rows, measures))


def plan_scoring(
    project: Project, rows: str | Testset, measures: str | Sequence[Measure]
) -> RowPlan[GivenRows]:
    """Plan the scoring of rows as they are; they are read as they are scored."""
    setup = judging(project, measures)
    known = (
        read_given_rows(rows)
        if isinstance(rows, Testset)
        else read_stored_or_given(project.runs, rows)
    )
    given_set, choice = _check_rows(known, measures, setup)
    check_models(project.models, choice.measures, setup)
    make_flow = partial(score_given_row, measures=choice.measures, setup=setup)
    return plan_rows("score", given_set, choice.measures, setup, make_flow)


def _check_rows(
    given_set: GivenRows, measures: str | Sequence[Measure], setup: MeasureSetup
) -> tuple[GivenRows, ChosenMeasures]:
    """Return the rows as they are scored, and the measures, checked before any call."""
    choice = choose_measures(measures, given_set.rows, setup)
    given_set = pair_given_answers(given_set, choice.measures)
    check_setup(choice.measures, setup, given_set.rows)
    len(given_set.rows)
    return add_row_notes(given_set, choice.note), choice


def _uses_model(measures: Sequence[Measure]) -> bool:
    return any(measure.definition.model != "none" for measure in measures)


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
    plan = _plan_system(project, rows, measures, opened, first)
    evaluation, summary = run_plan(project, plan, options)
    return _add_gold_note(evaluation), summary


def questions_in(rows: Questions) -> Testset:
    """Return rows to ask: a test set, its address (the tune split if rows name splits), or rows."""
    if isinstance(rows, Testset):
        return rows
    if isinstance(rows, str | Path):
        address = str(rows)
        return load_testset(address, split="tune" if declares_splits(address) else "all")
    return Testset("rows", tuple(rows_of(rows, questions=True)))


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
    return forecast_plan(project, _plan_system(project, rows, measures, opened, _LIKELY))


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


def _plan_system(
    project: Project,
    rows: Testset,
    measures: str | Sequence[Measure],
    system: UnderTest,
    first: SystemReply,
) -> RowPlan[Testset]:
    setup = judging(project, measures)
    rows, chosen = _choose_measures(rows, measures, system, first, setup)
    check_models(project.models, chosen, setup)
    make_flow = partial(system_row, system=system, measures=chosen, setup=setup)
    return plan_rows("eval", rows, chosen, setup, make_flow, system.manifest)


def _choose_measures(
    rows: Testset,
    measures: str | Sequence[Measure],
    system: UnderTest,
    first: SystemReply,
    setup: MeasureSetup,
) -> tuple[Testset, tuple[Measure, ...]]:
    """Choose the measures, and add notes on those left out and on a system without history."""
    likely_rows = tuple(
        add_reply(clear_answer(row), first, system.options.match) for row in rows.rows
    )
    choice = choose_measures(measures, likely_rows, setup)
    check_setup(choice.measures, setup, likely_rows)
    check_gold(rows, choice.measures)
    notes = [choice.note]
    after_turns = sum(bool(row.history) for row in rows.rows)
    if after_turns and not system.takes_turns:
        notes.append(
            f"{system.name} takes no history: {count_noun(after_turns, 'row')} with earlier turns "
            "asked by the last turn alone; give its function a parameter history or messages, or "
            "its body {messages}"
        )
    return add_row_notes(rows, *notes), tuple(choice.measures)


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


def _add_gold_note(evaluation: Evaluation) -> Evaluation:
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
    given = [*(text[:40] for text in row.retrieved_contexts[:1]), *row.retrieved_context_ids[:1]]
    gold = [*(span.text[:40] for span in row.reference_spans[:1]), *list(row.reference_ids)[:1]]
    note = (
        f"no passage of {len(searched)} rows is gold: the system gives {' '.join(map(repr, given))}"
        f", gold is {' '.join(map(repr, gold))} (`match` and `ids` in the system's file say what "
        "is compared)"
    )
    return replace(evaluation, notes=(*evaluation.notes, note))


def _systems_of(project: Project) -> Systems:
    """The systems that the project's runners may ask; its variants have the same."""
    return project.resource(Systems, Systems)


def system_handler(project: Project) -> SystemHandler:
    """What carries out ``AskSystem`` requests for a project."""
    return SystemHandler(_systems_of(project))


@refuse_forget("outputs eval")
def evaluate_outputs(
    project: Project,
    measures: str | Sequence[Measure],
    sampling: OutputSample | None = None,
    options: EvaluationOptions | None = None,
    *,
    on_forecast: OnForecast | None = None,
    each: OnResult | None = None,
) -> tuple[Evaluation, RunSummary, SampledOutputs]:
    """Score a sample of stored texts as a new run; nothing is generated.

    The manifest of the run contains the sampling. If all rows were made under one configuration,
    the run belongs to that one, and can be promoted.

    Raises:
        StoreError: No stored text matches the query.
        MeasureError: A measure is unknown, or needs a model that is not set.
    """
    options = options or EvaluationOptions(seed=project.session.seed)
    sampled = sample_outputs(
        project_outputs(project), sampling or OutputSample(seed=project.session.seed)
    )
    plan = plan_scoring(project, sampled.testset, measures)
    manifest = {**plan.job.manifest, **sampled.manifest}
    job = replace(plan.job, manifest=manifest, scope=sampled.sampling.query.scope or "")
    evaluation, summary = run_scoring(project, replace(plan, job=job), options, on_forecast, each)
    if len(sampled.configurations) == 1:
        [name] = sampled.configurations
        configuration = configuration_from(project_outputs(project).settings(name))
        if configuration is not None:
            keep_configuration(project.runs, summary.run, configuration)
    return evaluation, summary, sampled


def forecast_outputs(
    project: Project, measures: str | Sequence[Measure], sampling: OutputSample
) -> Forecast:
    """Forecast the calls and cost of :func:`evaluate_outputs`, without calling any model."""
    return forecast_stored(
        project, sample_outputs(project_outputs(project), sampling).testset, measures
    )
