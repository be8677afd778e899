"""Deletes the rows of a document or a scope from all tables, as their declaration says."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from ._database import Database, one_to_forget


def forget(
    database: Database, *, source: str | None = None, scope: str | None = None
) -> Mapping[str, int]:
    """Purge a document, or a scope, in one transaction, and overwrite what was deleted.

    Returns the number of rows by what they are: ``rows`` of runs, ``outputs``, printed ``jobs``.

    Raises:
        StoreError: Neither or both are named, the name is empty, or the database cannot be
            written.
        StoreBusyError: Another process holds the database, or still reads what was deleted.
    """
    one_to_forget(source, scope)
    database.require_writable()
    counts: dict[str, int] = {}
    with database.transaction() as connection:
        for rule in database.tables.forgets:
            condition = rule.document if source is not None else rule.scope
            if not condition or (database.remote and rule.local):
                continue
            change = f"DELETE FROM {rule.table}"  # noqa: S608
            if rule.becomes:
                change = f"UPDATE {rule.table} SET {rule.becomes}"  # noqa: S608
            marks = condition.count("?") + rule.becomes.count("?")
            values = (source if source is not None else scope,) * marks
            cursor = connection.execute(f"{change} WHERE {condition}", values)
            if rule.counts:
                counts[rule.counts] = counts.get(rule.counts, 0) + cursor.rowcount
    with closing(database.connect()) as connection:
        database.scrub(connection)
    return counts
