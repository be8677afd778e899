from ._main import COMMANDS, command_line, main

__all__ = ["COMMANDS", "command_line", "main"]
