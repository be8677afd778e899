"""`ragwright init`."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from ..core import ConfigError
from ..project import init_project
from ._flags import HERE, Flags, takes

_NEXT = {"records": "ragwright records check, then: ragwright records refresh"}
"""Template -> next commands."""


@takes("quiet")
def command(
    flags: Flags,
    folder: Path = Argument(HERE, help="Folder to make the project in."),
    project: Path | None = Option(
        None,
        "--project",
        "-C",
        help="The same folder, named as in other commands.",
        show_default=False,
    ),
    source: list[str] | None = Option(None, help="A source to list in the file."),
    template: str = Option(
        "", metavar="NAME", help="Start from working files: records (rows to texts)."
    ),
) -> None:
    """Write a new project into a folder.

    It gets ragwright.yaml, personas/, prompts/ and testsets/.
    """
    if project is not None and folder != HERE:
        raise ConfigError(
            f"two folders are given: {folder} and {project}",
            where="ragwright init",
            hint="give the folder once",
        )
    console = flags.console
    for path in init_project(project or folder, tuple(source or ()), template):
        console.remark(f"wrote {path}")
    first = "" if source else "list your sources in ragwright.yaml, then: "
    console.remark(f"next: {_NEXT.get(template) or first + 'ragwright ingest'}")
