"""`ragwright review`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core import counted
from ..experiment import write_blind_sheet
from ._console import Console, reported
from ._options import HERE, Project, Quiet, Seed
from ._review_testset import only_testset, review_testset


@reported
def command(
    runs: Annotated[
        list[str],
        typer.Argument(help="Runs of the project, or files of rows; without --measures a testset."),
    ],
    measures: Annotated[
        str, typer.Option("--measures", help="Measures by which people score, separated by commas.")
    ] = "",
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The sheet: .csv, .tsv or .jsonl.")
    ] = Path("review.csv"),
    project: Project = HERE,
    table: Annotated[
        Path | None, typer.Option("--csv", help="For a testset: write a table to fill in.")
    ] = None,
    filled: Annotated[
        Path | None, typer.Option("--read", help="For a testset: read the filled-in table.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="For a testset: the reviewer.")] = "",
    quiet: Quiet = False,
    seed: Seed = 0,
) -> int:
    """Review a testset row by row, or write a sheet for people to score answers blind."""
    if not measures:
        path = only_testset(runs)
        return review_testset(Console(quiet), path, sheet=table, filled=filled, by=by)
    console = Console(quiet)
    missing = not output.parent.is_dir()
    sheet, secret = write_blind_sheet(project, runs, measures, output, seed=seed)
    if missing:
        console.remark(f"created folder {output.parent}")
    console.result(f"{counted(len(sheet.items), 'answer')} on {output}")
    console.remark(f"key to the systems: {secret} (do not show it to the reviewers)")
    console.remark(f"then: ragwright calibrate RUN --labels {output} --key {secret}")
    return 0
