"""Arrow types and rows as Delta tables have them.

Delta has no unsigned integers, no durations, no times of day and no units of time but
microseconds: integers widen, times and durations become text in ISO 8601, as in the exports.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from ...core import require
from .._seams import ArrowTable

_PURPOSE = "reading records"
_DECIMAL_DIGITS = 38
"""Most digits of a decimal number in Delta."""

_LARGEST = 2**63 - 1
"""Largest whole number that Delta holds as one."""


def delta_rows(rows: ArrowTable) -> ArrowTable:
    """Rows with types that Delta has; columns that are null throughout stay ``null``."""
    pa = require("pyarrow", "records", _PURPOSE)
    kinds = [_stored(field.type) for field in rows.schema]
    for at, field in enumerate(rows.schema):
        if pa.types.is_uint64(field.type) and _largest(rows.column(at)) <= _LARGEST:
            kinds[at] = pa.int64()
    schema = pa.schema(list(zip(rows.schema.names, kinds, strict=True)))
    return rows if rows.schema.equals(schema) else fit_rows(readable(rows, digits=False), schema)


def _stored(kind: ArrowTable) -> ArrowTable:
    """The type in our files for values of an Arrow type."""
    return kind if require("pyarrow", "records", _PURPOSE).types.is_null(kind) else _kind(kind)


def _largest(values: ArrowTable) -> int:
    compute = require("pyarrow.compute", "records", _PURPOSE)
    return int(compute.max(values).as_py() or 0)


def delta_schema(schema: ArrowTable) -> ArrowTable:
    """The columns that a Delta table has: those that are not null throughout, with its types."""
    pa = require("pyarrow", "records", _PURPOSE)
    return pa.schema(
        [(field.name, _kind(field.type)) for field in schema if not pa.types.is_null(field.type)]
    )


def join_schemas(schemas: Iterable[ArrowTable]) -> ArrowTable:
    """The Arrow schema of files read as one table.

    Columns stand in the order in which they first appear. Types that widen into one another do
    (integers into wider ones and into fractions, which round beyond 2**53; what is all null into
    anything); others become text.
    """
    pa = require("pyarrow", "records", _PURPOSE)
    kinds: dict[str, ArrowTable] = {}
    for schema in schemas:
        for column in schema:
            stored = _stored(column.type)
            kind: ArrowTable = kinds.setdefault(column.name, stored)
            if not kind.equals(stored):
                joined = _common_type(kind, stored)
                kinds[column.name] = pa.string() if joined is None else _kind(joined)
    return pa.schema(list(kinds.items()))


def fit_rows(rows: ArrowTable, schema: ArrowTable) -> ArrowTable:
    """Rows with exactly the columns of a schema; those that they lack are null."""
    pa = require("pyarrow", "records", _PURPOSE)
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        values = rows.column(field.name)
        if not values.type.equals(field.type):
            if _is_text(field.type) and not _is_text(values.type):
                values = cast_text(values)
            values = values.cast(field.type, safe=False)
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=schema)


def _common_type(first: ArrowTable, second: ArrowTable) -> ArrowTable | None:
    """The type that holds values of both; None where only text does."""
    pa = require("pyarrow", "records", _PURPOSE)
    first, second = (k.value_type if pa.types.is_dictionary(k) else k for k in (first, second))
    pair = (first, second)
    if all(map(pa.types.is_timestamp, pair)) and first.tz == second.tz:
        return pa.timestamp("us", first.tz)  # the unit that loses no date of a calendar
    if any(map(_is_bytes, pair)) and not all(map(_is_bytes, pair)):
        return second if pa.types.is_null(first) else first if pa.types.is_null(second) else None
    if any(map(pa.types.is_uint64, pair)) and any(map(pa.types.is_signed_integer, pair)):
        return None
    try:
        return pa.unify_schemas(
            [pa.schema([("", kind)]) for kind in pair], promote_options="permissive"
        ).types[0]
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return None


def _is_bytes(kind: ArrowTable) -> bool:
    pa = require("pyarrow", "records", _PURPOSE)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: ArrowTable) -> bool:
    types = require("pyarrow", "records", _PURPOSE).types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _kind(kind: ArrowTable) -> ArrowTable:
    """The type in Delta for values of an Arrow type; text where it has none."""
    pa = require("pyarrow", "records", _PURPOSE)
    types = pa.types
    widened = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
    }
    if kind in widened:
        return widened[kind]
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_decimal(kind):
        fits = kind.precision <= _DECIMAL_DIGITS and kind.scale >= 0
        return pa.decimal128(kind.precision, kind.scale) if fits else pa.string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_nested(kind):
        return _nested(kind)
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return kind if plain or types.is_date32(kind) else pa.string()


def _nested(kind: ArrowTable) -> ArrowTable:
    """Lists and records with the types of Delta in them; text where Arrow converts none of it."""
    pa = require("pyarrow", "records", _PURPOSE)
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = pa.list_(_kind(kind.value_type))
    elif types.is_struct(kind):
        inner = pa.struct([(field.name, _kind(field.type)) for field in kind])
    else:
        return pa.string()
    if any(map(types.is_duration, (kind.field(at).type for at in range(kind.num_fields)))):
        return pa.string()  # Arrow would make numbers of them
    try:
        pa.array([], kind).cast(inner)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.string()
    return inner


def cast_text(values: ArrowTable) -> ArrowTable:
    """Values as text; lists and records as JSON."""
    pa = require("pyarrow", "records", _PURPOSE)
    kind = values.type
    if pa.types.is_nested(kind):
        texts = [
            None if value is None else json.dumps(value, ensure_ascii=False, default=iso_text)
            for value in values.to_pylist()
        ]
        return pa.array(texts, pa.large_string())
    if _is_bytes(kind):
        return pa.array(
            [
                None if value is None else value.decode("utf-8", "replace")
                for value in values.to_pylist()
            ],
            pa.large_string(),
        )
    return values.cast(pa.large_string())


def readable(rows: ArrowTable, *, digits: bool = True) -> ArrowTable:
    """Rows whose durations are texts, and with ``digits`` bytes too, the same in every export."""
    pa = require("pyarrow", "records", _PURPOSE)
    types = pa.types
    for at, column in enumerate(rows.schema):
        kind = column.type
        values = rows.column(at)
        if types.is_duration(kind):
            texts = [_duration(value, kind.unit) for value in values.cast(pa.int64()).to_pylist()]
        elif digits and _is_binary(kind):
            texts = [None if value is None else value.hex() for value in values.to_pylist()]
        elif types.is_interval(kind):
            texts = [None if value is None else iso_text(value) for value in values.to_pylist()]
        else:
            continue
        rows = rows.set_column(at, column.name, pa.array(texts, pa.large_string()))
    return rows


def _is_binary(kind: Any) -> bool:
    types = require("pyarrow", "records", _PURPOSE).types
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def _duration(value: int | None, unit: str) -> str | None:
    """A count of seconds or of their parts as ISO 8601 has it: ``P1DT2H0M3.5S``."""
    if value is None:
        return None
    parts = 10 ** _DIGITS[unit]
    whole, fraction = divmod(abs(value), parts)
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    rest = f".{fraction:0{_DIGITS[unit]}d}".rstrip("0") if fraction else ""
    return f"{'-' * (value < 0)}P{days}DT{hours}H{minutes}M{seconds}{rest}S"


_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Unit of a duration -> digits behind its seconds."""


def iso_text(value: Any) -> str:
    """Return a value without a JSON type as text: times in ISO 8601, bytes as digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, timedelta):
        return str(_duration(value // timedelta(microseconds=1), "us"))
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
