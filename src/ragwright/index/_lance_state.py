"""The open tables of a Lance store, and one state of an index spec in them.

A state is read from two versions that belong together.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Filter, FilterError, SnapshotGoneError, StoreBusyError, StoreError
from . import _lance_tables as lance
from ._lance_tables import facet, has_own_column
from ._postings import ALWAYS, find_in_range, number_of, spelling
from ._prepare import DIGEST_MODULUS
from ._segment import needs_rows, unknown_field, value_error
from ._store import IndexSpec

_READS = 20
_MOST_ORPHANS = 5_000
"""Stamps that a filter leaves out; with more of them an older version of the chunks is opened."""

_BACK = 50


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the documents of a state: their digest, chunks and tokens."""

    digest: str
    documents: int
    chunks: int
    length: int


@dataclass(frozen=True, slots=True)
class Pinned:
    """Tables of a state, each at a fixed version.

    Attributes:
        documents: Documents.
        chunks: Chunks; ``live`` is the condition that leaves out those of no document, if any.
        values: Values of metadata fields, the newest.
        totals: Sums over the documents.
        live: SQL, empty if every row counts.
        indexes: Indexes of the chunks by column: identity, and rows that none of it covers.
    """

    documents: Any
    chunks: Any
    values: Any
    totals: Totals
    live: str
    indexes: Mapping[str, tuple[str, int]]


def totals_of(documents: Any) -> Totals:
    """Sums over the documents of a version; a few thousand rows are in memory at a time."""
    count = chunks = length = 0
    parts = [0, 0, 0, 0]
    for batch in lance.batches(documents, ["digest", "chunks", "length"]):
        raw = b"".join(batch["digest"].to_pylist())
        words = np.frombuffer(raw, "<u4").reshape(-1, 4).astype(np.uint64)
        parts = [p + int(w) for p, w in zip(parts, words.sum(axis=0).tolist(), strict=True)]
        count += batch.num_rows
        chunks += int(batch["chunks"].to_numpy().sum(dtype=np.int64))
        length += int(batch["length"].to_numpy().sum())
    digest = sum(part << (32 * at) for at, part in enumerate(parts)) % DIGEST_MODULUS
    return Totals(f"{digest:032x}", count, chunks, length)


def tag_of(snapshot: str) -> str:
    """Tag under which the versions of a snapshot stay."""
    return f"s-{snapshot.partition('@')[2]}"


def pin(opened: Callable[[str], Any], index_spec: IndexSpec, where: str, tag: str = "") -> Pinned:
    """Open the present state of an index spec, or a tagged one.

    Args:
        opened: Opens a table anew.
        index_spec: The index spec; its tables exist.
        where: The store, for errors.
        tag: Of both versions; the newest if empty.

    Raises:
        SnapshotGoneError: No version has the tag.
        StoreBusyError: Other processes wrote during every attempt.
    """
    for _ in range(_READS):
        documents, chunks = (
            opened(f"documents_{index_spec.key}"),
            opened(f"chunks_{index_spec.key}"),
        )
        if tag:
            _checkout_tag(documents, tag)
            _checkout_tag(chunks, tag)
        else:
            documents.checkout(documents.version)
            chunks.checkout(chunks.version)
            if opened(f"documents_{index_spec.key}").version != documents.version:
                continue
        totals = totals_of(documents)
        live = _live_condition(documents, chunks, totals, fixed=bool(tag))
        if live is None:
            continue
        indexes = {}
        for index in chunks.list_indices():
            indexes[index.columns[0]] = (str(index.index_uuid), int(index.num_unindexed_rows or 0))
        return Pinned(documents, chunks, opened(f"values_{index_spec.key}"), totals, live, indexes)
    raise StoreBusyError(
        f"the store changed during each of {_READS} readings",
        where=where,
        hint="try again when less is being written",
    )


def _checkout_tag(table: Any, tag: str) -> None:
    try:
        table.checkout(tag)
    except (RuntimeError, ValueError, OSError) as error:
        raise SnapshotGoneError(f"no version of the tables has the tag {tag!r}") from error


def _live_condition(documents: Any, chunks: Any, totals: Totals, *, fixed: bool) -> str | None:
    """The condition for live chunks; None if the two versions do not belong together.

    ``chunks`` may be set to an earlier version: during a large ingest the newest one has many
    chunks that no document refers to yet.
    """
    rows = chunks.count_rows()
    if rows == totals.chunks:
        return ""
    live = stamps_of(documents)
    for _ in range(_BACK):
        orphans = np.setdiff1d(np.unique(stamps_of(chunks)), live)
        if len(orphans) <= _MOST_ORPHANS or fixed or chunks.version < 2:
            break
        chunks.checkout(chunks.version - 1)
    numbers = ", ".join(map(str, orphans.tolist()))
    condition = f"stamp NOT IN ({numbers})" if len(orphans) else ""
    return condition if int(chunks.count_rows(condition or None)) == totals.chunks else None


def stamps_of(table: Any, where: str = "") -> NDArray[np.int64]:
    """Stamps of the rows, or of those that meet a condition."""
    parts = [batch["stamp"].to_numpy() for batch in lance.batches(table, ["stamp"], where)]
    return np.concatenate([np.empty(0, np.int64), *parts])


def keep_version(table: Any, snapshot: str) -> None:
    """Keep the version of a table that a state was opened with, so that a run can continue."""
    tag, version = tag_of(snapshot), table.version
    try:
        existing = table.tags.list().get(tag)
        if existing is None:
            table.tags.create(tag, version)
        elif int(existing["version"]) != version:
            table.tags.update(tag, version)
    except (OSError, RuntimeError, ValueError):
        # Reading needs no right to write; the state is then kept for an hour only.
        return


def search_facts(facts: Any, index_spec: IndexSpec) -> Mapping[str, Any]:
    """The measurements of an index spec's indexes that maintenance stored; empty at first."""
    rows = lance.select(facts, ["value"], f"name = 'search {index_spec.key}'").to_pylist()
    return dict(json.loads(rows[-1]["value"])) if rows else {}


_OPENINGS = 20
"""Attempts to open a table that another process is making."""


class OpenTables:
    """Tables of a database by name.

    Args:
        database: LanceDB's connection.
    """

    def __init__(self, database: Any) -> None:
        self._db = database
        self._tables: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> Any:
        """A table that is open."""
        return self._tables[name]

    def names(self) -> list[str]:
        """Names of all tables."""
        return list(self._db.list_tables().tables)

    def make(self, name: str, schema: Any) -> Any:
        """The table of that name, made with this schema where it is missing."""
        return self.open_or_create(
            name, lambda: self._db.create_table(name, schema=schema, exist_ok=True)
        )

    def open_table(self, name: str) -> Any | None:
        """The table of that name; None if it does not exist."""
        with self._lock:
            if name not in self._tables and name not in self.names():
                return None
            return self.open_or_create(name, lambda: None)

    def open_fresh(self, name: str) -> Any:
        """A handle of its own on a table, to be set to a version."""
        return self._db.open_table(name)

    def open_or_create(self, name: str, make: Callable[[], Any]) -> Any:
        """The table of that name; ``make`` makes it, another process may do so first.

        A process that was killed, or met a full disk, while it made the table leaves a folder
        without a version, which is listed and cannot be opened. The table is then made again.
        """
        with self._lock:
            for attempt in range(_OPENINGS):
                if name in self._tables:
                    break
                try:
                    table = self._open_existing(name, again=attempt >= _OPENINGS // 2) or make()
                except (OSError, RuntimeError, ValueError):
                    # Another process is making it: listed, but not yet to be opened.
                    if attempt == _OPENINGS - 1:
                        raise
                    time.sleep(0.05)
                else:
                    if table is None:
                        return None
                    self._tables[name] = table
            return self._tables[name]

    def _open_existing(self, name: str, *, again: bool) -> Any | None:
        """The table, None where there is none; with ``again`` also where it has no version."""
        if name not in self.names():
            return None
        try:
            return self._db.open_table(name)
        except ValueError as error:
            if again and "not found" in str(error):
                return None
            raise


def store_facts(database: Any, tables: OpenTables, where: str) -> dict[str, str]:
    """Identity and schema version; written by the first process."""
    names = ["store", "schema"]
    values = [secrets.token_hex(8), str(lance.SCHEMA_VERSION)]
    first = lance.arrow_table({"name": names, "value": values}, lance.facts_schema())
    names_here = tables.names()
    if "facts" not in names_here and any(n[:7] in ("chunks_", "documen") for n in names_here):
        raise StoreError(
            "the place holds tables, but not those of a ragwright store",
            where=where,
            hint="give the store a folder or prefix of its own (store.path)",
        )
    table = tables.open_or_create("facts", lambda: database.create_table("facts", data=first))
    if table.schema.names != lance.facts_schema().names:
        raise StoreError(
            "the table 'facts' there is not one of a ragwright store",
            where=where,
            hint="give the store a folder or prefix of its own (store.path)",
        )
    rows = lance.select(table, ["name", "value"]).to_pylist()
    return {row["name"]: row["value"] for row in reversed(rows)}


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
        if name not in lance.OWN_COLUMNS or self.known_values(name):
            facets = [facet(name, value) for value in nonempty]
            if len(facets) == 1:
                parts.append(_has_facet(facets[0]))
            elif facets:
                parts.append(f"array_has_any(facets, [{', '.join(map(lance.literal, facets))}])")
        return " OR ".join(parts) or "false"

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
    """A range over the texts of a column."""
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
