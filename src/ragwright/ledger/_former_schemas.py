"""Takes over the tables of PostgreSQL schemas that an older ragwright kept."""

from __future__ import annotations

from ..core import SchemaVersionError, text_hash
from ._database import Connection, Former, Tables

VERSION_TABLE = "ragwright_version"
"""Table of each schema that holds its version."""

_FUNCTIONS = ("clock_seconds()", "json_extract(text, text)", "instr(text, text)")


def turn_of(schema: str) -> int:
    """Number of the lock that writers of a schema take in turn."""
    return int(text_hash(schema)[:15], 16)


def former_schemas(connection: Connection, prefix: str, tables: Tables) -> list[Former]:
    """Schemas of an older ragwright whose tables were not taken over yet.

    Args:
        connection: A connection.
        prefix: Beginning of the names of the schemas.
        tables: The tables that take them over.
    """
    return [
        former
        for former in tables.former
        if former.schema and _version(connection, prefix, former) <= former.version
    ]


def refuse_former(where: str, name: str, prefix: str, former: Former) -> SchemaVersionError:
    """The error until a user runs the command that takes the tables over."""
    return SchemaVersionError(
        f"schema {prefix}_{former.schema} is of an older ragwright; {name} must take it over",
        where=where,
        hint=f"back it up (pg_dump -n '{prefix}_*' DATABASE > backup.sql), end other work on it, "
        "then run: ragwright shared migrate",
    )


def take_over_schemas(connection: Connection, prefix: str, schema: str, tables: Tables) -> None:
    """Move the tables of former schemas into a schema; part of the caller's transaction.

    What is left of a former schema is a version that an older ragwright refuses, so that it does
    not begin anew beside the tables.
    """
    for former in former_schemas(connection, prefix, tables):
        old = f"{prefix}_{former.schema}"
        connection.execute("SELECT pg_advisory_xact_lock(?)", (turn_of(old),))
        for view in former.views:
            connection.execute(f'DROP VIEW IF EXISTS "{old}".{view}')
        for before, now in former.tables.items():
            if now != before:
                for kind, end in (("TABLE", ""), ("INDEX", "_pkey")):
                    renamed = f'ALTER {kind} IF EXISTS "{old}".{before}{end} RENAME TO {now}{end}'
                    connection.execute(renamed)
            connection.execute(f'ALTER TABLE IF EXISTS "{old}".{now} SET SCHEMA "{schema}"')
        for function in _FUNCTIONS:
            connection.execute(f'DROP FUNCTION IF EXISTS "{old}".{function}')
        connection.execute(
            f'UPDATE "{old}".{VERSION_TABLE} SET version = ?',  # noqa: S608
            (former.version + 1,),
        )


def _version(connection: Connection, prefix: str, former: Former) -> float:
    """Version of a former schema; infinite where there is none."""
    table = f'"{prefix}_{former.schema}".{VERSION_TABLE}'
    (name,) = connection.execute("SELECT to_regclass(?)::text", (table,)).fetchone()
    row = None
    if name is not None:
        row = connection.execute(f"SELECT version FROM {table}").fetchone()  # noqa: S608
    return float("inf") if row is None else float(row[0])
