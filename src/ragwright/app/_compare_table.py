"""`ragwright compare --table`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ..project import Session
from ..report import tutorial_json, tutorial_table
from ..training import TutorialOptions
from ..workbench import Workbench
from ._show import show_progress

if TYPE_CHECKING:
    from pathlib import Path

    from ._console import Console

TableName = Annotated[
    str,
    typer.Option(
        "--table",
        help="tutorial: measure base, tuned, and both with reranking, in place of two runs.",
    ),
]
TableTestset = Annotated[
    str,
    typer.Option("--testset", help="For --table: its confirm split; by default generated."),
]
Tuned = Annotated[
    list[str] | None,
    typer.Option(
        "--tuned",
        metavar="KEY=VALUE",
        help="For --table: what the tuned rows use; by default the adapter and ranker configured.",
    ),
]
Rerank = Annotated[
    str, typer.Option("--rerank", help="For --table: reranking model; by default that configured.")
]
Candidates = Annotated[
    int, typer.Option("--candidates", min=1, help="For --table: hits that are reranked.")
]
Keep = Annotated[
    int,
    typer.Option("--keep", min=1, help="For --table: passages for an answer after reranking."),
]
Questions = Annotated[
    int, typer.Option("--questions", min=2, help="For --table: questions to generate.")
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: the table, the project, and how to show it."""

    table: str
    project: Path
    session: Session
    options: TutorialOptions
    as_json: bool


def show_table(console: Console, asked: Asked) -> None:
    """Measure the table and print it."""
    if asked.table != "tutorial":
        raise typer.BadParameter(
            f"no table {asked.table!r}; the table is: tutorial", param_hint="--table"
        )
    with (
        Workbench.open(asked.project, asked.session) as bench,
        show_progress(console, bench),
    ):
        found = bench.tutorial(asked.options)
    if asked.as_json:
        console.json(tutorial_json(found))
        return
    console.result(
        "\n".join(
            [
                tutorial_table(found, console.columns()),
                "",
                *(f"run: {row.name}: {', '.join(row.runs)}" for row in found.rows if row.runs),
                *(f"note: {note}" for note in found.notes),
            ]
        )
    )
