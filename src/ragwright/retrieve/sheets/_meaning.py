"""From the items of a question to one query on one table, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ...index import SheetColumn, folded, singular
from .._tables import Sheet
from ._read import Item
from ._words import QUANTITIES

Form: TypeAlias = Literal[
    "rows", "distinct", "sum", "average", "median", "highest", "lowest", "list", "value"
]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column; ``mark`` is ``in``, ``not in`` or a comparison of SQL."""

    column: str
    mark: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A query on one table.

    Attributes:
        form: What is computed.
        target: Column that is computed with, listed or looked up; None for whole rows.
        shown: Column that names the rows with the highest or lowest value.
        group: Column whose values are compared; with ``per`` the aggregate of each group.
        per: The aggregate of a group: its rows, sum or average.
        conditions: Conditions that all must hold.
        named: How many words of the question name the table.
    """

    sheet: Sheet
    form: Form
    target: SheetColumn | None = None
    shown: SheetColumn | None = None
    group: SheetColumn | None = None
    per: Form | None = None
    conditions: tuple[Condition, ...] = ()
    named: int = 0


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
class _Parts:
    """What the items of a question amount to."""

    aggregates: list[str] = field(default_factory=list)
    targets: list[Item] = field(default_factory=list)
    groups: list[Item] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    tables: int = 0
    rows: bool = False


def query_of(items: Sequence[Item], sheet: Sheet) -> Query:
    """Return the query that the items mean on a table.

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
    query = _Former(parts, sheet).query()
    _check_columns(query, parts)
    return query


def _without_weak(items: Sequence[Item]) -> list[Item]:
    """Drop prepositions that compare nothing; ``by region`` groups."""
    kept: list[Item] = []
    for at, item in enumerate(items):
        following = items[at + 1].kind if at + 1 < len(items) else ""
        if item.kind == "comparison" and not item.exact:
            if item.text.casefold() == "by" and following == "column":
                item = Item("group", item.text)
            elif following not in {"number", "date"}:
                continue
        kept.append(item)
    return kept


class _Walk:
    """Goes through the items once, and attaches conditions to their columns."""

    def __init__(self, items: Sequence[Item], sheet: Sheet) -> None:
        self._items = items
        self._sheet = sheet
        self._at = 0
        self._made = _Parts()

    def parts(self) -> _Parts:
        while self._at < len(self._items):
            item = self._items[self._at]
            self._at += 1
            getattr(self, f"_{item.kind}")(item)
        return self._made

    def _peek(self, ahead: int = 0) -> Item | None:
        position = self._at + ahead
        return self._items[position] if position < len(self._items) else None

    def _kind(self, ahead: int = 0) -> str:
        item = self._peek(ahead)
        return item.kind if item else ""

    def _aggregate(self, item: Item) -> None:
        self._made.aggregates.append(item.value)

    def _table(self, item: Item) -> None:
        self._made.tables += 1

    def _rows(self, item: Item) -> None:
        self._made.rows = True

    def _unit(self, item: Item) -> None:
        self._made.units.append(item.value)

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
        self._made.groups.append(following)

    def _column(self, item: Item) -> None:
        kind = self._kind()
        if kind == "comparison" and self._fits(item, self._kind(1)):
            self._at += 1
            self._compared(self._items[self._at - 1].value, self._only(item))
        elif kind in {"number", "date"} and self._fits(item, kind):
            self._compared("=", self._only(item))
        elif kind == "value" or (kind == "negation" and self._kind(1) == "value"):
            negated = kind == "negation"
            value = self._peek(1 if negated else 0)
            shared = set(item.value) & set(value.value) if value else set()
            if value is None or len(shared) != 1:
                self._made.targets.append(item)
                return
            self._at += 2 if negated else 1
            self._named_value(value, shared.pop(), negated)
        else:
            self._made.targets.append(item)

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
        self._made.conditions.append(Condition(column, mark, tuple(item.value[column])))
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
            raise NotReadError(f"it is not clear what {item.text!r} refers to")
        self._at += 1
        self._value(following, negated=True)

    def _comparison(self, item: Item) -> None:
        if self._kind() not in {"number", "date"}:
            raise NotReadError(f"{item.text!r} is not followed by a number or a date")
        self._compared(item.value, None)

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
        if column is None:
            column, kind = self._compared_column(kind, unit, mark)
        self._add_comparison(column, kind, mark, [value for _, value, _ in bounds])
        if unit and unit != column.unit:
            states = f"is in {column.unit}" if column.unit else "states no unit"
            raise NotReadError(f"the column {column.name} {states}, not {unit}", certain=True)

    def _operand(self) -> tuple[str, Any, str]:
        """Kind, value and unit of the number or date that is next."""
        sign = self._peek()
        if sign is None:
            raise NotReadError("a number or date is missing")
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
            years = [c for c in self._sheet.columns if folded(c.name).split()[:1] == ["year"]]
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
            self._made.conditions += [Condition(column.name, m, (day,)) for m, day in bounds]
            return
        if mark == "between":
            low, high = values
            self._made.conditions.append(Condition(column.name, ">=", (low,)))
            self._made.conditions.append(Condition(column.name, "<=", (high,)))
        else:
            self._made.conditions.append(Condition(column.name, mark, (values[0],)))


def _merged_conditions(conditions: Sequence[Condition]) -> list[Condition]:
    """Values of one column are alternatives: no cell has two."""
    merged: list[Condition] = []
    for condition in conditions:
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


class _Former:
    """Chooses the form of the query."""

    def __init__(self, parts: _Parts, sheet: Sheet) -> None:
        self._parts = parts
        self._sheet = sheet
        self._words = set(parts.aggregates)
        self._columns = [self._resolved(item) for item in parts.targets]

    def _resolved(self, item: Item) -> SheetColumn:
        """The column that an item names; of several with that word, one that can be meant."""
        columns = [self._sheet.column(name) for name in item.value]
        if len(columns) == 1:
            return columns[0]
        if self._words & {"sum", "average", "median"}:
            numeric = [column for column in columns if column.type == "number"]
            if len(numeric) == 1:
                return numeric[0]
        if columns[0] == self._sheet.columns[0] and self._words & {"count", "list"}:
            return columns[0]
        raise NotReadError(f"{item.text!r} may mean the columns {', '.join(item.value)}")

    def query(self) -> Query:
        computed = self._words - {"list", "value", "much"}
        numbers = any(column.type == "number" for column in self._columns)
        if "count" in computed and computed - {"count", "sum", "distinct"} and numbers:
            computed -= {"count"}
        if "count" in computed:
            computed -= {"sum"}
        if computed & {"highest", "lowest"}:
            return self._extreme(computed)
        if self._parts.groups:
            return self._grouped(computed)
        if computed in ({"count"}, {"count", "distinct"}):
            return self._counted(distinct="distinct" in computed)
        if len(computed) == 1 and (kind := next(iter(computed))) in {"sum", "average", "median"}:
            return self._made(kind, target=self._number())
        if computed == {"distinct"} and len(self._columns) == 1:
            return self._made("list", target=self._columns[0])
        if computed:
            raise NotReadError("it asks for more than one thing")
        if "much" in self._words:
            return self._made("sum", target=self._number())
        return self._looked_up()

    def _made(self, form: Any, **parts: Any) -> Query:
        named = self._parts.tables
        return Query(
            self._sheet, form, conditions=tuple(self._parts.conditions), named=named, **parts
        )

    def _number(self) -> SheetColumn:
        """The only column of numbers that is named, beside names of things."""
        numbers = [column for column in self._columns if column.type == "number"]
        others = [
            column
            for item, column in zip(self._parts.targets, self._columns, strict=True)
            if column.type != "number" and not self._is_noun(item, column)
        ]
        if not numbers and self._parts.units and not others:
            numbers = [c for c in self._sheet.columns if c.unit in self._parts.units]
        if len(set(numbers)) != 1 or others:
            named = ", ".join(column.name for column in self._columns) or "none"
            raise NotReadError(f"one column of numbers must be named (named: {named})")
        return numbers[0]

    def _is_noun(self, item: Item, column: SheetColumn) -> bool:
        """True for what the rows are about: the column that names them, or its plural."""
        form = folded(item.text)
        return column == self._sheet.columns[0] or column.distinct or singular(form) != form

    def _counted(self, *, distinct: bool) -> Query:
        if not self._columns:
            if self._parts.units:
                return self._made("sum", target=self._number())
            if not (self._parts.rows or self._parts.tables):
                raise NotReadError("it is not clear what is counted")
            return self._made("rows")
        if distinct and len(set(self._columns)) > 1:  # values of a column, "of the orders"
            key = self._sheet.columns[0]
            self._columns = [column for column in self._columns if column != key]
        if len(set(self._columns)) > 1:
            raise NotReadError(
                "it names several columns, and it is not clear which of them is counted"
            )
        column = self._columns[0]
        is_key = column.distinct and column == self._sheet.columns[0]
        if column.type == "number" and not is_key and not distinct:
            if column.unit == "pcs" or set(folded(column.name).split()) & QUANTITIES:
                return self._made("sum", target=column)
            raise NotReadError(f"it is not clear whether {column.name} is counted or added up")
        if column.distinct and not distinct:
            return self._made("rows")
        return self._made("distinct", target=column)

    def _grouped(self, computed: set[str]) -> Query:
        if len(self._parts.groups) != 1:
            raise NotReadError("it asks for more than one grouping")
        group = self._resolved(self._parts.groups[0])
        if computed == {"count"}:
            if not (self._parts.rows or self._parts.tables or self._columns):
                raise NotReadError("it is not clear what is counted")
            if self._columns and not self._columns[0].distinct:
                raise NotReadError(f"it is not clear whether rows or {self._columns[0].name} count")
            return self._made("rows", group=group)
        if len(computed) == 1 and (kind := next(iter(computed))) in {"sum", "average"}:
            return self._made(kind, target=self._number(), group=group)
        raise NotReadError("it is not clear what is computed for each group")

    def _extreme(self, computed: set[str]) -> Query:
        """The highest or lowest value, its rows, or the group with the highest or lowest."""
        direction = computed & {"highest", "lowest"}
        if len(direction) > 1:
            raise NotReadError("it asks for the highest and the lowest")
        way = direction.pop()
        per = computed - {way, "distinct"}
        numbers = [c for c in dict.fromkeys(self._columns) if c.type in {"number", "date"}]
        names = [c for c in dict.fromkeys(self._columns) if c.type == "text"]
        names += [self._resolved(item) for item in self._parts.groups]
        if per:
            return self._best_group(way, per, numbers, names)
        if not numbers and len(names) <= 1 and self._parts.units:
            numbers = [c for c in self._sheet.columns if c.unit in self._parts.units]
        if len(numbers) != 1 or len(names) > 1 or self._parts.groups:
            raise NotReadError(f"it is not clear which column's {way} value is meant")
        shown = names[0] if names else None
        if shown is None and "list" in self._words:
            shown = self._sheet.columns[0]
            if not (self._parts.tables or self._parts.rows):
                raise NotReadError("it is not clear which rows are asked for")
        if shown is not None and not shown.distinct and "list" in self._words:
            self._check_group(shown)
        return self._made(way, target=numbers[0], shown=shown)

    def _check_group(self, shown: SheetColumn) -> None:
        """Refuse "which region has the highest sales": one row, or all of the region together."""
        if shown.type == "text" and shown.searched and shown != self._sheet.columns[0]:
            raise NotReadError(
                f"{shown.name} has several rows each: whether one row or their sum counts is "
                "not clear"
            )

    def _best_group(
        self, way: str, per: set[str], numbers: list[SheetColumn], names: list[SheetColumn]
    ) -> Query:
        if len(per) != 1 or len(names) != 1 or per - {"sum", "average", "count"}:
            raise NotReadError("it is not clear what is compared")
        kind = per.pop()
        form: Form = "rows" if kind == "count" else "sum" if kind == "sum" else "average"
        if (form == "rows") == bool(numbers) or len(numbers) > 1:
            raise NotReadError("it is not clear what is compared")
        target = numbers[0] if numbers else None
        return self._made(way, target=target, group=names[0], per=form)

    def _looked_up(self) -> Query:
        if not self._parts.conditions:
            raise NotReadError("it names no rows")
        columns = list(dict.fromkeys(self._columns))
        if len(columns) > 1:
            key = self._sheet.columns[0]
            columns = [column for column in columns if column != key]
        if len(columns) > 1:
            raise NotReadError("it asks for several columns")
        if "list" in self._words:
            if not columns and not (self._parts.rows or self._parts.tables):
                raise NotReadError("it is not clear which rows are asked for")
            return self._made("list", target=columns[0] if columns else self._sheet.columns[0])
        if "value" in self._words and columns:
            return self._made("value", target=columns[0])
        raise NotReadError("it is not clear what is asked for")


def _check_columns(query: Query, parts: _Parts) -> None:
    """Refuse columns that nothing can be computed with, and units that are not theirs."""
    used = [query.target] if query.target and query.form != "list" else []
    used += [
        query.sheet.column(c.column) for c in query.conditions if c.mark not in {"in", "not in"}
    ]
    for column in used:
        if column.problem:
            raise NotReadError(
                f"the column {column.name} of {query.sheet.place} cannot be computed with: "
                f"{column.problem}",
                certain=True,
            )
        _check_row_units(column, query)
    for unit in parts.units:
        held = query.target.unit if query.target is not None else ""
        if unit != held:
            subject = f"the column {query.target.name}" if query.target else query.sheet.place
            states = f"is in {held}" if held else "states no unit"
            raise NotReadError(f"{subject} {states}, not {unit}", certain=True)


_VALUES = frozenset({
    "amount", "balance", "betrag", "budget", "charge", "cost", "fee", "gross", "kosten", "montant",
    "net", "payment", "price", "preis", "prix", "quantity", "revenue", "salary", "sale", "sum",
    "total", "turnover", "umsatz", "value", "wage", "wert",
})  # fmt: skip
"""Words in headers of numbers whose unit another column may name."""


def _check_row_units(column: SheetColumn, query: Query) -> None:
    """Refuse numbers of rows whose units differ, as another column of the table names them."""
    if column.type != "number" or column.unit or query.form == "value":
        return
    columns = query.sheet.columns
    at = columns.index(column)
    for place, other in enumerate(columns):
        named = bool(_VALUES & set(singular(folded(column.name)).split()))
        if len(other.units) < 2 or not (named or abs(place - at) == 1):
            continue
        narrowed = any(
            c.column == other.name and c.mark == "in" and len(c.values) == 1
            for c in query.conditions
        )
        if not narrowed and query.group != other:
            raise NotReadError(
                f"rows of {query.sheet.place} have different units in the column {other.name} "
                f"({', '.join(other.units[:4])}); name one of them",
                certain=True,
            )
