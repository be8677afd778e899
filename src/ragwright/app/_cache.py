"""`ragwright cache`."""

from __future__ import annotations

import typer

from ..workbench import Workbench
from ._console import Console, reported, table
from ._options import HERE, Json, Project, Quiet

group = typer.Typer(
    help="The store of paid replies: show its size, clear it.", no_args_is_help=True
)


@group.command("show")
@reported
def cache_show(project: Project = HERE, as_json: Json = False) -> None:
    """Replies that are stored, by kind and model, with what they cost."""
    console = Console()
    with Workbench.open(project) as bench:
        rows = [list(row) for row in bench.project.replies.statistics()]
        size = bench.project.replies.size()
    names = ["kind", "model", "replies", "prompt_tokens", "completion_tokens", "cost"]
    if as_json:
        console.json({"bytes": size, "replies": [dict(zip(names, r, strict=True)) for r in rows]})
        return
    body = [[str(r[0]), str(r[1]), *(f"{v:.0f}" for v in r[2:5]), f"{r[5]:.6f}"] for r in rows]
    console.result(f"{table([names, *body], right=(2, 3, 4, 5))}\n{size / 1e6:.1f} MB")


@group.command("clear")
@reported
def cache_clear(project: Project = HERE, quiet: Quiet = False) -> None:
    """Delete every stored reply; this costs only time and money; runs stay."""
    with Workbench.open(project) as bench:
        count = bench.clear_replies()
    Console(quiet).remark(f"{count} replies deleted")
