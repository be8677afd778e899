"""SQL for queries on one table of a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...index import quoted
from ._meaning import Query
from ._walk import Condition

_MARKS = {"in": "IN", "not in": "NOT IN"}


def literal(value: Any) -> str:
    """A value in SQL."""
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def where_text(conditions: Sequence[Condition], *present: str) -> str:
    """The WHERE clause for conditions, and for columns that must have a value; may be empty."""
    clauses = []
    for condition in conditions:
        name = quoted(condition.column)
        if condition.mark in _MARKS:
            values = ", ".join(map(literal, condition.values))
            clauses.append(f"{name} {_MARKS[condition.mark]} ({values})")
        else:
            clauses.append(f"{name} {condition.mark} {literal(condition.values[0])}")
    clauses += [f"{quoted(name)} IS NOT NULL" for name in present]
    return f" WHERE {' AND '.join(clauses)}" if clauses else ""


def computed_statement(query: Query) -> str:
    """The statement for the result of a query.

    Its first columns are the result; for single values follow the number of rows that count, their
    first and last number, and the span in the document.
    """
    table = quoted(query.sheet.name)
    if query.group is not None:
        return _grouped_statement(query)
    if query.form in {"highest", "lowest", "list", "value"}:
        return evidence_statement(query, query.sheet.rows)
    target = query.target.name if query.target else ""
    column = quoted(target)
    results = {
        "rows": "count(*)",
        "distinct": f"count(DISTINCT {column})",
        "sum": f"sum({column})",
        "average": f"avg({column})",
    }
    present = (target,) if target else ()
    where = where_text(query.conditions, *present)
    rest = "count(*) AS counted, min(_row), max(_row), min(_start), max(_end)"
    if query.form == "median":
        inner = (
            f"SELECT {column} AS held, _row, _start, _end, "  # noqa: S608
            f"row_number() OVER (ORDER BY {column}) AS place, count(*) OVER () AS total "
            f"FROM {table}{where}"
        )
        middle = "place IN ((total + 1) / 2, (total + 2) / 2)"
        return f"SELECT avg(CASE WHEN {middle} THEN held END), {rest} FROM ({inner})"  # noqa: S608
    return f"SELECT {results[query.form]} AS result, {rest} FROM {table}{where}"  # noqa: S608


def _grouped_statement(query: Query) -> str:
    group = quoted(query.group.name if query.group else "")
    target = query.target.name if query.target else ""
    kind = query.per or query.form
    names = {
        "rows": "count(*)",
        "sum": f"sum({quoted(target)})",
        "average": f"avg({quoted(target)})",
    }
    present = [query.group.name] if query.group else []
    present += [target] if target else []
    where = where_text(query.conditions, *present)
    down = " DESC" if query.form == "highest" else ""
    order = f"2{down}, 1" if query.per else "1"
    return (
        f"SELECT {group}, {names[kind]} AS result, count(*) AS counted "  # noqa: S608
        f"FROM {quoted(query.sheet.name)}{where} GROUP BY {group} ORDER BY {order}"
    )


def evidence_columns(query: Query) -> tuple[str, ...]:
    """The columns that an answer rests on, each once."""
    parts = [query.shown, query.group, query.target]
    names = [column.name for column in parts if column is not None]
    names += [condition.column for condition in query.conditions]
    if not names:
        names = [query.sheet.columns[0].name]
    return tuple(dict.fromkeys(names))


def evidence_statement(query: Query, most: int) -> str:
    """The statement for the rows behind a result, in the order of the sheet.

    For the highest and lowest value these are the rows that have it.
    """
    table = quoted(query.sheet.name)
    columns = ", ".join(map(quoted, evidence_columns(query)))
    target = query.target.name if query.target else ""
    where = where_text(query.conditions, *([target] if target else []))
    if query.form in {"highest", "lowest"} and query.group is None:
        best = "max" if query.form == "highest" else "min"
        chosen = f"{quoted(target)} = (SELECT {best}({quoted(target)}) FROM {table}{where})"  # noqa: S608
        where += f" AND {chosen}"
    return f"SELECT _row, _start, _end, {columns} FROM {table}{where} ORDER BY _row LIMIT {most}"  # noqa: S608
