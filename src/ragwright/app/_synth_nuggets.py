"""`ragwright synth --nuggets`: nuggets for the rows of a testset."""

from __future__ import annotations

from pathlib import Path

from ..core import replace_text
from ..flow import RunSummary
from ..testsets import (
    draft_nuggets,
    forecast_nuggets,
    nuggetizer_lines,
    read_rows,
    with_nuggets_of,
    write_rows,
)
from ._flags import Flags
from ._show import show_forecast, show_progress

NUGGETIZER = ".nuggets.jsonl"
"""End of the name of a file in the format of castorini/nuggetizer."""


def add_nuggets(
    flags: Flags, testset: Path, output: Path, *, source: Path | None, model: str
) -> int:
    """Draft nuggets for a testset with a model, or take those of a file, and write it."""
    console, rows = flags.console, read_rows(testset, questions=True)
    run: RunSummary | None = None
    if source is not None:
        drafts = with_nuggets_of(rows, source)
    else:
        with flags.open() as bench:
            if flags.dry_run:
                show_forecast(console, forecast_nuggets(bench.project, rows, model=model))
                return 0
            with show_progress(console, bench):
                drafts, run = draft_nuggets(bench.project, rows, model=model, resume=flags.resume)
    if not flags.dry_run:
        console.make_folder_of(output)
        if output.name.endswith(NUGGETIZER):
            replace_text(output, "".join(f"{line}\n" for line in nuggetizer_lines(drafts.rows)))
        else:
            write_rows(drafts.rows, output)
    counts = drafts.counts
    document = {
        "testset": str(output),
        "rows": len(drafts.rows),
        "drafted": drafts.drafted,
        "kept": drafts.kept,
        **counts,
        "failed": dict(drafts.failed),
        "run": None if run is None else run.run,
    }
    lines = [
        f"{drafts.drafted} of {len(drafts.rows)} rows got nuggets, {drafts.kept} had some: "
        f"{counts['vital']} vital, {counts['okay']} okay, on {output}",
        *(f"  {count:5}  {reason}" for reason, count in drafts.failed.items()),
    ]
    console.show(lambda: document, lambda: "\n".join(lines))
    if not flags.as_json and not output.name.endswith(NUGGETIZER):
        console.remark(f"check the nuggets before you rely on them: ragwright review {output}")
    return 0 if run is None or run.reason is None else console.ended(run, scored=False)
