"""The command line: parse, call, show."""

from __future__ import annotations

from ._main import COMMANDS, command_line, main

__all__ = ["COMMANDS", "command_line", "main"]
