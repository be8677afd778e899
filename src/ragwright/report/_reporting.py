"""Stored runs as the subject of a report: evaluations, pairs of them, studies, diagnoses."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import Score, StoreError, TestsetError, Usage, counted, value_hash
from ..experiment import (
    BASELINE,
    Curve,
    DiagnosedRow,
    Evaluation,
    Made,
    Objective,
    RowResult,
    StudyVerdict,
    TrialResult,
    capability_curves,
    changed_settings,
    clusters_of_results,
    counting_note,
    diagnosed_of,
    diagnosis_of,
    evaluation_of,
    find_run,
    grade_means,
    has_result,
    leaderboard,
    objective_scores,
    objectives_of,
    pareto_front,
    read_grades,
    result_of,
    score_of,
    selection_of,
    stored_ablation,
    stored_evaluation,
    stored_verdict,
    trial_of,
)
from ..flow import Run, RunRow, Runs
from ..measure import parse_measures
from ..project import ABLATE, CONFIRM, SWEEP, TRIAL, ProjectFolder
from ..testsets import Openings
from ._baseline_subject import baseline_subject
from ._subject import Board, Entry, Goal, Subject

_KINDS = ("eval", "score", SWEEP, ABLATE, "diagnose", BASELINE, TRIAL)
"""Kinds of runs that a report can be about."""

_SETTING = "judge."


@dataclass(frozen=True, slots=True)
class Reporting:
    """Settings of a report.

    Attributes:
        trials: Trials of a study whose complete rows are included first; T007, ….
        seed: Seed of intervals.
    """

    trials: tuple[str, ...] = ()
    seed: int = 0


def report_subject(
    folder: ProjectFolder, runs: Runs, names: Sequence[str], how: Reporting | None = None
) -> Subject:
    """The subject of a report on stored runs.

    Args:
        folder: The project folder, with its log of openings.
        runs: Its runs.
        names: One run, or two to be shown side by side: ``latest``, a name, the beginning of an
            id. Of a study as the second one, its best trial is taken; an ablation beside a study
            adds its verdict and its charts.
        how: Settings of the report.

    Raises:
        StoreError: There is no such run, or no such trial.
    """
    reader = _Reader(folder, runs, how or Reporting())
    found = [reader.find(name) for name in names]
    first = found[0]
    if first.kind == SWEEP:
        ablations = [run for run in found[1:] if run.kind == ABLATE]
        told = reader.study(first, [run for run in found[1:] if run.kind != ABLATE])
        return reader.beside_ablation(told, ablations[0]) if ablations else told
    if first.kind == "diagnose":
        return reader.diagnosis(first)
    if first.kind == ABLATE:
        return reader.ablation(first)
    if all(run.kind == BASELINE for run in found):
        return baseline_subject(runs, found)
    return reader.pair(found)


@dataclass(slots=True)
class _Reader:
    """Runs read for one report; scores are read once and cached."""

    folder: ProjectFolder
    runs: Runs
    how: Reporting
    light: dict[str, list[RowResult]] = field(default_factory=dict)

    def find(self, name: str) -> Run:
        """The run of a name, the newest of all kinds for ``latest``."""
        known = [run for run in self.runs.list() if run.kind in _KINDS]
        shown = [run for run in known if run.kind != TRIAL]
        if name == "latest" and shown:
            return shown[-1]
        begun = [run for run in known if run.id.startswith(name) or run.name == name]
        begun += [
            run
            for run in known
            if run.kind == SWEEP and run.manifest.get("study", {}).get("name") == name
        ]
        exact = [run for run in begun if run.id == name]
        exact = exact or [run for run in begun if run.kind != TRIAL] or begun
        if len({run.id for run in exact}) == 1 or (exact and exact[-1].name == name):
            return exact[-1]
        by_id = {run.id: run for run in known}
        if name.partition("~")[0] == "latest" or not exact:
            with suppress(StoreError):
                return by_id[find_run(self.runs, name)]
        lines = "".join(f"\n  {run.id} {run.kind} {run.name}" for run in reversed(shown[-6:]))
        what = (
            f"{counted(len(exact), 'run has', 'runs have')} the name {name!r}"
            if exact
            else f"unknown run {name!r}"
        )
        hint = (
            f"the newest:{lines}" if lines else "no run is stored yet: run `ragwright eval` first"
        )
        raise StoreError(what, hint=hint)

    # -- one run, or two -------------------------------------------------------------------

    def pair(self, found: Sequence[Run]) -> Subject:
        """Evaluations: one, or the second compared with the first."""
        entries = [self._evaluated(run) for run in found]
        if len(entries) == 2 and entries[0].id == entries[1].id:
            entries = entries[:1]
        kind, first = ("pair", found[0]) if len(entries) > 1 else ("run", found[0])
        measures = dict.fromkeys(s.measure for entry in entries for s in entry.summaries)
        facts = _facts(first, sum(entry.rows for entry in entries[:1]))
        title = f"Evaluation of {facts['testset']}"
        if kind == "pair":
            facts["run"] = " and ".join(entry.run for entry in entries)
            systems = [_system(run) or "the project" for run in found]
            if any(map(_system, found)):
                facts["system"] = " and ".join(systems)
            title = f"{entries[0].label} and {entries[1].label}, side by side"
            facts |= _changed(found)
        notes = [f"run {run.id} is {run.state}" for run in found if run.state != "complete"]
        notes += self._counting_notes(found)
        return Subject(
            title,
            "pair" if kind == "pair" else "run",
            tuple(entries),
            measures=tuple(measures),
            facts=facts,
            openings=self._openings(first),
            stopped=_stopped(first),
            curves=self._curves(first) if kind == "run" else (),
            notes=tuple(notes),
            clusters=self._clusters(entries[0].run) if kind == "pair" else {},
        )

    def _counting_notes(self, runs: Iterable[Run]) -> list[str]:
        """Runs of earlier versions that counted documents where gold is spans."""
        root = self.folder.root
        return [note for run in runs if (note := counting_note(run.id, run.manifest, root))]

    def _evaluated(self, run: Run) -> Entry:
        if run.kind == SWEEP:
            return self._best_of(run)
        evaluation = stored_evaluation(self.runs, run.id, self.how.seed)
        return Entry(
            run.id,
            evaluation.summaries,
            run.name or run.id,
            rows=len(evaluation.results),
            facts=_took(evaluation.results),
            run=run.id,
            judge=_judge(run),
            read=partial(self._rows, run.id),
        )

    def _best_of(self, run: Run) -> Entry:
        subject = self.study(run, ())
        best = subject.best
        if best is None:
            raise StoreError(f"no trial of the sweep {run.id} has a result")
        return replace(best, id=f"{best.id}-of-{run.id}", label=f"{best.id} of {run.id}")

    def _curves(self, run: Run) -> tuple[Curve, ...]:
        """Capability curves, if rows of the run belong to a suite."""
        results = [
            result
            for result in self._rows(run.id, True)
            if result.row is not None and {"suite", "dose"} <= result.row.metadata.keys()
        ]
        if not results:
            return ()
        with suppress(TestsetError):
            return capability_curves(
                Evaluation(run.id, (), tuple(results), manifest=run.manifest), seed=self.how.seed
            )
        return ()

    # -- a study ---------------------------------------------------------------------------

    def study(self, run: Run, others: Sequence[Run]) -> Subject:
        """A sweep with all its trials; other runs are shown too, outside the ranking."""
        trials = [trial_of(row.body) for row in self.runs.rows(run.id) if row.body]
        measures = parse_measures(run.manifest["measures"])
        objectives = objectives_of(run.manifest.get("objectives", ()), measures)
        manifests = {one.id: one for one in self.runs.list(TRIAL)}
        grades = read_grades(self.folder.root)
        entries = [
            replace(self._trial(trial, manifests), people=grade_means(grades, self.runs, trial.run))
            for trial in trials
        ]
        boards = _boards(trials, entries, objectives)
        incumbent = next((trial for trial in trials if not trial.number), None)
        first = set(boards[0].entries) if boards else set()
        ranked = [trial for trial in trials if trial.id in first]
        if self.how.trials:
            entries = self._chosen(entries)
        stopped = next((t.reason for t in trials if t.state == "skipped" and t.reason), "")
        name = str(run.manifest.get("study", {}).get("name", ""))
        rows = max((trial.rows for trial in trials), default=0)
        return Subject(
            f"Study {name}: {counted(len(trials), 'trial')} on {run.manifest.get('testset', '')}",
            "study",
            (*entries, *(self._evaluated(other) for other in others)),
            tuple(boards),
            tuple(Goal(one.name, one.higher_is_better) for one in objectives),
            tuple(map(str, measures)),
            _facts(run, rows)
            | {"trials": str(len(trials)), "ordered by": ", ".join(o.name for o in objectives)},
            incumbent.id if incumbent is not None else "",
            self._verdict(run, ranked, objectives[0]),
            self._openings(run),
            stopped or _stopped(run),
            notes=tuple(
                self._counting_notes(manifests[t.run] for t in trials if t.run in manifests)
            ),
            clusters=self._clusters(incumbent.run) if incumbent is not None else {},
        )

    def _trial(self, trial: TrialResult, runs: Mapping[str, Run]) -> Entry:
        run = runs.get(trial.run)
        return Entry(
            trial.id,
            trial.summaries,
            "" if trial.number else "current settings",
            trial.values,
            trial.state,
            trial.rows if run is not None else 0,
            trial.facts,
            trial.reason,
            trial.run,
            "" if run is None else _judge(run),
            partial(self._rows, trial.run) if run is not None else _nothing,
            trial.current,
        )

    def _chosen(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries, with rows of the chosen trials only."""
        known = {entry.id for entry in entries}
        unknown = [name for name in self.how.trials if name not in known]
        if unknown:
            raise StoreError(
                f"the study has no trial {unknown[0]!r}",
                where="--trial",
                hint=f"T000 to {max(known, default='T000')}",
            )
        wanted = {*self.how.trials, "T000"}
        return [e if e.id in wanted else replace(e, read=partial(_bare, e.read)) for e in entries]

    def _verdict(
        self, run: Run, trials: Sequence[TrialResult], objective: Objective
    ) -> StudyVerdict | None:
        """Results of the best trial on the tune split, and on the confirm split if available."""
        candidates = [t for t in trials if t.number and t.value(objective.name) is not None]
        incumbent = next((trial for trial in trials if not trial.number and trial.run), None)
        if incumbent is None or not candidates:
            return None
        name = objective.name
        selection = selection_of(
            objective_scores(self._scores(incumbent.run), name),
            {t.id: objective_scores(self._scores(t.run), name) for t in candidates if t.run},
            objective,
            seed=int(run.manifest["study"]["options"].get("seed", 0)),
            clusters=self._clusters(incumbent.run) or None,
            eligible={trial.id for trial in candidates if trial.state == "done"},
        )
        for confirm in reversed(self.runs.list(CONFIRM)):
            if confirm.manifest.get("sweep") != run.id or confirm.state != "complete":
                continue
            told = stored_verdict(self.runs, confirm.id, selection)
            if told.confirmations:
                return told
        return StudyVerdict(selection)

    def _clusters(self, run: str) -> Mapping[str, Hashable]:
        """Clusters of a run's rows; empty if rows are independent."""
        return clusters_of_results(list(self._rows(run, True)))

    def _openings(self, run: Run) -> int | None:
        """Number of openings of the confirm split of the run's testset."""
        asked = run.manifest.get("study", {}).get("options", {}).get("testset")
        testset = str(asked or run.manifest.get("testset", ""))
        log = self.folder.openings
        if not testset:
            return None
        with suppress(TestsetError):
            known = Openings.of(log)
            names = {testset, Path(testset).name}
            return sum(one.testset in names or Path(one.testset).name in names for one in known)
        return None

    # -- diagnosis, ablation ---------------------------------------------------------------

    def diagnosis(self, run: Run) -> Subject:
        """A diagnosis: its answered rows, and the points recovered by each oracle."""
        measures = parse_measures(run.manifest["measures"])
        stages = run.manifest.get("stages", ())
        rows = [diagnosed_of(row.body) for row in self.runs.rows(run.id) if row.state == "done"]
        found = diagnosis_of(rows, measures, stages, name=run.id, seed=self.how.seed)
        plain = [row.plain for row in rows]
        evaluation = evaluation_of(plain, measures, name=run.id, seed=self.how.seed)
        entry = Entry(
            run.id,
            evaluation.summaries,
            run.name or run.id,
            rows=len(plain),
            facts=_took(plain),
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
            stopped=_stopped(run),
            diagnosis=found,
            notes=tuple(found.notes),
        )

    def ablation(self, run: Run) -> Subject:
        """An ablation: the effect of each part, and the prompt variants."""
        found = stored_ablation(self.runs, run.id)
        known = {one.id: one for one in self.runs.list(SWEEP)}
        sweep = known.get(str(run.manifest.get("sweep", "")))
        facts = _facts(run, found.rows)
        title = f"Ablation on {found.testset}"
        if sweep is None:
            return Subject(title, "run", (), facts=facts, ablation=found, notes=tuple(found.notes))
        told = self.study(sweep, ())
        return replace(
            told,
            title=title,
            facts=facts | {"variants": str(len(told.entries))},
            verdict=None,
            openings=found.openings or told.openings,
            stopped=_stopped(run),
            ablation=found,
            notes=tuple(found.notes),
        )

    def beside_ablation(self, told: Subject, run: Run) -> Subject:
        """A study with what an ablation found, as a further part of its report."""
        found = stored_ablation(self.runs, run.id)
        notes = (*told.notes, *(f"ablation: {note}" for note in found.notes))
        facts = {**told.facts, "ablation": run.id}
        return replace(told, facts=facts, ablation=found, notes=notes, beside=True)

    # -- rows ------------------------------------------------------------------------------

    def _rows(self, run: str, texts: bool) -> Iterable[RowResult]:
        """Rows of a run in order; failed ones with their reason as the reason of every score."""
        if not texts:
            yield from self._scores(run)
            return
        names = [str(name) for name in self.runs.get(run).manifest.get("measures", ())]
        for row in self.runs.rows(run):
            yield result_of(row.body) if has_result(row) else _failed(row, names)

    def _scores(self, run: str) -> list[RowResult]:
        """Rows without texts, read once."""
        kept = self.light.get(run)
        if kept is None:
            names = [str(name) for name in self.runs.get(run).manifest.get("measures", ())]
            kept = [
                _light(row.body) if has_result(row) else _failed(row, names)
                for row in self.runs.rows(run)
            ]
            self.light[run] = kept
        return kept


def _boards(
    trials: Sequence[TrialResult], entries: Sequence[Entry], objectives: Sequence[Objective]
) -> list[Board]:
    """One leaderboard per judge, that of the current settings first."""
    judged: dict[str, list[TrialResult]] = {}
    for trial, entry in zip(trials, entries, strict=True):
        if entry.run:
            judged.setdefault(entry.judge, []).append(trial)
    found = []
    for group in judged.values():
        board = leaderboard(group, objectives)
        if not board:
            continue
        front = pareto_front(board, objectives) if len(objectives) > 1 else ()
        name = _judge_name(group) if len(judged) > 1 else ""
        ids = tuple(trial.id for trial in board)
        found.append(Board(ids, tuple(trial.id for trial in front), name))
    return found


def _judge_name(group: Sequence[TrialResult]) -> str:
    """Description of a judge: the swept keys of the section ``judge``."""
    told = {
        ", ".join(f"{k} = {v}" for k, v in trial.values.items() if k.startswith(_SETTING))
        for trial in group
        if trial.values
    }
    return "; ".join(sorted(told)) or "the project's own judge"


def _judge(run: Run) -> str:
    """Key of a run's judge; equal for all runs without a judge."""
    models = run.manifest.get("judge_models", "")
    return value_hash([run.manifest.get("judge", {}), run.manifest.get("rubrics", {}), models])


def _system(run: Run) -> str:
    """The system under test with its version, empty where it is the project itself."""
    name, version = run.manifest.get("system", ""), run.manifest.get("system_version", "")
    return f"{name} (version {version})" if version else str(name)


def _facts(run: Run, rows: int) -> dict[str, str]:
    found = {
        "testset": str(run.manifest.get("testset", "unknown")),
        "system": _system(run),
        "rows": f"{rows:,}" if rows else "",
        "run": run.id,
        "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        "state": run.state,
    }
    return {label: text for label, text in found.items() if text}


def _changed(found: Sequence[Run]) -> dict[str, str]:
    """The settings on which two runs differ, in words; empty where none does."""
    sides = [Evaluation(run.id, (), (), manifest=run.manifest) for run in found[:2]]
    texts = [change.text for change in changed_settings(*sides)]
    return {"settings that differ": ", ".join(texts)} if texts else {}


def _stopped(run: Run) -> str:
    if run.state == "stopped":
        return "the run was stopped (a budget, or by hand)"
    return "the run is still open, or was interrupted" if run.state == "open" else ""


def _took(results: Sequence[RowResult]) -> dict[str, float]:
    """Mean usage of answers; a cost that is unknown for one is unknown."""
    made = [one.made for one in results if one.made is not None]
    if not made:
        return {}
    costs = [one.usage.cost if one.usage.calls else 0.0 for one in made]
    known = [cost for cost in costs if cost is not None]
    facts = {"seconds": sum(one.usage.seconds for one in made) / len(made)}
    tokens = sum(one.context_tokens for one in made) / len(made)
    if tokens:
        facts["context_tokens"] = tokens
    if len(known) == len(costs):
        facts["cost"] = sum(known) / len(known)
    return facts


def _light(body: Mapping[str, Any]) -> RowResult:
    """A stored result without its texts."""
    made = body.get("made")
    how = None if made is None else Made((), Usage(**made["usage"]), made["context_tokens"])
    scores = tuple(
        replace(score_of(score, body.get("row")), reason="", detail="", parts={})
        for score in body["scores"]
    )
    return RowResult(body["row_id"], (), scores, None, how)


def _failed(row: RunRow, measures: Sequence[str]) -> RowResult:
    if row.state == "errored":
        reason = f"{row.body.get('error')}: {row.body.get('what')}"
        return RowResult(
            row.id, (), tuple(Score(name, "errored", reason=reason) for name in measures)
        )
    told = tuple(Score(name, "skipped", reason="not evaluated") for name in measures)
    return RowResult(row.id, (), told)


def _nothing(_texts: bool) -> Iterable[RowResult]:
    return ()


def _bare(read: Callable[[bool], Iterable[RowResult]], _texts: bool) -> Iterable[RowResult]:
    return read(False)


def _plain_rows(rows: Sequence[DiagnosedRow], _texts: bool) -> Iterable[RowResult]:
    """Rows as answered, with the place where each is lost in its metadata."""
    for row in rows:
        plain = row.plain
        if plain.row is None:
            yield plain
            continue
        about = {**plain.row.metadata, "lost first": row.lost or "nowhere"}
        yield replace(plain, row=replace(plain.row, metadata=about))
