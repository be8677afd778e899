"""`ragwright backup`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from ...core import count_noun
from ...operations import back_up_project, check_backup, owner_event, record
from ...project import ProjectFolder, load_settings
from .._flags import Flags, takes


@takes("project overrides as_json quiet")
def backup(
    flags: Flags,
    file: Path = Argument(metavar="FILE", help="The archive (zip); a new file without --check."),
    check: bool = Option(
        False, "--check", help="Compare every file of an archive with its checksum; write none."
    ),
) -> None:
    """Write the project to one archive, or check it."""
    if check:
        manifest = check_backup(file)
    else:
        folder = ProjectFolder(flags.project).require()
        settings = load_settings(folder.settings, flags.settings)
        record(folder, settings, owner_event("exported", "backup", file.name))
        manifest = back_up_project(folder, settings, file)
    files, at = len(manifest["files"]), manifest["at"][:19]
    left_out, size = manifest["left_out"], file.stat().st_size
    flags.console.show(
        lambda: {"file": str(file), "bytes": size, "files": files, "at": at, "left_out": left_out},
        lambda: (
            f"{count_noun(files, 'file')} of {at} UTC in {file} ({size / 1e6:,.1f} MB)"
            f"{': every checksum is right' if check else ''}"
        ),
    )
    for name, reason in left_out.items():
        flags.console.remark(f"not in it: {name} ({reason})")
