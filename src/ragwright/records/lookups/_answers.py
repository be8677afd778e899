"""The entries of the lookup tables, and of the files beside them, for a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core import RecordsError, near
from ..declared import Condition, Rollups, Rules, Tags, spelling_key
from ._declared import LookupName


def looked_up(
    name: LookupName, rollups: Rollups, tags: Tags, rules: Rules, key: str = ""
) -> list[dict[str, Any]]:
    """Entries of a lookup table, with those written in the files.

    Args:
        name: The table.
        rollups: Declared spellings and biographies.
        tags: Declared tags.
        rules: Declared rules.
        key: A client in any spelling (``rollup``, ``biographies``), a tag or its displayed value
            (``tags``, ``contradictions``), a field or a value (``refine``); empty for all.

    Raises:
        RecordsError: The entry does not exist; the nearest names are listed.
    """
    if name in ("rollup", "biographies"):
        entries = _of_client(name, rollups, key)
    elif name == "tags":
        entries = _matching((_tag(tag) for tag in tags.tags), key, ("name", "display"))
    elif name == "refine":
        entries = _refinements(rules, key)
    else:
        plain = ({"name": c.name, "tags": list(c.tags)} for c in rules.contradictions)
        entries = _matching(plain, key, ("name", "tags"))
    if entries or not key:
        return entries
    raise RecordsError(
        f"{name} has no entry {key!r}",
        where="records lookup",
        hint=_nearest(name, rollups, tags, key),
    )


def _of_client(name: str, rollups: Rollups, key: str) -> list[dict[str, Any]]:
    client = rollups.canonical(key)
    if name == "biographies":
        if not key:
            return [{"name": n, "biography": text} for n, text in rollups.biographies.items()]
        text = rollups.biography(key)
        return [] if text is None else [{"name": client, "biography": text}]
    names = rollups.names
    if not key:
        return [{"client": c, "spellings": list(s)} for c, s in names.items()]
    return [{"client": client, "spellings": list(names[client])}] if client in names else []


def _tag(tag: Any) -> dict[str, Any]:
    return {
        "name": tag.name,
        "kind": tag.kind,
        "display": tag.display,
        "pattern": tag.pattern.find,
        "column": tag.column,
        "definition": tag.definition,
    }


def _refinements(rules: Rules, key: str) -> list[dict[str, Any]]:
    entries = []
    for rule in rules.refinements:
        fields = {c.field: _wanted(c) for c in rule.conditions}
        values = {name: list(several) for name, several in rule.values}
        searched_texts = [*fields, *values]
        searched_texts += [text for some in (*fields.values(), *values.values()) for text in some]
        if not key or _same(key, searched_texts):
            conditions = {f"if {name}": some for name, some in fields.items()}
            entries.append(conditions | {f"set {name}": some for name, some in values.items()})
    return entries


def _wanted(condition: Condition) -> list[str]:
    return [condition.pattern.find] if condition.pattern is not None else list(condition.values)


def _matching(
    entries: Iterable[dict[str, Any]], key: str, fields: tuple[str, ...]
) -> list[dict[str, Any]]:
    def texts(entry: dict[str, Any]) -> Iterable[str]:
        for field in fields:
            value = entry[field]
            yield from value if isinstance(value, list) else (value,)

    return [entry for entry in entries if not key or _same(key, texts(entry))]


def _same(key: str, texts: Iterable[str]) -> bool:
    return spelling_key(key) in map(spelling_key, texts)


def _nearest(name: str, rollups: Rollups, tags: Tags, key: str) -> str:
    if name in ("rollup", "biographies"):
        known = None if name == "rollup" else {rollups.canonical(n) for n in rollups.biographies}
        names = [n for n in rollups.nearest(key) if known is None or n in known]
        return f"nearest: {', '.join(names)}" if names else "run it without a key to see all"
    if name == "tags" and tags.tags:
        return near(key, [*tags.names, *(tag.display for tag in tags.tags)])
    return "run it without a key to see all"
