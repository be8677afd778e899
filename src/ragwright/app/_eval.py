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
    Repeat,
    Resume,
    RetryErrors,
    Seed,
)
from ._outcome import repeated, show_evaluation, trusted
from ._show import (
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
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="Also per value of a field: persona_name, a column; repeatable."),
    ] = None,
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
    repeat: Repeat = None,
    dry_run: DryRun = False,
) -> int:
    """Run a testset through the project and score what it finds."""
    if by and retrieval_only:
        raise ConfigError(
            "rankings alone are not sliced",
            where="--by",
            hint="leave --retrieval-only out: answers keep the fields of their rows",
        )
    console = Console(quiet, output)
    session = Session(
        (*(overrides or ()), *repeated(repeat)),
        jobs=jobs,
        reuse=not no_cache,
        attempt=int(retry_errors),
        max_cost=max_cost,
        seed=seed,
    )
    how = Evaluating(resume or retry_errors, retry_errors, seed, answers=not retrieval_only)
    if dry_run:
        with Workbench.open(project, session) as bench:
            show_forecast(console, bench.forecast_evaluate(testset, measures, how), as_json)
        return 0
    with (
        Workbench.open(project, session) as bench,
        console.progress(lambda: runner_line(bench.runner.progress)),
    ):
        evaluation, run = bench.evaluate(testset, measures, how)
    show_evaluation(console, evaluation, run.run, as_json, output=output, by=by or ())
    if run.reason is not None:
        fail(run.reason)
        console.remark("run it again with --resume to go on")
    return 0 if run.complete and trusted(evaluation) else EXIT_UNTRUSTED
