"""`ragwright eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..core import ConfigError
from ..workbench import (
    Evaluating,
    Session,
    Workbench,
)
from ._console import EXIT_UNTRUSTED, Console, fail, reported
from ._options import (
    HERE,
    DryRun,
    Jobs,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Resume,
    RetryErrors,
    Seed,
)
from ._show import (
    evaluation_json,
    evaluation_text,
    runner_line,
    show_forecast,
)


@reported
def command(
    testset: Annotated[str, typer.Option("--testset", help="beir:DIR/SPLIT, or a JSONL file.")],
    measures: Annotated[
        str, typer.Option("--measures", help="Separated by commas: nDCG@10,Recall@100,MRR@10.")
    ] = "nDCG@10,Recall@100,MRR@10",
    retrieval_only: Annotated[
        bool, typer.Option("--retrieval-only", help="Score what is found; write no answers.")
    ] = False,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    resume: Resume = False,
    retry_errors: RetryErrors = False,
    no_cache: NoCache = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    seed: Seed = 0,
    dry_run: DryRun = False,
) -> int:
    """Run a testset through the project and score what it finds."""
    if not retrieval_only:
        raise ConfigError(
            "this version scores retrieval only",
            where="ragwright eval",
            hint="add --retrieval-only; measures of answers are on the roadmap",
        )
    console = Console(quiet, output)
    session = Session(
        tuple(overrides or ()),
        jobs=jobs,
        reuse=not no_cache,
        attempt=int(retry_errors),
        max_cost=max_cost,
        seed=seed,
    )
    if dry_run:
        with Workbench.open(project, session) as bench:
            show_forecast(console, bench.forecast_evaluate(testset, measures), as_json)
        return 0
    how = Evaluating(resume=resume or retry_errors, retry_errors=retry_errors, seed=seed)
    with (
        Workbench.open(project, session) as bench,
        console.progress(lambda: runner_line(bench.runner.progress)),
    ):
        evaluation, run = bench.evaluate(testset, measures, how)
    if as_json:
        console.json(evaluation_json(evaluation, run.run))
    else:
        console.result(evaluation_text(evaluation, run.run))
    if run.reason is not None:
        fail(run.reason)
        console.remark("run it again with --resume to go on")
    scored = any(summary.n for summary in evaluation.summaries)
    return 0 if run.complete and scored else EXIT_UNTRUSTED
