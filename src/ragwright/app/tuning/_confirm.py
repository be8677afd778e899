"""`ragwright confirm`."""

from __future__ import annotations

from typing import Annotated

import typer

from ...experiment import Confirming
from ...project import Session
from ...report import verdict_json, verdict_table
from ...workbench import Workbench
from .._compare import CLUSTER_HELP
from .._console import Console, reported
from .._options import HERE, DryRun, Jobs, Json, MaxCost, Output, Overrides, Project, Quiet
from .._show import show_forecast, show_progress


@reported
def command(
    sweep: Annotated[
        str, typer.Argument(help="Sweep: its run, the name of its study, or latest.")
    ] = "latest",
    top: Annotated[
        int, typer.Option("--top", min=1, help="Number of the best trials to confirm.")
    ] = 1,
    cluster: Annotated[
        str,
        typer.Option("--cluster", help=CLUSTER_HELP),
    ] = "",
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
) -> None:
    """Compare a sweep's winner with the current settings on held-out questions."""
    console = Console(quiet, output)
    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost)
    with Workbench.open(project, session) as bench:
        if dry_run:
            show_forecast(console, bench.forecast_confirm(sweep, Confirming(top, cluster)), as_json)
            return
        with show_progress(console, bench):
            found = bench.confirm(sweep, Confirming(top, cluster))
        if found.overrides:
            console.remark(
                f"as in the sweep: {' '.join(f'--set {one}' for one in found.overrides)}"
            )
        if as_json:
            console.json(verdict_json(found.verdict, found.run))
            return
        if found.again:
            console.remark(
                "already confirmed: the stored result is shown; the confirm split stays closed"
            )
        console.result(verdict_table(found.verdict, found.run, console.columns()))
