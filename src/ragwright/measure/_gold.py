"""Gold: what a row has to say before any system can be scored on it.

Whether gold is there depends on the test set alone, never on what a system did. That is why rows
without it may be left out of coverage, and rows without an answer may not.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core import MeasureError, Row
from ._definition import Definition

GOLD = frozenset({"reference", "reference_contexts", "reference_ids", "reference_spans"})
"""Fields of a row that its author fills in, and no system."""


class NoGold(str):
    """A reason for no value that lies in the row's gold, and not in what was answered."""

    __slots__ = ()


_MARKS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def marked(row: Row, name: str) -> bool | None:
    """What a row's metadata says of it, None where it says nothing.

    Tables hold it as a word or a number: true, yes, 1, false, no, 0.

    Raises:
        MeasureError: It is anything else. Read as "not said", a refusal would count as an answer.
    """
    value = row.metadata.get(name)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        found = {1.0: True, 0.0: False}.get(float(value))
    elif isinstance(value, str):
        if not value.strip():
            return None
        found = _MARKS.get(value.strip().lower())
    else:
        found = None
    if found is None:
        raise MeasureError(
            f"`{name}` is {value!r}, which is neither true nor false",
            where=f"row {row.id!r}",
            hint="write true or false (yes, no, 1 and 0 are read too), or leave it out",
        )
    return found


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
