"""ConfirmOptions: the best trials of a sweep against the current settings, on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...core import StoreError, StudyError, TestsetError, count_noun, make_plain
from ...flow import Forecast, Run, RunRow, Runs, run_job
from ...measure import Comparison, Measure, Selection, parse_measures
from ...project import (
    CONFIRM,
    Project,
    build_like,
    configuration_of,
    keep_configuration,
    refuse_forget,
)
from ...testsets import Openings, Testset, project_testset
from ..evaluations import (
    RowResult,
    clusters_of_results,
    grounds,
    load_evaluation,
    questions_of,
    read_plain,
    sweeps_by_use,
)
from ..studies import (
    Objective,
    Study,
    Trial,
    TrialResult,
    incumbent_hash,
    leaderboard,
    load_trials,
    objective_scores,
    objectives_of,
    rebuild_study,
    selection_of,
    set_swept_values,
    study_rows,
    trial_how,
    trial_plan,
    variant_of,
)
from ._verdict import (
    Confirmation,
    StudyVerdict,
    compare_with_incumbent,
    correct_confirmations,
)


@dataclass(frozen=True, slots=True)
class ConfirmOptions:
    """Options of a confirmation.

    Attributes:
        top: How many of the best trials are confirmed together.
        clusters: What dependent rows have in common: empty or ``document`` for gold
            documents, ``row`` for rows that stand for themselves, else a column.
    """

    top: int = 1
    clusters: str = ""


@dataclass(frozen=True, slots=True)
class ConfirmResult:
    """The outcome of :func:`confirm`.

    Attributes:
        run: Run that holds the result.
        study: The swept study.
        verdict: The result on both splits.
        again: True if it was confirmed before and the stored result is shown.
        overrides: Values of ``--set`` that were taken from the sweep.
    """

    run: str
    study: Study
    verdict: StudyVerdict
    again: bool = False
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _StoredSweep:
    """The parts of a stored sweep that confirming needs."""

    run: Run
    study: Study
    trials: tuple[TrialResult, ...]
    measures: tuple[Measure, ...]
    objective: Objective

    @property
    def board(self) -> tuple[TrialResult, ...]:
        """Candidates with a value, best first."""
        return tuple(trial for trial in leaderboard(self.trials, [self.objective]) if trial.number)

    @property
    def incumbent(self) -> TrialResult:
        """The trial of the current settings."""
        return next(trial for trial in self.trials if not trial.number)


@refuse_forget("confirm")
def confirm(
    project: Project,
    name: str,
    options: ConfirmOptions | None = None,
    told: Callable[[str], None] | None = None,
) -> ConfirmResult:
    """Compare the best trials of a stored sweep with the current settings, on the confirm split.

    Values of ``--set`` are those of the sweep, unless the project was opened with its own.

    The split is opened once: this is logged before a row of it is read, and confirming the same
    trials again only shows the result. If no candidate leads, it stays closed. Before it is
    opened, ``told`` gets the least gain that its rows can prove.

    Raises:
        StoreError: There is no such sweep.
        StudyError: The sweep has no candidate with a value, or the project has changed since.
        TestsetError: The confirm split is empty, or the log of openings cannot be written.
    """
    opening = _Opening(project, name, options or ConfirmOptions(), told)
    confirmed = opening.confirm()
    if opening.project is project:
        return confirmed
    return replace(confirmed, overrides=opening.project.session.overrides)


def forecast_confirm(
    project: Project,
    name: str,
    options: ConfirmOptions | None = None,
    told: Callable[[str], None] | None = None,
) -> Forecast:
    """Forecast the calls and cost of :func:`confirm`; show no result and log no opening.

    ``told`` gets the least gain that the held-out rows can prove. The forecast is empty if no
    candidate leads, or if the trials were confirmed before.

    Raises:
        StoreError: There is no such sweep.
        StudyError: The sweep has no candidate with a value, or the project has changed since.
    """
    return _Opening(project, name, options or ConfirmOptions(), told).forecast()


class _Opening:
    """The opening of the confirm split for the best trial and the next of the leaderboard.

    Raises:
        StudyError: The project has changed since the sweep.
    """

    def __init__(
        self,
        project: Project,
        name: str,
        options: ConfirmOptions,
        told: Callable[[str], None] | None,
    ) -> None:
        self._swept = swept = load_sweep(project, name)
        self.project = project = set_swept_values(project, swept.run.id)
        self._by, self._told = options.clusters, told
        self._tune = study_rows(project, swept.study)
        base = variant_of(project, swept.study, Trial(0, {}))
        now = incumbent_hash(base, swept.study, self._tune, swept.measures)
        if now != swept.run.manifest.get("incumbent"):
            raise StudyError(
                "the project, its files, its index or the tune split have changed since the sweep, "
                "so its trials cannot be compared with the current settings",
                where=f"run {swept.run.id}",
                hint="run the sweep again (paid replies are reused), undo the change, or name "
                "the values of --set that the sweep was run with",
            )
        self._incumbent = _trial_rows(project, swept.incumbent)
        self._clusters = clusters_of_results(self._incumbent, self._by) or None
        self._selection = self._select()
        best = self._selection.best
        self._chosen = sorted(swept.board, key=lambda trial: trial.id != best)[: options.top]

    def _select(self) -> Selection:
        """Choose on the tune split, with one trial's rows in memory at a time."""
        swept, name = self._swept, self._swept.objective.name
        dropped = [trial for trial in swept.trials if trial.state == "dropped" and trial.run]
        tried = sorted((*swept.board, *dropped), key=lambda trial: trial.number)
        return selection_of(
            objective_scores(self._incumbent, name),
            {trial.id: objective_scores(_trial_rows(self.project, trial), name) for trial in tried},
            swept.objective,
            seed=swept.study.options.seed,
            clusters=self._clusters,
            eligible={trial.id for trial in swept.board},
            questions=questions_of(self._incumbent),
        )

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return {
            "sweep": self._swept.run.id,
            "trials": [trial.id for trial in self._chosen],
            "clusters": self._by,
            "rows": self._load_confirm_rows(dry_run=True).opened,
        }

    def _load_confirm_rows(self, *, dry_run: bool) -> Testset:
        study = self._swept.study
        testset = project_testset(
            self.project.folder,
            study.options.testset,
            CONFIRM,
            purpose=f"confirm {study.name}: {', '.join(trial.id for trial in self._chosen)}",
            dry_run=dry_run,
        )
        return testset.asked_for(study.options.personas)

    def confirm(self) -> ConfirmResult:
        """Return the stored result, or open the split and compare on it."""
        runs, study, selection = self.project.runs, self._swept.study, self._selection
        if selection.difference <= 0:
            notes = grounds(self._incumbent, self._swept.incumbent.summaries)
            return ConfirmResult("", study, StudyVerdict(selection, notes=notes))
        run = runs.complete(CONFIRM, self._manifest)
        if run is not None:
            return ConfirmResult(run, study, load_verdict(runs, run, selection), again=True)
        run = self._open()
        return ConfirmResult(run, study, load_verdict(runs, run, selection))

    def forecast(self) -> Forecast:
        """Forecast the calls and cost of the trials on the held-out rows."""
        project, swept = self.project, self._swept
        forecast = project.runner.forecast([])
        if self._selection.difference <= 0 or project.runs.complete(CONFIRM, self._manifest):
            return forecast
        self._outlook()
        testset = _held_out_rows(self._load_confirm_rows(dry_run=True), self._tune)
        for candidate in (swept.incumbent, *self._chosen):
            trial = Trial(candidate.number, candidate.values)
            variant = variant_of(project, swept.study, trial)
            plan = trial_plan(trial, variant, testset, swept.measures, trial_how(swept.study))
            forecast += variant.runner.forecast(make for _, make in plan.job.items)
        return forecast

    def _outlook(self) -> tuple[Sequence[Comparison], str]:
        """Compare the trials on the tune split, and tell the least gain that can be proven.

        It is that of the held-out rows, if they vary as those of the tune split.
        """
        project = self.project
        results = [self._incumbent, *(_trial_rows(project, trial) for trial in self._chosen)]
        tune = self._compare(results, self._clusters)
        closed = self._load_confirm_rows(dry_run=True)
        held = _held_out_rows(closed, self._tune).rows
        openings = len(Openings.touching(project.folder.openings, closed.name, closed.opened))
        openings += project.runs.unfinished(CONFIRM, self._manifest) is None
        clusters = clusters_of_results([RowResult(row.id, (), (), row) for row in held], self._by)
        units, side = len(set(clusters.values())) or len(held), tune[0].deciding
        least = side.needed(len(held), units, len(self._chosen) * openings).smallest
        name = self._swept.objective.name + (f" ({side.scale})" if side.scale else "")
        on = f"{count_noun(len(held), 'held-out question')}"
        on += f" in {count_noun(units, 'cluster')}" if clusters else ""
        outlook = (
            f"no gain of {name} can be proven on {on}: they are too few"
            if least is None
            else f"least provable gain: about {least:.4f} of {name} on {on}; a smaller one will "
            "probably end as no change proven"
        )
        if self._told is not None:
            self._told(outlook)
        return tune, outlook

    def _compare(
        self, results: Sequence[Sequence[RowResult]], clusters: Mapping[str, Hashable] | None
    ) -> list[Comparison]:
        """Compare the chosen trials with the incumbent, whose results come first."""
        objective, seed = self._swept.objective, self._swept.study.options.seed
        return [
            compare_with_incumbent(results[0], rows, objective, seed=seed, clusters=clusters)
            for rows in results[1:]
        ]

    def _open(self) -> str:
        """Run the trials on the confirm split and store the result.

        An interrupted run continues with the logged opening.
        """
        project, swept = self.project, self._swept
        tune, outlook = self._outlook()
        run = project.runs.unfinished(CONFIRM, self._manifest)
        testset = self._load_confirm_rows(dry_run=run is not None)
        run = run or project.runs.start(CONFIRM, self._manifest)
        testset = _note_earlier_openings(project, _held_out_rows(testset, self._tune))
        trials = [Trial(trial.number, trial.values) for trial in (swept.incumbent, *self._chosen)]
        fresh = run_trials(project, swept.study, trials, testset, swept.measures)
        clusters = clusters_of_results(fresh[0], self._by)
        confirmed = self._compare(fresh, clusters or None)
        both = [
            Confirmation(trial.id, trial.values, swept.objective.name, before, after)
            for trial, before, after in zip(self._chosen, tune, confirmed, strict=True)
        ]
        openings = len(Openings.touching(project.folder.openings, testset.name, testset.opened))
        notes = [*testset.notes, outlook, *([clusters.note] if clusters.note else [])]
        notes += grounds(testset.rows, swept.incumbent.summaries)
        confirmations = correct_confirmations(both, swept.objective, openings)
        for position, trial in enumerate(confirmations):
            body = {**make_plain(trial), "openings": openings, "notes": notes}
            project.runs.append(run, RunRow(position, trial.trial, "done", body))
        project.runs.finish(run, "complete")
        return run


def _held_out_rows(testset: Testset, tune: Testset) -> Testset:
    """Return the rows of a confirm split that were not used in the choice.

    Splits may change with a testset: rows that the sweep has used are left out, with a note.

    Raises:
        TestsetError: All rows have been used.
    """
    ids = {row.id for row in tune.rows}
    questions = {(row.user_input, row.history) for row in tune.rows}
    fresh = tuple(
        row
        for row in testset.rows
        if row.id not in ids and (row.user_input, row.history) not in questions
    )
    if len(fresh) == len(testset.rows):
        return testset
    used = f"{len(testset.rows) - len(fresh)} of {len(testset.rows)} rows of the confirm split"
    if not fresh:
        raise TestsetError(
            f"{used} were also used to choose the winner",
            where=testset.name,
            hint="add new questions and confirm on those",
        )
    note = f"{used} were also used to choose the winner: left out"
    return replace(testset, rows=fresh, notes=(*testset.notes, note))


def _note_earlier_openings(project: Project, testset: Testset) -> Testset:
    """Add a note on evaluations that read rows of the testset as part of the whole."""
    ids = {row.id for row in testset.rows}
    read = [
        run.id
        for run in project.runs.list("eval")
        if run.manifest.get("testset") == testset.name and ids & project.runs.states(run.id).keys()
    ]
    if not read:
        return testset
    note = (
        f"{len(read)} evaluations of the whole testset, the first {read[0]}, included questions of "
        "the confirm split: if settings were chosen by their results, this split is not independent"
    )
    return replace(testset, notes=(*testset.notes, note))


def load_sweep(project: Project, name: str) -> _StoredSweep:
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
    run = matches[0]
    study = rebuild_study(run.manifest["study"])
    measures = parse_measures(run.manifest["measures"])
    [objective, *_] = objectives_of(run.manifest["objectives"], measures)
    first = {axis.key: axis.values[0] for axis in study.judging if axis.values}
    trials = tuple(
        trial
        for trial in load_trials(project, run.id)
        if all(trial.values.get(key, value) == value for key, value in first.items())
    )
    swept = _StoredSweep(run, study, trials, measures, objective)
    if not swept.board or not any(not trial.number and trial.run for trial in trials):
        raise StudyError(
            f"no trial of the sweep {run.id} has a value of {objective.name}",
            hint="see its trials: ragwright report, or sweep again",
        )
    return swept


def _trial_rows(project: Project, trial: TrialResult) -> Sequence[RowResult]:
    """Read a trial's rows of the tune split."""
    return load_evaluation(project.runs, trial.run).results


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
        plan = trial_plan(trial, variant, testset, measures, trial_how(study))
        summary = run_job(variant.runner, project.runs, plan.job)
        configuration = configuration_of(variant.folder, variant.settings)
        keep_configuration(project.runs, summary.run, configuration)
        if summary.reason is not None:
            raise summary.reason
        results.append(load_evaluation(project.runs, summary.run).results)
    return results


def load_verdict(runs: Runs, run: str, selection: Selection) -> StudyVerdict:
    """Return the result of a stored run of the kind ``confirm``, with its selection."""
    bodies = [row.body for row in runs.rows(run)]
    openings = max((body["openings"] for body in bodies), default=0)
    notes = tuple(dict.fromkeys(note for body in bodies for note in body["notes"]))
    confirmations = tuple(read_plain(Confirmation, body) for body in bodies)
    return StudyVerdict(selection, confirmations, openings, notes)
