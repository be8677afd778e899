"""Gold: what a row has to say before any system can be scored on it.

Whether gold is there depends on the test set alone, never on what a system did. That is why rows
without it may be left out of coverage, and rows without an answer may not.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core import Row
from ._definition import Definition

GOLD = frozenset({"reference", "reference_contexts", "reference_ids", "reference_spans"})
"""Fields of a row that its author fills in, and no system."""


class NoGold(str):
    """A reason for no value that lies in the row's gold, and not in what was answered."""

    __slots__ = ()


def marked(row: Row, name: str) -> bool | None:
    """What a row's metadata says of it, None where it does not; tables hold it as a word."""
    value = row.metadata.get(name)
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def lacks_gold(row: Row, definition: Definition) -> bool:
    """True where each set of fields that a measure can be taken from lacks gold in this row."""
    due = [definition.needs, *([definition.instead] if definition.instead else [])]
    return all(gold_missing(row, names) for names in due)


def gold_missing(row: Row, fields: Sequence[str]) -> bool:
    """True where one of the fields is gold, and empty."""
    return any(name in GOLD and not _given(row, name) for name in fields)


def _given(row: Row, name: str) -> bool:
    value = getattr(row, name)
    return bool(value.strip() if isinstance(value, str) else value)
