"""`ragwright suite`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import typer
from typer import Argument, Option

from ..core import ConfigError, count_noun
from ..experiment import capability_curves
from ..report import curves_json, curves_table
from ..testsets import SuiteOptions, Testset, write_rows
from ._flags import Flags, names_of, takes
from ._show import show_progress

group = typer.Typer(
    help="Test answers on bad or missing passages.\n\nPassages are irrelevant, missing or false.",
    no_args_is_help=True,
)
_DEFAULT = SuiteOptions()
_FALSE = ",".join(f"{dose:g}" for dose in _DEFAULT.falsified)


@group.command("make")
@takes("project overrides jobs max_cost quiet seed")
def suite_make(
    flags: Flags,
    testset: str = Option(help="Questions with gold, or rgb:FILE/SUITE."),
    output: Path = Option(..., "--output", "-o", metavar="FILE", help="JSONL to write."),
    suite: str = Option("", help="Comma-separated suites: noise,rejection,…; all by default."),
    passages: int = Option(_DEFAULT.passages, min=1, help="Number of passages in a context."),
    doses: str = Option(
        "", help="Shares of irrelevant passages: 0,0.5,2/3; by default all that are possible."
    ),
    falsified: str = Option(_FALSE, help="Shares of falsified passages."),
    sources: int = Option(
        _DEFAULT.sources, min=1, help="Maximum number of questions joined into one."
    ),
    distractors: str = Option(
        _DEFAULT.distractors,
        help="Irrelevant passages: hard (other hits of a search), random, mixed.",
    ),
    as_configured: bool = Option(
        False, "--as-configured", help="Do not tell the model to report errors in passages."
    ),
) -> None:
    """Make a test set with a share of bad passages.

    Its rows have given passages, and the share is exact.
    """
    options = SuiteOptions(
        names_of(suite),
        passages,
        _shares("--doses", doses),
        _shares("--falsified", falsified),
        sources,
        distractors,  # type: ignore[arg-type]
        report_errors=not as_configured,
        seed=flags.seed,
    )
    with flags.open() as bench, show_progress(flags.console, bench):
        suite_rows = bench.suite(testset, options)
    _write_suite(flags, suite_rows, output)


def _write_suite(flags: Flags, suite_rows: Testset, output: Path) -> None:
    console = flags.console
    console.make_folder_of(output)
    write_rows(suite_rows.rows, output)
    for note in suite_rows.notes:
        console.remark(f"note: {note}")
    console.remark(f"{count_noun(len(suite_rows.rows), 'row')} written to {output}")
    console.remark(f"answer and measure them: ragwright eval --testset {output}")


@group.command("curves")
@takes("project as_json output seed")
def suite_curves(
    flags: Flags,
    run: str = Argument(
        "latest", help="A run of a suite: its name, the beginning of its id, or latest."
    ),
    accuracy: str = Option(
        "", help="Measure of accuracy; by default, whether the answer contains the gold."
    ),
) -> None:
    """Show the results of a suite run.

    Each quantity is shown at each share, with its interval.
    """
    console = flags.console
    with flags.open() as bench:
        evaluation = bench.results(run)
        setup = bench.project.settings.judge
    curves = capability_curves(evaluation, accuracy=accuracy, setup=setup, seed=flags.seed)
    if flags.writes_json:
        console.json(curves_json(curves, run=evaluation.name, notes=evaluation.notes))
        return
    shown = curves_table(curves, notes=evaluation.notes, width=console.columns())
    console.result(f"{shown}\n\nrun: {evaluation.name}")


def _shares(flag: str, text: str) -> tuple[float, ...]:
    """Parse shares separated by commas."""
    try:
        return tuple(float(Fraction(part.strip())) for part in text.split(",") if part.strip())
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(
            f"{text!r} must be shares between 0 and 1",
            where=flag,
            hint="write for example 0,0.5,2/3",
        ) from error
