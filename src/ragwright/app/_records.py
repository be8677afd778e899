"""`ragwright records`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ..core import count_noun
from ..drafting import RefreshOptions
from ..project import IngestProgress
from ..records import RefreshProgress, TableName
from ._console import EXIT_ERROR, ProgressStep
from ._flags import Flags, takes
from ._show import ingest_step
from ._show_check import check_text
from ._show_tables import history_text, refresh_step, refresh_text, rows_text

group = typer.Typer(
    help="Turn rows into tables and documents.\n\nThe tables are bronze, silver and gold.",
    no_args_is_help=True,
)

_TABLES: tuple[TableName, ...] = ("bronze", "silver", "gold", "left_out")

_VERSION = Option(None, min=1, help="Read this earlier version.")


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """The options that name another source than the project file."""

    source: Annotated[
        str, Option(help="File, folder, pattern or database address to read instead.")
    ] = ""
    key: Annotated[str, Option(help="Column that identifies a row.")] = ""
    text: Annotated[str, Option(help="Column of the text.")] = ""
    query: Annotated[str, Option(help="Query to read from a database instead.")] = ""

    def refreshing(
        self, engine: str = "", full: bool = False, index: bool = True, dry_run: bool = False
    ) -> RefreshOptions:
        """Options of a refresh from this source."""
        return RefreshOptions(
            self.source, self.key, self.text, self.query, engine, full, index, dry_run
        )


@group.command("refresh")
@takes("project overrides as_json quiet output jobs max_cost served dry_run")
def refresh(
    flags: Flags,
    source: SourceFlags,
    engine: str = Option("", help="Where steps run: local, or ray.", show_default=False),
    full: bool = Option(False, "--full", help="Run every step again, also for unchanged rows."),
    index: bool = Option(True, help="Bring the index up to date too."),
    max_chars: int | None = Option(
        None, min=1, help="Leave out clean texts of this length or more, for this refresh."
    ),
) -> int:
    """Bring the tables and the index up to date.

    Unchanged rows cost next to nothing.
    """
    console = flags.console
    started = time.monotonic()
    shown: list[RefreshProgress | IngestProgress] = []

    def line() -> str | ProgressStep:
        if not shown:
            return "opening"
        now = shown[-1]
        if isinstance(now, RefreshProgress):
            return refresh_step(now)
        return ingest_step(now, bench.progress)

    options = source.refreshing(engine, full, index, flags.dry_run)
    options = replace(options, max_chars=max_chars)
    with flags.open() as bench, console.progress(line, work=lambda: bench.progress):
        report = bench.records.refresh(options, shown.append)
        folder = bench.records.tables.folder
    console.show(
        report.as_dict,
        lambda: refresh_text(report, time.monotonic() - started, folder, flags.dry_run),
    )
    failed = report.index is not None and report.index.failures
    return EXIT_ERROR if failed else 0


@group.command("check")
@takes("project overrides seed as_json quiet output")
def check(
    flags: Flags,
    source: SourceFlags,
    rows: int = Option(
        10_000, min=1, help="Maximum number of rows on which the declarations are tested."
    ),
) -> int:
    """Test the declarations on real rows.

    It shows every fault, and how often each pattern and rule applies.
    """
    with flags.open() as bench:
        report = bench.records.check(source.refreshing(), rows, flags.seed)
    flags.console.show(report.as_dict, lambda: check_text(report))
    return EXIT_ERROR if report.faults else 0


@group.command("show")
@takes("project as_json")
def show(
    flags: Flags,
    table: TableName = Argument(help="bronze, silver, gold or left_out."),
    limit: int = Option(10, min=1, help="Number of rows to show."),
    keys: list[str] | None = Option(None, "--key", help="Only the row with this key; repeatable."),
    version: int | None = _VERSION,
) -> None:
    """Show rows of a table."""
    with flags.open() as bench:
        rows = bench.records.rows(table, limit, keys or (), version)
    flags.console.show(lambda: {"table": table, "rows": rows}, lambda: rows_text(rows))


@group.command("history")
@takes("project as_json")
def history(flags: Flags) -> None:
    """List the versions of the tables that are kept."""
    with flags.open() as bench:
        versions = bench.records.tables.history()
    fields = ("version", "created", "note", "rows")
    flags.console.show(
        lambda: {"versions": [{f: getattr(v, f) for f in fields} for v in versions]},
        lambda: history_text(versions),
    )


@group.command("export")
@takes("project as_json quiet")
def export(
    flags: Flags,
    table: TableName = Argument(help="bronze, silver, gold or left_out."),
    output: Path = Option(
        ..., "--output", "-o", metavar="FILE", help=".parquet, .csv, .jsonl; gold: .chat.jsonl."
    ),
    version: int | None = _VERSION,
) -> None:
    """Write a table to a file for other programs."""
    console = flags.console
    flags.note_export("records export", output)
    with flags.open() as bench:
        console.make_folder_of(output)
        count = bench.records.export(table, output, version)
    if flags.as_json:
        console.json({"table": table, "file": str(output), "rows": count})
    else:
        console.remark(f"{count_noun(count, 'row')} written to {output}")
