"""Evaluation runs: rows stored as they end, taken up again after a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from ..core import Row, Score, changed_options, value_hash
from ..experiment import Evaluation, RowResult, Testset, retrieval_flows, summarise
from ..flow import Flow, Job, Runner, Runs, RunSummary, run_job
from ..measure import Measure
from ..retrieve import RetrieveOptions, Target, candidates, retrieve

_CHUNKS_A_DOCUMENT = 3
"""Chunks fetched for each document a measure looks at, since several may be of one document."""


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
    search = partial(_ranking, system.target, _deep(system.options, measures))
    manifest = {
        "testset": testset.name,
        "rows": value_hash([[row.id, row.user_input] for row in testset.rows]),
        "measures": [str(measure) for measure in measures],
        "retrieve": changed_options(system.options) | {"filters": str(system.options.filters)},
        "pair": system.pair,
        "snapshot": system.target.snapshot,
    }
    job = Job(
        kind="eval",
        manifest=manifest,
        items=[(row.id, _maker(row, search, measures)) for row in testset.rows],
        encode=asdict,
        sources=lambda result: list(dict.fromkeys(result.ranking)),
        resume=how.resume,
        retry_errors=how.retry_errors,
    )
    summary = run_job(runner, runs, job)
    results = [_decoded(row.body) for row in runs.rows(summary.run) if row.state == "done"]
    return summarise(testset, results, measures, seed=how.seed), summary


def _maker(
    row: Row, search: Callable[[str], Flow[Sequence[str]]], measures: Sequence[Measure]
) -> Callable[[], Flow[RowResult]]:
    alone = Testset("", (row,))
    return lambda: next(retrieval_flows(alone, search, measures))


def _ranking(target: Target, options: RetrieveOptions, query: str) -> Flow[Sequence[str]]:
    """Document ids for a query, best first, each once."""
    if options.retriever:
        found = yield from retrieve(query, target, options)
        return found.document_ids
    listed = yield from candidates(query, target, options)
    return tuple(dict.fromkeys(key.rpartition(":")[0] for key, _ in listed.ranking))


def _deep(options: RetrieveOptions, measures: Sequence[Measure]) -> RetrieveOptions:
    """The same search, deep enough for the deepest cutoff."""
    deepest = max((measure.cutoff or 0 for measure in measures), default=0)
    needed = max(options.top_k, deepest)
    return replace(options, top_k=needed, pool=max(options.pool, needed * _CHUNKS_A_DOCUMENT))


def _decoded(body: Mapping[str, Any]) -> RowResult:
    scores = tuple(Score(**score) for score in body["scores"])
    return RowResult(body["row_id"], tuple(body["ranking"]), scores)
