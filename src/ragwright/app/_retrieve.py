"""`ragwright retrieve`."""

from __future__ import annotations

from dataclasses import asdict

from typer import Argument, Option

from ..report import hit_json
from ._console import question_text
from ._flags import Flags, takes
from ._show import hits_text, show_forecast


@takes(
    "project overrides filters soft as_groups as_json quiet output no_cache max_cost served dry_run"
)
def command(
    flags: Flags,
    query: str = Argument(help="The query; - reads standard input."),
    k: int | None = Option(None, "-k", min=1, help="Number of chunks to return."),
    explained: bool = Option(
        False,
        "--explain",
        help="Show the words searched for, what each hit matched, weights and filter levels.",
    ),
) -> None:
    """Show the passages that match a query best.

    Each one is shown with its score per channel.
    """
    query = question_text(query, "retrieve")
    with flags.open() as bench:
        if flags.dry_run:
            show_forecast(flags.console, bench.forecast_retrieve(query, k))
            return
        retrieved = bench.retrieve(query, k, filters=flags.rights(bench))
        why = bench.explain(retrieved) if explained else None
    document = {"hits": [hit_json(hit) for hit in retrieved.hits], "notes": list(retrieved.notes)}
    flags.console.show(
        lambda: document if why is None else {**document, "explanation": asdict(why)},
        lambda: hits_text(retrieved, why),
    )
