"""`ragwright cache`."""

from __future__ import annotations

import typer

from ._console import table
from ._flags import Flags, takes

group = typer.Typer(
    help="Show or clear the stored replies.\n\nThese are the replies of models that were paid for.",
    no_args_is_help=True,
)


@group.command("show")
@takes("project as_json")
def cache_show(flags: Flags) -> None:
    """Show the stored replies and their cost.

    They are counted by kind and model.
    """
    with flags.open() as bench:
        rows = [list(row) for row in bench.project.replies.statistics()]
        size = bench.project.replies.size()
    names = ["kind", "model", "replies", "prompt_tokens", "completion_tokens", "cost"]
    body = [[str(r[0]), str(r[1]), *(f"{v:.0f}" for v in r[2:5]), f"{r[5]:.6f}"] for r in rows]
    flags.console.show(
        lambda: {"bytes": size, "replies": [dict(zip(names, r, strict=True)) for r in rows]},
        lambda: f"{table([names, *body], right=(2, 3, 4, 5))}\n{size / 1e6:.1f} MB",
    )


@group.command("clear")
@takes("project quiet")
def cache_clear(flags: Flags) -> None:
    """Delete every stored reply; runs stay.

    Later runs make the calls again, which costs time and money.
    """
    with flags.open() as bench:
        count = bench.clear_replies()
    flags.console.remark(f"{count} replies deleted")
