"""`ragwright diagnose`."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from ..core import ConfigError
from ..experiment import (
    Diagnosing,
    GridOptions,
    PersonaModelGrid,
    Stage,
)
from ..flow import RunSummary
from ..project import ProjectFolder, persona_change, write_persona
from ..report import (
    diagnosis_json,
    diagnosis_table,
    generators_json,
    generators_table,
    lost_rows_text,
    lost_run_rows_text,
    run_diagnosis_json,
    run_diagnosis_table,
)
from ..testsets import Testset, project_testset
from ..workbench import Workbench
from ._compare import CLUSTER_HELP
from ._console import EXIT_UNTRUSTED, Console, fail, reported
from ._flags import MeasuringFlags, with_flags
from ._options import RetryErrors, names_of
from ._show import show_forecast, show_progress

Testsets = Annotated[
    str, typer.Option("--testset", help="beir:DIR/SPLIT, or a file of rows.", show_default=False)
]
Stored = Annotated[
    str,
    typer.Option(
        "--run",
        help="Instead of a testset: a stored run, also of another system; tells retrieval from "
        "answering and asks nothing.",
    ),
]
Measures = Annotated[
    str,
    typer.Option("--measures", help="Separated by commas; by default those that suit the rows."),
]
Stages = Annotated[
    str,
    typer.Option(
        "--stages",
        help="Separated by commas, of filter, retrieve, rerank, truncate, generate, judge; "
        "all by default.",
    ),
]
ClosedBook = Annotated[bool, typer.Option("--closed-book", help="Also ask without any passages.")]
Rows = Annotated[
    str,
    typer.Option("--rows", help="Show the rows first lost at this place: retrieve, none, …"),
]
Generators = Annotated[
    str,
    typer.Option(
        "--compare-models",
        help="Instead of stages: find the best of these generators for each persona.",
    ),
]
Personas = Annotated[
    str,
    typer.Option("--personas", help="Instead of stages: do answers for some personas lose facts?"),
]
Write = Annotated[
    bool, typer.Option("--write", help="Write the generator proven best into personas/.")
]
Split = Annotated[
    str,
    typer.Option("--split", help="tune, confirm or all; tune by default where rows name splits."),
]

Cluster = Annotated[str, typer.Option("--cluster", help=CLUSTER_HELP)]


@reported
@with_flags
def command(
    flags: MeasuringFlags,
    testset: Testsets = "",
    run: Stored = "",
    measures: Measures = "",
    stages: Stages = "",
    closed_book: ClosedBook = False,
    rows: Rows = "",
    models: Generators = "",
    personas: Personas = "",
    write: Write = False,
    split: Split = "",
    cluster: Cluster = "",
    retry_errors: RetryErrors = False,
) -> int:
    """Find the stage that loses points: each one is replaced by a perfect one in turn."""
    folder = ProjectFolder(flags.project).require()
    _one_of(testset, run)
    if run:
        own = {"--measures": measures, "--stages": stages, "--closed-book": closed_book}
        own |= {"--compare-models": models, "--personas": personas, "--write": write}
        own |= {"--split": split, "--cluster": cluster, "--retry-errors": retry_errors}
        _refuse_with_run([flag for flag, given in own.items() if given])
        return _of_run(flags, run, rows)
    given = project_testset(folder, testset, split, purpose="diagnose", rehearsal=flags.dry_run)
    resume = flags.resume or retry_errors
    if models or personas or write:
        own = {"--stages": stages, "--closed-book": closed_book, "--rows": rows, "--by": flags.by}
        own["--cluster"] = cluster
        _refuse([flag for flag, said in own.items() if said], models, write)
        who = GridOptions(
            names_of(personas),
            names_of(models),
            resume=resume,
            retry_errors=retry_errors,
            seed=flags.seed,
            name=flags.name,
        )
        return _read(flags, given, measures, who, write)
    how = Diagnosing(
        cast("tuple[Stage, ...]", names_of(stages)),
        flags.by or (),
        closed_book,
        cluster=cluster,
        resume=resume,
        retry_errors=retry_errors,
        seed=flags.seed,
        name=flags.name,
    )
    return _of_testset(flags, given, measures, how, rows)


def _of_testset(
    flags: MeasuringFlags, given: Testset, measures: str, how: Diagnosing, rows: str
) -> int:
    """Answer the rows with every stage replaced in turn, and show where points are lost."""
    console = flags.console
    with Workbench.open(flags.project, flags.session()) as bench:
        if flags.dry_run:
            forecast = bench.forecast_diagnose(given, measures, how)
            show_forecast(console, forecast, flags.as_json)
            return 0
        with show_progress(console, bench):
            found, made = bench.diagnose(given, measures, how)
    if _as_json(flags):
        console.json(diagnosis_json(found, run=made.run))
    else:
        text = diagnosis_table(found, run=made.run, width=console.columns())
        console.result(f"{text}\n\n{lost_rows_text(found, rows)}" if rows else text)
    return _ended(console, made, bool(found.rows))


def _one_of(testset: str, run: str) -> None:
    if bool(run) == bool(testset):
        raise ConfigError(
            "give either --testset or --run",
            where="ragwright diagnose",
            hint="--testset FILE answers its questions with every stage replaced in turn; --run "
            "latest splits the rows of a stored run",
        )


def _refuse_with_run(useless: list[str]) -> None:
    if useless:
        raise ConfigError(
            f"{', '.join(useless)}: not used with --run, which reads stored answers and passages",
            where="ragwright diagnose",
            hint="--by and --rows work with --run; for the others give --testset",
        )


def _of_run(flags: MeasuringFlags, run: str, rows: str) -> int:
    """Show where the rows of a stored run are lost."""
    console = flags.console
    with Workbench.open(flags.project, flags.session()) as bench:
        found = bench.diagnose_run(run, flags.by or ())
    if _as_json(flags):
        console.json(run_diagnosis_json(found))
    else:
        text = run_diagnosis_table(found, width=console.columns())
        console.result(f"{text}\n\n{lost_run_rows_text(found, rows)}" if rows else text)
    return 0


def _read(
    flags: MeasuringFlags, given: Testset, measures: str, who: GridOptions, write: bool
) -> int:
    """Compare personas by generators; with --write store the proven best."""
    console = flags.console
    with Workbench.open(flags.project, flags.session()) as bench:
        if flags.dry_run:
            forecast = bench.forecast_generators(given, measures, who)
            show_forecast(console, forecast, flags.as_json)
            return 0
        with show_progress(console, bench):
            found, run = bench.compare_generators(given, measures, who)
    if _as_json(flags):
        console.json(generators_json(found, run=run.run))
    else:
        console.result(generators_table(found, run=run.run, width=console.columns()))
    if write and run.complete:
        _write(console, ProjectFolder(flags.project), found)
    return _ended(console, run, True)


def _write(console: Console, folder: ProjectFolder, found: PersonaModelGrid) -> None:
    """Write the generators that are proven best into the personas' files; report the changes."""
    for persona in found.personas:
        best = found.best.get(persona, "")
        if not best or not persona:
            why = "no difference is proven" if persona else "it has no file: use --personas"
            console.remark(f"{persona or 'no persona'}: unchanged, {why}")
            continue
        change = persona_change(folder, persona, best)
        kept = write_persona(change)
        console.remark(change.diff or f"{persona}: {best} is set already")
        if kept is not None:
            console.remark(f"the old file is kept in {kept}")


def _refuse(useless: list[str], models: str, write: bool) -> None:
    if useless:
        raise ConfigError(
            f"{', '.join(useless)}: not used when personas or generators are compared",
            where="ragwright diagnose",
            hint="diagnose the stages in a separate run",
        )
    if write and not models:
        raise ConfigError(
            "--write needs --compare-models",
            where="ragwright diagnose",
            hint="give the generators to choose from: --compare-models a,b",
        )


def _as_json(flags: MeasuringFlags) -> bool:
    return flags.as_json or (flags.output is not None and flags.output.suffix == ".json")


def _ended(console: Console, run: RunSummary, any_row: bool) -> int:
    if run.reason is not None:
        fail(run.reason)
        console.remark("run it again with --resume to go on")
    return 0 if run.complete and any_row else EXIT_UNTRUSTED
