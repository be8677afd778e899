"""Plain values to Arrow without a guess: what a column holds decides its type, once.

Numbers are whole numbers of 64 bits or doubles where nothing is lost by that, else texts; a
column that holds several kinds of values holds their texts; lists and records are JSON texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from typing import Any

from ...core import RecordsError, require
from .._seams import ArrowTable

EXACT = 2**53
"""Whole numbers below are exact as doubles."""

_KINDS = (
    (float, "float"),
    (str, "text"),
    (bytes | bytearray | memoryview, "bytes"),
)


def kind_of(value: Any) -> str:
    """Return the kind of a value of JSON or of a database; empty for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if abs(value) < EXACT:
            return "int"
        return "long" if -(2**63) <= value < 2**63 else "huge"
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    if isinstance(value, datetime):
        return "moment" if value.tzinfo else "time"
    return "date" if isinstance(value, date) else "other"


def type_of(kinds: Iterable[str]) -> Any:
    """Return the Arrow type that holds values of some kinds without loss; else text."""
    pa = require("pyarrow", "records", "reading records")
    distinct = set(kinds) - {""}
    if distinct and distinct <= {"int", "long"}:
        return pa.int64()
    if distinct and distinct <= {"int", "float"}:
        return pa.float64()
    single = {
        "bool": pa.bool_(),
        "bytes": pa.binary(),
        "date": pa.date32(),
        "time": pa.timestamp("us"),
        "moment": pa.timestamp("us", "UTC"),
    }
    return single.get(distinct.pop(), pa.string()) if len(distinct) == 1 else pa.string()


def column_of(values: Sequence[Any], kind: Any) -> ArrowTable:
    """Make an Arrow array of values; of their texts if the type is text.

    Raises:
        UnicodeEncodeError: A text holds half of a surrogate pair.
        ArrowException: A value is not of the type.
    """
    pa = require("pyarrow", "records", "reading records")
    if pa.types.is_string(kind):
        return pa.array([text_of(value) for value in values], pa.string())
    return pa.array(values, kind)


def text_of(value: Any) -> str | None:
    """Write a value as text: bytes in hexadecimal digits, lists and records in JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=text_of)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value.isoformat() if isinstance(value, date | time) else str(value)


def endless(name: str, value: Any, row: int) -> RecordsError:
    """Return the error for a date or time outside the years 1 to 9999."""
    return RecordsError(
        f"the column {name!r} holds {value!r}, which is not a date in the years 1 to 9999",
        where=f"query, row {row}",
        hint=f"write in the query NULLIF({name}, 'infinity') AS {name}, "
        f"or CAST({name} AS text) AS {name}",
    )


def unify_types(kinds: Iterable[Any]) -> Any:
    """Return the Arrow type that several types can be cast to; text if there is none."""
    pa = require("pyarrow", "records", "reading records")
    distinct = {kind for kind in kinds if not pa.types.is_null(kind)}
    if len(distinct) == 1:
        return distinct.pop()
    if distinct and all(map(pa.types.is_integer, distinct)):
        return pa.int64()
    if distinct and all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in distinct):
        return pa.float64()
    zones = {getattr(kind, "tz", 0) for kind in distinct}
    if distinct and all(map(pa.types.is_timestamp, distinct)) and len({*map(bool, zones)}) == 1:
        units = ["s", "ms", "us", "ns"]
        unit = max((kind.unit for kind in distinct), key=units.index)
        return pa.timestamp(unit, "UTC" if all(zones) else None)
    return pa.string()


def key_texts(column: ArrowTable) -> ArrowTable:
    """Return keys as one array of texts; whole numbers have no fraction, whatever their type."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    types = pa.types
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind):
        return compute.cast(column, pa.string())
    return pa.array([_key_text(value) for value in column.to_pylist()], pa.string())


def _key_text(value: Any) -> str | None:
    if value is None or value != value:  # the latter: not a number
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    return text_of(value)
