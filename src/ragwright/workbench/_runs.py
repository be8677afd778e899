"""Evaluation runs: rows stored as they end, taken up again after a crash, read again later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ..core import Row, Score, ScoreState, StoreError, changed_options, value_hash
from ..experiment import (
    Asking,
    Evaluation,
    RowResult,
    Testset,
    answer_row,
    asked_row,
    evaluation_of,
    ranking_search,
    result_body,
    result_of,
    retrieval_row,
    summarise,
)
from ..flow import Flow, Job, Runner, Runs, RunSummary, run_job
from ..measure import Measure, MeasureSetup, parse_measures, shipped_rubrics
from ..retrieve import RetrieveOptions, Target


@dataclass(frozen=True, slots=True)
class Evaluating:
    """How to run an evaluation.

    Attributes:
        resume: Continue the newest unfinished run of the same testset, settings and snapshot.
        retry_errors: Also run its errored rows again.
        seed: Seed of the intervals.
        answers: Write answers and score them; else rankings alone are scored.
    """

    resume: bool = False
    retry_errors: bool = False
    seed: int = 0
    answers: bool = False


@dataclass(frozen=True, slots=True)
class System:
    """What is evaluated: an index snapshot, how it is searched, and what else decides answers.

    ``settings`` holds JSON-able values; they are part of the run's manifest.
    """

    target: Target
    pair: str
    options: RetrieveOptions
    settings: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self) -> dict[str, Any]:
        """What a run pins; one that another state of the index began is not resumed."""
        retrieve = changed_options(self.options) | {"filters": str(self.options.filters)}
        return {
            "retrieve": retrieve,
            "pair": self.pair,
            "snapshot": self.target.snapshot,
            **self.settings,
        }


@dataclass(frozen=True, slots=True)
class Work:
    """What a run does: its kind, its manifest, and one flow a row."""

    kind: str
    manifest: Mapping[str, Any]
    items: Sequence[tuple[str, Callable[[], Flow[RowResult]]]]


def ranking_work(system: System, testset: Testset, measures: Sequence[Measure]) -> Work:
    """Rank documents for every row and score the rankings."""
    search = ranking_search(system.target, system.options, measures)
    items = [(row.id, partial(retrieval_row, row, search, measures)) for row in testset.rows]
    return Work("eval", _manifest(testset, measures) | system.manifest(), items)


def answering_work(
    system: System,
    asking: Asking,
    testset: Testset,
    measures: Sequence[Measure],
    setup: MeasureSetup,
) -> Work:
    """Answer every row's question, and score the answers with their passages."""
    items = [(row.id, partial(asked_row, row, asking, measures, setup)) for row in testset.rows]
    manifest = _manifest(testset, measures) | system.manifest()
    return Work("eval", manifest | judge_manifest(setup), items)


def scoring_work(testset: Testset, measures: Sequence[Measure], setup: MeasureSetup) -> Work:
    """Score rows as they are."""
    items = [(row.id, partial(_scored, row, measures, setup)) for row in testset.rows]
    return Work("score", _manifest(testset, measures) | judge_manifest(setup), items)


def judge_manifest(setup: MeasureSetup) -> dict[str, Any]:
    """What decides a judgment: the settings, and every rubric by the hash of what it says."""
    rubrics = {**shipped_rubrics(), **setup.rubrics}
    return {
        "judge": changed_options(replace(setup, rubrics={})),
        "rubrics": {name: rubrics[name].fingerprint for name in sorted(rubrics)},
    }


def _scored(row: Row, measures: Sequence[Measure], setup: MeasureSetup) -> Flow[RowResult]:
    return (yield from answer_row(row, measures, setup))


def _manifest(testset: Testset, measures: Sequence[Measure]) -> dict[str, Any]:
    return {
        "testset": testset.name,
        "rows": value_hash([asdict(row) for row in testset.rows]),
        "measures": [str(measure) for measure in measures],
    }


def run_work(
    runner: Runner,
    runs: Runs,
    work: Work,
    testset: Testset,
    measures: Sequence[Measure],
    how: Evaluating,
) -> tuple[Evaluation, RunSummary]:
    """Do the work, store every row as it ends, and bring all of them together."""
    job = Job(
        kind=work.kind,
        manifest=work.manifest,
        items=work.items,
        encode=result_body,
        sources=lambda result: list(dict.fromkeys(result.ranking)),
        resume=how.resume,
        retry_errors=how.retry_errors,
    )
    summary = run_job(runner, runs, job)
    results, errors = _stored_rows(runs, summary.run)
    return summarise(testset, results, measures, seed=how.seed, errors=errors), summary


def stored_run(runs: Runs, name: str) -> str:
    """The full name of a run: ``latest``, a name, or the beginning of one.

    Raises:
        StoreError: No run, or several, answer to it.
    """
    known = [run.id for run in runs.list() if run.kind in ("eval", "score")]
    if name == "latest" and known:
        return known[-1]
    found = [run for run in known if run == name] or [run for run in known if run.startswith(name)]
    if len(found) == 1:
        return found[0]
    near = ", ".join(found[:5] or known[-5:]) or "none yet: run `ragwright eval`"
    what = f"{len(found)} runs begin with {name!r}" if found else f"there is no run {name!r}"
    raise StoreError(what, hint=f"{'name one of' if found else 'the last runs'}: {near}")


def stored_evaluation(runs: Runs, name: str, seed: int = 0) -> Evaluation:
    """The evaluation that a run came to, from its stored rows alone.

    Rows that failed are ``errored`` with the reason, those never reached ``skipped``.

    Raises:
        StoreError: There is no such run.
    """
    run = stored_run(runs, name)
    measures = parse_measures(runs.get(run).manifest["measures"])
    results = []
    for row in runs.rows(run):
        if row.state == "done":
            results.append(result_of(row.body))
        else:
            results.append(_without(row.id, measures, row.state, row.body))
    return evaluation_of(results, measures, name=run, seed=seed)


def _without(
    row_id: str, measures: Sequence[Measure], state: str, body: Mapping[str, Any]
) -> RowResult:
    kept: ScoreState = "errored" if state == "errored" else "skipped"
    reason = f"{body.get('error')}: {body.get('what')}" if kept == "errored" else "not evaluated"
    return RowResult(row_id, (), tuple(Score(str(m), kept, reason=reason) for m in measures))


def _stored_rows(runs: Runs, run: str) -> tuple[list[RowResult], dict[str, str]]:
    """Results of a run's rows, and the reasons of those that failed."""
    results = []
    errors = {}
    for row in runs.rows(run):
        if row.state == "done":
            results.append(result_of(row.body))
        elif row.state == "errored":
            errors[row.id] = f"{row.body.get('error')}: {row.body.get('what')}"
    return results, errors
