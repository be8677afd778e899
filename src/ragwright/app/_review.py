"""`ragwright review`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..experiment import blind_sheet, write_key, write_sheet
from ..measure import parse_measures
from ..workbench import Session, Workbench, rows_to_score
from ._console import Console, reported
from ._options import HERE, Project, Quiet, Seed


@reported
def command(
    runs: Annotated[list[str], typer.Argument(help="Runs of the project, or files of rows.")],
    measures: Annotated[
        str, typer.Option("--measures", help="What people score by, separated by commas.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The sheet: .csv, .tsv or .jsonl.")
    ] = Path("review.csv"),
    project: Project = HERE,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Write a sheet on which people score answers blind; `calibrate` reads what they wrote."""
    with Workbench.open(project, Session(seed=seed)) as bench:
        systems = {name: rows_to_score(bench, name).rows for name in runs}
    sheet, key = blind_sheet(systems, parse_measures(measures), seed=seed)
    secret = output.with_suffix(".key.json")
    write_sheet(sheet, output)
    write_key(key, secret)
    console = Console(quiet)
    console.result(f"{len(sheet.items)} answers on {output}")
    console.remark(f"which answer is whose: {secret} (keep it from those who score)")
    console.remark(
        f"then: ragwright calibrate RUN --labels {output} --key {secret} --system {runs[0]}"
    )
