"""`ragwright models`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from typer import Option

from ..project import ListedModel
from ._console import EXIT_ERROR, table
from ._flags import Flags, takes


@takes("project overrides as_json")
def command(
    flags: Flags,
    measure: bool = Option(
        True, help="Open each local model and measure its memory and speed on this machine."
    ),
) -> int:
    """List the models, with memory and speed.

    These are the models that the project names and those in the cache.
    """
    console = flags.console
    with flags.open() as bench:
        listed = bench.list_models(measure=measure)
        embeds = bool(bench.project.settings.embed.model)
    console.show(lambda: {"models": [asdict(model) for model in listed]}, lambda: _lines(listed))
    if not embeds and not flags.as_json:
        console.remark(
            "search uses keywords alone; for semantic search too, set embed.model, for example "
            "hf:sentence-transformers/all-MiniLM-L6-v2"
        )
    return EXIT_ERROR if any(model.state == "fault" for model in listed) else 0


def _lines(listed: Sequence[ListedModel]) -> str:
    rows = [["model", "named by", "kind", "state", "MB", "texts/s", "notes"]]
    for model in listed:
        speed = model.speed
        size = (
            ["", ""] if speed is None else [f"{speed.megabytes:,.0f}", f"{speed.per_second:,.1f}"]
        )
        keys = ", ".join(model.keys)
        rows.append([model.name, keys, model.kind, model.state, *size, model.text])
    return table(rows, right=(4, 5))
