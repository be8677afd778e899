"""Rows whose texts hold half of a surrogate pair, which JSON can contain and UTF-8 cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from ...core import GoldSpan, Row, Turn, well_formed

_MARK = "half_characters"
"""Metadata key of the columns in which U+FFFD replaces half a character."""


def without_halves(row: Row) -> Row:
    """Replace every half of a surrogate pair by U+FFFD; the metadata names the columns.

    Models, stores and terminals cannot handle such a half: one row would end the whole run.
    """
    changed = {
        field.name: mended
        for field in fields(Row)
        if (mended := _mended_value(value := getattr(row, field.name))) != value
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


def half_note(count: int, total: int) -> tuple[str, ...]:
    """Return a note on the rows with :func:`holds_half`; empty if there are none."""
    if not count:
        return ()
    return (f"{count} of {total} rows hold half a character (a lone surrogate), read as U+FFFD",)


def _mended_value(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, tuple):
        return tuple(_mended_value(item) for item in value)
    if isinstance(value, Mapping):
        return {well_formed(key): _mended_value(item) for key, item in value.items()}
    if isinstance(value, GoldSpan | Turn):
        return type(value)(**{key: _mended_value(item) for key, item in asdict(value).items()})
    return value
