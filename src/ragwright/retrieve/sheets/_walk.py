"""From the items of a question to its parts: what is computed, of which columns, on which rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...index import SheetColumn, folded, singular
from .._tables import Sheet
from ._read import Item
from ._words import OF_TIME

_NOUNS = frozenset(["column", "table", "rows"])
"""Kinds of items that name what is asked for."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column; ``mark`` is ``in``, ``not in`` or a comparison of SQL."""

    column: str
    mark: str
    values: tuple[Any, ...]


class NotReadError(Exception):
    """A question has no clear meaning on a table.

    Args:
        reason: Why, for the reader.
        certain: True where its words are understood: the table cannot answer it.
    """

    def __init__(self, reason: str, *, certain: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.certain = certain


@dataclass(slots=True)
class Parts:
    """What the items of a question amount to.

    Attributes:
        aggregates: What is computed.
        targets: Columns that are named without a value.
        subjects: These columns, and names of the table and of rows, in their order.
        attached: Column beside a word such as "highest": behind it, or before it at the end.
        groups: Columns by whose values is grouped.
        units: Units that belong to no number.
        conditions: Conditions that all must hold.
        tables: How many words name the table.
        rows: True where a word such as "rows" is used.
    """

    aggregates: list[str] = field(default_factory=list)
    targets: list[Item] = field(default_factory=list)
    subjects: list[Item] = field(default_factory=list)
    attached: Item | None = None
    groups: list[Item] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    tables: int = 0
    rows: bool = False


_NUMBERED = frozenset(["id", "no", "nr", "number", "num", "code", "key", "index", "ref", "record"])


def numbers_rows(column: SheetColumn, sheet: Sheet) -> bool:
    """True for numbers that are names of rows, such as 1001 in the column "Order" of orders."""
    if column != sheet.columns[0] or column.type != "number" or not column.distinct or column.unit:
        return False
    called = singular(folded(f"{sheet.called} {sheet.notes}")).split()
    return bool(set(singular(folded(column.name)).split()) & {*_NUMBERED, *called})


def parts_of(items: Sequence[Item], sheet: Sheet) -> Parts:
    """Return the parts of a question.

    Raises:
        NotReadError: A word is not understood, or there is more than one meaning.
    """
    kept = _without_weak([item for item in items if item.kind != "filler"])
    unknown = [item.text for item in kept if item.kind == "unknown"]
    if unknown:
        raise NotReadError(
            f"{sheet.place} has no column, value or unit {', '.join(map(repr, unknown))}"
        )
    parts = _Walk(kept, sheet).parts()
    parts.conditions = _merged_conditions(parts.conditions)
    return parts


def _without_weak(items: Sequence[Item]) -> list[Item]:
    """Drop prepositions that compare nothing; ``by region`` groups."""
    kept: list[Item] = []
    for at, item in enumerate(items):
        following = items[at + 1].kind if at + 1 < len(items) else ""
        if item.kind == "comparison" and not item.exact:
            if item.text.casefold() == "by" and following == "column":
                item = Item("group", item.text)
            elif following not in {"number", "date"}:
                if kept and kept[-1].kind == "date" and item.text.casefold() == "on":
                    item = Item("unknown", item.text)  # "from 2024 on"
                else:
                    continue
        kept.append(item)
    return kept


class _Walk:
    """Goes through the items once, and attaches conditions to their columns."""

    def __init__(self, items: Sequence[Item], sheet: Sheet) -> None:
        self._items = items
        self._sheet = sheet
        self._at = 0
        self._parts = Parts()

    def parts(self) -> Parts:
        while self._at < len(self._items):
            item = self._items[self._at]
            self._at += 1
            getattr(self, f"_{item.kind}")(item)
        return self._parts

    def _peek(self, ahead: int = 0) -> Item | None:
        position = self._at + ahead
        return self._items[position] if position < len(self._items) else None

    def _kind(self, ahead: int = 0) -> str:
        item = self._peek(ahead)
        return item.kind if item else ""

    def _aggregate(self, item: Item) -> None:
        self._parts.aggregates.append(item.value)
        if item.text.casefold() in OF_TIME:
            self._parts.aggregates.append("dated")
        if item.value not in {"highest", "lowest"}:
            return
        rest = self._items[self._at :]
        behind = next((other for other in rest if other.kind in _NOUNS), None)
        before = self._items[self._at - 2] if self._at > 1 else None
        if behind is not None:
            self._parts.attached = behind if behind.kind == "column" else None
        elif before is not None and before.kind == "column":
            self._parts.attached = before

    def _table(self, item: Item) -> None:
        self._parts.tables += 1
        self._parts.subjects.append(item)

    def _rows(self, item: Item) -> None:
        self._parts.rows = True
        self._parts.subjects.append(item)

    def _named(self, item: Item) -> None:
        """A column that has no value of its own in the question."""
        self._parts.targets.append(item)
        self._parts.subjects.append(item)

    def _unit(self, item: Item) -> None:
        self._parts.units.append(item.value)

    def _or(self, item: Item) -> None:
        before = self._items[self._at - 2] if self._at > 1 else None
        after = self._peek()
        if not (before and after and before.kind == after.kind == "value"):
            raise NotReadError("it is not clear what 'or' connects")
        if not set(before.value) & set(after.value):
            raise NotReadError(f"{before.text!r} and {after.text!r} are values of two columns")

    def _group(self, item: Item) -> None:
        following = self._peek()
        if following is None or following.kind != "column":
            raise NotReadError(f"it is not clear what {item.text!r} refers to")
        self._at += 1
        self._parts.groups.append(following)

    def _column(self, item: Item) -> None:
        kind = self._kind()
        measured = self._kind(2 if kind == "comparison" else 1) == "unit"
        if measured and not any(self._sheet.column(name).unit for name in item.value):
            self._named(item)
        elif kind == "comparison" and self._fits(item, self._kind(1)):
            self._at += 1
            self._compared(self._items[self._at - 1].value, self._only(item))
        elif kind in {"number", "date"} and self._fits(item, kind):
            self._compared("=", self._only(item))
        elif kind == "value" or (kind == "negation" and self._kind(1) == "value"):
            negated = kind == "negation"
            value = self._peek(1 if negated else 0)
            shared = set(item.value) & set(value.value) if value else set()
            if value is None or len(shared) != 1:
                self._named(item)
                return
            self._at += 2 if negated else 1
            self._named_value(value, shared.pop(), negated)
        elif (condition := self._yes_condition(item)) is not None:
            self._parts.conditions.append(condition)
        else:
            self._named(item)

    def _yes_condition(self, item: Item, mark: str = "in") -> Condition | None:
        """The condition of "paid orders", "are paid", where the column says only yes and no."""
        columns = [self._sheet.column(name) for name in item.value]
        if len(columns) != 1 or not columns[0].yes:
            return None
        before = self._items[self._at - 2] if self._at > 1 else None
        asked = before is not None and before.kind in {"aggregate", "group"}
        if mark == "in" and asked and self._kind() not in _NOUNS:
            return None
        return Condition(columns[0].name, mark, columns[0].yes)

    def _fits(self, item: Item, kind: str) -> bool:
        """True where a number or date that follows may be a value of one column of the item."""
        columns = [self._sheet.column(name) for name in item.value]
        years = [c for c in columns if c.type == "number" and folded(c.name) == "year"]
        fitting = years if kind == "date" and years else [c for c in columns if c.type == kind]
        return len(fitting) == 1

    def _only(self, item: Item) -> SheetColumn:
        """The column of an item."""
        if len(item.value) == 1:
            return self._sheet.column(item.value[0])
        following = self._peek()
        wanted = following.kind if following else ""
        fitting = [c for c in map(self._sheet.column, item.value) if c.type == wanted]
        if len(fitting) == 1:
            return fitting[0]
        raise NotReadError(f"{item.text!r} may mean the columns {', '.join(item.value)}")

    def _value(self, item: Item, *, negated: bool = False) -> None:
        following = self._peek()
        columns = list(item.value)
        if following is not None and following.kind == "column":
            shared = set(following.value) & set(columns)
            if len(shared) == 1:
                self._at += 1
                columns = [shared.pop()]
        if len(columns) > 1:
            raise NotReadError(f"{item.text!r} is a value of the columns {', '.join(columns)}")
        self._named_value(item, columns[0], negated)

    def _named_value(self, item: Item, column: str, negated: bool) -> None:
        mark = "not in" if negated else "in"
        self._parts.conditions.append(Condition(column, mark, tuple(item.value[column])))
        if negated and self._sheet.column(column).empty:
            raise NotReadError(
                f"some cells of {column} are empty: it is not clear whether they count as 'not'"
            )

    def _negation(self, item: Item) -> None:
        following = self._peek()
        if following is None or following.kind != "value":
            if following is not None and following.kind == "column" and self._kind(1) == "value":
                value = self._peek(1)
                shared = set(following.value) & set(value.value) if value else set()
                if value is not None and len(shared) == 1:
                    self._at += 2
                    self._named_value(value, shared.pop(), True)
                    return
            elif following is not None and following.kind == "column":
                condition = self._yes_condition(following, "not in")
                if condition is not None:
                    self._at += 1
                    self._parts.conditions.append(condition)
                    return
            raise NotReadError(f"it is not clear what {item.text!r} refers to")
        self._at += 1
        self._value(following, negated=True)

    def _comparison(self, item: Item) -> None:
        if self._kind() not in {"number", "date"}:
            raise NotReadError(f"{item.text!r} is not followed by a number or a date")
        if item.text.casefold() == "from" and self._kind() == "date":
            self._from_date()
        else:
            self._compared(item.value, None)

    def _from_date(self) -> None:
        """A span in "from 2023 to 2024", a date in "from 2024"; a single day may be either."""
        ended = self._kind(1) == "comparison" and self._kind(2) == "date"
        first, last = self._items[self._at].value
        if not ended and first == last:
            raise NotReadError("it is not clear whether days after that one count")
        self._compared(">=" if ended else "=", None)

    def _number(self, item: Item) -> None:
        self._at -= 1
        self._compared("=", None)

    def _date(self, item: Item) -> None:
        self._at -= 1
        self._compared("=", None)

    def _compared(self, mark: str, column: SheetColumn | None) -> None:
        """A comparison whose first number or date is next."""
        bounds = [self._operand()]
        if mark == "between":
            if self._kind() not in {"number", "date"}:
                raise NotReadError("'between' needs two numbers or dates")
            bounds.append(self._operand())
        kind, units = bounds[0][0], {unit for _, _, unit in bounds if unit}
        if any(other != kind for other, _, _ in bounds) or len(units) > 1:
            raise NotReadError("it is not clear what is compared")
        unit = units.pop() if units else ""
        if column is None and kind == "number" and not unit:
            self._refuse_year(bounds)
            self._refuse_count()
        elif column is not None and mark != "=" and numbers_rows(column, self._sheet):
            raise NotReadError(f"{column.name} holds names of rows, not amounts")
        if column is None:
            column, kind = self._compared_column(kind, unit, mark)
        self._add_comparison(column, kind, mark, [value for _, value, _ in bounds])
        if unit and unit != column.unit:
            states = f"is in {column.unit}" if column.unit else "states no unit"
            raise NotReadError(f"the column {column.name} {states}, not {unit}", certain=True)

    def _refuse_year(self, bounds: Sequence[tuple[str, Any, str]]) -> None:
        """Refuse "sales over 2024" where rows have dates: it may be the year."""
        years = [value for _, value, _ in bounds if value in range(1900, 2101)]
        dated = [c for c in self._sheet.columns if c.type == "date" or _of_years(c)]
        if years and dated:
            raise NotReadError(f"it is not clear whether {years[0]} is a year")

    def _refuse_count(self) -> None:
        """Refuse "more than one order", which counts the rows of a group."""
        following = self._peek()
        if following is None or following.kind not in _NOUNS:
            return
        columns = [self._sheet.column(name) for name in following.value or ()]
        measured = [c for c in columns if c.type == "number" and not numbers_rows(c, self._sheet)]
        if following.kind != "column" or not measured:
            raise NotReadError(f"it is not clear how {following.text!r} is counted")

    def _operand(self) -> tuple[str, Any, str]:
        """Kind, value and unit of the number or date that is next."""
        sign = self._peek()
        if sign is None:
            raise NotReadError("a number or date is missing")
        if not sign.exact:
            raise NotReadError(
                f"it is not clear whether the point in {sign.text} is a decimal point"
            )
        self._at += 1
        unit = ""
        if sign.kind == "number" and self._kind() == "unit":
            unit = str(self._items[self._at].value)
            self._at += 1
        return sign.kind, sign.value, unit

    def _compared_column(self, kind: str, unit: str, mark: str) -> tuple[SheetColumn, str]:
        """The column of a comparison that has none before it, and the kind of its values."""
        following = self._peek()
        if following is not None and following.kind == "column" and len(following.value) == 1:
            after = self._sheet.column(following.value[0])
            if after.type == kind == "number":
                self._at += 1
                return after, kind
        fitting = [c for c in self._sheet.columns if c.type == kind]
        if kind == "date":
            years = [c for c in self._sheet.columns if _of_years(c)]
            if not fitting and len(years) == 1 and years[0].type == "number":
                return years[0], "year"
        elif unit:
            fitting = [c for c in fitting if c.unit == unit]
        elif mark == "=":
            fitting = []
        if len(fitting) != 1:
            named = ", ".join(c.name for c in fitting) or "none"
            raise NotReadError(
                f"it is not clear which column is compared (columns that fit: {named})",
                certain=bool(unit) and not fitting,
            )
        return fitting[0], kind

    def _add_comparison(
        self, column: SheetColumn, kind: str, mark: str, values: Sequence[Any]
    ) -> None:
        years = column.type == "number" and folded(column.name) == "year" and kind == "date"
        if years or kind == "year":
            values = [int(low[:4]) for low, _ in values]
        elif column.type != kind:
            raise NotReadError(f"the column {column.name} holds no {kind}s")
        elif kind == "date":
            first, last = values[0], values[-1]
            bounds = {
                "=": [(">=", first[0]), ("<=", last[1])],
                "between": [(">=", first[0]), ("<=", last[1])],
                ">": [(">", first[1])],
                ">=": [(">=", first[0])],
                "<": [("<", first[0])],
                "<=": [("<=", first[1])],
            }[mark]
            self._parts.conditions += [Condition(column.name, m, (day,)) for m, day in bounds]
            return
        if mark == "between":
            low, high = values
            self._parts.conditions.append(Condition(column.name, ">=", (low,)))
            self._parts.conditions.append(Condition(column.name, "<=", (high,)))
        else:
            self._parts.conditions.append(Condition(column.name, mark, (values[0],)))


def _of_years(column: SheetColumn) -> bool:
    return folded(column.name).split()[:1] == ["year"]


def _merged_conditions(conditions: Sequence[Condition]) -> list[Condition]:
    """Values of one column are alternatives: no cell has two.

    Raises:
        NotReadError: A column has values that count and others that do not.
    """
    merged: list[Condition] = []
    for condition in conditions:
        opposite = {"in": "not in", "not in": "in"}.get(condition.mark, "")
        if any((other.column, other.mark) == (condition.column, opposite) for other in conditions):
            raise NotReadError(f"it is not clear which values of {condition.column} count")
        same = next(
            (
                at
                for at, other in enumerate(merged)
                if (other.column, other.mark) == (condition.column, condition.mark)
                and condition.mark in {"in", "not in", "="}
            ),
            None,
        )
        if same is None:
            merged.append(condition)
        else:
            values = (*merged[same].values, *condition.values)
            mark = "in" if condition.mark == "=" else condition.mark
            merged[same] = Condition(condition.column, mark, tuple(dict.fromkeys(values)))
    return merged
