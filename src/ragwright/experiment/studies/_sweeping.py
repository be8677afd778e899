"""Sweeps: every trial of a study is an evaluation of the project under other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, TypeAlias

from ...core import (
    ConfigError,
    MeasureError,
    RagwrightError,
    Score,
    StoppedError,
    frame_of,
    html_table,
    list_changed_options,
    make_plain,
    value_hash,
)
from ...flow import Job, RunRow, RunSummary, run_job
from ...measure import Measure, Selection
from ...project import (
    SWEEP,
    TRIAL,
    Project,
    build_like,
    configuration_of,
    keep_configuration,
    load_settings,
    refuse_forget,
)
from ...testsets import Testset, project_testset
from ..evaluations import (
    EvaluationOptions,
    RowResult,
    clusters_of_rows,
    grounds,
    load_evaluation,
    plan_evaluation,
    questions_of,
    read_plain,
)
from ._study import Study
from ._trials import (
    Objective,
    Sampler,
    Trial,
    TrialResult,
    common_reason,
    leaderboard,
    objective_scores,
    objectives_of,
    pareto_front,
    selection_of,
    survivors,
    swept_settings,
    trial_result,
    variant_of,
)

Take: TypeAlias = Callable[[TrialResult], None]
PlannedTrial: TypeAlias = tuple[Trial, Job[RowResult]]


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
        objectives: Objectives of the trials.
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
    objectives: tuple[Objective, ...]
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
        return leaderboard(self.judged_by_first, self.objectives)

    @property
    def front(self) -> tuple[TrialResult, ...]:
        """Trials that no other trial dominates, by number."""
        return pareto_front(self.judged_by_first, self.objectives)

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
        return {judge: leaderboard(group, self.objectives) for judge, group in groups.items()}

    @property
    def judged_by_first(self) -> tuple[TrialResult, ...]:
        """Trials of the first judge, if several are swept: only those are ranked."""
        first = {axis.key: axis.values[0] for axis in self.study.judging if axis.values}
        return tuple(
            trial
            for trial in self.trials
            if all(trial.values.get(key, value) == value for key, value in first.items())
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
    return _Sweep(project, study, options or SweepOptions()).run()


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


@dataclass(slots=True)
class TrialPlan:
    """A trial ready to run: its rows and its job."""

    trial: Trial
    rows: Testset
    job: Job[Any]


def trial_how(study: Study, retry_errors: bool = False) -> EvaluationOptions:
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
    options = trial_how(study, retry_errors)
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
    measures: tuple[Measure, ...] = ()
    objectives: tuple[Objective, ...] = ()
    results: dict[int, TrialResult] = field(default_factory=dict)
    scores: dict[int, Mapping[str, Score]] = field(default_factory=dict)
    stopped: RagwrightError | None = None
    run_id: str = ""

    def run(self) -> SweepResult:
        project, options = self.project, self.study.options
        testset = study_rows(project, self.study)
        base = variant_of(project, self.study, Trial(0, {}))
        planned = plan_evaluation(base, testset, options.measures, trial_how(self.study))
        testset, self.measures = planned.rows, planned.measures
        self.objectives = objectives_of(options.objective, self.measures)
        self._open_run(testset, base)
        if options.rungs:
            self._halve(testset)
        else:
            self._run_search(testset)
        project.runs.finish(self.run_id, "stopped" if self.stopped else "complete")
        trials = (self.results[number] for number in sorted(self.results))
        current = self.results[0].summaries if 0 in self.results else ()
        notes = testset.notes
        if self.study.sweeps_embedder and "ChunkScore" in map(str, self.measures):
            notes = (
                *notes,
                "ChunkScore is the mean cosine of question and passages in each trial's own "
                "embedding model: compare it between trials of one model only",
            )
        return SweepResult(
            self.run_id,
            self.study,
            testset.name,
            tuple(map(str, self.measures)),
            self.objectives,
            tuple(trials),
            self.stopped,
            (*notes, *grounds(testset.rows, current)),
            self._best_selection(testset),
        )

    def _best_selection(self, testset: Testset) -> Selection | None:
        judge = {axis.key: axis.values[0] for axis in self.study.judging if axis.values}
        states = {
            number: trial.state
            for number, trial in self.results.items()
            if number in self.scores and all(trial.values.get(k, v) == v for k, v in judge.items())
        }
        # Trials dropped at a rung could have been chosen: they count in the correction.
        tried = [n for n in sorted(states) if n and states[n] in ("done", "dropped")]
        done = {self.results[n].id for n in tried if states[n] == "done"}
        if states.get(0) != "done" or not done:
            return None
        with suppress(MeasureError):
            return selection_of(
                self.scores[0],
                {self.results[n].id: self.scores[n] for n in tried},
                self.objectives[0],
                seed=self.study.options.seed,
                clusters=clusters_of_rows(testset.rows) or None,
                eligible=done,
                questions=questions_of(testset.rows),
            )
        return None

    def _run_search(self, testset: Testset) -> None:
        """Run every batch of the search on all rows."""
        self._run_batch([Trial(0, {})], testset, self._keep_trial)
        sampler = Sampler(self.study, self.objectives)
        while self.stopped is None and (batch := sampler.ask()):
            self._run_batch(batch, testset, self._keep_trial)
            for trial in batch:
                result = self.results[trial.number]
                values = [result.ranked_value(objective.name) for objective in self.objectives]
                known = [value for value in values if value is not None]
                sampler.tell(trial, known if len(known) == len(values) else None)

    def _halve(self, testset: Testset) -> None:
        """Successive halving: run all trials on few rows, and the better share on more."""
        options = self.study.options
        trials = [Trial(0, {}), *Sampler(self.study, self.objectives).ask()]
        rungs = [rung for rung in options.rungs if rung < testset.questions]
        for rung in rungs:
            results: list[TrialResult] = []
            self._run_batch(trials, testset.subset(rung, options.seed), results.append)
            if self.stopped is not None:
                for result in results:
                    self._keep_trial(replace(result, state="skipped", reason=self.stopped.what))
                return
            candidates = [result for result in results if result.number]
            best = {r.number for r in survivors(candidates, self.objectives, options.keep)}
            for result in candidates:
                if result.state != "done":
                    self._keep_trial(result)
                elif result.number not in best:
                    reason = f"not among the better {options.keep:.0%} after {rung} questions"
                    self._keep_trial(replace(result, state="dropped", reason=reason))
            trials = [trial for trial in trials if trial.number in best or not trial.number]
        self._run_batch(trials, testset, self._keep_trial)

    def _open_run(self, testset: Testset, base: Project) -> None:
        manifest = {
            "study": self.study.described(),
            "testset": testset.name,
            "rows": testset.fingerprint,
            "measures": [str(measure) for measure in self.measures],
            "objectives": [objective.name for objective in self.objectives],
            "incumbent": incumbent_hash(base, self.study, testset, self.measures),
        }
        runs, reuse = self.project.runs, self.project.session.reuse
        known = None
        if not self.options.retry_errors:
            known = runs.unfinished(SWEEP, manifest) or (reuse and runs.complete(SWEEP, manifest))
        self.run_id = known or runs.start(SWEEP, manifest)
        runs.keep(self.run_id, _OVERRIDES, {"set": list(self.project.session.overrides)})

    def _run_batch(self, trials: Sequence[Trial], testset: Testset, take: Take) -> None:
        """Run trials as one stream of rows, grouped by shared runners."""
        families: dict[int, list[tuple[Trial, Project]]] = {}
        ended: set[int] = set()

        def end(result: TrialResult) -> None:
            ended.add(result.number)
            take(result)

        for trial in trials:
            try:
                variant = variant_of(self.project, self.study, trial)
                families.setdefault(id(variant.models), []).append((trial, variant))
            except ConfigError as error:
                end(TrialResult(trial.number, trial.values, "invalid", reason=error.what))
        for family in families.values():
            self._run_family(self._with_index(family, end), testset, end)
        for trial in trials:
            if trial.number not in ended:
                reason = "" if self.stopped is None else self.stopped.what
                end(TrialResult(trial.number, trial.values, "skipped", reason=reason))

    def _with_index(
        self, family: Sequence[tuple[Trial, Project]], take: Take
    ) -> Sequence[tuple[Trial, Project]]:
        """Build missing indexes; report trials whose index fails and return the others."""
        placed: dict[str, list[tuple[Trial, Project]]] = {}
        failed: dict[str, str] = {}
        for trial, project in family:
            if self.stopped is not None:
                return ()
            key = ""
            try:
                key = project.index_spec.key
                if key not in placed and key not in failed:
                    build_like(project, self.project)
                    key = (
                        project.index_spec.key
                    )  # the length of a server's vectors is only known now
            except StoppedError as error:
                self.stopped = error
                return ()
            except RagwrightError as error:
                failed[key] = error.what
            if key in failed:
                take(TrialResult(trial.number, trial.values, "errored", reason=failed[key]))
            else:
                placed.setdefault(key, []).append((trial, project))
        return [member for key in sorted(placed) for member in placed[key]]

    def _run_family(
        self, family: Sequence[tuple[Trial, Project]], testset: Testset, take: Take
    ) -> None:
        if self.stopped is not None or not family:
            return
        retry = self.options.retry_errors
        prepared = [
            (trial, trial_job(project, self.study, testset, self.measures, retry))
            for trial, project in family
        ]
        if not self.study.points:  # the points of an ablation are all shown
            prepared = self._candidates(prepared, testset, take)
        variants = {trial.number: project for trial, project in family}
        alike: dict[str, list[PlannedTrial]] = {}
        for trial, job in prepared:
            alike.setdefault(value_hash(job.manifest), []).append((trial, job))
        for group in alike.values():
            if self.stopped is not None:
                break
            summary = run_job(family[0][1].runner, self.project.runs, group[0][1])
            if summary.skipped:
                self.stopped = self.stopped or summary.reason
            variant = variants[group[0][0].number]
            configuration = configuration_of(variant.folder, variant.settings)
            keep_configuration(self.project.runs, summary.run, configuration)
            for trial, _ in group:
                take(self._trial_result(trial, summary))

    def _candidates(
        self, planned: Sequence[PlannedTrial], testset: Testset, take: Take
    ) -> list[PlannedTrial]:
        """The trials less those of the current settings, which are no candidates."""
        base = variant_of(self.project, self.study, Trial(0, {}))
        current = incumbent_hash(base, self.study, testset, self.measures)
        others = []
        for trial, job in planned:
            if not trial.number or value_hash(job.manifest) != current:
                others.append((trial, job))
                continue
            known = replace(self.results.get(0, TrialResult(0, {}, "same")), current={})
            reason = "as the current settings (T000)"
            same = replace(known, number=trial.number, values=trial.values, state="same")
            take(replace(same, reason=reason))
        return others

    def _trial_result(self, trial: Trial, summary: RunSummary) -> TrialResult:
        if summary.skipped:
            reason = "" if summary.reason is None else summary.reason.what
            return TrialResult(
                trial.number, trial.values, "skipped", summary.run, summary.done, reason=reason
            )
        evaluation = load_evaluation(self.project.runs, summary.run, self.study.options.seed)
        first = self.objectives[0].name
        scores = self.scores[trial.number] = objective_scores(evaluation.results, first)
        result = trial_result(trial.number, trial.values, summary.run, evaluation)
        result = replace(result, reason=common_reason(scores.values()))
        if trial.number:
            return result
        return replace(
            result,
            current=swept_settings(self.project.settings, [axis.path for axis in self.study.axes]),
        )

    def _keep_trial(self, trial: TrialResult) -> None:
        self.results[trial.number] = trial
        state = "skipped" if trial.state == "skipped" else "done"  # a skipped one is run again
        self.project.runs.append(
            self.run_id, RunRow(trial.number, trial.id, state, make_plain(trial))
        )
        if self.options.on_trial is not None:
            self.options.on_trial(trial)


def incumbent_hash(
    base: Project, study: Study, testset: Testset, measures: Sequence[Measure]
) -> str:
    """Hash all that determines the rows of the current settings: settings, files, snapshot."""
    return value_hash(trial_job(base, study, testset, measures).manifest)


def run_trials(
    project: Project,
    study: Study,
    trials: Sequence[Trial],
    testset: Testset,
    measures: Sequence[Measure],
) -> list[Sequence[RowResult]]:
    """Run a study's trials on other rows; return their results in the order of the trials.

    Raises:
        StoppedError: The budget or the user stopped it; finished rows are kept.
    """
    results: list[Sequence[RowResult]] = []
    for trial in trials:
        variant = variant_of(project, study, trial)
        build_like(variant, project)
        job = trial_job(variant, study, testset, measures)
        summary = run_job(variant.runner, project.runs, job)
        configuration = configuration_of(variant.folder, variant.settings)
        keep_configuration(project.runs, summary.run, configuration)
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
