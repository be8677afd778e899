"""The command line: one file per command, loaded when it is called.

`ragwright --help` needs only the table below; a test checks that its sentences are those of the
commands.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

COMMANDS = {
    "init": "Write a new project: ragwright.yaml, personas/, prompts/, testsets/.",
    "ingest": "Read sources into the index; unchanged documents cost nothing.",
    "maintain": "Build indexes, join files and remove old versions of a lance store.",
    "records": "Turn rows into bronze, silver and gold tables, and into documents.",
    "retrieve": "Show the chunks that answer a query best, with their scores per channel.",
    "ask": "Answer a question from the index, with citations, for one or several personas.",
    "draft": "Write texts from records in a client's style; check lengths and mark near copies.",
    "eval": "Run a testset through the project, or any other system, and score the answers.",
    "score": "Score given rows, or a run's stored answers again, without generating anything.",
    "compare": "Compare two runs row by row: difference, interval, test, and rows needed to be "
    "sure.",
    "outputs": "Drafted and served texts: list, show, export, judge, measure a sample.",
    "gate": "Check a run against rules: exit code 0 passed, 100 failed, 101 not trustworthy.",
    "promote": "Serve the settings of a run if it passes the gate; the exit codes are the gate's.",
    "diagnose": "Find the stage that loses points: each one is replaced by a perfect one in turn.",
    "synth": "Make a testset from the indexed documents: with a model, offline, or from given "
    "rows.",
    "review": "Review a testset row by row, or write a sheet for people to score answers blind.",
    "calibrate": "Compare a judge's scores with people's: agreement, kappa, bias, and corrected "
    "mean.",
    "sweep": "Run a study: every combination of settings on the tune split, ranked with intervals.",
    "confirm": "Compare a sweep's winner with the current settings on held-out questions.",
    "tune": "Train parts of the search on a testset; kept only where they win on held-out "
    "questions.",
    "ablate": "Measure what each part of the prompt does and costs, and which can be deleted.",
    "report": "Write an HTML report on a run, two runs or a study: the verdict first, then every "
    "row.",
    "measures": "List the measures: the fields each needs, its range, direction and source.",
    "baseline": "Compare distances of questions and answers with those of given pairs: smaller, "
    "equal or larger.",
    "suite": "Test how answers cope with irrelevant, missing, scattered or false passages.",
    "serve": "Serve the project over HTTP: OpenAI-compatible chat, retrieval, MCP, sources.",
    "mcp": "Serve search, fetch, ask and list_sources to an agent that starts this command (MCP).",
    "keys": "Keys of `ragwright serve`: make, list and revoke them.",
    "job": "Scheduled jobs: run one, start the scheduler, see past runs.",
    "cache": "The store of paid replies: show its size, clear it.",
    "shared": "The PostgreSQL database that machines share: fill it, migrate it.",
    "forget": "Delete a document or a tenant from the store, tables, replies, runs and outputs.",
    "models": "List the models that the project names and those in the cache, with memory and "
    "speed.",
    "doctor": "Show what is configured, what is missing and what would cost money.",
    "demo": "Build a demo project over the guide and ask it three questions as two personas.",
}
"""Command -> its first sentence, in the order of the help page."""


_FOLDERS = {
    **dict.fromkeys(("serve", "mcp", "keys", "promote", "job", "maintain"), ".serving"),
    **dict.fromkeys(("sweep", "confirm", "tune"), ".tuning"),
}
"""Command -> the folder that its file is in, where it is not beside this one."""


_MEANT = ("--testset", "--run", "--client")
"""Options whose values are often written without their names."""


def command_line(loaded: list[str] | None = None) -> typer.Typer:
    """The command line with these commands loaded (all of them for None), the rest as names."""
    app = typer.Typer(
        name="ragwright",
        help="A workbench for retrieval-augmented generation: build, tailor, measure, tune and "
        "run it.  (ragwright --version prints the version.)",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(_without_command)
    for name, sentence in COMMANDS.items():
        if loaded is not None and name not in loaded:
            app.command(name, help=sentence)(_unloaded)
            continue
        module: Any = import_module(f"{_FOLDERS.get(name, '')}._{name}", __package__)
        if hasattr(module, "group"):
            app.add_typer(module.group, name=name)
        else:
            command: Callable[..., None] = module.command
            app.command(name, cls=_Command)(command)
    return app


class _Command(TyperCommand):
    """A command that says by which option a value without a name may be meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            if "unexpected extra argument" in error.message:
                own = {word for one in self.params for word in one.opts}
                meant = " or ".join(name for name in _MEANT if name in own)
                error.message += f". If you mean {meant}, write it before the value" * bool(meant)
            raise


def _without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _unloaded() -> None:
    """Placeholder for a command that is listed but not called."""
