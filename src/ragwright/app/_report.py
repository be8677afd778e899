"""`ragwright report`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from ..core import ConfigError, count_noun, replace_text
from ..passport import passport_json, read_passport
from ..report import (
    Report,
    Reporting,
    passport_html,
    passport_verdict,
    report_subject,
)
from ._console import Console
from ._flags import Flags, takes

_SHOWN_SIZE = 15.0
_PAGE = Path("report.html")
_SUFFIXES = (".html", ".htm", ".json", ".csv")


@takes("project as_json quiet output seed")
def command(
    flags: Flags,
    run: str = Argument(
        "latest",
        help="A run or a study: latest, a name, the beginning of an id; or a file of a passport.",
    ),
    other: str = Argument("", help="A second run to show beside it; an ablation beside its study."),
    trials: list[str] | None = Option(
        None, "--trial", metavar="T007", help="Keep the complete rows of this trial; repeatable."
    ),
    size: float = Option(_SHOWN_SIZE, min=2.0, help="Maximum size of the file in megabytes."),
    pictures: Path | None = Option(
        None, metavar="FOLDER", help="Also write each chart as PNG and SVG."
    ),
) -> None:
    """Write an HTML report on runs or a study.

    The verdict comes first, then every row.
    """
    names = [name for name in (run, other) if name]
    kind = "" if flags.output is None else flags.output.suffix.lower()
    if kind and kind not in _SUFFIXES:
        raise ConfigError(
            f"unknown ending {kind!r}",
            where=f"-o {flags.output}",
            hint=f"use {', '.join(_SUFFIXES)}; rows as a table: ragwright score {run} -o rows.xlsx",
        )
    console = flags.console
    if run.endswith(".json") and Path(run).is_file():
        _of_passport(flags, Path(run))
        return
    with flags.open() as bench:
        options = Reporting(tuple(trials or ()), flags.seed)
        subject = report_subject(bench.project.folder, bench.project.runs, names, options)
        report = Report(subject, size)
        if flags.output is None:
            flags.note_export("report", pictures or _PAGE)
        if pictures is not None:
            count = sum(1 for kind in ("png", "svg") for _ in report.pictures(pictures, kind))
            console.remark(f"{count} pictures written to {pictures}")
        if flags.as_json or kind == ".json":
            console.json(report.json())
        elif kind == ".csv":
            console.result(report.csv().rstrip("\n"))
            console.remark("a line for each run and measure; rows: ragwright score RUN -o rows.csv")
        else:
            _write(console, report, flags.output or _PAGE)


def _of_passport(flags: Flags, path: Path) -> None:
    """Write the page of a stored passport; print its verdict."""
    passport, output = read_passport(path), flags.output or Path("passport.html")
    if flags.as_json or output.suffix.lower() == ".json":
        flags.console.json(passport_json(passport))
        return
    if output.suffix.lower() == ".csv":
        raise ConfigError(
            "a passport cannot be written as CSV", where=f"-o {output}", hint="use .html or .json"
        )
    text = passport_html(passport)
    flags.console.make_folder_of(output)
    replace_text(output, text)
    flags.console.remark(passport_verdict(passport).text)
    flags.console.remark(f"written to {output} ({len(text.encode()) / 1e6:.1f} MB)")


def _write(console: Console, report: Report, path: Path) -> None:
    """Write the file of a report; print its verdict."""
    text = report.html()
    console.make_folder_of(path)
    replace_text(path, text)
    console.remark(report.headline.text)
    left_out = sum(report.packed.left_out.values())
    if left_out:
        console.remark(
            f"{count_noun(left_out, 'row is', 'rows are')} included with their scores only"
        )
    console.remark(f"written to {path} ({len(text.encode()) / 1e6:.1f} MB)")
