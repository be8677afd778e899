"""Rows of tables in memory: data frames, Arrow tables, data sets; no library is imported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...core import Row, TestsetError

_READERS = ("to_dicts", "to_pylist", "to_list")
"""Methods of polars, of Arrow, and of ragas' data sets."""


def records_in(rows: Any) -> Iterable[Row | Mapping[str, Any]]:
    """Return the rows of a list, a data frame (pandas, polars), an Arrow table or a data set.

    A frame's missing values (None, NaN, NaT) are left out; arrays become lists.

    Raises:
        TestsetError: The object is none of these.
    """
    if hasattr(rows, "columns") and hasattr(rows, "itertuples"):  # pandas
        names = [str(name) for name in rows.columns]
        lines = rows.itertuples(index=False, name=None)
        return (_plain_record(dict(zip(names, line, strict=True))) for line in lines)
    for method in _READERS:
        read = getattr(rows, method, None)
        if callable(read):
            return map(_plain_record, read())
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise TestsetError(
            f"{type(rows).__name__} holds no rows",
            hint="give a file, a list of objects, a data frame or a data set"
            + (", one split of it" if isinstance(rows, Mapping) else ""),
        )
    return _rows_or_mappings(rows)


def _rows_or_mappings(rows: Iterable[Any]) -> Iterator[Row | Mapping[str, Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Row | Mapping):
            raise TestsetError(
                f"a row is {type(row).__name__}, not an object",
                where=f"row {number}",
                hint="give each row as a dict with user_input and so on",
            )
        yield row


def _plain_record(record: Any) -> Any:
    if not isinstance(record, Mapping):
        return record
    return {name: _plain_cell(value) for name, value in record.items()}


def _plain_cell(value: Any) -> Any:
    """Convert a cell of a frame: NaN, NaT, arrays and numbers of numpy become plain values."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, list | tuple | Mapping):
        return value
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        value = value.tolist()
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()  # NaT
    return None if type(value).__name__ == "NAType" else value
