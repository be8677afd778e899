"""`ragwright retrieve`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..project import Session
from ..report import hit_json
from ..workbench import Workbench
from ._console import Console, given_text, reported
from ._options import (
    HERE,
    DryRun,
    Filters,
    Json,
    MaxCost,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
    Served,
    SoftFilters,
)
from ._show import hits_text, show_forecast


@reported
def command(
    query: Annotated[str, typer.Argument(help="The query; - reads standard input.")],
    project: Project = HERE,
    overrides: Overrides = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Chunks to return.")] = None,
    filters: Filters = None,
    soft: SoftFilters = None,
    explained: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show the words searched for, what each hit matched, weights and filter levels.",
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    no_cache: NoCache = False,
    max_cost: MaxCost = None,
    served: Served = False,
    dry_run: DryRun = False,
) -> None:
    """Show the chunks that answer a query best, with their scores per channel."""
    query = given_text(query, "retrieve")
    console = Console(quiet, output)
    session = Session(
        tuple(overrides or ()),
        reuse=not no_cache,
        max_cost=max_cost,
        filters=tuple(filters or ()),
        soft=tuple(soft or ()),
        served=served,
    )
    with Workbench.open(project, session) as bench:
        if dry_run:
            show_forecast(console, bench.forecast_retrieve(query, k), as_json)
            return
        found = bench.retrieve(query, k)
        why = bench.explain(found) if explained else None
    if as_json:
        shown = {"hits": [hit_json(hit) for hit in found.hits], "notes": list(found.notes)}
        console.json(shown if why is None else {**shown, "explanation": asdict(why)})
    else:
        console.result(hits_text(found, why))
