"""Evaluation runs: rows stored as they end, taken up again after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ..core import Score, changed_options, value_hash
from ..experiment import (
    Evaluation,
    RowResult,
    Testset,
    ranking_search,
    retrieval_row,
    summarise,
)
from ..flow import Job, Runner, Runs, RunSummary, run_job
from ..measure import Measure
from ..retrieve import RetrieveOptions, Target


@dataclass(frozen=True, slots=True)
class Evaluating:
    """How to run an evaluation: continue an unfinished run, repeat its errored rows, seed."""

    resume: bool = False
    retry_errors: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class System:
    """What is evaluated: an index snapshot and how it is searched."""

    target: Target
    pair: str
    options: RetrieveOptions


def run_evaluation(
    runner: Runner,
    runs: Runs,
    system: System,
    testset: Testset,
    measures: Sequence[Measure],
    how: Evaluating,
) -> tuple[Evaluation, RunSummary]:
    """Rank documents for every row and score the rankings.

    The run pins its index snapshot: a run that another state of the index began is not
    resumed but started afresh.
    """
    search = ranking_search(system.target, system.options, measures)
    manifest = {
        "testset": testset.name,
        "rows": value_hash(
            [[row.id, row.user_input, dict(row.reference_ids)] for row in testset.rows]
        ),
        "measures": [str(measure) for measure in measures],
        "retrieve": changed_options(system.options) | {"filters": str(system.options.filters)},
        "pair": system.pair,
        "snapshot": system.target.snapshot,
    }
    job = Job(
        kind="eval",
        manifest=manifest,
        items=[(row.id, partial(retrieval_row, row, search, measures)) for row in testset.rows],
        encode=asdict,
        sources=lambda result: list(dict.fromkeys(result.ranking)),
        resume=how.resume,
        retry_errors=how.retry_errors,
    )
    summary = run_job(runner, runs, job)
    results = []
    errors = {}
    for row in runs.rows(summary.run):
        if row.state == "done":
            results.append(_decoded(row.body))
        elif row.state == "errored":
            errors[row.id] = f"{row.body.get('error')}: {row.body.get('what')}"
    return summarise(testset, results, measures, seed=how.seed, errors=errors), summary


def _decoded(body: Mapping[str, Any]) -> RowResult:
    scores = tuple(Score(**score) for score in body["scores"])
    return RowResult(body["row_id"], tuple(body["ranking"]), scores)
