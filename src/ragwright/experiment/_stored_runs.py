"""Runs of rows: planned, stored as the rows end, found by name and read again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from ..core import (
    ConfigError,
    Row,
    Score,
    ScoreState,
    StoreError,
    list_changed_options,
    make_plain,
    values_hash,
)
from ..flow import Flow, Forecast, Job, Run, Runner, RunRow, Runs, RunSummary, run_job
from ..measure import (
    Measure,
    MeasureScale,
    MeasureSetup,
    load_shipped_rubrics,
    no_relevant_note,
    parse_measures,
    prompts_fingerprint,
    set_scale,
)
from ..project import Project
from ..testsets import Testset, make_plain_row
from ._clusters import clusters_of_results, clusters_of_rows
from ._notes import NoteCollector
from ._results import Evaluation, RowResult, RunOptions, evaluation_of, read_plain
from ._rows import add_null_baselines, answer_row, baseline_flows

T = TypeVar("T")

_MEASURE = "QADistance"

BASELINE = "baseline"
"""Kind of runs that hold pairs with their distances."""

_KINDS = ("eval", "score")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_STEPS = re.compile(r"(?P<name>.+?)~(?P<back>[0-9]+)")
_TRIAL = re.compile(r"(?:(?P<sweep>[0-9a-z-]+):)?(?P<trial>T[0-9]{3,})")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A stored evaluation or sweep, as an entry of a list.

    Attributes:
        id: Its id, which sorts by time.
        name: Its name, that of a sweep's study, or empty.
        started: Local time, ``2026-11-21 14:31``.
        testset: The testset's address.
        measures: Measures in order.
        state: ``complete``, ``stopped`` or ``open``.
    """

    id: str
    name: str
    started: str
    testset: str
    measures: tuple[str, ...]
    state: str


def check_run_name(name: str) -> str:
    """Return the name if it is valid for a run.

    Raises:
        ConfigError: It is ``latest``, or could be taken for an id or a step back.
    """
    if name and (not _NAME.fullmatch(name) or name == "latest"):
        raise ConfigError(
            f"{name!r} cannot be the name of a run",
            where="--name",
            hint="a letter, then letters, digits, _ . and -; and not `latest`",
        )
    return name


def list_evaluations(runs: Runs) -> tuple[KnownRun, ...]:
    """Return the stored evaluations, newest first: the ones that ``latest~N`` counts."""
    known = [run for run in runs.list() if run.kind in _KINDS]
    return tuple(map(find_known_run, reversed(_keep_with_rows(runs, known))))


def find_run(runs: Runs, name: str) -> str:
    """Return the id of the run with a name.

    ``latest`` is the newest run, ``latest~1`` the one before it; runs that were stopped before a
    row was done do not count. A name of several runs means the newest of them, and ``name~1`` the
    one before. ``T007`` is a trial of the latest sweep, ``RUN:T007`` of another. Baselines are
    named by their id or its beginning.

    Raises:
        StoreError: No run, or several, match; the newest ones are listed.
    """
    trial = _TRIAL.fullmatch(name)
    if trial is not None:
        return _trial_run(runs, trial["sweep"] or "latest", trial["trial"])
    known = [run for run in runs.list() if run.kind in _KINDS]
    step = _STEPS.fullmatch(name)
    run_name, back = (step["name"], int(step["back"])) if step else (name, 0)
    if run_name == "latest":
        named = _keep_with_rows(runs, known)
    else:
        named = [run for run in known if run.name == run_name]
    if len(named) > back:
        return named[-1 - back].id
    candidates = () if step else (*known, *runs.list(BASELINE))
    begun = [run for run in candidates if run.id.startswith(name)]
    if len(begun) == 1:
        return begun[0].id
    if re.search(r"/|\.[a-z]{2,7}$", name) and not begun:
        raise StoreError("no such file", where=name, hint="check the path")
    if not known:
        raise StoreError(
            f"unknown run {name!r}", hint="no run is stored yet: run `ragwright eval` first"
        )
    problem = f"unknown run {name!r}, and no file of that name"
    if named:
        called = "" if run_name == "latest" else f" of the name {run_name!r}"
        problem = f"{name!r} needs {back + 1} runs{called}; stored: {len(named)}"
    elif begun:
        problem = f"{len(begun)} runs begin with {name!r}"
    newest = begun or known
    lines = "".join(
        f"\n  {run.id} {run.name}  ({run.started}, {run.testset}: {', '.join(run.measures)})"
        for run in map(find_known_run, reversed(newest[-_SHOWN:]))
    )
    rest = f"\n  … {len(newest)} in all: `ragwright compare` lists them" if newest[_SHOWN:] else ""
    raise StoreError(problem, hint=f"name one, or latest:{lines}{rest}")


def list_sweeps(runs: Runs) -> tuple[KnownRun, ...]:
    """Return the stored sweeps, newest first."""
    return tuple(map(find_known_run, reversed(runs.list("sweep"))))


def sweeps_by_use(runs: Runs) -> list[Run]:
    """Return stored sweeps, the most recently run or shown last."""
    return sorted(runs.list("sweep"), key=lambda run: (run.ended or run.started, run.id))


def _trial_run(runs: Runs, sweep: str, trial: str) -> str:
    sweeps = sweeps_by_use(runs)
    if sweep != "latest":
        sweeps = [run for run in sweeps if run.id.startswith(sweep)]
    if len(sweeps) != 1 and (sweep != "latest" or not sweeps):
        problem = f"{len(sweeps)} sweeps begin with" if sweeps else "unknown sweep"
        raise StoreError(
            f"{problem} {sweep!r}", hint="run `ragwright sweep STUDY` first, or give its name"
        )
    rows = {row.id: str(row.body.get("run", "")) for row in runs.rows(sweeps[-1].id)}
    if not rows.get(trial):
        trials = ", ".join(name for name, run in rows.items() if run) or "none"
        raise StoreError(
            f"the sweep {sweeps[-1].id} has no rows of {trial}", hint=f"it has those of: {trials}"
        )
    return rows[trial]


def _keep_with_rows(runs: Runs, known: Sequence[Run]) -> Sequence[Run]:
    """Return the runs with a finished row, oldest first; all runs if none has one."""
    return [
        run for run in known if run.state == "complete" or "done" in runs.states(run.id).values()
    ] or known


def find_known_run(run: Run) -> KnownRun:
    """Return a stored run as an entry of a list."""
    manifest: Mapping[str, Any] = run.manifest
    return KnownRun(
        run.id,
        run.name or str(manifest.get("name") or manifest.get("study", {}).get("name", "")),
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        str(manifest.get("testset", "")),
        tuple(manifest.get("measures", ())),
        run.state,
    )


class ReadAgain(Generic[T]):
    """Items in order, read again by each loop, one in memory at a time.

    Args:
        read: Reads them from the first to the last.
    """

    def __init__(self, read: Callable[[], Iterator[T]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[T]:
        return self._read()

    @cached_property
    def _count(self) -> int:
        return sum(1 for _ in self._read())

    def __len__(self) -> int:
        """Number of items; the first call reads all of them and raises their faults."""
        return self._count


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows to score as they are, with their name and notes."""

    name: str
    rows: ReadAgain[Row]
    notes: tuple[str, ...] = ()


NamedRowsT = TypeVar("NamedRowsT", Testset, GivenRows)
"""Rows with the name of their source."""


def add_row_notes(rows: NamedRowsT, *notes: str) -> NamedRowsT:
    """Return rows with further notes, without empty ones."""
    return replace(rows, notes=(*rows.notes, *filter(None, notes)))


@dataclass(frozen=True, slots=True)
class RowPlan(Generic[NamedRowsT]):
    """A run of rows: the rows with their notes, their measures, and the job that scores them.

    ``setup`` is the judge's; None if only rankings are scored.
    """

    rows: NamedRowsT
    measures: tuple[Measure, ...]
    job: Job[RowResult]
    setup: MeasureSetup | None = None


def plan_rows(
    kind: str,
    rows: NamedRowsT,
    measures: Sequence[Measure],
    setup: MeasureSetup | None,
    make_flow: Callable[[Row], Flow[RowResult]],
    manifest: Mapping[str, Any] | None = None,
) -> RowPlan[NamedRowsT]:
    """Plan a run of rows: its job, and a manifest that determines the results.

    Args:
        kind: ``eval`` if the rows are answered or searched for, ``score`` if they hold an answer.
        rows: Read as they are scored.
        measures: Measures in order.
        setup: The judge's; None if only rankings are scored.
        make_flow: The flow of one row.
        manifest: What determines the results besides rows, measures and judge.
    """
    # Only for custom rubrics: other texts define their scale.
    scales = {str(m): make_plain(m.scale) for m in measures if m.scale is not None}
    pinned: dict[str, Any] = {
        "testset": rows.name,
        "rows": values_hash(make_plain_row(row) for row in rows.rows),
        "measures": [str(measure) for measure in measures],
        **({"scales": scales} if scales else {}),
        **(manifest or {}),
    }
    if setup is not None:  # what determines a judgment: settings, prompts, rubrics by their hash
        rubrics = {**load_shipped_rubrics(), **setup.rubrics}
        pinned |= {
            "judge": list_changed_options(replace(setup, rubrics={})),
            "judge_prompts": prompts_fingerprint(),
            "rubrics": {name: rubrics[name].fingerprint for name in sorted(rubrics)},
        }
    if kind == "eval":
        topics = [row.reference_ids for row in rows.rows if row.reference_ids]
        rows = add_row_notes(rows, no_relevant_note(measures, topics))
    job = Job(
        kind,
        pinned,
        ReadAgain(lambda: ((row.id, partial(make_flow, row)) for row in rows.rows)),
        make_plain,
        lambda result: list(dict.fromkeys(result.ranking)),
        resume=False,
        failed=lambda result: any(score.state == "errored" for score in result.scores),
    )
    return RowPlan(rows, tuple(measures), job, setup)


def forecast_plan(project: Project, plan: RowPlan[Any]) -> Forecast:
    """Forecast the calls and cost of a run of rows, without calling any model."""
    baselines = baseline_flows(plan.rows.rows, plan.measures, plan.setup)
    return project.runner.forecast((*(make for _, make in plan.job.items), *baselines))


def run_plan(
    project: Project,
    plan: RowPlan[Any],
    options: RunOptions,
    each: Callable[[RowResult], None] | None = None,
) -> tuple[Evaluation, RunSummary]:
    """Run the rows of a plan, store each as it ends, and summarise what is stored.

    Raises:
        ConfigError: The requested name of the run is invalid; raised before the first row.
    """
    summary = run_named(project.runner, project.runs, plan.job, options)
    results = load_results(project.runs, summary.run, plan.measures, plan.rows.rows)
    evaluation = summarise(
        results, plan.rows, plan.measures, (project.runner, plan.setup), options.seed, each
    )
    return replace(evaluation, manifest=project.runs.get(summary.run).manifest), summary


def summarise(
    results: Iterable[RowResult],
    rows: Testset | GivenRows,
    measures: Sequence[Measure],
    runner_and_judge: tuple[Runner, MeasureSetup | None],
    seed: int = 0,
    each: Callable[[RowResult], None] | None = None,
) -> Evaluation:
    """Summarise the results of rows one by one, with notes and null baselines.

    Args:
        results: One per row, in their order.
        rows: The rows, with notes.
        measures: Measures of the results, in their order.
        runner_and_judge: For null baselines.
        seed: Seed of the intervals.
        each: Called with every result; the evaluation then holds only summaries.
    """
    collector, stored = NoteCollector(), list[RowResult]()
    # Null baselines are computed from the answers themselves.
    holds_results = each is None or _MEASURE in map(str, measures)

    def take(result: RowResult) -> None:
        collector.add(result)
        if holds_results:
            stored.append(result)
        if each is not None:
            each(result)

    clusters = clusters_of_rows(rows.rows).values() or None
    evaluation = evaluation_of(
        results, measures, name=rows.name, seed=seed, clusters=clusters, each=take
    )
    evaluation = replace(evaluation, results=tuple(stored), notes=rows.notes)
    runner, judge = runner_and_judge
    evaluation = add_null_baselines(evaluation, runner, judge, seed)
    notes = tuple(dict.fromkeys((*evaluation.notes, *collector.notes())))
    return replace(evaluation, results=() if each else evaluation.results, notes=notes)


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


def _load_distances(runs: Runs, run: Run, seed: int) -> Evaluation:
    """Return the answers of a baseline's experiment as rows scored by ``QADistance``.

    Its manifest is that of the run in which the experiment answered, so that the settings of two
    experiments can be compared; the embedding model of the distances is its judge.

    Raises:
        StoreError: The run holds no answer.
    """
    rows = runs.rows(run.id)
    results = [distance_row(row.body) for row in rows if row.body.get("set") == "experiment"]
    if not results:
        raise StoreError(
            f"the baseline {run.id} has no answers of the set 'experiment'",
            hint="run `ragwright baseline` again",
        )
    groups = clusters_of_results(results)
    evaluation = evaluation_of(
        results, parse_measures(_MEASURE), name=run.id, seed=seed, clusters=groups.values() or None
    )
    answers_run = str(run.manifest.get("runs", {}).get("experiment", ""))
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
        return _load_distances(runs, stored, seed)
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
    if run.state == "complete":
        return ()
    missing = sum(all(score.state == "skipped" for score in result.scores) for result in results)
    return (
        f"run {run.id} was stopped: {missing} of {len(results)} rows have no result "
        "(the same command with --resume continues)",
    )


def load_results(
    runs: Runs, run: str, measures: Sequence[Measure] | None = None, rows: Iterable[Row] = ()
) -> Iterator[RowResult]:
    """Return the results of a run by its id, one in memory at a time.

    A row that failed is ``errored`` with the reason, an unreached one ``skipped``; it keeps its
    answer if ``rows``, those of the run in their order, hold it.
    """
    measured = _measures_of_run(runs.get(run)) if measures is None else measures
    given = iter(rows)
    for stored in runs.rows(run):
        row = next(given, None)
        if has_result(stored):
            yield read_plain(RowResult, stored.body)
            continue
        state: ScoreState = "errored" if stored.state == "errored" else "skipped"
        reason = (
            f"{stored.body.get('error')}: {stored.body.get('what')}"
            if state == "errored"
            else "not evaluated"
        )
        answered = row if row is not None and row.response is not None else None
        scores = tuple(Score(str(m), state, reason=reason) for m in measured)
        yield RowResult(
            stored.id, answered.retrieved_context_ids if answered else (), scores, answered
        )


_LOST = "ragwright:lost"


def rebuild_lost_row(result: RowResult) -> Row:
    """Return a row for a result without one, so that rescoring includes it.

    Without it, failed rows would raise the coverage with every rescoring.
    """
    state = next((score.state for score in result.scores), "errored")
    reason = next((score.reason for score in result.scores), "")
    return Row(result.row_id, "", metadata={_LOST: (state, reason)})


def score_given_row(row: Row, measures: Sequence[Measure], setup: MeasureSetup) -> Flow[RowResult]:
    """Score a row as it is; a row of :func:`rebuild_lost_row` keeps its state."""
    lost = row.metadata.get(_LOST)
    if isinstance(lost, tuple):
        state: ScoreState = "skipped" if lost[0] == "skipped" else "errored"
        return RowResult(row.id, (), tuple(Score(str(m), state, reason=lost[1]) for m in measures))
    return (yield from answer_row(row, measures, setup))


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
