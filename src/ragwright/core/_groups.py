"""Groups of readers, and values as metadata hold them."""

from __future__ import annotations

import datetime
import getpass
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from ._errors import ConfigError
from ._records import Document, Filter, MetaValue

GROUPS = "groups"
"""Field of the metadata that names the groups that may read a document."""

EVERYONE = "everyone"
"""The group that every reader belongs to."""

CLOSED = "(closed)"
"""Stands for the groups of a document whose own cannot be read: no reader can belong to it."""

_MISSPELT = frozenset(
    swapped
    for at in range(len(GROUPS) - 1)
    for swapped in (
        GROUPS[:at] + GROUPS[at + 1] + GROUPS[at] + GROUPS[at + 2 :],
        GROUPS[:at] + GROUPS[at + 1 :],
    )
)
"""``groups`` with two letters swapped, or one of the first five left out."""

_KEY = re.compile(r"""\b(\w+)["']?[ \t]*:""")
_NAME = re.compile(r"\w(?:[\w .@:/+-]{0,98}\w)?")


def group_names(value: Any) -> tuple[str, ...]:
    """Names of groups: a text with commas between the names, or a list of texts, also as JSON.

    Raises:
        ConfigError: It is something else, is empty, or holds a text that cannot name a group.
    """
    if isinstance(value, str):
        value = _listed_names(value)
    elif not isinstance(value, list | tuple):
        raise _not_names(value)
    names = []
    for item in value:
        name = item.strip() if isinstance(item, str) else ""
        if not is_group_name(name):
            raise _not_names(item)
        names.append(name)
    if not names:
        raise _not_names(value)
    return tuple(dict.fromkeys(names))


def misspelt_groups(fields: Iterable[str]) -> str:
    """The first of some fields whose name is ``groups`` misspelt; empty without one."""
    return next((field for field in fields if field.lower() in _MISSPELT), "")


def mentions_groups(text: str) -> bool:
    """True if a text that cannot be parsed seems to have a key ``groups``, also a misspelt one."""
    keys = {match[1].lower() for match in _KEY.finditer(text)}
    return GROUPS in keys or bool(misspelt_groups(keys))


def is_group_name(text: str) -> bool:
    """True if a text can name a group; a document can name no other one."""
    return _NAME.fullmatch(text) is not None


def _listed_names(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        with suppress(ValueError):
            return list(json.loads(text))
    return text.split(",")


def _not_names(value: Any) -> ConfigError:
    shown = repr(value)
    return ConfigError(
        f"{shown if len(shown) <= 60 else shown[:60] + '…'} does not name groups of readers",
        hint="write groups: [hr, board]; a name has up to 100 letters, digits, spaces and . _ @ "
        ": / + -, and begins and ends with a letter, a digit or _",
    )


def common_groups(several: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The groups in all of several lists of groups; None if no group is in all of them.

    An empty list names no groups and narrows nothing, and so does one with `EVERYONE`, unless all
    of them do.
    """
    named = [groups for groups in several if groups]
    narrow = [groups for groups in named if EVERYONE not in groups]
    if not narrow:
        return named[0] if named else ()
    first, *others = narrow
    return tuple(name for name in first if all(name in other for other in others)) or None


def is_readable(document: Document, filters: Iterable[Filter]) -> bool:
    """True if a document meets the rights to read among some filters."""
    return opens_to(groups_in(document), filters)


def groups_in(document: Document) -> tuple[str, ...]:
    """The groups that a document names."""
    named = document.metadata.get(GROUPS, ())
    return named if isinstance(named, tuple) else (str(named),)


def opens_to(groups: Sequence[str], filters: Iterable[Filter]) -> bool:
    """True if what names some groups, or none, meets the rights to read among some filters."""
    rights = [condition for condition in filters if condition.missing is not None]
    return all(set(groups) & set(right.values) if groups else right.missing for right in rights)


def narrows(filters: Iterable[Filter]) -> bool:
    """True if some filters are more than rights to read."""
    return any(condition.missing is None for condition in filters)


def rights_first(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Hard filters in their order, rights to read first: no other may name what they hide."""
    return tuple(sorted(filters, key=lambda condition: condition.missing is None))


def reader_filter(groups: Iterable[str], *, ungrouped: bool) -> Filter:
    """The right of a reader of some groups to read.

    Args:
        groups: Groups that the reader belongs to, beside `EVERYONE`.
        ungrouped: True if it may read documents without groups.
    """
    return Filter(GROUPS, tuple(sorted({*groups, EVERYONE})), missing=ungrouped)


def current_user() -> str:
    """Name of the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a user entry
        return "unknown"


def hash_erased_name(name: str) -> str:
    """The hash that stands for an erased name where a fact is kept and the name must not be."""
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def person_source(name: str) -> str:
    """The source of replies to what a person asked, under which they are forgotten."""
    return f"ragwright:person:{hash_erased_name(name)}"


_SCALARS = str | int | float | datetime.date | datetime.time


def meta_value(value: Any, text: Callable[[str], str] = str) -> MetaValue | None:
    """A scalar, or a tuple of strings; None for anything else, such as a nested table.

    Dates and times become ISO 8601; white space is reduced to single spaces.
    """
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return " ".join(text(value).split())
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        items = [meta_value(item, text) for item in value if isinstance(item, _SCALARS)]
        return tuple(str(item) for item in items if item not in (None, ""))
    return None


def make_plain(value: Any) -> Any:
    """Convert a record as :func:`dataclasses.asdict` does, without copying its texts."""
    if is_dataclass(value):
        return {field.name: make_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: make_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)([make_plain(item) for item in value])
    return value
