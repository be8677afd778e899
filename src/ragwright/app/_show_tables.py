"""The tables of records as text: results of a refresh, versions, rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..drafting import RecordsReport
from ..records import Manifest, RefreshProgress
from ._console import ProgressStep, table

_CELL = 100
"""Longest cell of a row that is shown."""


def refresh_step(progress: RefreshProgress) -> ProgressStep | str:
    """Progress of a stage of a refresh, by its rows."""
    if not progress.done and not progress.total:
        return progress.stage
    return ProgressStep(
        progress.done,
        progress.total or None,
        "rows",
        before=f"{progress.stage}: ",
    )


def refresh_text(report: RecordsReport, seconds: float, folder: Path, dry_run: bool) -> str:
    """The result of a refresh as text."""
    done = report.tables
    head = ["table", "inserted", "updated", "unchanged", "removed"]
    body = [
        [
            name,
            f"{c.inserted:,}",
            f"{c.updated:,}",
            f"{c.unchanged:,}",
            _removed(done.removed, name),
        ]
        for name, c in done.counts.items()
    ]
    lines = [table([head, *body], right=(1, 2, 3, 4))]
    if done.left_out:
        why = ", ".join(f"{reason} {count:,}" for reason, count in done.left_out.items())
        lines.append(f"left out: {why}   (ragwright records show left_out)")
    if report.index is not None:
        index = report.index
        lines.append(
            f"index: {index.embedded:,} embedded, {index.written:,} written, "
            f"{index.unchanged:,} unchanged, {index.removed:,} removed"
        )
        lines += [f"failed: {f.source}: {f.error.what}" for f in index.failures]
    lines += [f"note: {note}" for note in done.notes]
    if dry_run:
        lines.append("dry run: nothing was stored")
    else:
        lines.append(f"version {done.version} in {folder}, {seconds:.1f} s")
    return "\n".join(lines)


def _removed(removed: Mapping[str, int], name: str) -> str:
    return f"{removed[name]:,}" if name in removed else ""


def history_text(versions: Sequence[Manifest]) -> str:
    """Versions of the tables, the newest last."""
    if not versions:
        return "no versions yet: ragwright records refresh"
    names = list(versions[-1].rows)
    body = [
        [str(v.version), _moment(v.created), *(f"{v.rows.get(n, 0):,}" for n in names), v.note]
        for v in versions
    ]
    right = (0, *range(2, 2 + len(names)))
    return table([["version", "created", *names, "note"], *body], right=right)


def _moment(iso: str) -> str:
    """A time in UTC to the second, as text."""
    return iso[:19].replace("T", " ")


def rows_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows below each other, one line per column; long texts are cut."""
    if not rows:
        return "no such rows"
    width = max(len(name) for row in rows for name in row)
    blocks = [
        "\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in row.items()) for row in rows
    ]
    return "\n\n".join(blocks)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    shown = " ".join(shown.split())
    return shown if len(shown) <= _CELL else f"{shown[: _CELL - 1]}…"
