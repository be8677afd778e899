"""`ragwright calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..experiment import Calibrating, calibrate_run, open_results
from ..report import calibration_json, calibration_table
from ._compare import RUN_HELP
from ._console import Console, reported
from ._options import HERE, Json, Output, Project, Seed


@reported
def command(
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    labels: Annotated[
        list[Path],
        typer.Option("--labels", help="A filled-in sheet from `review`, one per person; or rows."),
    ],
    key: Annotated[
        Path | None,
        typer.Option("--key", help="The key of the sheet; SHEET.key.json by default."),
    ] = None,
    system: Annotated[
        str,
        typer.Option("--system", help="The reviewed answers, if the run does not identify them."),
    ] = "",
    measure: Annotated[
        str, typer.Option("--measure", help="Measure of the run; optional where it has only one.")
    ] = "",
    column: Annotated[
        str, typer.Option("--column", help="Column of the labels, in rows instead of a sheet.")
    ] = "",
    record: Annotated[
        bool,
        typer.Option("--record/--no-record", help="Keep the outcome in calibrations/, for gates."),
    ] = True,
    project: Project = HERE,
    as_json: Json = False,
    output: Output = None,
    seed: Seed = 0,
) -> None:
    """Compare a judge's scores with people's: agreement, kappa, bias, and corrected mean."""
    console = Console(output=output)
    (evaluation,) = open_results(project, (run,), seed)
    how = Calibrating(measure, key, system, column, record, seed)
    found = calibrate_run(project, evaluation, labels, how, run=run)
    if as_json:
        console.json({"run": found.run, **calibration_json(found.calibration)})
    else:
        console.result(calibration_table(found.calibration, console.columns()))
    if record:
        console.remark(
            f"stored in {found.path}: put it under version control; `gate --calibrated` reads it"
            if found.path
            else "not stored: the file does not name the judge that scored it"
        )
