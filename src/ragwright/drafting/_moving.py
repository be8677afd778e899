"""Moving a project's own data into its shared database."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from ..core import ConfigError
from ..ledger import (
    REPLY_TABLES,
    Ledger,
    SharedPlace,
    copy_rows,
    ledger_tables,
    open_database,
)

if TYPE_CHECKING:
    from ..project import Project


def move_to_shared(project: Project) -> Mapping[str, int]:
    """Copy replies, runs, outputs and keys of the project folder into the shared database.

    The files stay as they are. Rows that exist already are not copied again.
    Returns the number of new rows.

    Raises:
        ConfigError: The project has no shared database.
        StoreError: A file cannot be read, the database cannot be written, or both hold different
            outputs of the same number.
    """
    place, folder = _shared_place(project), project.folder
    with project.alone("shared move", hint="wait for other work to end, or end it"):
        replies = project.replies.move(folder.cache / "replies.sqlite")
        with closing(Ledger(place)) as ledger:
            copied = copy_rows(folder.ledger, ledger.database)
    runs, outputs = copied.get("runs", 0), copied.get("batches", 0)
    keys = {"keys": copied["serve_keys"]} if copied.get("serve_keys") else {}
    return {"replies": replies, "runs": runs, "outputs": outputs} | keys


def migrate_shared(project: Project) -> Mapping[str, int]:
    """Migrate the tables of the shared database; return their schema versions by name.

    Raises:
        ConfigError: The project has no shared database.
        SchemaVersionError: Its tables are of a newer version.
    """
    place = _shared_place(project)
    versions = {}
    for tables in (REPLY_TABLES, ledger_tables()):
        open_database(place, tables, upgrade=True).close()
        versions[tables.name] = tables.version
    return versions


def _shared_place(project: Project) -> SharedPlace:
    place = project.settings.shared.place(project.folder.data)
    if not isinstance(place, SharedPlace):
        raise ConfigError(
            "this project has no shared database",
            where=str(project.folder.file),
            hint="set shared.address: postgresql://host/database",
        )
    return place
