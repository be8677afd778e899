"""`ragwright snapshots`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer
from typer import Argument, Option

from ...project import NOW, Restored, SnapshotDiff, setting_text, snapshot_settings
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
        lambda: {"snapshots": [{**asdict(s), "settings": snapshot_settings(s)} for s in states]},
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
    """Compare the documents, settings, prompts and personas of two states."""
    with flags.open() as bench:
        diff = bench.diff_snapshots(first, second)
    flags.console.show(lambda: _diff_json(diff), lambda: _diff_text(diff))


@group.command("restore")
@takes("project as_json quiet")
def snapshots_restore(
    flags: Flags,
    state: str = Argument(metavar="A", help="A number of the list."),
    index_only: bool = Option(
        False, "--index-only", help="Leave the project file, prompts and personas as they are."
    ),
) -> None:
    """Make a kept state the present one, with its settings, prompts and personas.

    Files that change are copied first. Restoring can be undone in the same way.
    """
    with flags.open() as bench:
        done = bench.restore_snapshot(state, files=not index_only)
    flags.console.show(
        lambda: {
            "restored": int(state),
            **_diff_json(done.diff),
            "written": dict(done.written),
            "left": list(done.left),
            "chunks": asdict(done.counts),
        },
        lambda: f"restored snapshot {state}\n{_diff_text(done.diff)}{_written_text(done)}",
    )
    differ = done.diff.settings or done.diff.files
    if differ and not done.written:
        flags.console.remark(
            "the project file, prompts and personas stay as they are, so that answers may differ "
            "from those of that time"
        )
    flags.console.remark("the next ingest reads the sources again, and brings their content back")


def _written_text(done: Restored) -> str:
    lines = [
        f"written: {name}" + (f" (its former text is in {copy})" if copy else "")
        for name, copy in done.written.items()
    ]
    lines += [f"not written: {name}, since the snapshot has only its hash" for name in done.left]
    return "".join(f"\n{line}" for line in lines)


def _diff_json(diff: SnapshotDiff) -> dict[str, Any]:
    return {
        "added": list(diff.added),
        "changed": list(diff.changed),
        "removed": list(diff.removed),
        "settings": {
            key: {"before": old, "after": new} for key, (old, new) in diff.settings.items()
        },
        "files": dict(diff.files),
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
    lines += [
        f"{key}: {setting_text(key, old)} → {setting_text(key, new)}"
        for key, (old, new) in diff.settings.items()
    ]
    lines += [f"{name}: {difference}" for name, difference in diff.files.items()]
    return "\n".join(lines)
