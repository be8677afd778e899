"""The rows behind a statement that a chat model wrote about sheets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core import Hit, StatementError
from ...flow import Flow, SqlReply, sql
from ...index import quoted
from .._statement import statement_words
from .._tables import Sheet
from ._cite import MOST_ROWS, range_hit, sheet_hits
from ._sheets import SHEETS

if TYPE_CHECKING:
    from .._tables import Database

_ENDS = frozenset(["group", "order", "having", "limit", "window"])
_SEVERAL = frozenset(["union", "intersect", "except", "join", "natural", "cross"])
_AGGREGATES = frozenset(["count", "sum", "avg", "min", "max", "total", "group_concat", "median"])


@dataclass(frozen=True, slots=True)
class _Source:
    """The table of a plain statement, the columns that it names, and how it chooses rows."""

    sheet: Sheet
    columns: tuple[str, ...]
    choice: str


def cited_rows(statement: str, rows: SqlReply, database: Database, text: str) -> Flow[list[Hit]]:
    """Hits of the rows that a statement reads; the first holds its result.

    Of a statement on one table these are the rows that meet its conditions. Of any other, all rows
    of the tables that it names are cited.

    Args:
        statement: The statement.
        rows: Its result.
        database: The tables.
        text: The result as a passage.
    """
    source = _source_of(statement, database.sheets)
    hits: list[Hit] = []
    if source is not None and rows.rows:
        columns = ", ".join(map(quoted, source.columns))
        evidence = (
            f"SELECT _row, _start, _end, {columns} FROM {quoted(source.sheet.name)} "  # noqa: S608
            f"{source.choice}"
        )
        try:
            read = yield from sql(
                SHEETS,
                f"SELECT * FROM ({evidence}) ORDER BY 1 LIMIT {MOST_ROWS + 1}",  # noqa: S608
                MOST_ROWS + 1,
                **bounds_of(statement, database),
            )
            hits = sheet_hits(source.sheet, source.columns, read.rows[:MOST_ROWS], statement)
            if len(read.rows) > MOST_ROWS:
                hits = yield from _whole([source.sheet], statement, database)
        except StatementError:
            hits = []
    if not hits:
        named = _named_sheets(statement, database.sheets)
        hits = yield from _whole(named, statement, database)
    if not hits:
        return []
    first = f"{text}\n\n{hits[0].text}" if source is not None else text
    return [replace(hits[0], text=first), *hits[1:]]


def bounds_of(statement: str, database: Database) -> dict[str, Any]:
    """The tables of sheets that a model's statement is bound to, as `sql` takes them."""
    if not database.narrowed:
        return {}
    named = _named_sheets(statement, database.sheets)
    return {"within": database.within(named), "sealed": True}


def _whole(sheets: Sequence[Sheet], statement: str, database: Database) -> Flow[list[Hit]]:
    hits = []
    for rank, sheet in enumerate(sheets[:4], 1):
        read = yield from sql(
            SHEETS,
            "SELECT min(_row), max(_row), min(_start), max(_end) "  # noqa: S608
            f"FROM {quoted(sheet.name)}",
            1,
            database.within([sheet]),
        )
        columns = [column.name for column in sheet.columns]
        hits.append(replace(range_hit(sheet, columns, read.rows[0], statement), rank=rank))
    return hits


def _named_sheets(statement: str, sheets: Sequence[Sheet]) -> list[Sheet]:
    words = {_plain(token) for _, token in statement_words(statement)}
    return [sheet for sheet in sheets if sheet.name.casefold() in words]


def _source_of(statement: str, sheets: Sequence[Sheet]) -> _Source | None:
    """The source of a SELECT on one table without further tables; None for any other."""
    words = statement_words(statement)
    depth, start, table, choice, end = 0, -1, None, -1, len(words)
    lowered = [token.lower() for _, token in words]
    if not lowered or lowered[0] != "select" or set(lowered) & _SEVERAL:
        return None
    for at, word in enumerate(lowered):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth:
            continue
        if word == "from" and start < 0:
            start = at
        elif start >= 0 and word == "where" and choice < 0:
            choice = at
        elif start >= 0 and word in _ENDS:
            end = at
            break
    if start < 0 or start + 1 >= len(words):
        return None
    name = _plain(words[start + 1][1])
    table = next((sheet for sheet in sheets if sheet.name.casefold() == name), None)
    tail = lowered[start + 2 : choice if choice >= 0 else end]
    if table is None or "," in tail or "select" in lowered[1:start]:
        return None
    alias = " ".join(token for _, token in words[start + 2 : choice if choice >= 0 else end])
    aggregated = "group" in lowered[end:] or bool(set(lowered[1:start]) & _AGGREGATES)
    last = end if aggregated or "distinct" in lowered[1:start] else len(words)
    chosen = " ".join(token for _, token in words[choice if choice >= 0 else end : last])
    named = {_plain(token) for _, token in words}
    columns = tuple(c.name for c in table.columns if c.name.casefold() in named)
    return _Source(table, columns or (table.columns[0].name,), f"{alias} {chosen}".strip())


def _plain(token: str) -> str:
    return token.strip('"[]').casefold()
