"""Rows whose texts hold half of a surrogate pair, which JSON can contain and UTF-8 cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from ...core import GoldSpan, Row, well_formed

_MARK = "half_characters"
"""Metadata key: the columns of a row in which U+FFFD replaces half a character."""


def without_halves(row: Row) -> Row:
    """The row with U+FFFD for every half of a surrogate pair; its metadata names the columns.

    Models, stores and terminals cannot handle such a half: one row would end the whole run.
    """
    changed = {
        field.name: whole
        for field in fields(Row)
        if (whole := _whole(value := getattr(row, field.name))) != value
    }
    if not changed:
        return row
    metadata = changed.get("metadata", row.metadata)
    columns = [name for name in changed if name != "metadata"]
    columns += [name for name in metadata if metadata[name] != row.metadata.get(name)]
    return replace(row, **{**changed, "metadata": {**metadata, _MARK: tuple(columns)}})


def holds_half(row: Row) -> bool:
    """True for a row in which :func:`without_halves` replaced something."""
    return _MARK in row.metadata


def half_note(found: int, total: int) -> tuple[str, ...]:
    """A note on the rows with :func:`holds_half`; empty if there are none."""
    if not found:
        return ()
    return (f"{found} of {total} rows hold half a character (a lone surrogate), read as U+FFFD",)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, tuple):
        return tuple(_whole(one) for one in value)
    if isinstance(value, Mapping):
        return {well_formed(key): _whole(one) for key, one in value.items()}
    if isinstance(value, GoldSpan):
        return GoldSpan(**{key: _whole(one) for key, one in asdict(value).items()})
    return value
