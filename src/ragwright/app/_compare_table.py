"""`ragwright compare --table`."""

from __future__ import annotations

from dataclasses import dataclass

from typer import BadParameter, Option

from ..project import Session
from ..report import tutorial_json, tutorial_table
from ..training import TutorialOptions
from ._flags import Flags
from ._show import show_progress


@dataclass(frozen=True, slots=True)
class TableFlags:
    """The options of a table."""

    name: str = Option(
        "",
        "--table",
        help="tutorial: measure base, tuned, and both with reranking, in place of two runs.",
    )
    testset: str = Option(
        "", help="For --table: testset whose confirm split is used; by default one is generated."
    )
    tuned: list[str] | None = Option(
        None,
        metavar="KEY=VALUE",
        help="For --table: settings of the tuned rows, such as embed.model=st:models/NAME.",
    )
    rerank: str = Option("", help="For --table: reranking model; by default the configured one.")
    candidates: int = Option(20, min=1, help="For --table: number of hits to rerank.")
    keep: int = Option(
        2, min=1, help="For --table: number of passages for an answer after reranking."
    )
    questions: int = Option(50, min=2, help="For --table: number of questions to generate.")


def show_table(flags: Flags, own: TableFlags) -> None:
    """Measure the table and print it."""
    if own.name != "tutorial":
        raise BadParameter(f"no table {own.name!r}; the table is: tutorial", param_hint="--table")
    console = flags.console
    options = TutorialOptions(
        own.testset,
        "",
        own.questions,
        tuple(own.tuned or ()),
        own.rerank,
        own.candidates,
        own.keep,
        flags.seed,
    )
    session = Session(flags.settings, max_cost=flags.max_cost)
    with flags.open(session) as bench, show_progress(console, bench):
        tutorial = bench.tutorial(options)
    console.show(
        lambda: tutorial_json(tutorial),
        lambda: "\n".join(
            [
                tutorial_table(tutorial, console.columns()),
                "",
                *(f"run: {row.name}: {', '.join(row.runs)}" for row in tutorial.rows if row.runs),
                *(f"note: {note}" for note in tutorial.notes),
            ]
        ),
    )
