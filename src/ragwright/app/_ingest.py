"""`ragwright ingest`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from typer import Argument, Option

from .. import report  # a comparison of parsers alone needs it
from ..core import ConfigError
from ..project import IngestProgress, compare_parsers
from ._console import EXIT_ERROR, Step
from ._flags import Flags, takes
from ._show import ingest_forecast_json, ingest_forecast_text, ingest_step, ingest_text


@takes("project overrides as_json quiet output jobs max_cost served dry_run")
def command(
    flags: Flags,
    sources: list[str] | None = Argument(
        None, help="Files, folders, URLs; by default the project's sources."
    ),
    prune: bool = Option(False, "--prune", help="Remove documents that are no longer there."),
    embed_again: bool = Option(
        False, "--embed-again", help="Embed every text again, even if its vector is stored."
    ),
    engine: str = Option("", help="Where documents are read: local, or ray.", show_default=False),
    strict: bool = Option(
        False, "--strict", help="Exit with code 1 if any source failed, not only if all did."
    ),
    compare: str = Option(
        "",
        "--compare",
        metavar="PARSERS",
        help="Read one file with several parsers (ours,markitdown) and show them side by side; "
        "-o page.html writes a page. Nothing is stored.",
        show_default=False,
    ),
) -> int:
    """Read sources into the index; unchanged documents cost nothing."""
    console = flags.console
    if compare:
        return _compared_parsers(flags, sources or [], compare.split(","))
    started = time.monotonic()
    shown: list[IngestProgress] = []

    def line() -> str | Step:
        return ingest_step(shown[0], bench.progress) if shown else "opening"

    with flags.open() as bench, console.progress(line, work=lambda: bench.progress):
        if flags.dry_run:
            planned = bench.forecast_ingest(*(sources or ()))
            console.show(
                lambda: ingest_forecast_json(planned), lambda: ingest_forecast_text(planned)
            )
            return 0
        report = bench.ingest(
            *(sources or ()),
            prune=prune,
            embed_again=embed_again,
            engine=engine,
            on_start=shown.append,
        )
    console.show(report.as_dict, lambda: ingest_text(report, time.monotonic() - started))
    failed = report.nothing_read or (strict and bool(report.failures))
    return EXIT_ERROR if failed else 0


def _compared_parsers(flags: Flags, files: Sequence[str], parsers: Sequence[str]) -> int:
    """Show what parsers make of a file; an error only if none could read it."""
    console = flags.console
    if len(files) != 1:
        raise ConfigError(
            f"--compare reads one file, not {len(files)}",
            hint="for example ragwright ingest --compare ours,markitdown manual.pdf",
        )
    with flags.open() as bench:
        look = compare_parsers(bench.project, files[0], parsers)
    if flags.output is not None and flags.output.suffix in (".html", ".htm"):
        console.result(report.parsers_page(look))
    else:
        console.show(
            lambda: report.parsers_json(look),
            lambda: report.parsers_table(look, width=console.columns()),
        )
    return EXIT_ERROR if all(parsed.error for parsed in look.parsed) else 0
