"""Gold: the parts of a row that must be there before any system can be scored on it.

Gold depends on the test set alone, never on a system's answers. Therefore rows without gold may be
left out of coverage, but not rows without an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core import MeasureError, Row
from ._definition import Definition

GOLD = frozenset({"reference", "reference_contexts", "reference_ids", "reference_spans"})
"""Fields of a row that its author fills in, not a system."""


class NoGold(str):
    """A reason for a missing value that lies in the row's gold, not in the answer."""

    __slots__ = ()


_MARKS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_mark(row: Row, name: str) -> bool | None:
    """A mark in a row's metadata, None if it is not set.

    Tables contain it as a word or a number: true, yes, 1, false, no, 0.

    Raises:
        MeasureError: It has another value. If it were ignored, a refusal would count as an answer.
    """
    value = row.metadata.get(name)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        mark = {1.0: True, 0.0: False}.get(float(value))
    elif isinstance(value, str):
        if not value.strip():
            return None
        mark = _MARKS.get(value.strip().lower())
    else:
        mark = None
    if mark is None:
        raise MeasureError(
            f"`{name}` must be true or false, not {value!r}",
            where=f"row {row.id!r}",
            hint="write true or false (yes, no, 1 and 0 also work), or leave it out",
        )
    return mark


def lacks_gold(row: Row, definition: Definition) -> bool:
    """True if this row lacks gold in every set of fields that the measure can use."""
    due = [definition.needs, *([definition.instead] if definition.instead else [])]
    return all(gold_missing(row, names) for names in due)


def gold_missing(row: Row, fields: Sequence[str]) -> bool:
    """True if one of the fields is gold and empty."""
    return any(name in GOLD and not _is_given(row, name) for name in fields)


def gold_given(fields: Mapping[str, Any]) -> bool:
    """True if any field of a row holds gold; of graded documents, one above 0."""
    for name in GOLD:
        value = fields.get(name)
        if isinstance(value, Mapping):
            value = any(grade > 0 for grade in value.values())
        elif isinstance(value, str):
            value = value.strip(" \n[]{}")  # a cell of a table may hold an empty list
        if value:
            return True
    return False


def _is_given(row: Row, name: str) -> bool:
    value = getattr(row, name)
    return bool(value.strip() if isinstance(value, str) else value)


def all_counted(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """``spans``, ``documents`` or both, of what two runs counted in each row, in this order."""
    return tuple(sorted({kind for pair in pairs for kind in pair if kind}, reverse=True))


def explain_counted_apart(pairs: Sequence[tuple[str, str]]) -> str:
    """The reason why scores cannot be compared, from the gold that two runs counted; empty if they
    can.
    """
    scored = [pair for pair in pairs if all(pair)]
    differing = [pair for pair in scored if pair[0] != pair[1]]
    if not differing:
        return ""
    if len(set(differing)) == 1:
        difference = "the first run counted {} and the second {}".format(*differing[0])
    else:
        difference = "the two runs counted different gold, spans and documents,"
    rows = (
        "every row" if len(differing) == len(scored) else f"{len(differing)} of {len(scored)} rows"
    )
    return f"{difference} in {rows}: measure again the run that counted documents"


def pair_by_question(
    first: Iterable[tuple[str, str]], second: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Ids for the rows of a first run: those of the rows of a second one with the same question.

    Rows are (id, question); equal questions are paired in their order. A row that has no partner
    gets an id that no row has.
    """
    ids_of: dict[str, list[str]] = {}
    for row_id, question in second:
        ids_of.setdefault(question, []).append(row_id)
    pairs = {}
    for row_id, question in first:
        same = ids_of.get(question)
        pairs[row_id] = same.pop(0) if same else f"{row_id} of the first run"
    return pairs
