"""Evaluation runs: rows are stored as they end, resumed after a crash, and read later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any, Protocol

from ...answer import Condensed
from ...core import (
    Row,
    Score,
    ScoreState,
    StoreError,
    list_changed_options,
    make_plain,
    values_hash,
)
from ...flow import Flow, Job, Message, Run, Runner, RunRow, Runs, RunSummary, run_job
from ...measure import (
    Measure,
    MeasureScale,
    MeasureSetup,
    load_shipped_rubrics,
    parse_measures,
    prompts_fingerprint,
    set_scale,
)
from ...retrieve import RetrieveOptions, Target
from ...testsets import Testset, make_plain_row
from ._comparing import clusters_of_results
from ._evaluate import (
    RANKING,
    Answerer,
    Search,
    answer_and_score_row,
    answer_row,
    ranking_search,
    retrieval_row,
    summarise,
    turns_before,
)
from ._names import BASELINE, check_run_name, find_run
from ._results import (
    Evaluation,
    EvaluationOptions,
    RowResult,
    RunOptions,
    evaluation_of,
    result_body,
    result_of,
)

EXPERIMENT = "experiment"
"""Name of the set of answers that a baseline run measures; `baseline` holds the given pairs."""

_MEASURE = "QADistance"


def distance_evaluation(runs: Runs, run: Run, seed: int = 0, *, of: str = EXPERIMENT) -> Evaluation:
    """Return the pairs of one set of a baseline as rows scored by ``QADistance``.

    Its manifest is that of the run in which the experiment answered, so that the settings of two
    experiments can be compared; the embedding model of the distances is its judge.

    Raises:
        StoreError: The run holds no pair of this set.
    """
    results = [distance_row(row.body) for row in runs.rows(run.id) if row.body.get("set") == of]
    if not results:
        raise StoreError(
            f"the baseline {run.id} has no answers of the set {of!r}",
            hint="run `ragwright baseline` again",
        )
    groups = clusters_of_results(results)
    evaluation = evaluation_of(
        results,
        parse_measures(_MEASURE),
        name=run.id,
        seed=seed,
        clusters=groups.values() or None,
    )
    answers_run = str(run.manifest.get("runs", {}).get(of, ""))
    settings: Mapping[str, Any] = runs.get(answers_run).manifest if runs.holds(answers_run) else {}
    judge = {**settings.get("judge", {}), "embedder": run.manifest.get("embedder", "")}
    pinned = {
        "testset": run.manifest.get("testset", ""),
        "judge": judge,
        "measures": [_MEASURE],
        BASELINE: run.id,
    }
    return Evaluation(
        run.id, evaluation.summaries, evaluation.results, manifest={**settings, **pinned}
    )


def distance_row(pair: Mapping[str, Any]) -> RowResult:
    """Return a stored pair as a row scored by ``QADistance``."""
    row = Row(
        pair["id"],
        pair["question"],
        response=pair["answer"],
        retrieved_contexts=tuple(pair["passages"]),
    )
    return RowResult(pair["id"], (), (Score(_MEASURE, "scored", pair["distance"]),), row)


@dataclass(frozen=True, slots=True)
class EvaluatedProject:
    """The evaluated state: an index snapshot, search settings, and other settings of answers.

    ``settings`` holds JSON-able values; they are part of the run's manifest.
    """

    target: Target
    index_spec: str
    options: RetrieveOptions
    settings: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """Return the pinned state of a run; a run of another index state is not resumed."""
        retrieve = list_changed_options(self.options) | {"filters": str(self.options.filters)}
        return {
            "retrieve": retrieve,
            "index_spec": self.index_spec,
            "snapshot": self.target.snapshot,
            **self.settings,
        }


class Rows(Iterable[Row], Sized, Protocol):
    """Rows with a length that can be read several times."""


class NamedRows(Protocol):
    """Rows with the name of their source."""

    @property
    def name(self) -> str:
        """The source of the rows."""

    @property
    def rows(self) -> Rows:
        """The rows in order, each id once."""


class Items(Iterable[tuple[str, Callable[[], Flow[RowResult]]]], Sized, Protocol):
    """Row ids, each with a function that makes its flow."""


@dataclass(frozen=True, slots=True)
class RunWork:
    """The work of a run: its kind, its manifest, and one flow per row.

    ``count`` counts the tokens of a passage, for the project's answers; ``scope`` limits who may
    see the rows and their replies.
    """

    kind: str
    manifest: Mapping[str, Any]
    items: Items
    count: Callable[[str], int] | None = None
    scope: str = ""

    def job(self) -> Job[RowResult]:
        """The work as a job for the runner."""
        return Job(
            kind=self.kind,
            manifest=self.manifest,
            items=self.items,
            encode=partial(result_body, count=self.count),
            sources=lambda result: list(dict.fromkeys(result.ranking)),
            scope=self.scope,
            failed=lambda result: any(score.state == "errored" for score in result.scores),
        )


Condensing = Callable[[Sequence[Message], str], Flow[Condensed]]
"""Makes a question after these turns stand alone."""


def ranking_work(
    system: EvaluatedProject,
    testset: Testset,
    measures: Sequence[Measure],
    condensing: Condensing,
) -> RunWork:
    """Plan the search for every row and the scoring of its hits, without answers."""
    search_of = _searches(system, measures, condensing)
    items = [
        (row.id, partial(retrieval_row, row, search_of(row), measures)) for row in testset.rows
    ]
    units = {
        "spans" if row.reference_spans else "documents"
        for row in testset.rows
        if row.reference_spans or row.reference_ids
    }
    unit = {"counted": " and ".join(sorted(units, reverse=True))}
    return RunWork("eval", _rows_manifest(testset, measures) | system.manifest() | unit, items)


def _searches(
    system: EvaluatedProject, measures: Sequence[Measure], condensing: Condensing
) -> Callable[[Row], Search]:
    """Return the search of each row, after its turns, as deep as the measures ask."""
    plain_search = ranking_search(system.target, system.options, measures)

    def search_of(row: Row) -> Search:
        if not row.history:
            return plain_search
        return ranking_search(
            system.target, system.options, measures, partial(condensing, turns_before(row))
        )

    return search_of


def answering_work(
    system: EvaluatedProject,
    asking: Answerer,
    testset: Testset,
    measures: Sequence[Measure],
    setup: MeasureSetup,
    condensing: Condensing,
) -> RunWork:
    """Plan the answer to every row's question, and the scoring of answers and passages.

    Measures of documents read the ranking that they would read without answers.
    """
    search_of = _searches(system, [m for m in measures if m.definition.kind in RANKING], condensing)
    items = [
        (row.id, partial(answer_and_score_row, row, asking, measures, setup, search_of(row)))
        for row in testset.rows
    ]
    manifest = _rows_manifest(testset, measures) | system.manifest()
    return RunWork("eval", manifest | judge_manifest(setup), items)


@dataclass(frozen=True, slots=True)
class _ScoringItems:
    """Items of rows that are scored as they are, made lazily."""

    rows: Rows
    measures: Sequence[Measure]
    setup: MeasureSetup

    def __iter__(self) -> Iterator[tuple[str, Callable[[], Flow[RowResult]]]]:
        return (
            (row.id, partial(_score_given_row, row, self.measures, self.setup)) for row in self.rows
        )

    def __len__(self) -> int:
        return len(self.rows)


def scoring_work(rows: NamedRows, measures: Sequence[Measure], setup: MeasureSetup) -> RunWork:
    """Plan the scoring of rows as they are; they are read as they are scored."""
    return RunWork(
        "score",
        _rows_manifest(rows, measures) | judge_manifest(setup),
        _ScoringItems(rows.rows, measures, setup),
    )


def judge_manifest(setup: MeasureSetup) -> dict[str, Any]:
    """Return everything that determines a judgment: settings, prompts, and the hash of every
    rubric.
    """
    rubrics = {**load_shipped_rubrics(), **setup.rubrics}
    return {
        "judge": list_changed_options(replace(setup, rubrics={})),
        "judge_prompts": prompts_fingerprint(),
        "rubrics": {name: rubrics[name].fingerprint for name in sorted(rubrics)},
    }


_LOST = "ragwright:lost"


def rebuild_lost_row(result: RowResult) -> Row:
    """Return a row for a result without one, so that rescoring includes it.

    Without it, failed rows would raise the coverage with every rescoring.
    """
    state = next((score.state for score in result.scores), "errored")
    reason = next((score.reason for score in result.scores), "")
    return Row(result.row_id, "", metadata={_LOST: (state, reason)})


def _score_given_row(row: Row, measures: Sequence[Measure], setup: MeasureSetup) -> Flow[RowResult]:
    lost = row.metadata.get(_LOST)
    if isinstance(lost, tuple):
        state: ScoreState = "skipped" if lost[0] == "skipped" else "errored"
        return RowResult(row.id, (), tuple(Score(str(m), state, reason=lost[1]) for m in measures))
    return (yield from answer_row(row, measures, setup))


def _rows_manifest(rows: NamedRows, measures: Sequence[Measure]) -> dict[str, Any]:
    manifest: dict[str, Any] = {
        "testset": rows.name,
        "rows": values_hash(make_plain_row(row) for row in rows.rows),
        "measures": [str(measure) for measure in measures],
    }
    # Only for custom rubrics: other texts define their scale.
    scales = {str(m): make_plain(m.scale) for m in measures if m.scale is not None}
    return manifest | ({"scales": scales} if scales else {})


def run_work(
    runner: Runner,
    runs: Runs,
    work: RunWork,
    testset: Testset,
    measures: Sequence[Measure],
    options: EvaluationOptions,
) -> tuple[Evaluation, RunSummary]:
    """Do the work, store every row as it ends, and summarise them.

    Raises:
        ConfigError: The requested name of the run is invalid; raised before the first row.
    """
    summary = run_named(runner, runs, work.job(), options)
    return run_evaluation(runs, summary.run, testset, measures, options.seed), summary


def run_named(runner: Runner, runs: Runs, job: Job[Any], options: RunOptions) -> RunSummary:
    """Run a job with its options, and give its run the requested name.

    Raises:
        ConfigError: The name is invalid; raised before the first row.
    """
    name = check_run_name(options.name)
    configured = replace(job, resume=options.resume, retry_errors=options.retry_errors)
    summary = run_job(runner, runs, configured)
    if name:
        runs.name(summary.run, name)
    return summary


def results_of_run(
    runs: Runs, run: str, rows: Iterable[Row], measures: Sequence[Measure]
) -> Iterator[RowResult]:
    """Return the results of a run, joined with its rows, one in memory at a time.

    A row that failed is ``errored`` with the reason, an unreached one ``skipped``.
    """
    stored = runs.rows(run)
    upcoming = next(stored, None)
    for row in rows:
        match = None
        if upcoming is not None and upcoming.id == row.id:
            match, upcoming = upcoming, next(stored, None)
        if match is not None and has_result(match):
            yield result_of(match.body)
            continue
        state, body = ("skipped", {}) if match is None else (match.state, match.body)
        result = _result_without_scores(row.id, measures, state, body)
        answered_row = row if row.response is not None else None
        yield replace(result, ranking=row.retrieved_context_ids, row=answered_row)


def run_evaluation(
    runs: Runs, run: str, testset: Testset, measures: Sequence[Measure], seed: int = 0
) -> Evaluation:
    """Summarise a run's rows on their testset."""
    results, errors = _read_stored_rows(runs, run)
    evaluation = summarise(testset, results, measures, seed=seed, errors=errors)
    return replace(evaluation, manifest=runs.get(run).manifest)


def load_evaluation(runs: Runs, name: str, seed: int = 0) -> Evaluation:
    """Return the evaluation of a run, from its stored rows alone.

    Rows that failed are ``errored`` with the reason, unreached ones ``skipped``.

    A run of `ragwright baseline` has the distances of its experiment's answers.

    Raises:
        StoreError: The run does not exist or has no scores.
    """
    run = name if runs.holds(name) else find_run(runs, name)
    stored = runs.get(run)
    if stored.kind == BASELINE:
        return distance_evaluation(runs, stored, seed)
    manifest = stored.manifest
    measures = _measures_of_run(stored)
    results = tuple(load_results(runs, run, measures))
    groups = clusters_of_results(results)
    evaluation = evaluation_of(
        results, measures, name=run, seed=seed, clusters=groups.values() or None
    )
    return replace(
        evaluation,
        manifest=manifest,
        notes=(*_stopped_note(stored, results), *promise_note(manifest)),
    )


def promise_note(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The promise that the answers of a run were given under; empty without one."""
    promise = manifest.get("promise")
    return (str(promise["line"]),) if isinstance(promise, Mapping) else ()


def _stopped_note(run: Run, results: Sequence[RowResult]) -> tuple[str, ...]:
    """Return a note on a run that was stopped; empty for a complete one."""
    if run.state == "complete":
        return ()
    missing = sum(all(score.state == "skipped" for score in result.scores) for result in results)
    return (
        f"run {run.id} was stopped: {missing} of {len(results)} rows have no result "
        "(the same command with --resume continues)",
    )


def load_results(
    runs: Runs, run: str, measures: Sequence[Measure] | None = None
) -> Iterator[RowResult]:
    """Return the results of a run by its id, from its rows alone, one in memory at a time."""
    measured = _measures_of_run(runs.get(run)) if measures is None else measures
    for row in runs.rows(run):
        if has_result(row):
            yield result_of(row.body)
        else:
            yield _result_without_scores(row.id, measured, row.state, row.body)


@dataclass(frozen=True, slots=True)
class RunMean:
    """Mean of one measure of a run, without an interval.

    Attributes:
        mean: With abstentions on rows with gold at the worst value of the measure, if it has one.
        answered: Mean of the scored rows.
        coverage: Share of the rows with gold that have a score, 0 to 1.
        abstained: Abstentions that ``mean`` counts as the worst value.
    """

    mean: float
    answered: float
    coverage: float
    abstained: int = 0


def run_means(runs: Runs, run: str) -> dict[str, RunMean]:
    """Return the mean of each measure of a run, from its stored rows alone; no mean, no entry."""
    measures = _measures_of_run(runs.get(run))
    scores: dict[str, list[Score]] = {}
    for result in load_results(runs, run, measures):
        for score in result.scores:
            scores.setdefault(score.measure, []).append(score)
    scales = {str(measure): measure.known_scale for measure in measures}
    means = {name: _run_mean(of_measure, scales.get(name)) for name, of_measure in scores.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def _run_mean(scores: Sequence[Score], scale: MeasureScale | None) -> RunMean | None:
    values = [score.value for score in scores if score.value is not None]
    worst = None if scale is None else scale.worst
    missed = 0 if worst is None else sum(score.missed for score in scores)
    if not values:
        return None
    total = sum(not (score.no_gold or score.unanswerable) for score in scores)
    counted_all = values if worst is None else [*values, *[worst] * missed]
    return RunMean(fmean(counted_all), fmean(values), len(values) / total if total else 0.0, missed)


def has_result(row: RunRow) -> bool:
    """True if a row has scores; some of them may have failed."""
    return row.state == "done" or "scores" in row.body


def _measures_of_run(run: Run) -> tuple[Measure, ...]:
    """Return the measures of a run, with their scales in it.

    Raises:
        StoreError: The run holds rows of another kind, without measures.
    """
    manifest = run.manifest
    if "measures" not in manifest:
        raise StoreError(
            f"the run {run.id} is of `ragwright {run.kind}`: its rows have no scores to read",
            hint="name a run of `ragwright eval` or `ragwright score`; `ragwright compare` lists "
            "them",
        )
    scales = manifest.get("scales", {})
    return tuple(
        set_scale(measure, MeasureScale(**scales[str(measure)]) if str(measure) in scales else None)
        for measure in parse_measures(manifest["measures"])
    )


def _result_without_scores(
    row_id: str, measures: Sequence[Measure], state: str, body: Mapping[str, Any]
) -> RowResult:
    score_state: ScoreState = "errored" if state == "errored" else "skipped"
    reason = (
        f"{body.get('error')}: {body.get('what')}" if score_state == "errored" else "not evaluated"
    )
    return RowResult(row_id, (), tuple(Score(str(m), score_state, reason=reason) for m in measures))


def _read_stored_rows(runs: Runs, run: str) -> tuple[list[RowResult], dict[str, str]]:
    """Return the results of a run's rows, and the errors of those that failed."""
    results = []
    errors = {}
    for row in runs.rows(run):
        if has_result(row):
            results.append(result_of(row.body))
        elif row.state == "errored":
            errors[row.id] = f"{row.body.get('error')}: {row.body.get('what')}"
    return results, errors
