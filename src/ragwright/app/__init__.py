"""The command line: parse, call, show."""

from ._commands import command_line, commands, line_problem
from ._main import main

__all__ = ["command_line", "commands", "line_problem", "main"]
