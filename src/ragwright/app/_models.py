"""`ragwright models`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..project import ListedModel, Session
from ..workbench import Workbench
from ._console import EXIT_ERROR, Console, reported, table
from ._options import HERE, Json, Overrides, Project


@reported
def command(
    project: Project = HERE,
    overrides: Overrides = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure/--no-measure",
            help="Open each local model and measure its memory and speed on this machine.",
        ),
    ] = True,
    as_json: Json = False,
) -> int:
    """List the models that the project names and those in the cache, with memory and speed."""
    console = Console()
    with Workbench.open(project, Session(tuple(overrides or ()))) as bench:
        listed = bench.list_models(measure=measure)
        words = bool(bench.project.settings.embed.model)
    if as_json:
        console.json({"models": [asdict(model) for model in listed]})
    else:
        console.result(_lines(listed))
        if not words:
            console.remark(
                "search uses keywords alone; for semantic search too, set embed.model, for example "
                "hf:sentence-transformers/all-MiniLM-L6-v2"
            )
    return EXIT_ERROR if any(model.state == "fault" for model in listed) else 0


def _lines(listed: list[ListedModel]) -> str:
    rows = [["model", "named by", "kind", "state", "MB", "texts/s", "notes"]]
    for model in listed:
        speed = model.speed
        rows.append(
            [
                model.name,
                ", ".join(model.keys),
                model.kind,
                model.state,
                "" if speed is None else f"{speed.megabytes:,.0f}",
                "" if speed is None else f"{speed.per_second:,.1f}",
                model.text,
            ]
        )
    return table(rows, right=(4, 5))
