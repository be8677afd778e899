"""`ragwright records`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core import ConfigError, counted
from ..drafting import Refreshing
from ..project import Session
from ..records import DeltaCounts, LookupName, RefreshProgress, TableName
from ..workbench import Workbench
from ._console import EXIT_ERROR, Console, Step, reported, table
from ._options import (
    HERE,
    DryRun,
    Jobs,
    Json,
    MaxCost,
    Output,
    Overrides,
    Project,
    Quiet,
    Seed,
    Served,
)
from ._show import ingest_step
from ._show_check import check_text
from ._show_tables import history_text, refresh_step, refresh_text, rows_text

if TYPE_CHECKING:
    from ..project import IngestProgress

group = typer.Typer(
    help="Turn rows into bronze, silver and gold tables, and into documents.", no_args_is_help=True
)

_TABLES: tuple[TableName, ...] = ("bronze", "silver", "gold", "left_out")

Source = Annotated[
    str, typer.Option("--source", help="File, folder, pattern or database address to read instead.")
]
Key = Annotated[str, typer.Option("--key", help="Column that identifies a row.")]
Text = Annotated[str, typer.Option("--text", help="Column of the text.")]
Query = Annotated[str, typer.Option("--query", help="Query to read from a database instead.")]


@group.command("refresh")
@reported
def refresh(
    project: Project = HERE,
    overrides: Overrides = None,
    source: Source = "",
    key: Key = "",
    text: Text = "",
    query: Query = "",
    engine: Annotated[
        str, typer.Option("--engine", help="Where steps run: local, or ray.", show_default=False)
    ] = "",
    full: Annotated[
        bool, typer.Option("--full", help="Run every step again, also for unchanged rows.")
    ] = False,
    index: Annotated[
        bool, typer.Option("--index/--no-index", help="Bring the index up to date too.")
    ] = True,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
    served: Served = False,
    dry_run: DryRun = False,
) -> int:
    """Bring the tables and the index up to date; unchanged rows cost next to nothing."""
    console = Console(quiet, output)
    started = time.monotonic()
    shown: list[RefreshProgress | IngestProgress] = []

    def line() -> str | Step:
        if not shown:
            return "opening"
        now = shown[-1]
        if isinstance(now, RefreshProgress):
            return refresh_step(now)
        return ingest_step(now, bench.progress)

    how = Refreshing(source, key, text, query, engine, full, index, dry_run)
    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost, served=served)
    with (
        Workbench.open(project, session) as bench,
        console.progress(line, work=lambda: bench.progress),
    ):
        report = bench.records.refresh(how, shown.append)
        tables = bench.records.tables.folder
    if as_json:
        console.json(report.as_dict())
    else:
        console.result(refresh_text(report, time.monotonic() - started, tables, dry_run))
    failed = report.index is not None and report.index.failures
    return EXIT_ERROR if failed else 0


@group.command("check")
@reported
def check(
    project: Project = HERE,
    overrides: Overrides = None,
    source: Source = "",
    key: Key = "",
    text: Text = "",
    query: Query = "",
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Most rows to test the declarations on.")
    ] = 10_000,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
) -> int:
    """Test the declarations on real rows: every fault, how often each pattern and rule applies."""
    how = Refreshing(source, key, text, query)
    with Workbench.open(project, Session(tuple(overrides or ()))) as bench:
        report = bench.records.check(how, rows, seed)
    console = Console(quiet, output)
    if as_json:
        console.json(report.as_dict())
    else:
        console.result(check_text(report))
    return EXIT_ERROR if report.faults else 0


@group.command("show")
@reported
def show(
    table: Annotated[TableName, typer.Argument(help="bronze, silver, gold or left_out.")],
    project: Project = HERE,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows to show.")] = 10,
    keys: Annotated[
        list[str] | None, typer.Option("--key", help="Only the row with this key; repeatable.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="An earlier version.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rows of a table."""
    with Workbench.open(project) as bench:
        rows = bench.records.rows(table, limit, keys or (), version)
    console = Console()
    if as_json:
        console.json({"table": table, "rows": rows})
    else:
        console.result(rows_text(rows))


@group.command("lookup")
@reported
def lookup(
    name: Annotated[
        LookupName, typer.Argument(help="rollup, biographies, tags, refine or contradictions.")
    ],
    key: Annotated[
        str,
        typer.Argument(
            help="A client in any spelling, a tag or its displayed value, a field or value of a "
            "rule; without it all entries.",
            show_default=False,
        ),
    ] = "",
    project: Project = HERE,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Entries to show.")] = 20,
    as_json: Json = False,
) -> None:
    """Entries of a lookup table: those of the files, and those of the tables they name."""
    with Workbench.open(project) as bench:
        entries = bench.records.lookup(name, key)
    console = Console()
    if as_json:
        console.json({"lookup": name, "entries": entries[:limit], "total": len(entries)})
        return
    console.result(rows_text(entries[:limit]))
    if len(entries) > limit:
        console.remark(f"{limit:,} of {len(entries):,} entries; --limit shows more")


@group.command("history")
@reported
def history(project: Project = HERE, as_json: Json = False) -> None:
    """Versions of the tables that can be restored."""
    with Workbench.open(project) as bench:
        versions = bench.records.tables.history()
    console = Console()
    if as_json:
        console.json(
            {
                "versions": [
                    {"version": v.version, "created": v.created, "note": v.note, "rows": v.rows}
                    for v in versions
                ]
            }
        )
    else:
        console.result(history_text(versions))


@group.command("restore")
@reported
def restore(
    version: Annotated[int, typer.Argument(min=1, help="Version to restore.")],
    project: Project = HERE,
    overrides: Overrides = None,
    held: Annotated[
        bool, typer.Option("--hold", help="Pause refreshes until `records release`.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Restore an earlier version of the tables as a new version; the index follows."""
    console = Console(quiet)
    with Workbench.open(project, Session(tuple(overrides or ()))) as bench:
        report = bench.records.restore(version, held=held)
        rows = {name: bench.records.tables.rows(name) for name in _TABLES}
    made = report.tables.version
    if as_json:
        found = report.as_dict()
        told = {"version": made, "restored": version, "held": held, "rows": rows}
        console.json(told | {key: found[key] for key in ("notes", "index")})
        return
    body = [["table", "rows"], *([name, f"{count:,}"] for name, count in rows.items())]
    lines = [f"version {made} restores version {version}", table(body, right=(1,))]
    console.result("\n".join([*lines, *(f"note: {note}" for note in report.tables.notes)]))


@group.command("release")
@reported
def release(project: Project = HERE, as_json: Json = False) -> None:
    """Allow refreshes again after `records restore --hold`."""
    with Workbench.open(project) as bench:
        held = bench.records.release()
    console = Console()
    if as_json:
        console.json({"released": held})
    else:
        console.result("refreshes are allowed again" if held else "refreshes were not paused")


@group.command("export")
@reported
def export(
    table: Annotated[
        TableName | None, typer.Argument(help="bronze, silver, gold or left_out.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help=".parquet, .csv, .jsonl; gold: .chat.jsonl."
        ),
    ] = None,
    delta: Annotated[
        Path | None,
        typer.Option(
            "--delta",
            metavar="FOLDER",
            help="Copy the four Delta tables there, or bring the copy up to date.",
        ),
    ] = None,
    project: Project = HERE,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="An earlier version.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a table to a file, or all of them to Delta tables, for other programs."""
    console = Console(quiet)
    if delta is not None:
        if table is not None or output is not None:
            raise ConfigError(
                "--delta exports all tables and takes no table and no -o", where="records export"
            )
        with Workbench.open(project) as bench:
            counts = bench.records.export_delta(delta, version)
            tables = bench.records.tables.folder
        _show_delta(console, delta, counts, as_json=as_json)
        if not as_json:
            console.remark(f"the tables are Delta tables where they are, too: {tables}")
        return
    if table is None or output is None:
        raise ConfigError(
            "name a table and a file (gold -o gold.csv), or a folder with --delta",
            where="records export",
        )
    with Workbench.open(project) as bench:
        console.make_folder_of(output)
        count = bench.records.export(table, output, version)
    if as_json:
        console.json({"table": table, "file": str(output), "rows": count})
        return
    console.remark(f"{counted(count, 'row')} written to {output}")


def _show_delta(
    console: Console, folder: Path, exported: Mapping[TableName, DeltaCounts], *, as_json: bool
) -> None:
    if as_json:
        tables = {name: asdict(counts) for name, counts in exported.items()}
        console.json({"folder": str(folder), "tables": tables})
        return
    body = [["table", "version", "rows", "files written", "files removed"]]
    for name, counts in exported.items():
        numbers = (counts.version, counts.rows, counts.written, counts.removed)
        body.append([name, *(f"{number:,}" for number in numbers)])
    console.result(table(body, right=(1, 2, 3, 4)))
