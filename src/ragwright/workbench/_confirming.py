"""Confirming: the best trials of a sweep against the project as it stands, on rows that chose
nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import StoreError, StudyError
from ..experiment import (
    Confirmation,
    Objective,
    Openings,
    RowResult,
    Study,
    Testset,
    Trial,
    TrialResult,
    Verdict,
    clusters_of_results,
    compared,
    confirmation_body,
    confirmation_of,
    leaderboard,
    objectives_of,
    selection_of,
    settled,
    stored_study,
)
from ..flow import Run, RunRow, run_jobs
from ..measure import Measure, Selection, parse_measures
from ._building import build_like
from ._gold import LOG, project_testset
from ._runs import stored_evaluation
from ._sweeping import KIND, settings_hash, stored_trials, trial_how, trial_plan, variant_of
from ._workbench import Workbench

CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class Confirming:
    """How to confirm.

    Attributes:
        top: How many of the best trials are confirmed together.
        clusters: What rows share that are not independent: empty or ``document`` for gold
            documents, ``row`` for rows that stand for themselves, else a column.
    """

    top: int = 1
    clusters: str = ""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What confirming came to.

    Attributes:
        run: Run that holds it.
        study: What was swept.
        verdict: What the two splits say.
        again: True where it was confirmed before and is only shown again.
    """

    run: str
    study: Study
    verdict: Verdict
    again: bool = False


@dataclass(frozen=True, slots=True)
class _Swept:
    """A stored sweep, as far as confirming needs it."""

    run: Run
    study: Study
    trials: tuple[TrialResult, ...]
    measures: tuple[Measure, ...]
    objective: Objective

    @property
    def board(self) -> tuple[TrialResult, ...]:
        """Candidates with a value, best first."""
        found = leaderboard(self.trials, [self.objective])
        return tuple(trial for trial in found if trial.number)

    @property
    def incumbent(self) -> TrialResult:
        """The project as it stands."""
        return next(trial for trial in self.trials if not trial.number)


def confirm(bench: Workbench, name: str, how: Confirming | None = None) -> Confirmed:
    """Hold the best trials of a stored sweep against the project as it stands, on the confirm
    split.

    The split is opened once: that is written down before a row of it is read, and confirming the
    same trials again only shows what was found. Where no candidate leads, it stays closed.

    Raises:
        StoreError: There is no such sweep.
        StudyError: The sweep has no candidate with a value, or the project has changed since.
        TestsetError: The confirm split is empty, or the log of openings cannot be written.
    """
    options = how or Confirming()
    swept = stored_sweep(bench, name)
    if swept.run.manifest["settings"] != settings_hash(bench.settings):
        raise StudyError(
            "the project's settings have changed since the sweep: what stands now is not what "
            "the trials were held against",
            where=f"run {swept.run.id}",
            hint="sweep again (what was paid for is reused), or set the keys back",
        )
    tune = _results(bench, swept)
    clusters = _clusters(tune[swept.incumbent.id], options.clusters)
    selection = selection_of(
        tune[swept.incumbent.id],
        {trial.id: tune[trial.id] for trial in swept.board},
        swept.objective,
        seed=swept.study.options.seed,
        clusters=clusters,
    )
    if selection.difference <= 0:
        return Confirmed("", swept.study, Verdict(selection))
    chosen = _chosen(swept, selection.best, options.top)
    manifest = {
        "sweep": swept.run.id,
        "trials": [trial.id for trial in chosen],
        "clusters": options.clusters,
    }
    done = bench.runs.complete(CONFIRM, manifest)
    if done is not None:
        return Confirmed(done, swept.study, _stored(bench, done, selection), again=True)
    picked = _compared(swept, chosen, [tune[t.id] for t in (swept.incumbent, *chosen)], clusters)
    run, found, testset, openings = _opened(bench, swept, picked, manifest)
    return Confirmed(run, swept.study, Verdict(selection, found, openings, testset.notes))


def _opened(
    bench: Workbench,
    swept: _Swept,
    picked: Sequence[Confirmation],
    manifest: Mapping[str, Any],
) -> tuple[str, tuple[Confirmation, ...], Testset, int]:
    """Open the confirm split, run the trials on it, and store what it says."""
    testset = project_testset(
        bench.folder,
        swept.study.options.testset,
        CONFIRM,
        purpose=f"confirm {swept.study.name}: {', '.join(manifest['trials'])}",
    ).asked_for(swept.study.options.personas)
    run = bench.runs.unfinished(CONFIRM, manifest) or bench.runs.start(CONFIRM, manifest)
    chosen = [next(t for t in swept.trials if t.id == one.trial) for one in picked]
    trials = [Trial(one.number, one.values) for one in (swept.incumbent, *chosen)]
    fresh = run_trials(bench, swept.study, trials, testset, swept.measures)
    clusters = _clusters(fresh[0], str(manifest["clusters"]))
    held = _compared(swept, chosen, fresh, clusters)
    both = [replace(a, confirmed=b.tune) for a, b in zip(picked, held, strict=True)]
    openings = len(Openings.of(bench.folder.testsets / LOG, testset.opened))
    found = settled(both, swept.objective, openings)
    for at, one in enumerate(found):
        body = confirmation_body(one) | {"openings": openings, "notes": list(testset.notes)}
        bench.runs.append(run, RunRow(at, one.trial, "done", body))
    bench.runs.finish(run, "complete")
    return run, found, testset, openings


def _compared(
    swept: _Swept,
    chosen: Sequence[TrialResult],
    results: Sequence[Sequence[RowResult]],
    clusters: Mapping[str, Hashable] | None,
) -> list[Confirmation]:
    """Trials against the incumbent, whose results come first, on one split."""
    seed = swept.study.options.seed
    return [
        Confirmation(
            trial.id,
            trial.values,
            swept.objective.name,
            compared(results[0], rows, swept.objective, seed=seed, clusters=clusters),
        )
        for trial, rows in zip(chosen, results[1:], strict=True)
    ]


def stored_sweep(bench: Workbench, name: str) -> _Swept:
    """A stored sweep: ``latest``, its name, the beginning of one, or the name of its study.

    Raises:
        StoreError: No sweep, or several, answer to it.
        StudyError: It has no trial with a value.
    """
    runs = bench.runs.list(KIND)
    if name == "latest":
        found = runs[-1:]
    else:
        found = [run for run in runs if run.id.startswith(name)]
        found = found or [r for r in runs if r.manifest["study"]["name"] == name][-1:]
    if len(found) != 1:
        near = ", ".join(run.id for run in runs[-5:]) or "none yet: run `ragwright sweep`"
        what = f"{len(found)} sweeps begin with" if found else "there is no sweep"
        raise StoreError(f"{what} {name!r}", hint=f"the last sweeps: {near}")
    run = found[0]
    study = stored_study(run.manifest["study"])
    measures = parse_measures(run.manifest["measures"])
    [objective, *_] = objectives_of(run.manifest["objectives"], measures)
    trials = tuple(trial for trial in stored_trials(bench, run.id) if _first_judge(study, trial))
    swept = _Swept(run, study, trials, measures, objective)
    if not swept.board or not any(not trial.number and trial.run for trial in trials):
        raise StudyError(
            f"no trial of the sweep {run.id} has a value of {objective.name}",
            hint="see its trials: ragwright report, or sweep again",
        )
    return swept


def _first_judge(study: Study, trial: TrialResult) -> bool:
    return all(
        trial.values.get(axis.key, axis.values[0]) == axis.values[0]
        for axis in study.judging
        if axis.values
    )


def _results(bench: Workbench, swept: _Swept) -> Mapping[str, Sequence[RowResult]]:
    """Trial -> its rows of the tune split."""
    wanted = [swept.incumbent, *swept.board]
    return {trial.id: stored_evaluation(bench.runs, trial.run).results for trial in wanted}


def _chosen(swept: _Swept, best: str, top: int) -> tuple[TrialResult, ...]:
    """The trial that leads row by row, and the next of the leaderboard."""
    first = [trial for trial in swept.board if trial.id == best]
    return tuple([*first, *(trial for trial in swept.board if trial.id != best)][:top])


def _clusters(results: Sequence[RowResult], by: str) -> Mapping[str, Hashable] | None:
    """What rows belong together; None where each stands for itself."""
    return clusters_of_results(results, by) or None


def run_trials(
    bench: Workbench,
    study: Study,
    trials: Sequence[Trial],
    testset: Testset,
    measures: Sequence[Measure],
) -> list[Sequence[RowResult]]:
    """Results of a study's trials on other rows, in the order of the trials.

    Raises:
        StoppedError: The budget, or a person, ended it; what was run is kept.
    """
    found: list[Sequence[RowResult]] = []
    for trial in trials:
        variant = variant_of(bench, study, trial)
        build_like(variant, bench)
        plan = trial_plan(trial, variant, testset, measures, trial_how(study))
        [summary] = run_jobs(variant.runner, bench.runs, [plan.job])
        if summary.reason is not None:
            raise summary.reason
        found.append(stored_evaluation(bench.runs, summary.run).results)
    return found


def _stored(bench: Workbench, run: str, selection: Selection) -> Verdict:
    bodies = [dict(row.body) for row in bench.runs.rows(run)]
    openings = max((body.pop("openings") for body in bodies), default=0)
    notes = tuple(dict.fromkeys(note for body in bodies for note in body.pop("notes")))
    return Verdict(selection, tuple(map(confirmation_of, bodies)), openings, notes)
