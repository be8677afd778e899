"""Rows of lookup tables as further values of the declared files, each with its own place.

The readers of those files then check them as they check what is written there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core import Placed, RecordsError
from ..declared import Declared, Rollups, spelling_key
from ._declared import LookupRows

_CONDITION = re.compile(r"(if|set)[ _](.+)", re.IGNORECASE)


def merged(declared: Declared, tables: Sequence[LookupRows]) -> Declared:
    """The values of a file, and the rows of the tables that belong to it."""
    value = declared.placed.value
    if not tables or not (value is None or isinstance(value, dict)):
        return declared
    placed = declared.placed
    copy = Placed(dict(value or {}), placed.lines, placed.file, dict(placed.overrides))
    merged_file = replace(declared, placed=copy)
    for table in tables:
        add = _ADDING.get(table.name)
        if add is None:
            continue
        if _has_columns(merged_file, table):
            add(merged_file, table)
        else:
            merged_file.readable = False
    return merged_file


def with_biographies(rollups: Rollups, tables: Sequence[LookupRows], faults: list[Any]) -> Rollups:
    """The rollups with the biographies of a table; faulty rows are noted."""
    table = next((rows for rows in tables if rows.name == "biographies"), None)
    file_of_rows = Declared(Placed({}), faults)
    if table is None or not _has_columns(file_of_rows, table):
        return rollups
    biographies = dict(rollups.biographies)
    taken = dict.fromkeys(map(spelling_key, biographies), rollups.place)
    for place, row in table.placed():
        name, text = row["name"], row["biography"]
        if not name or not text:
            missing_column = "biography" if name else "name"
            faults.append(RecordsError(f"the row has no {missing_column}", where=place))
        elif spelling_key(name) in taken:
            faults.append(_twice(f"{name!r} has a biography already", place, taken, name))
        else:
            taken[spelling_key(name)] = place
            biographies[name] = text
    return replace(rollups, biographies=biographies)


def _add_rollup(declared: Declared, table: LookupRows) -> None:
    client = _inner(declared, "client")
    names = None if client is None else _within(client, "names", {})
    if not isinstance(names, dict):
        return
    for place, row in sorted(table.placed(), key=lambda placed_row: tuple(placed_row[1].values())):
        name, spelling = row["client"], row["spelling"]
        path = ("client", "names", name)
        if not name:
            declared.faults.append(RecordsError("the row has no client", where=place))
            continue
        declared.placed.overrides.setdefault(
            path, declared.where(*path) if name in names else place
        )
        known = names.get(name)
        listed = list(known) if isinstance(known, list | tuple) else [known] if known else []
        if spelling:
            declared.placed.overrides[(*path, str(len(listed)))] = place
            listed.append(spelling)
        names[name] = listed


def _add_tags(declared: Declared, table: LookupRows) -> None:
    tags = _inner(declared, "tags")
    if tags is None:
        return
    for place, row in table.placed():
        name = row["name"]
        if not name:
            declared.faults.append(RecordsError("the row has no name", where=place))
        elif name in tags:
            before = {name: declared.where("tags", name)}
            declared.faults.append(_twice(f"there is a tag {name!r} already", place, before, name))
        else:
            declared.placed.overrides["tags", name] = place
            wanted = ("pattern", "column", "display", "definition")
            tags[name] = {key: row[key] for key in wanted if row.get(key) or key == "pattern"}


def _add_refinements(declared: Declared, table: LookupRows) -> None:
    rules = _inner_list(declared, "refine")
    if rules is None:
        return
    parts = {name: _CONDITION.fullmatch(name) for name in table.columns}
    for place, row in table.placed():
        rule: dict[str, dict[str, str]] = {"if": {}, "set": {}}
        for column, condition in parts.items():
            if condition is not None and row[column]:
                rule[condition[1].lower()][condition[2]] = row[column]
        declared.placed.overrides["refine", str(len(rules))] = place
        rules.append(rule)


def _add_contradictions(declared: Declared, table: LookupRows) -> None:
    rules = _inner_list(declared, "contradictions")
    if rules is None:
        return
    start = len(rules)
    at: dict[str, int] = {}
    for place, row in table.placed():
        name, tag = row["name"], row["tag"]
        if not name or not tag:
            missing_column = "tag" if name else "name"
            declared.faults.append(RecordsError(f"the row has no {missing_column}", where=place))
            continue
        if name not in at:
            at[name] = start + len(at)
            declared.placed.overrides["contradictions", str(at[name])] = place
            rules.append({"name": name, "tags": []})
        tags = rules[at[name]]["tags"]
        declared.placed.overrides["contradictions", str(at[name]), "tags", str(len(tags))] = place
        tags.append(tag)


_ADDING: Mapping[str, Callable[[Declared, LookupRows], None]] = {
    "rollup": _add_rollup,
    "tags": _add_tags,
    "refine": _add_refinements,
    "contradictions": _add_contradictions,
}

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "rollup": ("client", "spelling"),
    "biographies": ("name", "biography"),
    "tags": ("name", "pattern"),
    "contradictions": ("name", "tag"),
}


def _has_columns(declared: Declared, table: LookupRows) -> bool:
    """Return True if a table has its columns; missing ones are a fault."""
    if not table.columns:  # a query without rows names no columns
        return True
    spec = table.lookup.spec
    where = spec.place("query" if spec.query else "source")
    there = f"its columns are: {', '.join(table.columns)}"
    for name in _NEEDED.get(table.name, ()):
        if name not in table.columns:
            declared.faults.append(
                RecordsError(
                    f"the table {table.name} has no column {name!r}",
                    where=where,
                    hint=f"{there}; write rename: {{COLUMN: {name}}}",
                )
            )
            return False
    if table.name != "refine":
        return True
    kinds = {f[1].lower() for name in table.columns if (f := _CONDITION.fullmatch(name))}
    if kinds != {"if", "set"}:
        missing_word = "if" if "if" not in kinds else "set"
        declared.faults.append(
            RecordsError(
                f"the table refine has no column that begins with {missing_word!r}",
                where=where,
                hint=f"{there}; name them after the fields: if ask_type, if text, set topic",
            )
        )
    return kinds == {"if", "set"}


def _twice(sentence: str, place: str, before: Mapping[str, str], name: str) -> RecordsError:
    known = before.get(name) or before.get(spelling_key(name), "")
    return RecordsError(f"{sentence}, in {known}", where=place, hint="keep one of them")


def _inner(declared: Declared, key: str) -> dict[str, Any] | None:
    """A mapping of the file that may be changed; None if something else is written there."""
    inner = _within(declared.placed.value, key, {})
    return inner if isinstance(inner, dict) else None


def _inner_list(declared: Declared, key: str) -> list[Any] | None:
    """A list of the file that may be changed; None if something else is written there."""
    inner = _within(declared.placed.value, key, [])
    return inner if isinstance(inner, list) else None


def _within(value: dict[str, Any], key: str, empty: dict[str, Any] | list[Any]) -> Any:
    """The mapping or list under a key, as a copy that takes the place of the one there."""
    held = value.get(key)
    if held is None:
        held = empty
    value[key] = held.copy() if isinstance(held, dict | list) else held
    return value[key]
