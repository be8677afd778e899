"""Arrow types and rows as Delta tables have them.

Delta has no unsigned integers, no durations, no times of day and no units of time but
microseconds: integers widen, times and durations become text in ISO 8601, as in the other exports.
"""

from __future__ import annotations

from ...core import require
from .._seams import ArrowTable
from ._export import readable
from ._parts import as_text

_PURPOSE = "exporting Delta tables"
_DIGITS = 38
"""Most digits of a decimal number in Delta."""


def delta_schema(schema: ArrowTable) -> ArrowTable:
    """A schema that Delta can hold; columns that are null throughout are left out."""
    pa = require("pyarrow", "records", _PURPOSE)
    return pa.schema(
        [(field.name, _kind(field.type)) for field in schema if not pa.types.is_null(field.type)]
    )


def for_delta(rows: ArrowTable, schema: ArrowTable) -> ArrowTable:
    """Rows with exactly the columns of a schema of Delta's; those that they lack are null."""
    pa = require("pyarrow", "records", _PURPOSE)
    rows = readable(rows, digits=False)
    made = []
    for field in schema:
        if field.name not in rows.column_names:
            made.append(pa.nulls(rows.num_rows, field.type))
            continue
        values = rows.column(field.name)
        if pa.types.is_string(field.type) and not _is_text(values.type):
            values = as_text(values)
        made.append(values.cast(field.type, safe=False))
    return pa.Table.from_arrays(made, schema=schema)


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
        fits = kind.precision <= _DIGITS and kind.scale >= 0
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
        made = pa.list_(_kind(kind.value_type))
    elif types.is_struct(kind):
        made = pa.struct([(field.name, _kind(field.type)) for field in kind])
    else:
        return pa.string()
    try:
        pa.array([], kind).cast(made)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.string()
    return made
