"""ConfirmOptions: the best trials of a sweep against the current settings, on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...core import StoreError, StudyError, TestsetError, count_noun
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
    confirmation_body,
    confirmation_of,
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
    swept = load_sweep(project, name)
    own, project = project, set_swept_values(project, swept.run.id)
    confirmed = _confirm_once(project, swept, options or ConfirmOptions(), told)
    return confirmed if project is own else replace(confirmed, overrides=project.session.overrides)


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
    swept = load_sweep(project, name)
    project, options = set_swept_values(project, swept.run.id), options or ConfirmOptions()
    selection, incumbent = _chosen_on_tune(project, swept, options)
    forecast = project.runner.forecast([])
    if selection.difference <= 0:
        return forecast
    opening = _Opening(project, swept, selection.best, options)
    if project.runs.complete(CONFIRM, opening.manifest) is not None:
        return forecast
    rows = study_rows(project, swept.study)
    testset = _held_out_rows(opening.counted(), rows)
    if told is not None:
        told(opening.outlook(opening.picked(incumbent)[0].tune, rows))
    for candidate in (swept.incumbent, *opening.chosen):
        trial = Trial(candidate.number, candidate.values)
        variant = variant_of(project, swept.study, trial)
        plan = trial_plan(trial, variant, testset, swept.measures, trial_how(swept.study))
        forecast += variant.runner.forecast(make for _, make in plan.job.items)
    return forecast


def _chosen_on_tune(
    project: Project, swept: _StoredSweep, options: ConfirmOptions
) -> tuple[Selection, Sequence[RowResult]]:
    """Return the choice on the tune split, and the rows of the current settings there.

    Raises:
        StudyError: The project has changed since the sweep.
    """
    base = variant_of(project, swept.study, Trial(0, {}))
    rows = study_rows(project, swept.study)
    if incumbent_hash(base, swept.study, rows, swept.measures) != swept.run.manifest.get(
        "incumbent"
    ):
        raise StudyError(
            "the project, its files, its index or the tune split have changed since the sweep, so "
            "its trials cannot be compared with the current settings",
            where=f"run {swept.run.id}",
            hint="run the sweep again (paid replies are reused), undo the change, or name "
            "the values of --set that the sweep was run with",
        )
    incumbent = _trial_rows(project, swept.incumbent)
    clusters = clusters_of_results(incumbent, options.clusters) or None
    return _tune_selection(project, swept, incumbent, clusters), incumbent


def _confirm_once(
    project: Project,
    swept: _StoredSweep,
    options: ConfirmOptions,
    told: Callable[[str], None] | None,
) -> ConfirmResult:
    rows = study_rows(project, swept.study)
    selection, incumbent = _chosen_on_tune(project, swept, options)
    if selection.difference <= 0:
        notes = grounds(incumbent, swept.incumbent.summaries)
        return ConfirmResult("", swept.study, StudyVerdict(selection, notes=notes))
    opening = _Opening(project, swept, selection.best, options)
    finished_run = project.runs.complete(CONFIRM, opening.manifest)
    if finished_run is not None:
        return ConfirmResult(
            finished_run,
            swept.study,
            load_verdict(project.runs, finished_run, selection),
            again=True,
        )
    tune_comparisons = opening.picked(incumbent)
    outlook = opening.outlook(tune_comparisons[0].tune, rows)
    if told is not None:
        told(outlook)
    run, confirmations, testset, openings = opening.open(tune_comparisons, rows, outlook)
    return ConfirmResult(
        run, swept.study, StudyVerdict(selection, confirmations, openings, testset.notes)
    )


def _tune_selection(
    project: Project,
    swept: _StoredSweep,
    incumbent: Sequence[RowResult],
    clusters: Mapping[str, Hashable] | None,
) -> Selection:
    """Choose on the tune split, with one trial's rows in memory at a time."""
    name = swept.objective.name
    dropped = [trial for trial in swept.trials if trial.state == "dropped" and trial.run]
    tried = sorted((*swept.board, *dropped), key=lambda trial: trial.number)
    return selection_of(
        objective_scores(incumbent, name),
        {trial.id: objective_scores(_trial_rows(project, trial), name) for trial in tried},
        swept.objective,
        seed=swept.study.options.seed,
        clusters=clusters,
        eligible={trial.id for trial in swept.board},
        questions=questions_of(incumbent),
    )


class _Opening:
    """The opening of the confirm split for the best trial and the next of the leaderboard."""

    def __init__(
        self, project: Project, swept: _StoredSweep, best: str, options: ConfirmOptions
    ) -> None:
        self._project = project
        self._swept = swept
        self.chosen = chosen = sorted(swept.board, key=lambda trial: trial.id != best)[
            : options.top
        ]
        trial_ids = ", ".join(trial.id for trial in chosen)
        self._purpose = f"confirm {swept.study.name}: {trial_ids}"
        self.manifest = {
            "sweep": swept.run.id,
            "trials": [trial.id for trial in chosen],
            "clusters": options.clusters,
            "rows": self._load_confirm_rows(dry_run=True).opened,
        }

    def _load_confirm_rows(self, *, dry_run: bool) -> Testset:
        options = self._swept.study.options
        testset = project_testset(
            self._project.folder,
            options.testset,
            CONFIRM,
            purpose=self._purpose,
            dry_run=dry_run,
        )
        return testset.asked_for(options.personas)

    def counted(self) -> Testset:
        """Return the rows of the confirm split for a forecast; the opening is not logged."""
        return self._load_confirm_rows(dry_run=True)

    def picked(self, incumbent: Sequence[RowResult]) -> list[Confirmation]:
        """The comparisons of the trials with the current settings on the tune split."""
        clusters = clusters_of_results(incumbent, str(self.manifest["clusters"])) or None
        results = [incumbent, *(_trial_rows(self._project, trial) for trial in self.chosen)]
        return _comparisons(self._swept, self.chosen, results, clusters)

    def outlook(self, tune: Comparison, rows: Testset) -> str:
        """A sentence on the least gain that the held-out rows prove, if they vary as the others."""
        project, closed = self._project, self.counted()
        held, by = _held_out_rows(closed, rows).rows, str(self.manifest["clusters"])
        openings = len(Openings.touching(project.folder.openings, closed.name, closed.opened))
        openings += project.runs.unfinished(CONFIRM, self.manifest) is None
        found = clusters_of_results([RowResult(row.id, (), (), row) for row in held], by)
        units, side = len(set(found.values())) or len(held), tune.deciding
        least = side.needed(len(held), units, len(self.chosen) * openings).smallest
        name = self._swept.objective.name + (f" ({side.scale})" if side.scale else "")
        on = f"{count_noun(len(held), 'held-out question')}"
        on += f" in {count_noun(units, 'cluster')}" if found else ""
        if least is None:
            return f"no gain of {name} can be proven on {on}: they are too few"
        return (
            f"least provable gain: about {least:.4f} of {name} on {on}; a smaller one will "
            "probably end as no change proven"
        )

    def open(
        self, picked: Sequence[Confirmation], tune: Testset, outlook: str
    ) -> tuple[str, tuple[Confirmation, ...], Testset, int]:
        """Run the trials on the confirm split and store the result.

        An interrupted run continues with the logged opening.
        """
        project, swept = self._project, self._swept
        run = project.runs.unfinished(CONFIRM, self.manifest)
        testset = self._load_confirm_rows(dry_run=run is not None)
        run = run or project.runs.start(CONFIRM, self.manifest)
        testset = _note_earlier_openings(project, _held_out_rows(testset, tune))
        trials = [Trial(trial.number, trial.values) for trial in (swept.incumbent, *self.chosen)]
        fresh = run_trials(project, swept.study, trials, testset, swept.measures)
        clusters = clusters_of_results(fresh[0], str(self.manifest["clusters"]))
        confirm_comparisons = _comparisons(swept, self.chosen, fresh, clusters or None)
        both = [
            replace(a, confirmed=b.tune) for a, b in zip(picked, confirm_comparisons, strict=True)
        ]
        openings = len(Openings.touching(project.folder.openings, testset.name, testset.opened))
        confirmations = correct_confirmations(both, swept.objective, openings)
        notes = [outlook, *([clusters.note] if clusters.note else [])]
        notes += grounds(testset.rows, swept.incumbent.summaries)
        testset = replace(testset, notes=(*testset.notes, *notes))
        for position, trial in enumerate(confirmations):
            body = confirmation_body(trial) | {"openings": openings, "notes": list(testset.notes)}
            project.runs.append(run, RunRow(position, trial.trial, "done", body))
        project.runs.finish(run, "complete")
        return run, confirmations, testset, openings


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


def _comparisons(
    swept: _StoredSweep,
    chosen: Sequence[TrialResult],
    results: Sequence[Sequence[RowResult]],
    clusters: Mapping[str, Hashable] | None,
) -> list[Confirmation]:
    """Compare trials with the incumbent, whose results come first, on one split."""
    seed = swept.study.options.seed
    return [
        Confirmation(
            trial.id,
            trial.values,
            swept.objective.name,
            compare_with_incumbent(results[0], rows, swept.objective, seed=seed, clusters=clusters),
        )
        for trial, rows in zip(chosen, results[1:], strict=True)
    ]


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
    bodies = [dict(row.body) for row in runs.rows(run)]
    openings = max((body.pop("openings") for body in bodies), default=0)
    notes = tuple(dict.fromkeys(note for body in bodies for note in body.pop("notes")))
    return StudyVerdict(selection, tuple(map(confirmation_of, bodies)), openings, notes)
