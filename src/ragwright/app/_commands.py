"""The command line: every command in a file of its own, loaded when it is called.

The table below is all that `ragwright --help` needs; a test holds its sentences against the
commands' own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer

COMMANDS = {
    "init": "Write a new project: ragwright.yaml, personas/, prompts/, testsets/.",
    "ingest": "Read sources into the index; unchanged documents cost nothing.",
    "records": "Rows to bronze, silver and gold tables, and to documents.",
    "retrieve": "Show the chunks that answer a query best, with their scores per channel.",
    "ask": "Answer a question from the index, with citations, for one or several personas.",
    "draft": "Write texts from records, as a client would: lengths checked, near copies marked.",
    "eval": "Run a testset through the project and score what it finds.",
    "score": "Score given rows, or the stored answers of a run again, without generating anything.",
    "compare": "Compare two runs row by row: difference, interval, test, and what it would take to "
    "know.",
    "outputs": "What was drafted and served: list, show, export, judge, measure a sample of it.",
    "gate": "Say whether a run may go out: exit code 0 passed, 100 failed, 101 cannot be trusted.",
    "promote": "Serve what a run was measured under, if it passes the gate; exit codes are the "
    "gate's.",
    "diagnose": "Say which stage loses points: each one is done right in turn, row by row.",
    "synth": "Make a testset from the indexed documents: by a model, offline, or from given rows.",
    "review": "Review a testset row by row, or write a sheet on which people score answers blind.",
    "calibrate": "Hold a judge's scores against people: agreement, kappa, bias, and the corrected "
    "mean.",
    "sweep": "Run a study: every combination of settings on the tune split, ranked with intervals.",
    "confirm": "Hold a sweep's winner against the project on the confirm split, opened once.",
    "ablate": "Say what each part of the prompt does, what it costs, and which may be deleted.",
    "report": "Write one HTML file on a run, two runs or a study: verdict first, every row a click "
    "away.",
    "measures": "List the measures: what each needs, its range, its direction and its source.",
    "suite": "Capability suites: noise, rejection, integration, counterfactual, sources.",
    "job": "Jobs of the project: run one, serve their schedules, see what they did.",
    "cache": "The store of replies that were paid for.",
    "forget": "Purge a document, or a tenant, from store, tables, replies, runs and outputs.",
    "doctor": "Say what is configured, what is missing and what would be paid for.",
    "demo": "Build a workbench over the guide, and ask it three questions as two personas.",
}
"""Command -> its first sentence, in the order of the help page."""


def command_line(loaded: list[str] | None = None) -> typer.Typer:
    """The command line with these commands loaded (all of them for None), the rest as names."""
    app = typer.Typer(
        name="ragwright",
        help="A workbench for retrieval-augmented generation: build, tailor, measure, tune and "
        "run it.  (ragwright --version prints the version.)",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    for name, sentence in COMMANDS.items():
        if loaded is not None and name not in loaded:
            app.command(name, help=sentence)(_unloaded)
            continue
        module: Any = import_module(f"._{name}", __package__)
        if hasattr(module, "group"):
            app.add_typer(module.group, name=name)
        else:
            command: Callable[..., None] = module.command
            app.command(name)(command)
    return app


def _unloaded() -> None:
    """Stand-in for a command that is listed but not called."""
