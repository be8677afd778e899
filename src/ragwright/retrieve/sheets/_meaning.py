"""From the items of a question to one query on one table, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ...index import SheetColumn, folded, singular
from .._tables import Sheet
from ._read import Item
from ._walk import Condition, NotReadError, Parts, numbers_rows, parts_of
from ._words import QUANTITIES

Form: TypeAlias = Literal[
    "rows", "distinct", "sum", "average", "median", "highest", "lowest", "list", "value"
]


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


def query_of(items: Sequence[Item], sheet: Sheet) -> Query:
    """Return the query that the items mean on a table.

    Raises:
        NotReadError: A word is not understood, or there is more than one meaning.
    """
    parts = parts_of(items, sheet)
    query = _Former(parts, sheet).query()
    _check_columns(query, parts)
    return query


class _Former:
    """Chooses the form of the query."""

    def __init__(self, parts: Parts, sheet: Sheet) -> None:
        self._parts = parts
        self._sheet = sheet
        self._words = set(parts.aggregates)
        self._columns = [self._resolved(item) for item in parts.targets]

    def _resolved(self, item: Item) -> SheetColumn:
        """The column that an item names; of several with that word, one that can be meant."""
        columns = [self._sheet.column(name) for name in item.value]
        if len(columns) == 1:
            return columns[0]
        in_unit = [column for column in columns if column.unit in self._parts.units]
        if len(in_unit) == 1:
            return in_unit[0]
        if self._words & {"sum", "average", "median"}:
            numeric = [column for column in columns if column.type == "number"]
            if len(numeric) == 1:
                return numeric[0]
        if columns[0] == self._sheet.columns[0] and self._words & {"count", "list"}:
            return columns[0]
        raise NotReadError(f"{item.text!r} may mean the columns {', '.join(item.value)}")

    def query(self) -> Query:
        self._settle_words()
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
            return self._query_of(kind, target=self._number())
        if computed == {"distinct"} and len(self._columns) == 1:
            return self._query_of("list", target=self._columns[0])
        if computed:
            raise NotReadError("it asks for more than one thing")
        if "much" in self._words:
            number = self._number()
            rate = bool(_RATES & set(singular(folded(number.name)).split()))
            return self._query_of("value" if rate else "sum", target=number)
        return self._looked_up()

    def _query_of(self, form: Any, **parts: Any) -> Query:
        named = self._parts.tables
        return Query(
            self._sheet, form, conditions=tuple(self._parts.conditions), named=named, **parts
        )

    def _number(self) -> SheetColumn:
        """The only column of numbers that is named, beside names of things."""
        numbers = [column for column in self._columns if column.type == "number"]
        amounts = [column for column in numbers if not numbers_rows(column, self._sheet)]
        numbers = amounts or numbers
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
        if numbers_rows(numbers[0], self._sheet):
            raise NotReadError(f"{numbers[0].name} holds names of rows, not amounts")
        return numbers[0]

    def _is_noun(self, item: Item, column: SheetColumn) -> bool:
        """True for what the rows are about: the column that names them, or its plural."""
        form = folded(item.text)
        first = column == self._sheet.columns[0]
        return first or (column.distinct and singular(form) != form)

    def _leading(self, asked: str) -> None:
        """Refuse a column behind the name of the rows: "orders with a comment".

        Raises:
            NotReadError: There is one.
        """
        subjects = self._parts.subjects
        if not subjects:
            return
        first, *others = subjects
        keys = self._sheet.columns[0].name
        about_rows = first.kind != "column" or keys in first.value
        if about_rows and any(o.kind == "column" and keys not in o.value for o in others):
            raise NotReadError(f"it is not clear which rows are {asked}")

    def _counted(self, *, distinct: bool) -> Query:
        if not distinct:
            self._leading("counted")
        if "%" in self._parts.units:
            raise NotReadError("it asks for a share")
        if not self._columns:
            return self._counted_rows(distinct=distinct)
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
            pieces = column.unit == "pcs" or set(folded(column.name).split()) & QUANTITIES
            if pieces or "sum" in self._words:
                return self._query_of("sum", target=column)
            raise NotReadError(f"it is not clear whether {column.name} is counted or added up")
        if column.yes and not distinct:
            raise NotReadError(f"{column.name} says yes or no: it is not clear what is counted")
        if column.distinct and not distinct:
            return self._query_of("rows")
        return self._query_of("distinct", target=column)

    def _counted_rows(self, *, distinct: bool) -> Query:
        if self._parts.units:
            return self._query_of("sum", target=self._number())
        if distinct and not self._sheet.columns[0].distinct:
            raise NotReadError("it is not clear in what the rows differ")
        if not (self._parts.rows or self._parts.tables):
            raise NotReadError("it is not clear what is counted")
        return self._query_of("rows")

    def _grouped(self, computed: set[str]) -> Query:
        if len(self._parts.groups) != 1:
            raise NotReadError("it asks for more than one grouping")
        group = self._resolved(self._parts.groups[0])
        if computed == {"count"}:
            if not (self._parts.rows or self._parts.tables or self._columns):
                raise NotReadError("it is not clear what is counted")
            if self._columns and not self._columns[0].distinct:
                raise NotReadError(f"it is not clear whether rows or {self._columns[0].name} count")
            return self._query_of("rows", group=group)
        if len(computed) == 1 and (kind := next(iter(computed))) in {"sum", "average"}:
            return self._query_of(kind, target=self._number(), group=group)
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
        attached = self._parts.attached
        if (self._columns or attached) and (
            attached is None or numbers[0].name not in attached.value
        ):
            raise NotReadError(f"it is not clear of what the {way} is meant")
        if numbers_rows(numbers[0], self._sheet):
            raise NotReadError(f"{numbers[0].name} holds names of rows, not amounts")
        shown = names[0] if names else None
        if shown is None and "list" in self._words:
            shown = self._sheet.columns[0]
            if not (self._parts.tables or self._parts.rows):
                raise NotReadError("it is not clear which rows are asked for")
        of_rows = bool(self._parts.tables or self._parts.rows)
        if shown is not None and not shown.distinct and ("list" in self._words or not of_rows):
            self._check_group(shown)
        return self._query_of(way, target=numbers[0], shown=shown)

    def _settle_words(self) -> None:
        """Read "kinds of" as different values, and "latest" as the highest date.

        Raises:
            NotReadError: No column holds kinds, or "latest" has no date.
        """
        if "kinds" in self._words:
            if not self._columns or self._columns[0].distinct:
                raise NotReadError("no column says of which kinds the rows are")
            self._words = (self._words - {"kinds"}) | {"distinct"}
        if "dated" in self._words:
            attached = self._parts.attached
            columns = [self._sheet.column(name) for name in attached.value] if attached else []
            if not columns or any(column.type != "date" for column in columns):
                raise NotReadError("no date is named whose first or last one is meant")
            self._words = self._words - {"dated"}

    def _check_group(self, shown: SheetColumn) -> None:
        """Refuse "which region has the highest sales": one row, or all of the region together."""
        if shown.type == "text" and shown.searched:
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
        asked = self._parts.aggregates
        if "list" not in asked[: asked.index(kind)] and asked.index(kind) < asked.index(way):
            # "the average of the highest", "how many … of 4 minimum"
            raise NotReadError(f"it is not clear what the {way} is taken of")
        form: Form = "rows" if kind == "count" else "sum" if kind == "sum" else "average"
        if (form == "rows") == bool(numbers) or len(numbers) > 1:
            raise NotReadError("it is not clear what is compared")
        target = numbers[0] if numbers else None
        return self._query_of(way, target=target, group=names[0], per=form)

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
            self._leading("asked for")
            if not columns and not (self._parts.rows or self._parts.tables):
                raise NotReadError("it is not clear which rows are asked for")
            return self._query_of("list", target=columns[0] if columns else self._sheet.columns[0])
        if "value" in self._words and columns:
            return self._query_of("value", target=columns[0])
        raise NotReadError("it is not clear what is asked for")


def _check_values(query: Query) -> None:
    """Refuse to count values that are written in several ways, or several in one cell.

    Raises:
        NotReadError: Values that count are written so.
    """
    counted = [query.group] if query.group else []
    counted += [query.target] if query.target and query.form == "distinct" else []
    for column in counted:
        if column.alike:
            raise NotReadError(
                f"values of the column {column.name} of {query.sheet.place} differ in capitals or "
                f"spaces only ({column.alike})",
                certain=True,
            )
    asked = {
        condition.column: {folded(str(value)) for value in condition.values}
        for condition in query.conditions
        if condition.mark in {"in", "not in"}
    }
    asked.update({column.name: set(column.several) for column in counted})
    for name, values in asked.items():
        shared = sorted(values & set(query.sheet.column(name).several))
        if shared:
            raise NotReadError(
                f"cells of the column {name} of {query.sheet.place} hold {shared[0]!r} together "
                "with other values",
                certain=True,
            )


_RATES = frozenset(["charge", "cost", "fee", "fare", "preis", "price", "prix", "rate", "tariff"])
"""Names of numbers that are not added up where "how much" is asked."""


def _check_columns(query: Query, parts: Parts) -> None:
    """Refuse columns that nothing can be computed with, and units that are not theirs."""
    if query.sheet.doubt:
        raise NotReadError(
            f"the rows of {query.sheet.place} are not certain: {query.sheet.doubt}", certain=True
        )
    for column in _named_columns(query):
        if column.below:
            raise NotReadError(
                f"empty cells of the column {column.name} of {query.sheet.place} may stand for "
                "the value above",
                certain=True,
            )
    _check_values(query)
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


def _named_columns(query: Query) -> list[SheetColumn]:
    """The columns whose values say which rows count."""
    columns = [query.sheet.column(condition.column) for condition in query.conditions]
    if query.group is not None:
        columns.append(query.group)
    if query.shown is not None:
        columns.append(query.shown)
    if query.target is not None and query.form in {"list", "value"}:
        columns.append(query.target)
    return columns


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
