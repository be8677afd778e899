from ._commands import command_line as command_line, commands as commands
from ._main import main as main
from ._show import price_line as price_line
from ._show_check import check_text as check_text
from .serving import line_problem as line_problem
