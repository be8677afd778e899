"""`ragwright calibrate`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from ...experiment import Calibrating, calibrate_run, open_results
from ...report import calibration_json, calibration_table
from .._flags import RUN_HELP, Flags, takes


@takes("project as_json output seed")
def command(
    flags: Flags,
    run: str = Argument(help=RUN_HELP),
    labels: list[Path] = Option(help="A filled-in sheet from `review`, one per person; or rows."),
    key: Path | None = Option(None, help="The key of the sheet; SHEET.key.json by default."),
    system: str = Option("", help="The reviewed answers, if the run does not identify them."),
    measure: str = Option("", help="Measure of the run; optional where it has only one."),
    column: str = Option("", help="Column of the labels, in rows instead of a sheet."),
    cluster: str = Option(
        "", help="Rows that share this column (or document, passage) count as one observation."
    ),
    record: bool = Option(True, help="Keep the outcome in calibrations/, for gates."),
) -> None:
    """Compare a judge's scores with people's: agreement, kappa, bias, and corrected mean."""
    console = flags.console
    (evaluation,) = open_results(flags.project, (run,), flags.seed)
    options = Calibrating(measure, key, system, column, record, flags.seed, cluster)
    result = calibrate_run(flags.project, evaluation, labels, options, run=run)
    console.show(
        lambda: {"run": result.run, **calibration_json(result.calibration)},
        lambda: calibration_table(result.calibration, console.columns()),
    )
    if record:
        console.remark(
            f"stored in {result.path}: put it under version control; `gate --calibrated` reads it"
            if result.path
            else "not stored: the file does not name the judge that scored it"
        )
