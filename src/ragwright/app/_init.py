"""`ragwright init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core import ConfigError
from ..project import init_project
from ._console import Console, reported
from ._options import HERE, Quiet

_NEXT = {"records": "ragwright records check, then: ragwright records refresh"}
"""Template -> next commands."""


@reported
def command(
    folder: Annotated[Path, typer.Argument(help="Folder to make the project in.")] = HERE,
    project: Annotated[
        Path | None,
        typer.Option("--project", "-C", help="The same, as in other commands.", show_default=False),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", help="A source to list in the file.")
    ] = None,
    template: Annotated[
        str,
        typer.Option(
            "--template", metavar="NAME", help="Start from working files: records (rows to texts)."
        ),
    ] = "",
    quiet: Quiet = False,
) -> None:
    """Write a new project: ragwright.yaml, personas/, prompts/, testsets/."""
    if project is not None and folder != HERE:
        raise ConfigError(
            f"two folders are given: {folder} and {project}",
            where="ragwright init",
            hint="give the folder once",
        )
    folder = project or folder
    console = Console(quiet)
    for path in init_project(folder, tuple(source or ()), template):
        console.remark(f"wrote {path}")
    first = "" if source else "list your sources in ragwright.yaml, then: "
    console.remark(f"next: {_NEXT.get(template) or first + 'ragwright ingest'}")
