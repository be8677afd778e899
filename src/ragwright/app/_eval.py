"""`ragwright eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..experiment import Evaluating
from ..measure import parse_measures
from ..project import ProjectFolder
from ..testsets import project_testset
from ..workbench import Workbench
from ._console import EXIT_UNTRUSTED, fail, reported
from ._flags import MeasuringFlags, with_flags
from ._options import Limit, RetryErrors
from ._outcome import show_evaluation, trusted
from ._show import show_forecast, show_progress


@reported
@with_flags
def command(
    testset: Annotated[str, typer.Option("--testset", help="beir:DIR/SPLIT, or a JSONL file.")],
    flags: MeasuringFlags,
    measures: Annotated[
        str,
        typer.Option(
            "--measures", help="Separated by commas: Recall@5,TokenF1; by default all that suit."
        ),
    ] = "",
    split: Annotated[
        str,
        typer.Option(
            "--split",
            help="tune, confirm or all; confirm is written to testsets/openings.jsonl. Where rows "
            "name splits: tune.",
        ),
    ] = "",
    retrieval_only: Annotated[
        bool,
        typer.Option("--retrieval-only", help="Score only what is retrieved; write no answers."),
    ] = False,
    limit: Limit = None,
    retry_errors: RetryErrors = False,
) -> int:
    """Run a testset through the project and score what it finds."""
    console = flags.console
    folder = ProjectFolder(flags.project).require()
    if measures:
        parse_measures(measures)  # a slip in a name is told before any file is read
    rows = project_testset(
        folder, testset, split, rehearsal=flags.dry_run, limit=limit, seed=flags.seed
    )
    how = Evaluating(
        flags.resume or retry_errors,
        retry_errors,
        flags.seed,
        answers=not retrieval_only,
        name=flags.name,
    )
    with Workbench.open(flags.project, flags.session()) as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_evaluate(rows, measures, how), flags.as_json)
            return 0
        with show_progress(console, bench):
            evaluation, run = bench.evaluate(rows, measures, how)
    show_evaluation(
        console,
        evaluation,
        run.run,
        flags.as_json,
        output=flags.output,
        by=flags.by or (),
        rows=rows.rows,
    )
    if run.reason is not None:
        fail(run.reason)
        console.remark("run it again with --resume to go on")
    return 0 if run.complete and trusted(evaluation) else EXIT_UNTRUSTED
