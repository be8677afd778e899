"""`ragwright shared`."""

from __future__ import annotations

import typer

from ._flags import Flags, takes

group = typer.Typer(
    help="The PostgreSQL database that machines share: fill it, migrate it.", no_args_is_help=True
)


@group.command("move")
@takes("project as_json")
def shared_move(flags: Flags) -> None:
    """Copy replies, runs and outputs of the project folder into the shared database."""
    with flags.open() as bench:
        moved = bench.move_to_shared()
    flags.console.show(
        lambda: dict(moved),
        lambda: ", ".join(f"{name}: {count} new" for name, count in moved.items()),
    )


@group.command("migrate")
@takes("project as_json")
def shared_migrate(flags: Flags) -> None:
    """Migrate tables that an older ragwright made; back the database up first."""
    with flags.open() as bench:
        versions = bench.migrate_shared()
    flags.console.show(
        lambda: dict(versions),
        lambda: ", ".join(f"{name}: version {n}" for name, n in versions.items()),
    )
