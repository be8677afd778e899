"""Scores rows as they are: of a file, of another system, of a stored run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from ...core import Row
from ...flow import AskSystem, Flow, Forecast, Runner, RunnerOptions, RunSummary
from ...measure import ChosenMeasures, Measure, MeasureSetup, check_setup
from ...models import (
    EmbedOptions,
    Models,
    SystemHandler,
    Systems,
    model_handlers,
    open_system,
)
from ...project import Project, at_work
from ...testsets import Testset, half_note, holds_half, unread_columns, unread_note
from ._baselines import baseline_flows, with_baselines
from ._clusters import clusters_of_rows
from ._evaluate import answer_flows, answer_row, computed_results
from ._evaluating import Work, do_work, results_of_run, scoring_work
from ._given_rows import GivenRows, given_rows, of_testset, stored_or_given, with_given_answers
from ._measuring import check_models, chosen_measures, judging
from ._notes import Noted
from ._options import Evaluating
from ._results import Evaluation, RowResult, evaluation_of
from ._systems import Questions, beside_gold, evaluate_rows_by, questions_in

OnResult: TypeAlias = Callable[[RowResult], None]
OnForecast: TypeAlias = Callable[[Forecast], None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Selection of the rows, for the manifest, and their scope."""

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
        system: A function of the question, an object of LangChain, LlamaIndex or Haystack, an
            address; see ``Workbench.evaluate``.
        models: Settings of models, such as addresses and prices; keys come from the environment.
        seed: Seed of the intervals.
        each: Gets the result of every row, in their order, instead of the evaluation.

    Raises:
        TestsetError: Rows cannot be read; with file and line, or number. Raised before the first
            row is scored.
        MeasureError: A measure is unknown, or needs a model that is not set.
        SystemCallError: The system fails on the first rows.
    """
    known = models or Models({}, EmbedOptions(), Path())
    if system is not None:
        return _asked(rows, measures, (setup or MeasureSetup(), known), system, seed, each)
    given, chosen, taken = _checked(rows, measures, setup)
    check_models(known, taken.measures, chosen)
    with Runner(model_handlers(known), RunnerOptions(seed=seed)) as runner:
        results: Iterable[RowResult]
        if _asking(taken.measures):
            results = runner.map(answer_flows(given.rows, taken.measures, chosen))
        else:
            results = computed_results(given.rows, taken.measures, chosen)
        return _summed(results, given, taken, seed, each, partial(_beside, runner, chosen, seed))


def _asked(
    rows: Questions,
    measures: str | Sequence[Measure],
    using: tuple[MeasureSetup, Models],
    system: object,
    seed: int,
    each: OnResult | None,
) -> Evaluation:
    """The rows answered by a system, and scored; judge and models are ``using``."""
    setup, known = using
    asked, under, systems = questions_in(rows), open_system(system), Systems()
    systems.add(under)
    handlers = {**model_handlers(known), AskSystem: SystemHandler(systems)}
    with Runner(handlers, RunnerOptions(seed=seed)) as runner:
        asked, taken, results = evaluate_rows_by(under, asked, measures, setup, runner)
        given = of_testset(asked)
        beside = partial(_beside, runner, setup, seed)
        # The notes of the test set hold that of the measures.
        named = replace(taken, left_out={})
        found = _summed(results, given, named, seed, each, beside)
    return found if each else beside_gold(found)


def forecast_rows(
    rows: str | Path | Iterable[Row | Mapping[str, Any]],
    measures: str | Sequence[Measure] = (),
    setup: MeasureSetup | None = None,
    *,
    models: Models | None = None,
) -> Forecast:
    """Calls and cost of :func:`evaluate`, without calling any model.

    Raises:
        TestsetError: As :func:`evaluate`.
        MeasureError: As :func:`evaluate`.
    """
    given, chosen, taken = _checked(rows, measures, setup)
    known = models or Models({}, EmbedOptions(), Path())
    with Runner(model_handlers(known)) as runner:
        flows = (partial(answer_row, row, taken.measures, chosen) for row in given.rows)
        beside = baseline_flows(given.rows, taken.measures, chosen)
        return runner.forecast(chain[Callable[[], Flow[Any]]](flows, beside))


@at_work("score")
def score_stored(
    project: Project,
    rows: str | Testset,
    measures: str | Sequence[Measure],
    how: Evaluating,
    *,
    told: OnForecast | None = None,
    each: OnResult | None = None,
    drawn: Drawn | None = None,
) -> tuple[Evaluation, RunSummary]:
    """Score rows of a file, or of a stored run; see ``Project.score``."""
    given, taken, work = _to_score(project, rows, measures)
    if drawn is not None:
        work = replace(work, manifest={**work.manifest, **drawn.manifest}, scope=drawn.scope)
    if told is not None and _asking(taken.measures):
        told(_forecast(project, given, taken, work))
    summary = do_work(project.runner, project.runs, work, how)
    results = results_of_run(project.runs, summary.run, given.rows, taken.measures)
    beside = partial(_beside, project.runner, judging(project, taken.measures), how.seed)
    found = _summed(results, given, taken, how.seed, each, beside)
    return replace(found, manifest=project.runs.get(summary.run).manifest), summary


def forecast_stored(
    project: Project, rows: str | Testset, measures: str | Sequence[Measure]
) -> Forecast:
    """Calls and cost of scoring rows."""
    return _forecast(project, *_to_score(project, rows, measures))


def rows_to_score(project: Project, name: str) -> Testset:
    """All rows of a file, or else of a stored run with that name.

    Raises:
        TestsetError: The run kept no answers.
        StoreError: There is no such run.
    """
    given = stored_or_given(project.runs, name)
    return Testset(given.name, tuple(given.rows), given.notes)


def _forecast(project: Project, given: GivenRows, taken: ChosenMeasures, work: Work) -> Forecast:
    flows = (make for _, make in work.items)
    setup = judging(project, taken.measures)
    beside = baseline_flows(given.rows, taken.measures, setup)
    return project.runner.forecast(chain[Callable[[], Flow[Any]]](flows, beside))


def _to_score(
    project: Project, rows: str | Testset, measures: str | Sequence[Measure]
) -> tuple[GivenRows, ChosenMeasures, Work]:
    given = stored_or_given(project.runs, rows) if isinstance(rows, str) else of_testset(rows)
    setup = judging(project, measures)
    taken = chosen_measures(measures, given.rows, setup)
    given = with_given_answers(given, taken.measures)
    check_setup(taken.measures, setup, given.rows)
    check_models(project.models, taken.measures, setup)
    return given, taken, scoring_work(given, taken.measures, setup)


def _checked(
    rows: Questions,
    measures: str | Sequence[Measure],
    setup: MeasureSetup | None,
) -> tuple[GivenRows, MeasureSetup, ChosenMeasures]:
    """Rows, setup and measures, all checked before any call."""
    given, chosen = given_rows(rows), setup or MeasureSetup()
    taken = chosen_measures(measures, given.rows, chosen)
    given = with_given_answers(given, taken.measures)
    check_setup(taken.measures, chosen, given.rows)
    len(given.rows)
    return given, chosen, taken


def _asking(measures: Sequence[Measure]) -> bool:
    """True if a measure may use a model."""
    return any(measure.definition.model != "none" for measure in measures)


def _summed(
    results: Iterable[RowResult],
    given: GivenRows,
    taken: ChosenMeasures,
    seed: int,
    each: OnResult | None,
    beside: Callable[[Evaluation], Evaluation],
) -> Evaluation:
    """Summarises results one by one, with notes and baselines."""
    noted, kept, halved = Noted(), list[RowResult](), list[bool]()
    unread: dict[str, None] = {}
    # Null baselines are computed from the answers themselves.
    hold = each is None or any(measure.name == "QADistance" for measure in taken.measures)

    measured = {m.parameter for m in taken.measures if m.name == "Column"}

    def take(result: RowResult) -> None:
        noted.add(result)
        halved.append(result.row is not None and holds_half(result.row))
        unread.update(dict.fromkeys(unread_columns(result.row) if result.row else ()))
        if hold:
            kept.append(result)
        if each is not None:
            each(result)

    clusters = clusters_of_rows(given.rows).values() or None
    found = evaluation_of(
        results, taken.measures, name=given.name, seed=seed, clusters=clusters, each=take
    )
    of_rows = (
        *half_note(sum(halved), len(halved)),
        *unread_note(name for name in unread if name not in measured),
    )
    notes = (*dict.fromkeys((*given.notes, *of_rows)), *([taken.note] if taken.note else []))
    found = beside(replace(found, results=tuple(kept), notes=notes))
    return replace(
        found, results=() if each else found.results, notes=(*found.notes, *noted.notes())
    )


def _beside(runner: Runner, setup: MeasureSetup, seed: int, found: Evaluation) -> Evaluation:
    return with_baselines(found, runner, setup, seed)
