"""Sweeps: every trial of a study is an evaluation of the project under other settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, TypeVar

from ..core import (
    ConfigError,
    MeasureError,
    RagwrightError,
    Score,
    StoppedError,
    StoreError,
    StudyError,
    frame_of,
    html_table,
    list_changed_options,
    make_plain,
    value_hash,
)
from ..flow import Job, RunRow, Runs, RunSummary, run_job
from ..measure import Measure, Selection, parse_measures
from ..project import (
    SWEEP,
    TRIAL,
    Project,
    build_like,
    configuration_of,
    keep_configuration,
    load_settings,
    refuse_forget,
)
from ..testsets import Testset, project_testset
from ._clusters import clusters_of_rows
from ._compare_runs import grounds, questions_of
from ._evaluate import plan_evaluation
from ._results import EvaluationOptions, RowResult, read_plain
from ._stored_runs import load_evaluation, sweeps_by_use
from ._study import Study, rebuild_study
from ._trials import (
    Point,
    TrialResult,
    common_reason,
    leaderboard,
    objective_of,
    objective_scores,
    search_points,
    selection_of,
    trial_result,
    variant_of,
)

T = TypeVar("T")

_PACE = frozenset({"price_in", "price_out", "concurrency", "requests_per_minute", "timeout"})
"""Settings of a model that do not affect its replies."""

_OVERRIDES = "overrides"
"""Stored beside a sweep's manifest: the values of ``--set`` it was run with."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Options of a sweep's run.

    Attributes:
        retry_errors: Also rerun rows that failed.
        on_trial: Called with every trial as it ends.
    """

    retry_errors: bool = False
    on_trial: Callable[[TrialResult], None] | None = None


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Result of a sweep.

    Attributes:
        run: Run of the study; each row is a trial.
        study: The study.
        testset: The rows used for the choice, of the tune split.
        measures: Measures of every trial.
        objective: What the trials are ordered by.
        trials: By number; 0 is the project with its current settings.
        stopped: Why not every trial was run, None if all were.
        notes: What the reader should know.
        selection: The best candidate compared with the current settings, with the effect of the
            choice; None if there is nothing to choose from.
    """

    run: str
    study: Study
    testset: str
    measures: tuple[str, ...]
    objective: Measure
    trials: tuple[TrialResult, ...]
    stopped: RagwrightError | None = None
    notes: tuple[str, ...] = ()
    selection: Selection | None = None

    def __repr__(self) -> str:
        """The run, the number of trials and the best one."""
        best = f", the best {self.board[0].id}" if self.board else ""
        return f"<SweepResult {self.run!r}: {len(self.trials)} trials{best}>"

    def _repr_html_(self) -> str:
        """The trials as a table, best first, for a notebook."""
        records = self.to_records()
        head = list(records[0]) if records else ["trial"]
        return html_table(head, ([row[name] for name in head] for row in records), self.testset)

    def to_records(self) -> list[dict[str, Any]]:
        """One flat record per trial, best first: its values, means and facts."""
        placed = self.board
        trials = [*placed, *(trial for trial in self.trials if trial not in placed)]
        keys = dict.fromkeys(key for trial in trials for key in trial.values)
        facts = dict.fromkeys(name for trial in trials for name in trial.facts)
        return [
            {
                "trial": trial.id,
                "state": trial.state,
                **{key: trial.shown.get(key) for key in keys},
                **dict.fromkeys(self.measures),
                **{summary.measure: summary.mean for summary in trial.summaries},
                **{name: trial.facts.get(name) for name in facts},
            }
            for trial in trials
        ]

    def to_pandas(self) -> Any:
        """A data frame with one line per trial, best first.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return frame_of(self.to_records())

    @property
    def board(self) -> tuple[TrialResult, ...]:
        """Trials with a value, best first; with several judges, those of the first."""
        return leaderboard(self.judged_by_first, self.objective)

    @property
    def by_judge(self) -> Mapping[str, tuple[TrialResult, ...]]:
        """Boards of the judges after the first, by their swept values."""
        keys = [axis.key for axis in self.study.judging]
        first = {trial.number for trial in self.judged_by_first}
        groups: dict[str, list[TrialResult]] = {}
        for trial in self.trials:
            if trial.number not in first:
                judge = ", ".join(f"{key}={trial.values[key]}" for key in keys)
                groups.setdefault(judge, []).append(trial)
        return {judge: leaderboard(group, self.objective) for judge, group in groups.items()}

    @property
    def judged_by_first(self) -> tuple[TrialResult, ...]:
        """Trials of the first judge, if several are swept: only those are ranked."""
        return select_first_judge(self.study, self.trials)


def select_first_judge(study: Study, trials: Iterable[TrialResult]) -> tuple[TrialResult, ...]:
    """The trials of the first of several swept judges, and that of the current settings."""
    first = {axis.key: axis.values[0] for axis in study.judging}
    return tuple(
        trial for trial in trials if not trial.values or first.items() <= trial.values.items()
    )


@refuse_forget("sweep")
def run_sweep(project: Project, study: Study, options: SweepOptions | None = None) -> SweepResult:
    """Run every trial of a study on the tune split of its testset, and store the results.

    Shared work is done once: chunks and vectors of equal index settings, searches, replies. Rows
    are stored as they end; an interrupted sweep continues, and trials of other studies are reused.

    Raises:
        RetrieveError: The project itself has not been ingested.
        StudyError: An objective is not measured, or no trial can be run.
    """
    base = variant_of(project, study, {})
    planned = plan_evaluation(
        base, study_rows(project, study), study.options.measures, trial_options(study)
    )
    testset, measures = planned.rows, planned.measures
    objective = objective_of(study.options.objective, measures)
    current = incumbent_hash(base, study, testset, measures)
    sweep = _Sweep(project, study, options or SweepOptions(), testset, measures, objective, current)
    return sweep.run()


def study_rows(project: Project, study: Study) -> Testset:
    """The rows of a study: the tune split or a subset of it, for its personas.

    Raises:
        TestsetError: The testset cannot be read, or the split is empty.
    """
    options = study.options
    testset = project_testset(
        project.folder, options.testset, "tune", limit=options.limit, seed=options.seed
    )
    return testset.asked_for(options.personas)


def trial_options(study: Study, retry_errors: bool = False) -> EvaluationOptions:
    """Return the options for evaluating a study's trials."""
    options = study.options
    return EvaluationOptions(
        resume=True,
        retry_errors=retry_errors,
        seed=options.seed,
        answers=not options.retrieval_only,
        vectors_vary=study.sweeps_embedder,
    )


def trial_job(
    project: Project,
    study: Study,
    testset: Testset,
    measures: Sequence[Measure],
    retry_errors: bool = False,
) -> Job[RowResult]:
    """Plan the job that runs a trial's project over rows, into a run that studies may share."""
    options = trial_options(study, retry_errors)
    job = plan_evaluation(project, testset, measures, options).job
    changes = {
        name: {key: value for key, value in list_changed_options(model).items() if key not in _PACE}
        for name, model in project.settings.models.items()
    }
    models = {name: changed for name, changed in changes.items() if changed}
    manifest = {**job.manifest, "models": value_hash(models), "version": version("ragwright")}
    return replace(
        job,
        kind=TRIAL,
        manifest=manifest,
        resume=True,
        retry_errors=retry_errors,
        reuse=project.session.reuse,
    )


@dataclass(slots=True)
class _Sweep:
    """A sweep in progress."""

    project: Project
    study: Study
    options: SweepOptions
    testset: Testset
    measures: tuple[Measure, ...]
    objective: Measure
    current: str
    """Hash of the current settings, see :func:`incumbent_hash`."""
    run_id: str = ""
    results: list[TrialResult] = field(default_factory=list)
    scores: dict[str, Mapping[str, Score]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Key of an index that cannot be built -> why."""
    stopped: RagwrightError | None = None

    def run(self) -> SweepResult:
        self._open_run()
        self._run_point({})
        search, value = search_points(self.study, self.objective), None
        with suppress(StopIteration):
            while True:
                trial = self._run_point(search.send(value))
                value = trial.ranked_value(str(self.objective))
        self.project.runs.finish(self.run_id, "stopped" if self.stopped else "complete")
        notes = self.testset.notes
        if self.study.sweeps_embedder and "ChunkScore" in map(str, self.measures):
            notes = (
                *notes,
                "ChunkScore is the mean cosine of question and passages in each trial's own "
                "embedding model: compare it between trials of one model only",
            )
        return SweepResult(
            self.run_id,
            self.study,
            self.testset.name,
            tuple(map(str, self.measures)),
            self.objective,
            tuple(self.results),
            self.stopped,
            (*notes, *grounds(self.testset.rows, self.results[0].summaries)),
            self._select(),
        )

    def _open_run(self) -> None:
        manifest = {
            "study": self.study.described(),
            "testset": self.testset.name,
            "rows": self.testset.fingerprint,
            "measures": [str(measure) for measure in self.measures],
            "objective": str(self.objective),
            "incumbent": self.current,
        }
        runs, reuse = self.project.runs, self.project.session.reuse
        known = None
        if not self.options.retry_errors:
            known = runs.unfinished(SWEEP, manifest) or (reuse and runs.complete(SWEEP, manifest))
        self.run_id = known or runs.start(SWEEP, manifest)
        runs.keep(self.run_id, _OVERRIDES, {"set": list(self.project.session.overrides)})

    def _run_point(self, point: Point) -> TrialResult:
        """Run a trial, unless the sweep is stopped, and store its result."""
        number = len(self.results)
        if self.stopped is None:
            trial = self._evaluate(TrialResult(number, point, "done"))
        else:
            trial = TrialResult(number, point, "skipped", reason=self.stopped.what)
        if not number:
            keys = (axis.key for axis in self.study.axes)
            current = {key: make_plain(self.project.settings.value(key)) for key in keys}
            trial = replace(trial, current=current)
        self.results.append(trial)
        state = "skipped" if trial.state == "skipped" else "done"  # a skipped one is run again
        self.project.runs.append(self.run_id, RunRow(number, trial.id, state, make_plain(trial)))
        if self.options.on_trial is not None:
            self.options.on_trial(trial)
        return trial

    def _evaluate(self, trial: TrialResult) -> TrialResult:
        try:
            variant = variant_of(self.project, self.study, trial.values)
            key = variant.index_spec.key  # opens a local embedding model
        except ConfigError as error:
            return replace(trial, state="invalid", reason=error.what)
        except RagwrightError as error:
            return replace(trial, state="errored", reason=error.what)
        try:
            if key not in self.failed:
                build_like(variant, self.project)
        except StoppedError as error:
            self.stopped = error
            return replace(trial, state="skipped", reason=error.what)
        except RagwrightError as error:
            self.failed[key] = error.what
        if key in self.failed:
            return replace(trial, state="errored", reason=self.failed[key])
        retry = self.options.retry_errors
        job = trial_job(variant, self.study, self.testset, self.measures, retry)
        same = trial.number and value_hash(job.manifest) == self.current
        if same and not self.study.points:  # the points of an ablation are all shown
            known = replace(self.results[0], number=trial.number, values=trial.values, current={})
            return replace(known, state="same", reason="as the current settings (T000)")
        summary = run_trial(variant, job)
        if summary.skipped:
            self.stopped = summary.reason
            reason = "" if summary.reason is None else summary.reason.what
            return replace(
                trial, state="skipped", run=summary.run, rows=summary.done, reason=reason
            )
        evaluation = load_evaluation(self.project.runs, summary.run, self.study.options.seed)
        scores = objective_scores(evaluation.results, self.objective)
        self.scores[trial.id] = scores
        result = trial_result(trial.number, trial.values, summary.run, evaluation)
        return replace(result, reason=common_reason(scores.values()))

    def _select(self) -> Selection | None:
        """The best trial of the first judge; None if there is nothing to choose from."""
        ranked = [t.id for t in select_first_judge(self.study, self.results) if t.id in self.scores]
        if len(ranked) < 2 or ranked[0] != self.results[0].id:
            return None
        with suppress(MeasureError):
            return selection_of(
                self.scores[ranked[0]],
                {name: self.scores[name] for name in ranked[1:]},
                self.objective,
                seed=self.study.options.seed,
                clusters=clusters_of_rows(self.testset.rows) or None,
                questions=questions_of(self.testset.rows),
            )
        return None


def run_trial(variant: Project, job: Job[RowResult]) -> RunSummary:
    """Run a trial's job and keep the configuration beside its run."""
    summary = run_job(variant.runner, variant.runs, job)
    configuration = configuration_of(variant.folder, variant.settings)
    keep_configuration(variant.runs, summary.run, configuration)
    return summary


def incumbent_hash(
    base: Project, study: Study, testset: Testset, measures: Sequence[Measure]
) -> str:
    """Hash all that determines the rows of the current settings: settings, files, snapshot."""
    return value_hash(trial_job(base, study, testset, measures).manifest)


def run_trials(
    project: Project,
    study: Study,
    points: Iterable[Point],
    testset: Testset,
    measures: Sequence[Measure],
) -> list[Sequence[RowResult]]:
    """Run a study's trials on other rows; return their results in the order of the points.

    Raises:
        StoppedError: The budget or the user stopped it; finished rows are kept.
    """
    results: list[Sequence[RowResult]] = []
    for point in points:
        variant = variant_of(project, study, point)
        build_like(variant, project)
        summary = run_trial(variant, trial_job(variant, study, testset, measures))
        if summary.reason is not None:
            raise summary.reason
        results.append(load_evaluation(project.runs, summary.run).results)
    return results


def set_swept_values(project: Project, run: str) -> Project:
    """Return the project with the values of ``--set`` that a sweep was run with.

    A project that was opened with ``--set`` values is returned as it is.
    """
    overrides = tuple(project.runs.kept(run, _OVERRIDES).get("set", ()))
    if project.session.overrides or not overrides:
        return project
    return project.variant(
        load_settings(project.folder.file, overrides), replace(project.session, overrides=overrides)
    )


def load_trials(project: Project, run: str) -> tuple[TrialResult, ...]:
    """Read the trials of a stored sweep, by number."""
    return tuple(read_plain(TrialResult, row.body) for row in project.runs.rows(run) if row.body)


def load_sweep(project: Project, name: str) -> SweepResult:
    """Read a stored sweep: ``latest``, its name, the beginning of one, or its study's name.

    Raises:
        StoreError: No sweep, or several, match.
        StudyError: It has no trial with a value.
    """
    runs = sweeps_by_use(project.runs)
    if not runs:
        raise StoreError("no sweep is stored", hint="run `ragwright sweep STUDY`")
    if name == "latest":  # not the sweep of an ablation, which lists its points
        matches = [run for run in runs if not run.manifest["study"].get("points")][-1:]
    else:
        matches = [run for run in runs if run.id.startswith(name)]
        matches = matches or [r for r in runs if r.manifest["study"]["name"] == name][-1:]
    if len(matches) != 1:
        latest = ", ".join(run.id for run in runs[-5:])
        problem = f"{len(matches)} sweeps begin with" if matches else "unknown sweep"
        raise StoreError(f"{problem} {name!r}", hint=f"the last sweeps: {latest}")
    [run] = matches
    measures = parse_measures(run.manifest["measures"])
    swept = SweepResult(
        run.id,
        rebuild_study(run.manifest["study"]),
        run.manifest["testset"],
        tuple(map(str, measures)),
        objective_of(run.manifest["objective"], measures),
        load_trials(project, run.id),
    )
    if not any(trial.number for trial in swept.board) or not swept.trials[0].run:
        raise StudyError(
            f"no trial of the sweep {run.id} has a value of {swept.objective}",
            hint="see its trials: ragwright report, or sweep again",
        )
    return swept


def open_once(
    runs: Runs,
    kind: str,
    manifest: Mapping[str, Any],
    open_split: Callable[[bool], T],
    conclude: Callable[[str, T], Iterable[Mapping[str, Any]]],
) -> tuple[str, bool]:
    """Open a confirm split and store what it shows, once: the run, True if it was stored before.

    Args:
        runs: Stored runs.
        kind: Kind of the run.
        manifest: What determines the result: a complete run of it is not made again.
        open_split: Opens the split, before the run starts; its argument is True if an interrupted
            run has opened it, so that the opening is logged already.
        conclude: Bodies of the rows to store, from the name of the run and what was opened.
    """
    known = runs.complete(kind, manifest)
    if known is not None:
        return known, True
    begun = runs.unfinished(kind, manifest)
    opened = open_split(begun is not None)
    run = begun or runs.start(kind, manifest)
    for position, body in enumerate(conclude(run, opened)):
        runs.append(run, RunRow(position, f"{kind} {position}", "done", body))
    runs.finish(run, "complete")
    return run, False
