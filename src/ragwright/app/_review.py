"""`ragwright review`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from ..core import counted
from ..experiment import write_blind_sheet
from ._flags import Flags, takes
from ._review_testset import only_testset, review_testset


@takes("project quiet seed")
def command(
    flags: Flags,
    runs: list[str] = Argument(
        help="Runs of the project, or files of rows; without --measures a testset."
    ),
    measures: str = Option("", help="Measures by which people score, separated by commas."),
    output: Path = Option(
        Path("review.csv"), "-o", "--output", help="The sheet: .csv, .tsv or .jsonl."
    ),
    sheet: Path | None = Option(None, "--csv", help="For a testset: write a table to fill in."),
    filled: Path | None = Option(None, "--read", help="For a testset: read the filled-in table."),
    by: str = Option("", help="For a testset: name of the reviewer."),
) -> int:
    """Review a testset row by row, or write a sheet for people to score answers blind."""
    console = flags.console
    if not measures:
        return review_testset(console, only_testset(runs), sheet=sheet, filled=filled, by=by)
    missing = not output.parent.is_dir()
    written, secret = write_blind_sheet(flags.project, runs, measures, output, seed=flags.seed)
    if missing:
        console.remark(f"created folder {output.parent}")
    console.result(f"{counted(len(written.items), 'answer')} on {output}")
    console.remark(f"key to the systems: {secret} (do not show it to the reviewers)")
    console.remark("how many rows a margin needs: ragwright gate --plan")
    console.remark(f"then: ragwright calibrate RUN --labels {output} --key {secret}")
    return 0
