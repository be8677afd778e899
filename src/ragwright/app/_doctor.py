"""`ragwright doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..project import Session, project_keys
from ..workbench import Workbench
from ._console import EXIT_ERROR, Console, reported
from ._options import HERE, Json, Overrides, Project
from ._show import checks_text
from .serving import line_problem


@reported
def command(
    project: Project = HERE,
    overrides: Overrides = None,
    show_keys: Annotated[
        bool, typer.Option("--keys", help="List every key of a project file.")
    ] = False,
    ask_models: Annotated[
        bool, typer.Option("--ask-models", help="Also ask each server whether it has the model.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show what is configured, what is missing and what would cost money."""
    console = Console()
    if show_keys:
        listed = list(project_keys())
        if as_json:
            names = ("key", "when", "default", "meaning")
            console.json({"keys": [dict(zip(names, key, strict=True)) for key in listed]})
            return 0
        for name, when, default, text in listed:
            console.result(f"{name} = {default!r}   ({when})\n    {text}")
        return 0
    with Workbench.open(project, Session(tuple(overrides or ()))) as bench:
        checks = bench.doctor(ask_models=ask_models, check_line=line_problem)
    if as_json:
        fields = ("topic", "state", "text", "do")
        console.json({"checks": [{f: getattr(c, f) for f in fields} for c in checks]})
    else:
        console.result(checks_text(checks))
    return EXIT_ERROR if any(check.state == "fault" for check in checks) else 0
