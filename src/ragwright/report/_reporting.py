"""Find stored runs, and read them as the subject of a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import Score, ScoreState, StoreError, TestsetError, Usage, count_noun, value_hash
from ..experiment import (
    BASELINE,
    AnswerRecord,
    Curve,
    DiagnosedRow,
    Evaluation,
    Objective,
    RowResult,
    StudyVerdict,
    TrialResult,
    capability_curves,
    clusters_of_results,
    diagnosis_of,
    evaluation_of,
    find_run,
    grounds,
    has_result,
    leaderboard,
    list_changed_settings,
    load_ablation,
    load_evaluation,
    load_verdict,
    objective_scores,
    objectives_of,
    pareto_front,
    passport_line,
    promise_note,
    questions_of,
    read_plain,
    selection_of,
)
from ..flow import Run, RunRow, Runs
from ..measure import parse_measures
from ..project import ABLATE, CONFIRM, SWEEP, TRIAL, ProjectFolder
from ..testsets import Openings
from ._baseline import baseline_subject
from ._subject import Board, ScoredRun, Subject, no_rows

_KINDS = ("eval", "score", SWEEP, CONFIRM, ABLATE, "diagnose", BASELINE, TRIAL)
"""Kinds of runs that a report can be about."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Settings of a report.

    Attributes:
        trials: Trials of a study whose complete rows are included first; T007, ….
        seed: Seed of intervals.
    """

    trials: tuple[str, ...] = ()
    seed: int = 0


def report_subject(
    folder: ProjectFolder, runs: Runs, names: Sequence[str], options: ReportOptions | None = None
) -> Subject:
    """Return the subject of a report on stored runs.

    Args:
        folder: The project folder, with its log of openings.
        runs: Its runs.
        names: One run, or two to show side by side: ``latest``, a name, or the beginning of an id.
            A study in second place stands for its best trial. An ablation beside a study adds its
            verdict and its charts.
        options: Settings of the report.

    Raises:
        StoreError: The run or the trial does not exist.
    """
    reader = _Reader(folder, runs, options or ReportOptions())
    chosen = [reader.find(name) for name in names]
    first = chosen[0]
    if first.kind == CONFIRM:
        reader.confirmed = first.id
        first = runs.get(str(first.manifest["sweep"]))
    if first.kind == SWEEP:
        ablations = [run for run in chosen[1:] if run.kind == ABLATE]
        subject = reader.study(first, [run for run in chosen[1:] if run.kind != ABLATE])
        return reader.beside_ablation(subject, ablations[0]) if ablations else subject
    if first.kind == "diagnose":
        return reader.diagnosis(first)
    if first.kind == ABLATE:
        return reader.ablation(first)
    if all(run.kind == BASELINE for run in chosen):
        return baseline_subject(runs, chosen)
    return reader.evaluations(chosen)


@dataclass(slots=True)
class _Reader:
    """Reads runs for one report; scores are read once and cached.

    ``confirmed`` is the confirmation that the report is about; by default the newest.
    """

    folder: ProjectFolder
    runs: Runs
    options: ReportOptions
    light: dict[str, list[RowResult]] = field(default_factory=dict)
    confirmed: str = ""

    def find(self, name: str) -> Run:
        """Return the run with this name; ``latest`` is the newest of all kinds, ``latest~1`` the
        one before it.
        """
        known = [run for run in self.runs.list() if run.kind in _KINDS]
        listed = [run for run in known if run.kind != TRIAL]
        word, _, back = name.partition("~")
        if word == "latest" and (back or "0").isdigit() and len(listed) > int(back or 0):
            return listed[-1 - int(back or 0)]
        studies = {run.id: run.manifest.get("study", {}).get("name") for run in known}
        matches = [
            run for run in known if run.id.startswith(name) or name in (run.name, studies[run.id])
        ]
        exact = [run for run in matches if run.id == name]
        exact = exact or [run for run in matches if run.kind != TRIAL] or matches
        if len(exact) == 1 or (exact and exact[-1].name == name):
            return exact[-1]
        with suppress(StoreError, KeyError):
            return {run.id: run for run in known if not exact}[find_run(self.runs, name)]
        lines = "".join(f"\n  {run.id} {run.kind} {run.name}" for run in reversed(listed[-6:]))
        several = f"{count_noun(len(exact), 'run has', 'runs have')} the name {name!r}"
        raise StoreError(
            several if exact else f"unknown run {name!r}",
            hint=f"the newest:{lines}"
            if lines
            else "no run is stored yet: run `ragwright eval` first",
        )

    # -- one evaluation, or two ------------------------------------------------------------

    def evaluations(self, chosen: Sequence[Run]) -> Subject:
        """Return one evaluation, or the second compared with the first."""
        entries = [self._evaluated(run) for run in chosen]
        if len(entries) == 2 and entries[0].id == entries[1].id:
            entries = entries[:1]
        first, pair = chosen[0], len(entries) > 1
        facts = _facts(first, sum(entry.rows for entry in entries[:1]))
        title = f"Evaluation of {facts['testset']}"
        if pair:
            facts["run"] = " and ".join(entry.run for entry in entries)
            if any(map(_system, chosen)):
                facts["system"] = " and ".join(_system(run) or "the project" for run in chosen)
            title = f"{entries[0].label} and {entries[1].label}, side by side"
            facts |= _find_changed_settings(chosen)
        notes = [f"run {run.id} is {run.state}" for run in chosen if run.state != "complete"]
        notes += dict.fromkeys(line for run in chosen for line in promise_note(run.manifest))
        rows = list(self._rows(entries[0].run, True))
        notes += grounds(rows, entries[0].summaries if pair else ())
        passports = (
            passport_line(
                self.folder.root, Evaluation(run.id, (), (), manifest=run.manifest), str(measure)
            )
            for run in chosen
            for measure in parse_measures(run.manifest.get("measures", []))
            if measure.definition.kind == "judged"
        )
        return Subject(
            title,
            "pair" if pair else "run",
            tuple(entries),
            measures=tuple(dict.fromkeys(s.measure for e in entries for s in e.summaries)),
            facts=facts,
            openings=self._openings(first),
            stopped=_stopped_text(first),
            curves=() if pair else self._curves(first, rows),
            notes=(*notes, *dict.fromkeys(passports)),
            clusters=clusters_of_results(rows) if pair else {},
            questions=questions_of(rows),
        )

    def _evaluated(self, run: Run) -> ScoredRun:
        if run.kind == SWEEP:
            best = self.study(run, ()).best
            if best is None:
                raise StoreError(f"no trial of the sweep {run.id} has a result")
            return replace(best, id=f"{best.id}-of-{run.id}", label=f"{best.id} of {run.id}")
        evaluation = load_evaluation(self.runs, run.id, self.options.seed)
        return ScoredRun(
            run.id,
            evaluation.summaries,
            run.name or run.id,
            rows=len(evaluation.results),
            facts=_usage(evaluation.results),
            run=run.id,
            judge=_judge(run),
            read=partial(self._rows, run.id),
            counts=evaluation.counts,
        )

    def _curves(self, run: Run, rows: Iterable[RowResult]) -> tuple[Curve, ...]:
        """Return the capability curves, if rows of the run belong to a suite."""
        results = tuple(row for row in rows if row.row and {"suite", "dose"} <= {*row.row.metadata})
        with suppress(TestsetError):
            evaluation = Evaluation(run.id, (), results, manifest=run.manifest)
            return capability_curves(evaluation, seed=self.options.seed) if results else ()
        return ()

    # -- a study ---------------------------------------------------------------------------

    def study(self, run: Run, others: Sequence[Run]) -> Subject:
        """Return a sweep with all its trials; other runs are outside the ranking."""
        trials = [read_plain(TrialResult, row.body) for row in self.runs.rows(run.id) if row.body]
        measures = parse_measures(run.manifest["measures"])
        objectives = objectives_of(run.manifest.get("objectives", ()), measures)
        manifests = {trial.id: trial for trial in self.runs.list(TRIAL)}
        entries = [
            ScoredRun(
                trial.id,
                trial.summaries,
                "" if trial.number else "current settings",
                rows=0 if own is None else trial.rows,
                judge="" if own is None else _judge(own),
                read=no_rows if own is None else partial(self._rows, trial.run),
                **{name: getattr(trial, name) for name in _OF_TRIAL},
            )
            for trial, own in ((trial, manifests.get(trial.run)) for trial in trials)
        ]
        boards = _boards(trials, entries, objectives)
        incumbent = next((trial for trial in trials if not trial.number), None)
        first = set(boards[0].entries) if boards else set()
        ranked = [trial for trial in trials if trial.id in first]
        if self.options.trials:
            entries = self._chosen(entries)
        stopped = next((t.reason for t in trials if t.state == "skipped" and t.reason), "")
        name = str(run.manifest.get("study", {}).get("name", ""))
        facts = _facts(run, max((trial.rows for trial in trials), default=0))
        ordered = ", ".join(objective.name for objective in objectives)
        rows = [] if incumbent is None else list(self._rows(incumbent.run, True))
        return Subject(
            f"Study {name}: {count_noun(len(trials), 'trial')} on "
            f"{run.manifest.get('testset', '')}",
            "study",
            (*entries, *(self._evaluated(other) for other in others)),
            tuple(boards),
            objectives,
            tuple(map(str, measures)),
            facts | {"trials": str(len(trials)), "ordered by": ordered},
            "" if incumbent is None else incumbent.id,
            self._verdict(run, ranked, objectives[0]),
            self._openings(run),
            stopped or _stopped_text(run),
            notes=grounds(rows, () if incumbent is None else incumbent.summaries),
            clusters=clusters_of_results(rows),
            questions=questions_of(rows),
        )

    def _chosen(self, entries: Sequence[ScoredRun]) -> list[ScoredRun]:
        """Leave out the rows of all trials except the chosen ones."""
        known = {entry.id for entry in entries}
        unknown = [name for name in self.options.trials if name not in known]
        if unknown:
            raise StoreError(
                f"the study has no trial {unknown[0]!r}",
                where="--trial",
                hint=f"T000 to {max(known, default='T000')}",
            )
        kept = {*self.options.trials, "T000"}
        return [e if e.id in kept else replace(e, read=partial(_bare, e.read)) for e in entries]

    def _verdict(
        self, run: Run, trials: Sequence[TrialResult], objective: Objective
    ) -> StudyVerdict | None:
        """Return results of the best trial on the tune split, and on the confirm split if known."""
        name = objective.name
        others = [t for t in trials if t.number and t.state != "same"]
        candidates = [t for t in others if t.value(name) is not None]
        incumbent = next((trial for trial in trials if not trial.number and trial.run), None)
        if incumbent is None or not candidates:
            return None
        rows = list(self._rows(incumbent.run, True))
        selection = selection_of(
            objective_scores(self._scores(incumbent.run), name),
            {t.id: objective_scores(self._scores(t.run), name) for t in candidates if t.run},
            objective,
            seed=int(run.manifest["study"]["options"].get("seed", 0)),
            clusters=clusters_of_results(rows) or None,
            eligible={trial.id for trial in candidates if trial.state == "done"},
            questions=questions_of(rows),
        )
        for confirm in reversed(self.runs.list(CONFIRM)):
            if self.confirmed not in ("", confirm.id):
                continue
            if confirm.manifest.get("sweep") == run.id and confirm.state == "complete":
                verdict = load_verdict(self.runs, confirm.id, selection)
                if verdict.confirmations:
                    return verdict
        return StudyVerdict(selection)

    def _openings(self, run: Run) -> int | None:
        """Return the number of openings of the confirm split of the run's testset."""
        stated = run.manifest.get("study", {}).get("options", {}).get("testset")
        testset = str(stated or run.manifest.get("testset", ""))
        if not testset:
            return None
        names = {testset, Path(testset).name}
        with suppress(TestsetError):
            return sum(
                o.testset in names or Path(o.testset).name in names
                for o in Openings.of(self.folder.openings)
            )
        return None

    # -- diagnosis, ablation ---------------------------------------------------------------

    def diagnosis(self, run: Run) -> Subject:
        """Return a diagnosis: its answered rows, and the points recovered by each oracle."""
        measures = parse_measures(run.manifest["measures"])
        stages, seed = run.manifest.get("stages", ()), self.options.seed
        rows = [
            read_plain(DiagnosedRow, row.body)
            for row in self.runs.rows(run.id)
            if row.state == "done"
        ]
        diagnosis = diagnosis_of(rows, measures, stages, name=run.id, seed=seed)
        plain = [row.plain for row in rows]
        entry = ScoredRun(
            run.id,
            evaluation_of(plain, measures, name=run.id, seed=seed).summaries,
            run.name or run.id,
            rows=len(plain),
            facts=_usage(plain),
            run=run.id,
            read=partial(_plain_rows, rows),
        )
        facts = _facts(run, len(plain))
        return Subject(
            f"Diagnosis of {facts['testset']}",
            "run",
            (entry,),
            measures=tuple(map(str, measures)),
            facts=facts,
            openings=self._openings(run),
            stopped=_stopped_text(run),
            diagnosis=diagnosis,
            notes=(*diagnosis.notes, *grounds(plain)),
        )

    def ablation(self, run: Run) -> Subject:
        """Return an ablation: the effect of each part, and the variants of the prompt."""
        ablation = load_ablation(self.runs, run.id)
        sweep = {known.id: known for known in self.runs.list(SWEEP)}.get(
            str(run.manifest.get("sweep", ""))
        )
        facts, notes = _facts(run, ablation.rows), tuple(ablation.notes)
        title = f"Ablation on {ablation.testset}"
        if sweep is None:
            return Subject(title, "run", (), facts=facts, ablation=ablation, notes=notes)
        study = self.study(sweep, ())
        return replace(
            study,
            title=title,
            facts=facts | {"variants": str(len(study.entries))},
            verdict=None,
            openings=ablation.openings or study.openings,
            stopped=_stopped_text(run),
            ablation=ablation,
            notes=notes,
        )

    def beside_ablation(self, study: Subject, run: Run) -> Subject:
        """Add an ablation to a study, as a further part of its report."""
        ablation = load_ablation(self.runs, run.id)
        notes = (*study.notes, *(f"ablation: {note}" for note in ablation.notes))
        facts = {**study.facts, "ablation": run.id}
        return replace(study, facts=facts, ablation=ablation, notes=notes, beside=True)

    # -- rows ------------------------------------------------------------------------------

    def _rows(self, run: str, texts: bool) -> Iterable[RowResult]:
        """Return rows of a run in order; the scores of failed ones have the reason."""
        if not texts:
            return self._scores(run)
        names = [str(name) for name in self.runs.get(run).manifest.get("measures", ())]
        rows = self.runs.rows(run)
        return (
            read_plain(RowResult, row.body) if has_result(row) else _make_failed(row, names)
            for row in rows
        )

    def _scores(self, run: str) -> list[RowResult]:
        """Return rows without texts, read once."""
        if run not in self.light:
            names = [str(name) for name in self.runs.get(run).manifest.get("measures", ())]
            self.light[run] = [
                _light(row.body) if has_result(row) else _make_failed(row, names)
                for row in self.runs.rows(run)
            ]
        return self.light[run]


_OF_TRIAL = ("values", "state", "facts", "reason", "run", "current")
"""Fields that an entry copies from its trial."""


def _boards(
    trials: Sequence[TrialResult], entries: Sequence[ScoredRun], objectives: Sequence[Objective]
) -> list[Board]:
    """One leaderboard per judge, that of the current settings first."""
    judged: dict[str, list[TrialResult]] = {}
    for trial, entry in zip(trials, entries, strict=True):
        if entry.run:
            judged.setdefault(entry.judge, []).append(trial)
    boards = []
    for group in judged.values():
        ranked = leaderboard(group, objectives)
        front = pareto_front(ranked, objectives) if len(objectives) > 1 else ()
        swept = {  # the swept keys of the section `judge` tell judges apart
            ", ".join(f"{k} = {v}" for k, v in trial.values.items() if k.startswith("judge."))
            for trial in group
            if trial.values
        }
        own = "; ".join(sorted(swept)) or "the project's own judge"
        ids, on_front = (tuple(trial.id for trial in each) for each in (ranked, front))
        boards.append(Board(ids, on_front, own if len(judged) > 1 else ""))
    return [board for board in boards if board.entries]


def _judge(run: Run) -> str:
    """Key of a run's judge; equal for all runs without a judge."""
    models = run.manifest.get("judge_models", "")
    return value_hash([run.manifest.get("judge", {}), run.manifest.get("rubrics", {}), models])


def _system(run: Run) -> str:
    """The system under test with its version, empty if it is the project itself."""
    name, version = run.manifest.get("system", ""), run.manifest.get("system_version", "")
    return f"{name} (version {version})" if version else str(name)


def _facts(run: Run, rows: int) -> dict[str, str]:
    facts = {
        "testset": str(run.manifest.get("testset", "unknown")),
        "system": _system(run),
        "rows": f"{rows:,}" if rows else "",
        "run": run.id,
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        "state": run.state,
    }
    return {label: text for label, text in facts.items() if text}


def _find_changed_settings(pair: Sequence[Run]) -> dict[str, str]:
    """The settings on which two runs differ, in words; empty if none does."""
    sides = [Evaluation(run.id, (), (), manifest=run.manifest) for run in pair[:2]]
    texts = [change.text for change in list_changed_settings(*sides)]
    return {"settings that differ": ", ".join(texts)} if texts else {}


def _stopped_text(run: Run) -> str:
    """Why a run is incomplete; empty if it is complete."""
    if run.state == "stopped":
        return "the run was stopped (a budget, or by hand)"
    return "the run is still open, or was interrupted" if run.state == "open" else ""


def _usage(results: Sequence[RowResult]) -> dict[str, float]:
    """Mean usage of answers; a cost that is unknown for one answer is unknown."""
    answers = [result.made for result in results if result.made is not None]
    sums: dict[str, float] = {
        "seconds": sum(answer.usage.seconds for answer in answers),
        "context_tokens": sum(answer.context_tokens for answer in answers),
    }
    if not sums["context_tokens"]:
        del sums["context_tokens"]
    costs = [answer.usage.cost if answer.usage.calls else 0.0 for answer in answers]
    if None not in costs:
        sums["cost"] = sum(cost for cost in costs if cost is not None)
    return {name: value / len(answers) for name, value in sums.items()} if answers else {}


def _light(body: Mapping[str, Any]) -> RowResult:
    """A stored result without its texts."""
    kept = body.get("made")
    answer = kept and AnswerRecord((), Usage(**kept["usage"]), kept["context_tokens"])
    scores = tuple(
        replace(Score(**score), reason="", detail="", parts={}) for score in body["scores"]
    )
    return RowResult(body["row_id"], (), scores, None, answer)


def _make_failed(row: RunRow, measures: Sequence[str]) -> RowResult:
    """A row without a result: errored with the reason, or skipped."""
    state: ScoreState = "errored" if row.state == "errored" else "skipped"
    error = f"{row.body.get('error')}: {row.body.get('what')}"
    reason = error if state == "errored" else "not evaluated"
    return RowResult(row.id, (), tuple(Score(name, state, reason=reason) for name in measures))


def _bare(read: Callable[[bool], Iterable[RowResult]], _texts: bool) -> Iterable[RowResult]:
    """Rows without texts, even if texts are requested."""
    return read(False)


def _plain_rows(rows: Sequence[DiagnosedRow], _texts: bool) -> Iterable[RowResult]:
    """Rows as answered, with the place where each is lost in its metadata."""
    for row in rows:
        plain, lost = row.plain, {"lost first": row.lost or "nowhere"}
        kept = plain.row and replace(plain.row, metadata={**plain.row.metadata, **lost})
        yield replace(plain, row=kept)
