"""Scores rows as they are: of a file, of another system, of a stored run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from ...core import Row
from ...flow import AskSystem, Flow, Forecast, HandlerSource, Runner, RunnerOptions, RunSummary
from ...measure import ChosenMeasures, Measure, MeasureSetup, check_setup
from ...models import (
    EmbedOptions,
    Models,
    SystemHandler,
    Systems,
    model_handlers,
    open_system,
)
from ...project import Project, refuse_forget
from ...testsets import Testset, half_note, holds_half, unread_columns, unread_note
from ._clusters import clusters_of_rows
from ._evaluate import add_null_baselines, answer_flows, answer_row, baseline_flows, compute_results
from ._evaluating import RunWork, results_of_run, run_named, scoring_work
from ._measuring import check_models, choose_measures, judging
from ._notes import NoteCollector
from ._result_files import (
    GivenRows,
    pair_given_answers,
    read_given_rows,
    read_stored_or_given,
    rows_of_testset,
)
from ._results import Evaluation, EvaluationOptions, RowResult, evaluation_of
from ._systems import Questions, add_gold_note, evaluate_rows_by, questions_in

OnResult: TypeAlias = Callable[[RowResult], None]
OnForecast: TypeAlias = Callable[[Forecast], None]


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The selection of the rows, for the manifest, and their scope."""

    manifest: Mapping[str, Any] = field(default_factory=dict)
    scope: str = ""


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
    if system is not None:
        return _evaluate_answered(
            rows, measures, (setup or MeasureSetup(), all_models), system, seed, each
        )
    given_set, checked_setup, choice = _check_rows(rows, measures, setup)
    check_models(all_models, choice.measures, checked_setup)
    with Runner(model_handlers(all_models), RunnerOptions(seed=seed)) as runner:
        results: Iterable[RowResult]
        if _uses_model(choice.measures):
            results = runner.map(answer_flows(given_set.rows, choice.measures, checked_setup))
        else:
            results = compute_results(given_set.rows, choice.measures, checked_setup)
        return _summarise_results(
            results,
            given_set,
            choice,
            seed,
            each,
            partial(add_null_baselines, runner=runner, setup=checked_setup, seed=seed),
        )


def _evaluate_answered(
    rows: Questions,
    measures: str | Sequence[Measure],
    setup_and_models: tuple[MeasureSetup, Models],
    system: object,
    seed: int,
    each: OnResult | None,
) -> Evaluation:
    """Answer the rows by a system, and score them."""
    setup, known = setup_and_models
    questions, opened, systems = questions_in(rows), open_system(system), Systems()
    systems[opened.name] = opened
    handlers: dict[type[Any], HandlerSource] = {
        **model_handlers(known),
        AskSystem: SystemHandler(systems),
    }
    with Runner(handlers, RunnerOptions(seed=seed)) as runner:
        questions, choice, results = evaluate_rows_by(opened, questions, measures, setup, runner)
        given_set = rows_of_testset(questions)
        add_baselines = partial(add_null_baselines, runner=runner, setup=setup, seed=seed)
        # The notes of the test set hold that of the measures.
        without_note = replace(choice, left_out={})
        evaluation = _summarise_results(results, given_set, without_note, seed, each, add_baselines)
    return evaluation if each else add_gold_note(evaluation)


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
    given_set, checked_setup, choice = _check_rows(rows, measures, setup)
    all_models = models or Models({}, EmbedOptions(), Path())
    with Runner(model_handlers(all_models)) as runner:
        flows = (partial(answer_row, row, choice.measures, checked_setup) for row in given_set.rows)
        baselines = baseline_flows(given_set.rows, choice.measures, checked_setup)
        return runner.forecast(chain[Callable[[], Flow[Any]]](flows, baselines))


@refuse_forget("score")
def score_stored(
    project: Project,
    rows: str | Testset,
    measures: str | Sequence[Measure],
    options: EvaluationOptions,
    *,
    on_forecast: OnForecast | None = None,
    each: OnResult | None = None,
    drawn: RowSelection | None = None,
) -> tuple[Evaluation, RunSummary]:
    """Score rows of a file, or of a stored run; see ``Project.score``."""
    given_set, choice, work = _scoring_plan(project, rows, measures)
    if drawn is not None:
        work = replace(work, manifest={**work.manifest, **drawn.manifest}, scope=drawn.scope)
    if on_forecast is not None and _uses_model(choice.measures):
        on_forecast(_scoring_forecast(project, given_set, choice, work))
    summary = run_named(project.runner, project.runs, work.job(), options)
    results = results_of_run(project.runs, summary.run, given_set.rows, choice.measures)
    judge = judging(project, choice.measures)
    add_baselines = partial(
        add_null_baselines, runner=project.runner, setup=judge, seed=options.seed
    )
    evaluation = _summarise_results(results, given_set, choice, options.seed, each, add_baselines)
    return replace(evaluation, manifest=project.runs.get(summary.run).manifest), summary


def forecast_stored(
    project: Project, rows: str | Testset, measures: str | Sequence[Measure]
) -> Forecast:
    """Forecast the calls and cost of scoring rows."""
    return _scoring_forecast(project, *_scoring_plan(project, rows, measures))


def rows_to_score(project: Project, name: str) -> Testset:
    """Return all rows of a file, or else of a stored run with that name.

    Raises:
        TestsetError: The run stored no answers.
        StoreError: The run does not exist.
    """
    given_set = read_stored_or_given(project.runs, name)
    return Testset(given_set.name, tuple(given_set.rows), given_set.notes)


def _scoring_forecast(
    project: Project, given_set: GivenRows, choice: ChosenMeasures, work: RunWork
) -> Forecast:
    flows = (make for _, make in work.items)
    baselines = baseline_flows(given_set.rows, choice.measures, judging(project, choice.measures))
    return project.runner.forecast(chain[Callable[[], Flow[Any]]](flows, baselines))


def _scoring_plan(
    project: Project, rows: str | Testset, measures: str | Sequence[Measure]
) -> tuple[GivenRows, ChosenMeasures, RunWork]:
    given_set = (
        read_stored_or_given(project.runs, rows) if isinstance(rows, str) else rows_of_testset(rows)
    )
    setup = judging(project, measures)
    choice = choose_measures(measures, given_set.rows, setup)
    given_set = pair_given_answers(given_set, choice.measures)
    check_setup(choice.measures, setup, given_set.rows)
    check_models(project.models, choice.measures, setup)
    return given_set, choice, scoring_work(given_set, choice.measures, setup)


def _check_rows(
    rows: Questions,
    measures: str | Sequence[Measure],
    setup: MeasureSetup | None,
) -> tuple[GivenRows, MeasureSetup, ChosenMeasures]:
    """Return rows, setup and measures, all checked before any call."""
    given_set, checked_setup = read_given_rows(rows), setup or MeasureSetup()
    choice = choose_measures(measures, given_set.rows, checked_setup)
    given_set = pair_given_answers(given_set, choice.measures)
    check_setup(choice.measures, checked_setup, given_set.rows)
    len(given_set.rows)
    return given_set, checked_setup, choice


def _uses_model(measures: Sequence[Measure]) -> bool:
    """True if a measure may use a model."""
    return any(measure.definition.model != "none" for measure in measures)


def _summarise_results(
    results: Iterable[RowResult],
    given_set: GivenRows,
    choice: ChosenMeasures,
    seed: int,
    each: OnResult | None,
    add_baselines: Callable[[Evaluation], Evaluation],
) -> Evaluation:
    """Summarise results one by one, with notes and baselines."""
    collector, stored, halves = NoteCollector(), list[RowResult](), list[bool]()
    unread: dict[str, None] = {}
    # Null baselines are computed from the answers themselves.
    holds_results = each is None or any(measure.name == "QADistance" for measure in choice.measures)

    measured_columns = {m.parameter for m in choice.measures if m.name == "Column"}

    def take(result: RowResult) -> None:
        collector.add(result)
        halves.append(result.row is not None and holds_half(result.row))
        unread.update(dict.fromkeys(unread_columns(result.row) if result.row else ()))
        if holds_results:
            stored.append(result)
        if each is not None:
            each(result)

    clusters = clusters_of_rows(given_set.rows).values() or None
    evaluation = evaluation_of(
        results, choice.measures, name=given_set.name, seed=seed, clusters=clusters, each=take
    )
    of_rows = (
        *half_note(sum(halves), len(halves)),
        *unread_note(name for name in unread if name not in measured_columns),
    )
    notes = (*dict.fromkeys((*given_set.notes, *of_rows)), *([choice.note] if choice.note else []))
    evaluation = add_baselines(replace(evaluation, results=tuple(stored), notes=notes))
    return replace(
        evaluation,
        results=() if each else evaluation.results,
        notes=(*evaluation.notes, *collector.notes()),
    )
