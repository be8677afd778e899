"""`ragwright ingest`."""

from __future__ import annotations

import time

from typer import Argument, Option

from ..project import IngestProgress
from ._console import EXIT_ERROR, ProgressStep
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
) -> int:
    """Read the sources into the index.

    Unchanged documents cost nothing.
    """
    console = flags.console
    started = time.monotonic()
    shown: list[IngestProgress] = []

    def line() -> str | ProgressStep:
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
