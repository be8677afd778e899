"""`ragwright backup` and `ragwright restore`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from ...core import counted
from ...operations import (
    CopyProgress,
    back_up_project,
    owner_event,
    rate_of,
    record,
    restore_project,
)
from ...project import ProjectFolder, load_settings
from .._console import Step
from .._flags import Flags, takes

_MB = 1e6


@takes("project overrides as_json quiet")
def backup(
    flags: Flags,
    file: Path = Argument(metavar="FILE", help="The archive (zip), a new file."),
    replies: bool = Option(False, "--replies", help="Also the stored replies of models."),
    sources: bool = Option(
        False, "--sources", help="Also the files of local sources within the project."
    ),
) -> None:
    """Write the whole project to one archive, also while it is served or ingests."""
    folder = ProjectFolder(flags.project).require()
    settings = load_settings(folder.settings, flags.settings)
    record(folder, settings, owner_event("exported", "backup", file.name))
    progress = CopyProgress()
    with flags.console.progress(lambda: _step(progress)):
        manifest = back_up_project(
            folder, settings, file, replies=replies, sources=sources, progress=progress
        )
    size = file.stat().st_size
    flags.console.show(
        lambda: {
            "file": str(file),
            "bytes": size,
            "files": len(manifest.files),
            "unpacked": manifest.size,
            "left_out": dict(manifest.left_out),
        },
        lambda: (
            f"{counted(len(manifest.files), 'file')} ({manifest.size / _MB:,.1f} MB) in {file} "
            f"({size / _MB:,.1f} MB)"
        ),
    )
    for name, reason in manifest.left_out.items():
        flags.console.remark(f"left out: {name} ({reason})")


@takes("project as_json quiet")
def restore(
    flags: Flags,
    file: Path = Argument(metavar="FILE", help="An archive of `ragwright backup`."),
    replace: bool = Option(
        False,
        "--replace",
        help="The folder may hold a project: what the archive replaces is moved aside.",
    ),
) -> None:
    """Put a backup in place, in a new or empty folder (-C); every file is checked first."""
    progress = CopyProgress()
    with flags.console.progress(lambda: _step(progress)):
        restored = restore_project(file, flags.project, replace=replace, progress=progress)
    folder = ProjectFolder(flags.project)
    if folder.opened:
        settings = load_settings(folder.settings)
        record(folder, settings, owner_event("changed", "restore", file.name))
    manifest = restored.manifest
    flags.console.show(
        lambda: {
            "folder": str(flags.project),
            "files": len(manifest.files),
            "at": manifest.at,
            "before": None if restored.before is None else str(restored.before),
            "left_out": dict(manifest.left_out),
        },
        lambda: (
            f"{counted(len(manifest.files), 'file')} of {manifest.at[:19]} UTC restored to "
            f"{flags.project}"
        ),
    )
    if restored.before is not None:
        flags.console.remark(f"what was there before: {restored.before}")
    for name, reason in manifest.left_out.items():
        flags.console.remark(f"not in the backup: {name} ({reason})")


def _step(progress: CopyProgress) -> Step | str:
    if not progress.total:
        return ""
    rate = rate_of(progress)
    left = (progress.total - progress.done) / rate if rate else None
    return Step(progress.done / _MB, progress.total / _MB, "MB", rate / _MB, left)
