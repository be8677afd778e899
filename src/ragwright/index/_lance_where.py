"""Filters as conditions of SQL over the chunks of one Lance table version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..core import Filter, FilterError
from . import _lance_tables as lance
from ._lance_rows import facet, has_own_column
from ._postings import ALWAYS, find_in_range, number_of, spelling
from ._segment import needs_rows, unknown_field, value_error

MOST_VALUES = 10_000
"""Most values of one condition: a range over more is refused."""

_READ = 20_000
"""Rows read to name values in an error."""

_LAST = "\U0010ffff"
_CACHED = 256


@dataclass(frozen=True, slots=True)
class Where:
    """The chunks that hard filters leave: a condition and their number."""

    sql: str
    rows: int


class Conditions:
    """Turns filters into SQL; counts are kept, since the version never changes.

    Args:
        table: The chunks, at one version.
        values: The table of values.
        live: Condition that leaves out chunks that no document refers to; empty where none are.
        rows: Number of live chunks.
    """

    def __init__(self, table: Any, values: Any, live: str, rows: int) -> None:
        self._table = table
        self._values = values
        self.live = Where(live, rows)
        self._spelled: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    @cached_property
    def names(self) -> Sequence[str]:
        """Fields that the chunks have or have had."""
        names = lance.select(self._values, ["field"], "value = ''")["field"].to_pylist()
        return sorted(set(map(lance.unescape_surrogates, names)))

    def count(self, sql: str) -> int:
        """Number of chunks that meet a condition."""
        if not sql:
            return self.live.rows
        number = self._counts.get(sql)
        if number is None:
            number = int(self._table.count_rows(sql))
            if len(self._counts) >= _CACHED:
                self._counts = {}
            self._counts[sql] = number
        return number

    def hard(self, filters: Sequence[Filter]) -> Where:
        """Chunks that meet every filter.

        The values of a filter are looked up among the chunks that the filters before it leave, as
        :func:`ragwright.index._segment.filter_masks` does.

        Raises:
            FilterError: A field that no chunk has, values that none of those chunks has, or a range
                over too many values.
        """
        if not filters or not self.live.rows:
            return self.live
        allowed = self.live
        for condition in filters:
            rest = [other for other in filters if other is not condition]
            allowed = self.within(allowed, condition, rest)
            if condition.missing is not None and not allowed.rows:
                break
        return allowed

    def within(self, before: Where, condition: Filter, rest: Sequence[Filter] = ()) -> Where:
        """Chunks of ``before`` that meet one more condition.

        Raises:
            FilterError: As in :meth:`hard`; the nearest values are those of chunks that
                meet ``rest``.
        """
        if condition.missing is None:
            self._require_field(condition.field, rest)
        sql = lance.both(before.sql, self.sql(condition))
        number = self.count(sql)
        if not number and before.rows and needs_rows(condition):
            raise self._unknown_value(condition, rest)
        return Where(sql, number)

    def sql(self, condition: Filter) -> str:
        """One filter as SQL.

        Raises:
            FilterError: A range over too many values.
        """
        name = condition.field
        holding = self._holding_sql(condition)
        if condition.missing:
            return f"({holding}) OR NOT ({self.having(name)})"
        return f"NOT ({holding})" if condition.exclude else holding

    def _require_field(self, name: str, filters: Sequence[Filter]) -> None:
        """Refuse a field of no chunk that the rights to read among some filters leave."""
        rights = [condition for condition in filters if condition.missing is not None]
        before = lance.both(self.live.sql, *map(self.sql, rights))
        # The field of a right is unknown too: it names groups of others.
        names = set(self.names) - {right.field for right in rights}
        if name not in ALWAYS and not (name in names and self.held_count(name, before)):
            raise unknown_field(name, [field for field in names if self.held_count(field, before)])

    def held_count(self, name: str, before: str) -> int:
        """Number of chunks under a condition that have a field."""
        return self.count(lance.both(before, self.having(name)))

    def having(self, name: str) -> str:
        """SQL for chunks with any value of a field."""
        parts = [f"{lance.OWN_COLUMNS[name]} != ''"] if name in lance.OWN_COLUMNS else []
        if not parts or name in self.names:
            parts.append(_has_facet(facet(name)))
        return " OR ".join(parts)

    def _holding_sql(self, condition: Filter) -> str:
        name = condition.field
        if condition.values:
            return self._any_value_sql(name, [spelling(value) for value in condition.values])
        if condition.low is None and condition.high is None:
            return self.having(name)
        values = self.known_values(name)
        chosen = [values[at] for at in find_in_range(values, condition.low, condition.high)]
        parts = [self._any_value_sql(name, chosen, own=False)] if chosen else []
        if name in lance.OWN_COLUMNS:
            parts.append(_range_sql(lance.OWN_COLUMNS[name], condition))
        return " OR ".join(f"({part})" for part in parts) or "false"

    def _any_value_sql(self, name: str, values: Sequence[str], own: bool = True) -> str:
        if len(values) > MOST_VALUES:
            raise FilterError(
                f"the condition on {name!r} covers {len(values):,} different values, "
                f"at most {MOST_VALUES:,} are possible with store.kind lance",
                hint="narrow the range, or store coarser values in a field of its own",
                field=name,
            )
        nonempty = [value for value in values if value]
        parts: list[str] = []
        if own and name in lance.OWN_COLUMNS:
            own_values = [value for value in nonempty if has_own_column(name, value)]
            parts += (
                lance.one_of(lance.OWN_COLUMNS[name], own_values, MOST_VALUES) if own_values else []
            )
        if name not in lance.OWN_COLUMNS or name in self._listed_own():
            facets = [facet(name, value) for value in nonempty]
            if len(facets) == 1:
                parts.append(_has_facet(facets[0]))
            elif facets:
                parts.append(f"array_has_any(facets, [{', '.join(map(lance.literal, facets))}])")
        return " OR ".join(parts) or "false"

    def _listed_own(self) -> set[str]:
        """Fields with an own column of which some values are facets all the same."""
        return {name for name in lance.OWN_COLUMNS if self.known_values(name)}

    def known_values(self, name: str) -> list[str]:
        """Values that a field has or has had in ``facets``."""
        if name not in self._spelled:
            where = f"field = {lance.literal(name)} AND value != ''"
            values = lance.select(self._values, ["value"], where)["value"].to_pylist()
            self._spelled[name] = sorted(map(lance.unescape_surrogates, dict.fromkeys(values)))
        return self._spelled[name]

    def _unknown_value(self, condition: Filter, rest: Sequence[Filter]) -> FilterError:
        """The error for values that no chunk has; only values of allowed chunks are named."""
        sql = lance.both(self.live.sql, *(self.sql(other) for other in rest))
        name = condition.field
        column = lance.OWN_COLUMNS.get(name)
        start = f"{lance.escape_surrogates(facet(name))}="
        values: set[str] = set()
        columns = ["facets", *([column] if column else [])]
        for batch in lance.batches(self._table, columns, sql, _READ):
            facets = batch["facets"].flatten().unique().to_pylist()
            values.update(text[len(start) :] for text in facets if text.startswith(start))
            if column:
                values.update(value for value in batch[column].unique().to_pylist() if value)
        return value_error(condition, {lance.unescape_surrogates(value) for value in values})


def _has_facet(value: str) -> str:
    return f"array_has(facets, {lance.literal(value)})"


def _range_sql(column: str, condition: Filter) -> str:
    """A range over the texts of a column.

    Raises:
        FilterError: The bounds are numbers, and the column is not one of dates.
    """
    stated = [bound for bound in (condition.low, condition.high) if bound is not None]
    bounds = [spelling(bound) for bound in stated]
    numeric = all(number_of(bound) is not None for bound in bounds)
    if numeric and column not in ("created", "modified"):
        raise FilterError(
            f"a range of numbers over {condition.field!r} is not possible with store.kind lance",
            hint="store the number in a metadata field of its own",
            field=condition.field,
        )
    parts = [f"{column} != ''"]
    if condition.low is not None:
        parts.append(f"{column} >= {lance.literal(spelling(condition.low))}")
    if condition.high is not None:
        # What begins with the bound is within it.
        parts.append(f"{column} <= {lance.literal(spelling(condition.high) + _LAST)}")
    return " AND ".join(parts)


def soft_columns(conditions: Sequence[str]) -> Mapping[str, str]:
    """Columns ``c0``, ``c1``… that say which conditions a row meets."""
    return {f"c{at}": sql for at, sql in enumerate(conditions)}
