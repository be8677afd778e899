"""`ragwright suite`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from ..core import ConfigError, counted
from ..experiment import capability_curves
from ..project import Session
from ..report import curves_json, curves_table
from ..testsets import SuiteOptions, write_rows
from ..workbench import Workbench
from ._console import Console, reported
from ._options import HERE, Jobs, Json, MaxCost, Output, Overrides, Project, Quiet, Seed, names_of
from ._show import show_progress

group = typer.Typer(
    help="Test how answers cope with irrelevant, missing, scattered or false passages.",
    no_args_is_help=True,
)
_DEFAULT = SuiteOptions()
_FALSE = ",".join(f"{dose:g}" for dose in _DEFAULT.falsified)

Doses = Annotated[
    str,
    typer.Option(
        "--doses",
        help="Shares of irrelevant passages: 0,0.5,2/3; by default all that are possible.",
    ),
]
Falsified = Annotated[str, typer.Option("--falsified", help="Shares of falsified passages.")]
Kind = Annotated[
    str,
    typer.Option(
        "--distractors",
        help="Irrelevant passages: hard (other hits of a search), random, mixed.",
    ),
]


@group.command("make")
@reported
def suite_make(
    testset: Annotated[
        str, typer.Option("--testset", help="Questions with gold, or rgb:FILE/SUITE.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="JSONL to write.")],
    suite: Annotated[str, typer.Option("--suite", help="noise,rejection,…; all by default.")] = "",
    passages: Annotated[
        int, typer.Option("--passages", min=1, help="Passages in a context.")
    ] = _DEFAULT.passages,
    doses: Doses = "",
    falsified: Falsified = _FALSE,
    sources: Annotated[
        int, typer.Option("--sources", min=1, help="Most questions joined into one.")
    ] = _DEFAULT.sources,
    distractors: Kind = _DEFAULT.distractors,
    as_configured: Annotated[
        bool,
        typer.Option("--as-configured", help="Do not tell the model to report errors in passages."),
    ] = False,
    project: Project = HERE,
    overrides: Overrides = None,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Make a testset whose rows have given passages, with an exact share of bad ones."""
    options = SuiteOptions(
        names_of(suite),
        passages,
        _shares("--doses", doses),
        _shares("--falsified", falsified),
        sources,
        distractors,  # type: ignore[arg-type]
        report_errors=not as_configured,
        seed=seed,
    )
    console = Console(quiet)
    with (
        Workbench.open(
            project, Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost, seed=seed)
        ) as bench,
        show_progress(console, bench),
    ):
        made = bench.suite(testset, options)
    console.make_folder_of(output)
    write_rows(made.rows, output)
    for note in made.notes:
        console.remark(f"note: {note}")
    console.remark(f"{counted(len(made.rows), 'row')} written to {output}")
    console.remark(f"answer and measure them: ragwright eval --testset {output}")


@group.command("curves")
@reported
def suite_curves(
    run: Annotated[
        str, typer.Argument(help="A run of a suite: its name, the beginning of it, or latest.")
    ] = "latest",
    accuracy: Annotated[
        str,
        typer.Option(
            "--accuracy",
            help="A measure of the run, instead of whether the answer contains the gold.",
        ),
    ] = "",
    project: Project = HERE,
    as_json: Json = False,
    output: Output = None,
    seed: Seed = 0,
) -> None:
    """Show the results of a suite run: each quantity at each share, with its interval."""
    console = Console(output=output)
    with Workbench.open(project, Session(seed=seed)) as bench:
        evaluation = bench.results(run)
        setup = bench.project.settings.judge
    curves = capability_curves(evaluation, accuracy=accuracy, setup=setup, seed=seed)
    if as_json or (output is not None and output.suffix.lower() == ".json"):
        console.json(curves_json(curves, run=evaluation.name, notes=evaluation.notes))
        return
    shown = curves_table(curves, notes=evaluation.notes, width=console.columns())
    console.result(f"{shown}\n\nrun: {evaluation.name}")


def _shares(flag: str, text: str) -> tuple[float, ...]:
    """Numbers of a text with commas."""
    try:
        return tuple(float(Fraction(part.strip())) for part in text.split(",") if part.strip())
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(
            f"{text!r} must be shares between 0 and 1",
            where=flag,
            hint="write for example 0,0.5,2/3",
        ) from error
