"""Confirm: the best trials of a sweep against the current settings, on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from ..core import StudyError, TestsetError, count_noun, make_plain
from ..flow import Forecast, Runs
from ..measure import (
    Comparison,
    Measure,
    MeasureScale,
    Selection,
    compare_rows,
    holm,
    p_text,
    parse_measures,
)
from ..project import CONFIRM, Project, refuse_forget
from ..testsets import Openings, Testset, project_testset
from ._clusters import clusters_of_results
from ._compare_runs import grounds, questions_of
from ._results import RowResult, read_plain
from ._stored_runs import load_evaluation
from ._study import Study
from ._sweep import (
    incumbent_hash,
    load_sweep,
    open_once,
    run_trials,
    set_swept_values,
    study_rows,
    trial_job,
)
from ._trials import TrialResult, objective_scores, selection_of, variant_of


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
        self._measures = parse_measures(swept.measures)
        self.project = project = set_swept_values(project, swept.run)
        self._by, self._told = options.clusters, told
        self._tune = study_rows(project, swept.study)
        base = variant_of(project, swept.study, {})
        now = incumbent_hash(base, swept.study, self._tune, self._measures)
        if now != project.runs.get(swept.run).manifest.get("incumbent"):
            raise StudyError(
                "the project, its files, its index or the tune split have changed since the sweep, "
                "so its trials cannot be compared with the current settings",
                where=f"run {swept.run}",
                hint="run the sweep again (paid replies are reused), undo the change, or name "
                "the values of --set that the sweep was run with",
            )
        self._incumbent = self._tune_results(swept.trials[0])
        self._clusters = clusters_of_results(self._incumbent, self._by) or None
        board = [trial for trial in swept.board if trial.number]
        objective = swept.objective
        self._selection = selection_of(
            objective_scores(self._incumbent, objective),
            {  # one trial's rows are in memory at a time
                trial.id: objective_scores(self._tune_results(trial), objective)
                for trial in sorted(board, key=lambda trial: trial.number)
            },
            objective,
            seed=swept.study.options.seed,
            clusters=self._clusters,
            questions=questions_of(self._incumbent),
        )
        best = self._selection.best
        self._chosen = sorted(board, key=lambda trial: trial.id != best)[: options.top]
        self._names = [trial.id for trial in self._chosen]

    def _tune_results(self, trial: TrialResult) -> Sequence[RowResult]:
        return load_evaluation(self.project.runs, trial.run).results

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return {
            "sweep": self._swept.run,
            "trials": self._names,
            "clusters": self._by,
            "rows": self._load_split(dry_run=True).opened,
        }

    def _load_split(self, *, dry_run: bool) -> Testset:
        """The confirm split; opening it is logged unless it is a dry run."""
        study = self._swept.study
        purpose = f"confirm {study.name}: {', '.join(self._names)}"
        testset = project_testset(
            self.project.folder, study.options.testset, CONFIRM, purpose=purpose, dry_run=dry_run
        )
        return testset.asked_for(study.options.personas)

    def confirm(self) -> ConfirmResult:
        """Return the stored result, or open the split and compare on it."""
        study, selection = self._swept.study, self._selection
        if selection.difference <= 0:
            notes = grounds(self._incumbent, self._swept.trials[0].summaries)
            return ConfirmResult("", study, StudyVerdict(selection, notes=notes))
        runs = self.project.runs
        run, again = open_once(
            runs,
            CONFIRM,
            self._manifest,
            lambda begun: (self._outlook(), self._load_split(dry_run=begun)),
            lambda run, opened: self._compare_both(*opened[0], opened[1]),
        )
        return ConfirmResult(run, study, load_verdict(runs, run, selection), again)

    def forecast(self) -> Forecast:
        """Forecast the calls and cost of the trials on the held-out rows."""
        project, study = self.project, self._swept.study
        forecast = project.runner.forecast([])
        if self._selection.difference <= 0 or project.runs.complete(CONFIRM, self._manifest):
            return forecast
        self._outlook()
        testset = _held_out_rows(self._load_split(dry_run=True), self._tune)
        for point in ({}, *(trial.values for trial in self._chosen)):
            variant = variant_of(project, study, point)
            job = trial_job(variant, study, testset, self._measures)
            forecast += variant.runner.forecast(make for _, make in job.items)
        return forecast

    def _outlook(self) -> tuple[Sequence[Comparison], str]:
        """Compare the trials on the tune split, and tell the least gain that can be proven.

        It is that of the held-out rows, if they vary as those of the tune split.
        """
        project, objective = self.project, self._swept.objective
        results = [self._incumbent, *map(self._tune_results, self._chosen)]
        tune = self._compare(results, self._clusters)
        closed = self._load_split(dry_run=True)
        held = _held_out_rows(closed, self._tune).rows
        openings = len(Openings.touching(project.folder.openings, closed.name, closed.opened))
        openings += project.runs.unfinished(CONFIRM, self._manifest) is None
        clusters = clusters_of_results([RowResult(row.id, (), (), row) for row in held], self._by)
        units, side = len(set(clusters.values())) or len(held), tune[0].deciding
        least = side.provable(units, len(self._chosen) * openings)
        name = f"{objective} ({side.scale})" if side.scale else str(objective)
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

    def _compare_both(
        self, tune: Sequence[Comparison], outlook: str, opened: Testset
    ) -> Iterator[dict[str, Any]]:
        project, swept = self.project, self._swept
        testset = _note_earlier_openings(project, _held_out_rows(opened, self._tune))
        points = [{}, *(trial.values for trial in self._chosen)]
        fresh = run_trials(project, swept.study, points, testset, self._measures)
        clusters = clusters_of_results(fresh[0], self._by)
        both = [
            Confirmation(trial.id, trial.values, str(swept.objective), before, after)
            for trial, before, after in zip(
                self._chosen, tune, self._compare(fresh, clusters or None), strict=True
            )
        ]
        openings = len(Openings.touching(project.folder.openings, testset.name, testset.opened))
        notes = [*testset.notes, outlook, *filter(None, [clusters.note])]
        notes += grounds(testset.rows, swept.trials[0].summaries)
        for confirmation in correct_confirmations(both, swept.objective, openings):
            yield {**make_plain(confirmation), "openings": openings, "notes": notes}


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


def load_verdict(runs: Runs, run: str, selection: Selection) -> StudyVerdict:
    """Return the result of a stored run of the kind ``confirm``, with its selection."""
    bodies = [row.body for row in runs.rows(run)]
    openings = max((body["openings"] for body in bodies), default=0)
    notes = tuple(dict.fromkeys(note for body in bodies for note in body["notes"]))
    confirmations = tuple(read_plain(Confirmation, body) for body in bodies)
    return StudyVerdict(selection, confirmations, openings, notes)


ConfirmationOutcome: TypeAlias = Literal["better", "worse", "no change proven", "not confirmed"]

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Comparison of one trial with the current settings on the confirm split.

    Attributes:
        trial: Its name in the study.
        values: Swept key -> value.
        objective: The measure by which it was chosen.
        tune: The comparison on the rows that selected it, biased by the selection.
        confirmed: The comparison on held-out rows; None before they are opened.
        p: Two-sided p-value on the confirm split (``Comparison.p_verdict``), times the number of
            openings of that split and corrected for the trials confirmed together (Holm 1979).
        outcome: ``better`` or ``worse`` if p is at most 0.05 and ``confirmed`` agrees: its interval
            excludes 0, and rows without a score could not reverse it.
    """

    trial: str
    values: Mapping[str, Any]
    objective: str
    tune: Comparison
    confirmed: Comparison | None = None
    p: float | None = None
    outcome: ConfirmationOutcome = "not confirmed"


@dataclass(frozen=True, slots=True)
class StudyVerdict:
    """Final result of a study.

    Attributes:
        selection: The choice on the tune split, corrected for the number of candidates.
        confirmations: The trials that were confirmed, best of the tune split first.
        openings: How often the confirm split has been opened, this time included; 0 if it stayed
            closed.
        notes: What the reader should know.
    """

    selection: Selection
    confirmations: tuple[Confirmation, ...] = ()
    openings: int = 0
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The verdict as text, the most important first."""
        return " ".join([_verdict_sentence(self), *_verdict_doubts(self)])


def compare_with_incumbent(
    incumbent: Sequence[RowResult],
    other: Sequence[RowResult],
    objective: Measure,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
) -> Comparison:
    """Compare another system with the incumbent by an objective, row by row."""
    sides = [
        {row: (score,) for row, score in objective_scores(rows, objective).items()}
        for rows in (incumbent, other)
    ]
    # for rubrics without a file the objective knows the direction
    scale = objective.known_scale or MeasureScale(0.0, None, objective.definition.higher_is_better)
    [comparison] = compare_rows(
        *sides,
        seed=seed,
        clusters=clusters,
        scales={str(objective): scale},
        questions=questions_of(incumbent),
    ).measures
    return comparison


def correct_confirmations(
    confirmations: Sequence[Confirmation], objective: Measure, openings: int
) -> tuple[Confirmation, ...]:
    """Return confirmations with corrected p-values and their outcomes.

    Every opening of a split is another chance of a false positive, so p is multiplied by their
    number (Bonferroni); then Holm's correction over the trials confirmed together.
    """
    raw = [None if c.confirmed is None else c.confirmed.deciding.p_verdict for c in confirmations]
    corrected = holm([1.0 if p is None else min(1.0, p * max(1, openings)) for p in raw])
    return tuple(
        replace(confirmation, p=p, outcome=_outcome(confirmation, p, objective))
        for confirmation, p in zip(confirmations, corrected, strict=True)
    )


def _outcome(confirmation: Confirmation, p: float, objective: Measure) -> ConfirmationOutcome:
    """Return the comparison's verdict, if it survives the correction of its p."""
    comparison = confirmation.confirmed
    if comparison is None:
        return "not confirmed"
    if p > LEVEL or comparison.verdict == "no change proven":
        return "no change proven"
    ahead = (comparison.deciding.difference or 0.0) > 0
    return "better" if ahead == objective.definition.higher_is_better else "worse"


def _verdict_sentence(verdict: StudyVerdict) -> str:
    chosen = verdict.selection
    if chosen.difference <= 0:
        return (
            f"None of {chosen.candidates} candidates beats the current settings on the tune split; "
            f"the closest, {chosen.best}, differs by {chosen.difference:+.4f}."
        )
    if not verdict.confirmations:
        return (
            f"Not confirmed yet: {chosen.best} leads the current settings by "
            f"{chosen.difference:.4f} on the {chosen.n} {chosen.questions} of the tune split that "
            f"chose it. Expected optimism from picking the best of {chosen.candidates}: at least "
            f"{chosen.optimism:.4f} ({p_text(chosen.p)}, corrected for the choice)."
        )
    first = verdict.confirmations[0]
    comparison = None if first.confirmed is None else first.confirmed.deciding
    if comparison is None or comparison.difference is None:
        return f"{first.trial}: no question of the confirm split has a score under both settings."
    span = (
        ""
        if comparison.low is None
        else f" (95 % interval {comparison.low:+.4f} to {comparison.high:+.4f})"
    )
    difference = (
        f"{comparison.difference:+.4f} {first.objective}{span} on {comparison.n} held-out questions"
    )
    if first.outcome in ("better", "worse"):
        where = f" on {comparison.questions}" if comparison.questions else ""
        return f"{first.trial} is {first.outcome}{where} than the current settings: {difference}."
    why = (comparison.beside_interval(first.p), comparison.outlook("question"))
    return f"No change proven for {first.trial}: {'; '.join([difference, *filter(None, why)])}."


def _verdict_doubts(verdict: StudyVerdict) -> Iterator[str]:
    for confirmation in verdict.confirmations:
        held = None if confirmation.confirmed is None else confirmation.confirmed.deciding
        where = f"{confirmation.trial} on the confirm split"
        if held is not None and held.doubt:
            yield f"{where}: {held.doubt}."
        elif held is not None and held.lost:
            yield (
                f"{where}: {count_noun(held.lost, 'question lacks', 'questions lack')} a score "
                "under one of the two settings and are not compared."
            )
    chosen = verdict.selection
    for count, meaning in (
        (chosen.lost, "in the choice they count as the worst value"),
        (chosen.left_out, "they are left out, since the scale has no worst value"),
    ):
        if count:
            yield (
                f"On the tune split, {count_noun(count, 'question lacks', 'questions lack')} a "
                f"score under {chosen.best} or the current settings: {meaning}."
            )
    if verdict.openings > 1:
        yield (
            f"The confirm split has been opened {verdict.openings} times. Each time makes it less "
            "independent; p is corrected for this."
        )
