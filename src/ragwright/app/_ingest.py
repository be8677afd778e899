"""`ragwright ingest`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ..project import IngestProgress, Session
from ..workbench import Workbench
from ._console import EXIT_ERROR, Console, Step, reported
from ._options import HERE, DryRun, Jobs, Json, MaxCost, Output, Overrides, Project, Quiet, Served
from ._show import ingest_forecast_json, ingest_forecast_text, ingest_step, ingest_text

Engine = Annotated[
    str,
    typer.Option("--engine", help="Where documents are read: local, or ray.", show_default=False),
]
EmbedAgain = Annotated[
    bool,
    typer.Option("--embed-again", help="Embed every text again, even if its vector is stored."),
]


@reported
def command(
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, URLs; by default the project's sources."),
    ] = None,
    project: Project = HERE,
    overrides: Overrides = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents that are no longer there.")
    ] = False,
    embed_again: EmbedAgain = False,
    engine: Engine = "",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with code 1 if any source failed, not only if all did.",
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    served: Served = False,
    dry_run: DryRun = False,
) -> int:
    """Read sources into the index; unchanged documents cost nothing."""
    console = Console(quiet, output)
    started = time.monotonic()
    shown: list[IngestProgress] = []

    def line() -> str | Step:
        return ingest_step(shown[0], bench.progress) if shown else "opening"

    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost, served=served)
    with (
        Workbench.open(project, session) as bench,
        console.progress(line, work=lambda: bench.progress),
    ):
        if dry_run:
            planned = bench.forecast_ingest(*(sources or ()))
            if as_json:
                console.json(ingest_forecast_json(planned))
            else:
                console.result(ingest_forecast_text(planned))
            return 0
        report = bench.ingest(
            *(sources or ()),
            prune=prune,
            embed_again=embed_again,
            engine=engine,
            on_start=shown.append,
        )
    if as_json:
        console.json(report.as_dict())
    else:
        console.result(ingest_text(report, time.monotonic() - started))
    failed = report.nothing_read or (strict and bool(report.failures))
    return EXIT_ERROR if failed else 0
