"""`ragwright retrieve`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..workbench import (
    Session,
    Workbench,
)
from ._console import Console, reported
from ._options import (
    HERE,
    Json,
    NoCache,
    Output,
    Overrides,
    Project,
    Quiet,
)
from ._show import (
    hit_json,
    hits_text,
)


@reported
def command(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    project: Project = HERE,
    overrides: Overrides = None,
    k: Annotated[int | None, typer.Option("-k", min=1, help="Chunks to return.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    output: Output = None,
    no_cache: NoCache = False,
) -> None:
    """Show the chunks that answer a query best, with their scores per channel."""
    console = Console(quiet, output)
    session = Session(tuple(overrides or ()), reuse=not no_cache)
    with Workbench.open(project, session) as bench:
        found = bench.retrieve(query, k)
    if as_json:
        console.json({"hits": [hit_json(hit) for hit in found.hits], "notes": list(found.notes)})
    else:
        console.result(hits_text(found))
