"""Deletes the rows of a document, a scope or a person from all tables, as declared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing

from ..core import erased_name
from ._database import Database, Forgets, one_to_forget

_MARKS = re.compile(r"\?|:name\b|:erased\b")


def forget(
    database: Database,
    *,
    source: str | None = None,
    scope: str | None = None,
    person: str | None = None,
) -> Mapping[str, int]:
    """Purge a document, a scope or a person in one transaction; overwrite what was deleted.

    Returns the number of rows by what they are: ``rows`` of runs, ``outputs``, printed ``jobs``.

    Raises:
        StoreError: Not exactly one is named, the name is empty, or the database cannot be
            written.
        StoreBusyError: Another process holds the database, or still reads what was deleted.
    """
    name = one_to_forget(source, scope, person)
    database.require_writable()
    counts: dict[str, int] = {}
    with database.transaction() as connection:
        for rule, condition in _rules(database, source, scope, person):
            change = f"DELETE FROM {rule.table}"  # noqa: S608
            if rule.becomes:
                change = f"UPDATE {rule.table} SET {rule.becomes}"  # noqa: S608
            cursor = connection.execute(*_filled(f"{change} WHERE {condition}", name))
            if rule.counts:
                counts[rule.counts] = counts.get(rule.counts, 0) + cursor.rowcount
    with closing(database.connect()) as connection:
        database.scrub(connection)
    return counts


def kept_of_person(database: Database, person: str) -> Mapping[str, int]:
    """Count what :func:`forget` would purge of a person; nothing is changed.

    Raises:
        StoreError: The name is empty, or the database cannot be read.
    """
    one_to_forget(person=person)
    counts: dict[str, int] = {}
    with closing(database.connect()) as connection, database.explained():
        for rule, condition in _rules(database, None, None, person):
            if rule.counts:
                query = f"SELECT count(*) FROM {rule.table} WHERE {condition}"  # noqa: S608
                number = connection.execute(*_filled(query, person)).fetchone()[0]
                counts[rule.counts] = counts.get(rule.counts, 0) + int(number)
    return counts


def _rules(
    database: Database, source: str | None, scope: str | None, person: str | None
) -> Iterator[tuple[Forgets, str]]:
    """The rules that apply, each with its condition."""
    for rule in database.tables.forgets:
        named = ((source, rule.document), (scope, rule.scope), (person, rule.person))
        condition = next(condition for name, condition in named if name is not None)
        if condition and not (database.remote and rule.local):
            yield rule, condition


def _filled(statement: str, name: str) -> tuple[str, list[str]]:
    """A statement with ``?`` in place of its marks, and their values."""
    marks = _MARKS.findall(statement)
    values = [erased_name(name) if mark == ":erased" else name for mark in marks]
    return _MARKS.sub("?", statement), values
