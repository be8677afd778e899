"""`ragwright report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core import ConfigError, counted, replace_text
from ..report import Report, Reporting, report_subject
from ..workbench import Workbench
from ._console import Console, reported
from ._options import HERE, Json, Output, Project, Quiet, Seed

_SHOWN_SIZE = 15.0
_SUFFIXES = (".html", ".htm", ".json", ".csv")


@reported
def command(
    run: Annotated[
        str, typer.Argument(help="A run or a study: latest, a name, the beginning of an id.")
    ] = "latest",
    other: Annotated[
        str, typer.Argument(help="A second run to show beside it; an ablation beside its study.")
    ] = "",
    project: Project = HERE,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    seed: Seed = 0,
    trials: Annotated[
        list[str] | None,
        typer.Option(
            "--trial", metavar="T007", help="Keep the complete rows of this trial; repeatable."
        ),
    ] = None,
    size: Annotated[
        float, typer.Option("--size", min=2.0, help="Most megabytes of the file.")
    ] = _SHOWN_SIZE,
    pictures: Annotated[
        Path | None,
        typer.Option("--pictures", metavar="FOLDER", help="Also write each chart as PNG and SVG."),
    ] = None,
) -> None:
    """Write an HTML report on a run, two runs or a study: the verdict first, then every row."""
    names = [name for name in (run, other) if name]
    kind = "" if output is None else output.suffix.lower()
    if kind and kind not in _SUFFIXES:
        raise ConfigError(
            f"unknown ending {kind!r}",
            where=f"-o {output}",
            hint=f"use {', '.join(_SUFFIXES)}; rows as a table: ragwright score {run} -o rows.xlsx",
        )
    with Workbench.open(project) as bench:
        how = Reporting(tuple(trials or ()), seed)
        report = Report(report_subject(bench.project.folder, bench.project.runs, names, how), size)
        console = Console(quiet, output)
        if pictures is not None:
            count = sum(1 for kind in ("png", "svg") for _ in report.pictures(pictures, kind))
            console.remark(f"{count} pictures written to {pictures}")
        if as_json or kind == ".json":
            console.json(report.json())
        elif kind == ".csv":
            console.result(report.csv().rstrip("\n"))
            console.remark("a line for each run and measure; rows: ragwright score RUN -o rows.csv")
        else:
            _write(console, report, output or Path("report.html"))


def _write(console: Console, report: Report, path: Path) -> None:
    """Report the file and its verdict."""
    text = report.html()
    console.make_folder_of(path)
    replace_text(path, text)
    console.remark(report.headline.text)
    left_out = sum(report.packed.left_out.values())
    if left_out:
        console.remark(f"{counted(left_out, 'row is', 'rows are')} included with their scores only")
    console.remark(f"written to {path} ({len(text.encode()) / 1e6:.1f} MB)")
