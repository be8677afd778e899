from ._commands import COMMANDS as COMMANDS, command_line as command_line
from ._main import main as main
