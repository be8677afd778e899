"""The command line: each command is loaded when it is called.

Commands are found by entry points, ours and those of installed packages. `ragwright --help` needs
only sentences; a test checks that they are those of the commands.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from ..core import (
    Addition,
    ConfigError,
    PluginError,
    addition,
    find_additions,
    nearest_name,
    say_plainly,
    suggest_name,
)

_GROUPS = {
    "Build": "init ingest retrieve ask audit doctor demo",
    "Measure": "eval score compare gate report measures passport promise",
    "Test sets": "synth review suite",
    "Tune": "sweep confirm ablate diagnose baseline tune promote",
    "Records": "records draft outputs job",
    "Serve": "serve mcp keys",
    "Keep": "forget cache backup log models",
}
"""Our commands as the help page groups them; those of other packages follow."""

_OTHERS = "From installed packages"

_WRONG_LINE: Any = typer.BadParameter.__base__
"""The base of typer's errors about the words of a command line, which it does not export."""


def commands() -> Mapping[str, str]:
    """Every command and its summary, in the order of the help page; those of packages have none."""
    sentences = {name: new.sentence for name, new in find_additions("commands").items()}
    ours = [name for names in _GROUPS.values() for name in names.split() if name in sentences]
    return {name: sentences[name] for name in dict.fromkeys((*ours, *sentences))}


def command_line(called: Sequence[str] | None = None) -> typer.Typer:
    """The command line.

    Args:
        called: Its first word alone: where it is a command, only that is loaded; else ours are
            listed and those of packages loaded. None: every command is loaded.
    """
    app = typer.Typer(
        name="ragwright",
        cls=_Groups,
        help="Build, measure, tune and run RAG. (ragwright --version prints the version.)",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_without_command)
    if called is None:
        for name in commands():
            _add(app, name)
    elif not any(_add(app, name) for name in called):
        for name, sentence in commands().items():
            if sentence:
                app.command(name, help=sentence)(_unloaded)
            else:
                _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> bool:
    """Load a command; False if there is none of this name."""
    new = addition("commands", name)
    if new is None:
        return False
    loaded = new.load() if new.package == "ragwright" else _installed(new)
    if isinstance(loaded, typer.Typer):
        app.add_typer(loaded, name=name)
    else:
        app.command(name)(loaded)
    return True


def _installed(new: Addition) -> Any:
    """A command of another package; its errors are reported as those of ours."""
    reported: Any = import_module("._console", __package__).report_errors
    try:
        loaded = new.load()
    except PluginError as error:
        return reported(_failing(error))
    for command in _commands_of(loaded):
        command.callback = reported(command.callback)
    return loaded if isinstance(loaded, typer.Typer) else reported(loaded)


def _commands_of(loaded: Any) -> Iterator[Any]:
    if isinstance(loaded, typer.Typer):
        yield from loaded.registered_commands
        for group in loaded.registered_groups:
            yield from _commands_of(group.typer_instance)


def _failing(error: PluginError) -> Callable[[list[str]], None]:
    def command(words: list[str] = typer.Argument(None)) -> None:
        """Cannot be loaded: ragwright doctor says why."""
        raise error

    return command


class _Groups(TyperGroup):
    """The command line, whose help page lists the commands in groups."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command; report wrong words of the line in the form of all other errors."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.Abort:
            sys.exit(1)
        except _WRONG_LINE as error:
            words = extra.get("args") or sys.argv[1:]
            command = next((word for word in words[:1] if word in self.commands), "")
            sys.exit(_report_line(error, f"ragwright {command}".rstrip()))
        sys.exit(code or 0)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the groups, with the summaries in one column."""
        ours = {name for names in _GROUPS.values() for name in names.split()}
        groups = {**_GROUPS, _OTHERS: " ".join(name for name in self.commands if name not in ours)}
        column = max(map(len, self.commands))
        for title, names in groups.items():
            rows = [
                (name.ljust(column), self.commands[name].get_short_help_str(formatter.width))
                for name in names.split()
                if name in self.commands
            ]
            if rows:
                formatter.write(f"{title}:\n")
                with formatter.indentation():
                    formatter.write_dl(rows)


def _report_line(error: Any, called: str) -> int:
    text = error.format_message()
    if text.startswith("Usage:"):  # a group without a command: its help
        error.show()
        return int(error.exit_code)
    what, _, named = re.sub(r" \(Possible options: .*", "", text).partition(" Did you mean ")
    near = re.findall("'(.+?)'", named)
    what = what[0].lower() + " ".join(what[1:].split())
    what = re.sub(r"got unexpected extra argument.*? \((.*)\)", r"unexpected argument: \1", what)
    if wrong := re.match(r"invalid value for (?:.* / )?'?([^' ]+)'?: (.*)", what):
        what = f"{wrong[1]}: {say_plainly(wrong[2])}".replace("one of '', ", "one of ")
    path = error.ctx.command_path if error.ctx else called
    hint = f"did you mean {near[0]}?" if near else f"run: {path} --help"
    if what.startswith("no such option") and error.ctx:
        options = (name for option in error.ctx.command.params for name in option.opts)
        if closest := nearest_name(error.option_name, options):
            hint = f"did you mean {closest}?"
    import_module("._console", __package__).fail(
        ConfigError(what.strip().rstrip("."), where=path, hint=hint)
    )
    return int(error.exit_code)


def _without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _unloaded() -> None:
    """Placeholder for a command that is listed but not called."""


def line_problem(words: Sequence[str]) -> str:
    """Return the fault of a command line (command, flags, values); empty if there is none."""
    command: Any = typer.main.get_command(command_line(words[:1]))
    rest = list(words)
    called = "ragwright"
    while (commands := getattr(command, "commands", None)) is not None:
        name = rest.pop(0) if rest else ""
        if name not in commands:
            return f"{called} has no command {name!r} ({suggest_name(name, commands)})"
        command, called = commands[name], f"{called} {name}"
    if "--help" in rest:
        return "it only prints its help"
    try:
        command.make_context(called, rest)
    except Exception as error:
        return str(getattr(error, "format_message", error.__str__)())
    return ""
