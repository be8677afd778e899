"""`ragwright snapshots`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer
from typer import Argument

from ...project import NOW, SnapshotDiff
from .._console import table
from .._flags import Flags, takes

_SHOWN = 20

group = typer.Typer(
    help="Former states of the index: list them, compare them, go back to one.",
    no_args_is_help=True,
)


@group.command("list")
@takes("project as_json")
def snapshots_list(flags: Flags) -> None:
    """List the kept states of the index under the present settings."""
    with flags.open() as bench:
        states = bench.list_snapshots()
    rows = [["number", "kept at", "documents", "made by"]]
    rows += [[str(s.number), s.at, str(s.documents), s.note] for s in states]
    flags.console.show(
        lambda: {"snapshots": [{**asdict(s), "settings": s.settings} for s in states]},
        lambda: (
            table(rows, right=(0, 2))
            if states
            else "no snapshot is kept yet: `ragwright ingest` keeps one when documents change "
            "(store.keep_snapshots)"
        ),
    )


@group.command("diff")
@takes("project as_json")
def snapshots_diff(
    flags: Flags,
    first: str = Argument(metavar="A", help="A number of the list."),
    second: str = Argument(NOW, metavar="B", help="Another one, or now."),
) -> None:
    """Compare the documents and settings of two states."""
    with flags.open() as bench:
        diff = bench.diff_snapshots(first, second)
    flags.console.show(lambda: _diff_json(diff), lambda: _diff_text(diff))


@group.command("restore")
@takes("project as_json quiet")
def snapshots_restore(
    flags: Flags, state: str = Argument(metavar="A", help="A number of the list.")
) -> None:
    """Make a kept state of the index the present one; restoring can be undone in the same way."""
    with flags.open() as bench:
        counts, diff = bench.restore_snapshot(state)
    flags.console.show(
        lambda: {"restored": int(state), **_diff_json(diff), "chunks": asdict(counts)},
        lambda: f"restored snapshot {state}\n{_diff_text(diff)}",
    )
    if diff.settings:
        flags.console.remark(
            "the project file stays as it is; set these back if answers should be as they were"
        )
    flags.console.remark("the next ingest reads the sources again, and brings their content back")


def _diff_json(diff: SnapshotDiff) -> dict[str, Any]:
    return {
        "added": list(diff.added),
        "changed": list(diff.changed),
        "removed": list(diff.removed),
        "settings": {
            key: {"before": old, "after": new} for key, (old, new) in diff.settings.items()
        },
    }


def _diff_text(diff: SnapshotDiff) -> str:
    lines = []
    for name, documents in (
        ("added", diff.added),
        ("changed", diff.changed),
        ("removed", diff.removed),
    ):
        lines.append(f"{name}: {len(documents)}")
        lines += [f"  {document}" for document in documents[:_SHOWN]]
        lines += [f"  … {len(documents) - _SHOWN} more"] if len(documents) > _SHOWN else []
    lines += [f"{key}: {old} → {new}" for key, (old, new) in diff.settings.items()]
    return "\n".join(lines)
