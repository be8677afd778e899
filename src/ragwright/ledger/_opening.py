"""Opens a database at a place."""

from __future__ import annotations

from pathlib import Path

from .. import ledger  # PostgreSQL loads where a database is shared
from ..core import SchemaVersionError, StoreDamagedError
from ._database import Database, Place, Tables
from ._kept_files import discard, file_error
from ._ledger_tables import LEDGER_TABLES
from ._sqlite import SqliteDatabase


def open_database(
    place: Place, tables: Tables, *, power_safe: bool = False, upgrade: bool = False
) -> Database:
    """The tables of a subject in a SQLite file, or in a shared database.

    Args:
        place: A file, made with mode 0600 where it is missing; or a shared database.
        tables: What it holds.
        power_safe: Wait for the disk at each commit; a server decides that itself.
        upgrade: Migrate older tables of a shared database, too; those of a file always are.

    Raises:
        StoreError: It cannot be used; its subclasses say why.
    """
    if isinstance(place, Path):
        return SqliteDatabase(place, tables, power_safe)
    return ledger.PostgresDatabase(place, tables, upgrade=upgrade)


def open_ledger(place: Place, *, power_safe: bool = False, upgrade: bool = False) -> Database:
    """All that a project keeps in tables, as :func:`open_database`.

    Files of an older ragwright beside the file are taken over first; schemas of one in a shared
    database where ``upgrade`` allows it.
    """
    return open_database(place, LEDGER_TABLES, power_safe=power_safe, upgrade=upgrade)


def open_cache(path: Path, tables: Tables) -> SqliteDatabase:
    """The tables of a SQLite file that may be lost: a damaged or newer one is replaced.

    Raises:
        StoreError: It cannot be used otherwise.
    """
    try:
        return SqliteDatabase(path, tables)
    except (StoreDamagedError, SchemaVersionError):
        try:
            discard(path)
        except OSError as error:
            raise file_error(error, path) from error
        return SqliteDatabase(path, tables)
