from ._commands import COMMANDS as COMMANDS, command_line as command_line
from ._main import main as main
from ._show import price_line as price_line
from ._show_check import check_text as check_text
from .serving import line_problem as line_problem
