"""Find stored runs, and read them as the subject of a report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..core import StoreError, TestsetError, count_noun, value_hash
from ..experiment import (
    BASELINE,
    Curve,
    DiagnosedRow,
    Evaluation,
    RowResult,
    StudyVerdict,
    TrialResult,
    capability_curves,
    clusters_of_results,
    diagnosis_of,
    evaluation_of,
    find_run,
    grounds,
    leaderboard,
    list_changed_settings,
    load_ablation,
    load_evaluation,
    load_results,
    load_verdict,
    objective_of,
    objective_scores,
    passport_line,
    questions_of,
    read_plain,
    selection_of,
    usage_means,
)
from ..flow import Run, Runs
from ..measure import Measure, parse_measures
from ..project import ABLATE, CONFIRM, SWEEP, TRIAL, ProjectFolder
from ..testsets import Openings
from ._baseline import baseline_subject
from ._subject import Board, ScoredRun, Subject

_ALONE = (SWEEP, CONFIRM, ABLATE, "diagnose")
_KINDS = (*_ALONE, "eval", "score", BASELINE, TRIAL)
"""Kinds of runs that a report can be about; those of ``_ALONE`` fill a report."""


def report_subject(
    folder: ProjectFolder, runs: Runs, names: Sequence[str], *, seed: int = 0
) -> Subject:
    """Return the subject of a report on stored runs.

    Args:
        folder: The project folder, with its log of openings.
        runs: Its runs.
        names: One run, or two evaluations or baselines to show side by side: ``latest``, a name,
            or the beginning of an id.
        seed: Seed of the intervals.

    Raises:
        StoreError: A run does not exist, or cannot be shown beside another.
    """
    reader = _Reader(folder, runs, seed)
    chosen = [_find(runs, name) for name in names]
    first = chosen[0]
    alone = [run for run in chosen if run.kind in _ALONE]
    if alone and len(chosen) > 1:
        raise StoreError(
            f"{alone[0].id} is a run of `ragwright {alone[0].kind}`, which is reported alone",
            hint="name one run, or two evaluations",
        )
    if first.kind == CONFIRM:
        return reader.study(runs.get(str(first.manifest["sweep"])), first.id)
    if first.kind == SWEEP:
        return reader.study(first)
    if first.kind == "diagnose":
        return reader.diagnosis(first)
    if first.kind == ABLATE:
        return reader.ablation(first)
    if all(run.kind == BASELINE for run in chosen):
        return baseline_subject(runs, chosen)
    return reader.evaluations(chosen)


def _find(runs: Runs, name: str) -> Run:
    """Return the run with this name; ``latest`` is the newest of all kinds, ``latest~1`` the one
    before it.
    """
    known = [run for run in runs.list() if run.kind in _KINDS]
    listed = [run for run in known if run.kind != TRIAL]
    word, _, back = name.partition("~")
    if word == "latest" and (back or "0").isdigit() and len(listed) > int(back or 0):
        return listed[-1 - int(back or 0)]
    studies = {run.id: run.manifest.get("study", {}).get("name") for run in listed}
    named = [run for run in listed if name in (run.id, run.name, studies[run.id])]
    begun = [run for run in known if run.id.startswith(name)]
    if named or len(begun) == 1:
        return (named or begun)[-1]
    return runs.get(find_run(runs, name))


@dataclass(frozen=True, slots=True)
class _Reader:
    folder: ProjectFolder
    runs: Runs
    seed: int

    def evaluations(self, chosen: Sequence[Run]) -> Subject:
        """Return one evaluation, or the second compared with the first."""
        by_id = {run.id: run for run in chosen}
        evaluations = [load_evaluation(self.runs, name, self.seed) for name in by_id]
        entries = tuple(map(_entry_of, by_id.values(), evaluations))
        pair = len(by_id) > 1
        first, results = evaluations[0], list(evaluations[0].results)
        facts = _facts(chosen[0], len(results))
        title = f"Evaluation of {facts['testset']}"
        if pair:
            facts["run"] = " and ".join(by_id)
            if any(map(_system, chosen)):
                facts["system"] = " and ".join(_system(run) or "the project" for run in chosen)
            title = f"{entries[0].label} and {entries[1].label}, side by side"
            changes = [change.text for change in list_changed_settings(*evaluations)]
            facts |= {"settings that differ": ", ".join(changes)} if changes else {}
        notes = [note for evaluation in evaluations for note in evaluation.notes]
        notes += grounds(results, first.summaries if pair else ())
        notes += [
            passport_line(self.folder.root, evaluation, str(measure))
            for evaluation in evaluations
            for measure in parse_measures(evaluation.manifest.get("measures", []))
            if measure.definition.kind == "judged"
        ]
        return Subject(
            title,
            "pair" if pair else "run",
            entries,
            measures=tuple(dict.fromkeys(s.measure for e in entries for s in e.summaries)),
            facts=facts,
            openings=self._openings(chosen[0]),
            stopped=_stopped_text(chosen[0]),
            curves=() if pair else self._curves(first),
            notes=tuple(dict.fromkeys(notes)),
            clusters=clusters_of_results(results) if pair else {},
            questions=questions_of(results),
        )

    def _curves(self, evaluation: Evaluation) -> tuple[Curve, ...]:
        results = tuple(
            row
            for row in evaluation.results
            if row.row and {"suite", "dose"} <= {*row.row.metadata}
        )
        with suppress(TestsetError):
            if results:
                return capability_curves(replace(evaluation, results=results), seed=self.seed)
        return ()

    def study(self, run: Run, confirmed: str = "") -> Subject:
        """Return a sweep with all its trials, and its newest confirmation or the named one."""
        trials = [read_plain(TrialResult, row.body) for row in self.runs.rows(run.id) if row.body]
        measures = parse_measures(run.manifest["measures"])
        objective = objective_of(run.manifest.get("objective", ""), measures)
        manifests = {trial.id: trial for trial in self.runs.list(TRIAL)}
        entries = tuple(self._entry_of_trial(trial, manifests.get(trial.run)) for trial in trials)
        boards = _boards(trials, entries, objective)
        incumbent = next((trial for trial in trials if not trial.number), None)
        first = set(boards[0].entries) if boards else set()
        stopped = next((t.reason for t in trials if t.state == "skipped" and t.reason), "")
        facts = _facts(run, max((trial.rows for trial in trials), default=0))
        rows = [] if incumbent is None else self._rows(incumbent.run)
        return Subject(
            f"Study {run.manifest.get('study', {}).get('name', '')}: "
            f"{count_noun(len(trials), 'trial')} on {run.manifest.get('testset', '')}",
            "study",
            entries,
            boards,
            str(objective),
            tuple(map(str, measures)),
            facts | {"trials": str(len(trials)), "ordered by": str(objective)},
            "" if incumbent is None else incumbent.id,
            self._verdict(run, [t for t in trials if t.id in first], objective, confirmed),
            self._openings(run),
            stopped or _stopped_text(run),
            notes=grounds(rows, () if incumbent is None else incumbent.summaries),
            clusters=clusters_of_results(rows),
            questions=questions_of(rows),
        )

    def _entry_of_trial(self, trial: TrialResult, own: Run | None) -> ScoredRun:
        """Return a trial as an entry; without its run it has no rows."""
        return ScoredRun(
            trial.id,
            trial.summaries,
            "" if trial.number else "current settings",
            rows=0 if own is None else trial.rows,
            judge="" if own is None else _judge(own),
            read=tuple if own is None else partial(load_results, self.runs, trial.run),
            values=trial.values,
            current=trial.current,
            state=trial.state,
            facts=trial.facts,
            reason=trial.reason,
            run=trial.run,
        )

    def _rows(self, run: str) -> list[RowResult]:
        return list(load_results(self.runs, run)) if run else []

    def _verdict(
        self, run: Run, trials: Sequence[TrialResult], objective: Measure, confirmed: str
    ) -> StudyVerdict | None:
        """Return results of the best trial on the tune split, and on the confirm split if known."""
        others = [t for t in trials if t.number and t.state != "same"]
        candidates = [t for t in others if t.value(str(objective)) is not None]
        incumbent = next((trial for trial in trials if not trial.number and trial.run), None)
        if incumbent is None or not candidates:
            return None
        rows = self._rows(incumbent.run)
        selection = selection_of(
            objective_scores(rows, objective),
            {t.id: objective_scores(self._rows(t.run), objective) for t in candidates if t.run},
            objective,
            seed=int(run.manifest["study"]["options"].get("seed", 0)),
            clusters=clusters_of_results(rows) or None,
            questions=questions_of(rows),
        )
        for confirm in reversed(self.runs.list(CONFIRM)):
            if confirmed not in ("", confirm.id):
                continue
            if confirm.manifest.get("sweep") == run.id and confirm.state == "complete":
                verdict = load_verdict(self.runs, confirm.id, selection)
                if verdict.confirmations:
                    return verdict
        return StudyVerdict(selection)

    def _openings(self, run: Run) -> int | None:
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

    def diagnosis(self, run: Run) -> Subject:
        """Return a diagnosis: its answered rows, and the points recovered by each oracle."""
        measures = parse_measures(run.manifest["measures"])
        stages, seed = run.manifest.get("stages", ()), self.seed
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
            facts=usage_means(plain),
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
        study = self.study(sweep)
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


def _entry_of(run: Run, evaluation: Evaluation) -> ScoredRun:
    return ScoredRun(
        run.id,
        evaluation.summaries,
        run.name or run.id,
        rows=len(evaluation.results),
        facts=usage_means(evaluation.results),
        run=run.id,
        judge=_judge(run),
        read=lambda: evaluation.results,
        counts=evaluation.counts,
    )


def _boards(
    trials: Sequence[TrialResult], entries: Sequence[ScoredRun], objective: Measure
) -> tuple[Board, ...]:
    judged: dict[str, list[TrialResult]] = {}
    for trial, entry in zip(trials, entries, strict=True):
        if entry.run:
            judged.setdefault(entry.judge, []).append(trial)
    boards = []
    for group in judged.values():
        ranked = leaderboard(group, objective)
        swept = {  # the swept keys of the section `judge` tell judges apart
            ", ".join(f"{k} = {v}" for k, v in trial.values.items() if k.startswith("judge."))
            for trial in group
            if trial.values
        }
        own = "; ".join(sorted(swept)) or "the project's own judge"
        ids = tuple(trial.id for trial in ranked)
        boards.append(Board(ids, own if len(judged) > 1 else ""))
    return tuple(board for board in boards if board.entries)


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


def _stopped_text(run: Run) -> str:
    """Why a run is incomplete; empty if it is complete."""
    if run.state == "stopped":
        return "the run was stopped (a budget, or by hand)"
    return "the run is still open, or was interrupted" if run.state == "open" else ""


def _plain_rows(rows: Sequence[DiagnosedRow]) -> Iterator[RowResult]:
    for row in rows:
        plain, lost = row.plain, {"lost first": row.lost or "nowhere"}
        kept = plain.row and replace(plain.row, metadata={**plain.row.metadata, **lost})
        yield replace(plain, row=kept)
