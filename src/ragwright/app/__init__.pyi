from ._commands import COMMANDS, command_line
from ._main import main

__all__ = ["COMMANDS", "command_line", "main"]
