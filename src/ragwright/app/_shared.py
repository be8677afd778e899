"""`ragwright shared`."""

from __future__ import annotations

import typer

from ..workbench import Workbench
from ._console import Console, reported
from ._options import HERE, Json, Project

group = typer.Typer(
    help="The PostgreSQL database that machines share: fill it, migrate it.", no_args_is_help=True
)


@group.command("move")
@reported
def shared_move(project: Project = HERE, as_json: Json = False) -> None:
    """Copy replies, runs and outputs of the project folder into the shared database."""
    console = Console()
    with Workbench.open(project) as bench:
        moved = bench.move_to_shared()
    if as_json:
        console.json(dict(moved))
    else:
        console.result(", ".join(f"{name}: {count} new" for name, count in moved.items()))


@group.command("migrate")
@reported
def shared_migrate(project: Project = HERE, as_json: Json = False) -> None:
    """Migrate tables that an older ragwright made; back the database up first."""
    console = Console()
    with Workbench.open(project) as bench:
        versions = bench.migrate_shared()
    if as_json:
        console.json(dict(versions))
    else:
        console.result(", ".join(f"{name}: version {n}" for name, n in versions.items()))
