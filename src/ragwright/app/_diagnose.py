"""`ragwright diagnose`."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from ..experiment import Stage
from ..report import diagnosis_json, diagnosis_table, lost_rows_text
from ..workbench import (
    Diagnosing,
    ProjectFolder,
    Workbench,
    forecast_diagnosis,
    project_testset,
    run_diagnosis,
)
from ._console import EXIT_UNTRUSTED, fail, reported
from ._flags import MeasuringFlags, with_flags
from ._options import RetryErrors
from ._show import runner_line, show_forecast


@reported
@with_flags
def command(
    testset: Annotated[str, typer.Option("--testset", help="beir:DIR/SPLIT, or a JSONL file.")],
    flags: MeasuringFlags,
    measures: Annotated[
        str, typer.Option("--measures", help="Separated by commas; those that suit where empty.")
    ] = "",
    stages: Annotated[
        str,
        typer.Option(
            "--stages",
            help="Separated by commas, of filter, retrieve, rerank, truncate, generate, judge; "
            "all where empty.",
        ),
    ] = "",
    closed_book: Annotated[
        bool, typer.Option("--closed-book", help="Also ask without any passages.")
    ] = False,
    rows: Annotated[
        str,
        typer.Option("--rows", help="Show the rows that are lost first there: retrieve, index, …"),
    ] = "",
    split: Annotated[
        str, typer.Option("--split", help="tune, confirm or all; where rows name splits: tune.")
    ] = "",
    retry_errors: RetryErrors = False,
) -> int:
    """Say which stage loses points: each one is done right in turn, row by row."""
    console = flags.console
    folder = ProjectFolder(flags.project).require()
    given = project_testset(folder, testset, split, purpose="diagnose", rehearsal=flags.dry_run)
    how = Diagnosing(
        cast("tuple[Stage, ...]", _names(stages)),
        flags.by or (),
        closed_book,
        flags.resume or retry_errors,
        retry_errors,
        flags.seed,
        flags.name,
    )
    with Workbench.open(flags.project, flags.session(int(retry_errors))) as bench:
        if flags.dry_run:
            forecast = forecast_diagnosis(bench, given, measures, how)
            show_forecast(console, forecast, flags.as_json)
            return 0
        with console.progress(lambda: runner_line(bench.runner.progress)):
            found, run = run_diagnosis(bench, given, measures, how)
    if flags.as_json or (flags.output is not None and flags.output.suffix == ".json"):
        console.json(diagnosis_json(found, run=run.run))
    else:
        text = diagnosis_table(found, run=run.run)
        console.result(f"{text}\n\n{lost_rows_text(found, rows)}" if rows else text)
    if run.reason is not None:
        fail(run.reason)
        console.remark("run it again with --resume to go on")
    return 0 if run.complete and found.rows else EXIT_UNTRUSTED


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
