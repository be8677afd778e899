"""`ragwright diagnose`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from typer import Option

from ..core import ConfigError
from ..experiment import Diagnosing, GridOptions, PersonaModelGrid, Stage
from ..project import ProjectFolder, persona_change, write_persona
from ..report import (
    diagnosis_json,
    diagnosis_table,
    generators_json,
    generators_table,
    run_diagnosis_json,
    run_diagnosis_table,
    write_lost_rows,
    write_lost_run_rows,
)
from ..testsets import Testset, project_testset
from ._console import Console
from ._flags import MEASURING, Flags, names_of, takes
from ._show import show_forecast, show_progress


@dataclass(frozen=True, slots=True)
class DiagnoseFlags:
    """The options of `diagnose` alone."""

    testset: str = Option("", help="beir:DIR/SPLIT, or a file of rows.", show_default=False)
    run: str = Option(
        "",
        help="Instead of a testset: a stored run, also of another system; tells retrieval from "
        "answering and makes no calls.",
    )
    stages: str = Option(
        "",
        help="Comma-separated stages: filter, retrieve, rerank, truncate, generate, judge; "
        "all by default.",
    )
    closed_book: bool = Option(
        False, "--closed-book", help="Also answer the questions without any passages."
    )
    rows: str = Option(
        "", help="Show the rows that are lost first at this stage: retrieve, none, …"
    )
    models: str = Option(
        "",
        "--compare-models",
        help="Instead of stages: find the best of these generators for each persona.",
    )
    personas: str = Option(
        "", help="Instead of stages: find the personas whose answers lose facts."
    )
    write: bool = Option(False, "--write", help="Write the generator proven best into personas/.")
    split: str = Option("", help="tune, confirm or all; tune by default where rows name splits.")


@takes(f"measures cluster retry_errors {MEASURING}")
def command(flags: Flags, own: DiagnoseFlags) -> int:
    """Find the stage that loses points.

    Each stage is replaced by a perfect one in turn.
    """
    folder = ProjectFolder(flags.project).require()
    if bool(own.run) == bool(own.testset):
        raise ConfigError(
            "give either --testset or --run",
            where="ragwright diagnose",
            hint="--testset FILE answers its questions with every stage replaced in turn; --run "
            "latest splits the rows of a stored run",
        )
    if own.run:
        return _of_run(flags, own)
    testset = project_testset(
        folder, own.testset, own.split, purpose="diagnose", dry_run=flags.dry_run
    )
    if own.models or own.personas or own.write:
        return _compare(flags, own, testset)
    return _of_testset(flags, own, testset)


def _refuse(values: dict[str, object], problem: str, hint: str) -> None:
    """Refuse the flags that have a value."""
    useless = [flag for flag, value in values.items() if value]
    if useless:
        raise ConfigError(f"{', '.join(useless)}: {problem}", where="ragwright diagnose", hint=hint)


def _of_testset(flags: Flags, own: DiagnoseFlags, testset: Testset) -> int:
    """Answer the rows with every stage replaced in turn, and show where points are lost."""
    console = flags.console
    options = Diagnosing(
        cast("tuple[Stage, ...]", names_of(own.stages)),
        flags.by or (),
        own.closed_book,
        cluster=flags.cluster,
        resume=flags.resume or flags.retry_errors,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        name=flags.name,
    )
    with flags.open() as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_diagnose(testset, flags.measures, options))
            return 0
        with show_progress(console, bench):
            diagnosis, run = bench.diagnose(testset, flags.measures, options)
    if flags.writes_json:
        console.json(diagnosis_json(diagnosis, run=run.run))
    else:
        text = diagnosis_table(diagnosis, run=run.run, width=console.columns())
        lost = f"\n\n{write_lost_rows(diagnosis, own.rows)}" if own.rows else ""
        console.result(f"{text}{lost}")
    return console.ended(run, bool(diagnosis.rows))


def _of_run(flags: Flags, own: DiagnoseFlags) -> int:
    """Show where the rows of a stored run are lost."""
    _refuse(
        {
            "--measures": flags.measures,
            "--stages": own.stages,
            "--closed-book": own.closed_book,
            "--compare-models": own.models,
            "--personas": own.personas,
            "--write": own.write,
            "--split": own.split,
            "--cluster": flags.cluster,
            "--retry-errors": flags.retry_errors,
        },
        "not used with --run, which reads stored answers and passages",
        "--by and --rows work with --run; for the others give --testset",
    )
    console = flags.console
    with flags.open() as bench:
        diagnosis = bench.diagnose_run(own.run, flags.by or ())
    if flags.writes_json:
        console.json(run_diagnosis_json(diagnosis))
    else:
        text = run_diagnosis_table(diagnosis, width=console.columns())
        lost = f"\n\n{write_lost_run_rows(diagnosis, own.rows)}" if own.rows else ""
        console.result(f"{text}{lost}")
    return 0


def _compare(flags: Flags, own: DiagnoseFlags, testset: Testset) -> int:
    """Compare personas by generators; with --write store the proven best."""
    _refuse(
        {
            "--stages": own.stages,
            "--closed-book": own.closed_book,
            "--rows": own.rows,
            "--by": flags.by,
            "--cluster": flags.cluster,
        },
        "not used when personas or generators are compared",
        "diagnose the stages in a separate run",
    )
    if own.write and not own.models:
        raise ConfigError(
            "--write needs --compare-models",
            where="ragwright diagnose",
            hint="give the generators to choose from: --compare-models a,b",
        )
    console = flags.console
    options = GridOptions(
        names_of(own.personas),
        names_of(own.models),
        resume=flags.resume or flags.retry_errors,
        retry_errors=flags.retry_errors,
        seed=flags.seed,
        name=flags.name,
    )
    with flags.open() as bench:
        if flags.dry_run:
            show_forecast(console, bench.forecast_generators(testset, flags.measures, options))
            return 0
        with show_progress(console, bench):
            grid, run = bench.compare_generators(testset, flags.measures, options)
    if flags.writes_json:
        console.json(generators_json(grid, run=run.run))
    else:
        console.result(generators_table(grid, run=run.run, width=console.columns()))
    if own.write and run.complete:
        _write(console, ProjectFolder(flags.project), grid)
    return console.ended(run, True)


def _write(console: Console, folder: ProjectFolder, grid: PersonaModelGrid) -> None:
    """Write the generators that are proven best into the personas' files; report the changes."""
    for persona in grid.personas:
        best = grid.best.get(persona, "")
        if not best or not persona:
            why = "no difference is proven" if persona else "it has no file: use --personas"
            console.remark(f"{persona or 'no persona'}: unchanged, {why}")
            continue
        change = persona_change(folder, persona, best)
        backup = write_persona(change)
        console.remark(change.diff or f"{persona}: {best} is set already")
        if backup is not None:
            console.remark(f"the old file is kept in {backup}")
