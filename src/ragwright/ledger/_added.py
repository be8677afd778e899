"""Tables of other packages: checked as declared, each in a file or a schema of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from ..core import Addition, PluginError, additions_of_others
from ._database import Tables

ADDED = "added_"
"""Beginning of the names of their files and schemas."""

_MAKES = re.compile(r"CREATE (TABLE|INDEX|VIEW) IF NOT EXISTS (\w+)")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


@cache
def added_tables() -> Mapping[str, Tables]:
    """Tables that installed packages declare, by the name of the addition.

    They have their own schema version and their own file, ``added_NAME.sqlite``: a package that is
    damaged or removed leaves ragwright's tables as they are.

    Raises:
        PluginError: One cannot be imported, or does not say what ``ragwright forget`` deletes.
    """
    packages = (new for new in additions_of_others() if new.kind == "tables")
    return {new.name: checked_tables(new.name, new.load(), _where(new)) for new in packages}


def _where(new: Addition) -> str:
    return f"tables {new.name!r} of the package {new.package}"


def checked_tables(name: str, tables: object, where: str) -> Tables:
    """The declaration of a package, completed.

    Args:
        name: Name of the addition.
        tables: What the package declares.
        where: Where it is declared, for errors.

    Raises:
        PluginError: It is not a ``Tables``, or not sound.
    """
    if not isinstance(tables, Tables):
        raise PluginError(
            f"it is {type(tables).__name__}, not a Tables",
            where=where,
            hint="write Tables(...) of ragwright.ledger",
        )
    if not _NAME.fullmatch(name):
        raise PluginError(
            "the name has other characters than a-z, 0-9 and _", where=where, hint="rename it"
        )
    makes = [_MAKES.match(statement.strip()) for statement in tables.statements]
    if not makes or not all(makes) or tables.local or tables.former:
        raise PluginError(
            "a statement does not begin with CREATE TABLE, INDEX or VIEW IF NOT EXISTS",
            where=where,
            hint="write such statements alone: they run again when the version rises",
        )
    names = [match[2] for match in makes if match is not None and match[1] == "TABLE"]
    deleted = {rule.table for rule in tables.forgets if rule.document}
    undecided = [table for table in names if table not in deleted | tables.kept.keys()]
    if undecided or not names:
        raise PluginError(
            f"it does not say what `ragwright forget` deletes from {', '.join(undecided) or 'it'}",
            where=where,
            hint="add Forgets(TABLE, 'document_id = ?') to forgets, or the table to kept, with "
            "the reason",
        )
    return replace(
        tables,
        forgets=tuple(replace(rule, counts=rule.counts or "added") for rule in tables.forgets),
        name=f"{ADDED}{name}",
        moved=tables.moved or dict.fromkeys(names, "ON CONFLICT DO NOTHING"),
        damaged=tables.damaged
        or f"restore it from a backup, or move it away: what {name} kept begins anew",
    )
