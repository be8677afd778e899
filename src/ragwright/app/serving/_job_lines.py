"""Checks of command lines that are not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer
import typer.main

from ...core import near
from .._commands import command_line


def line_problem(words: Sequence[str]) -> str:
    """Return the fault of a command line (command, flags, values); empty if there is none."""
    command: Any = typer.main.get_command(command_line(words[:1]))
    rest = list(words)
    called = "ragwright"
    while (commands := getattr(command, "commands", None)) is not None:
        name = rest.pop(0) if rest else ""
        if name not in commands:
            return f"{called} has no command {name!r} ({near(name, commands)})"
        command, called = commands[name], f"{called} {name}"
    if "--help" in rest:
        return "it only prints its help"
    try:
        command.make_context(called, rest)
    except Exception as error:
        return str(getattr(error, "format_message", error.__str__)())
    return ""
