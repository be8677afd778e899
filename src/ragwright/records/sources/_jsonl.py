"""JSON lines: Arrow's reader where it reads right, Python's where it refuses or would guess."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require
from .._seams import ArrowTable
from ._batches import RowBatch
from ._file import Columns, RowFile
from ._text import encoding_of, line_blocks
from ._values import EXACT, column_of, kind_of, type_of

_KEPT = 96 * 2**20
"""Bytes of a file whose rows are kept from the first reading to the second."""

_BLANK = re.compile(rb"\n[ \t\r\n]")
"""The beginning of a line that is blank, or may be."""


class JsonlFile(RowFile):
    """One JSON object a line; it is read twice, once for its columns and once for its rows.

    A field that is not there is null. Types are those of the whole file
    (:mod:`._values`); no text is taken for a date.

    Args:
        path: The file.
        name: What it is called in messages.
        encoding: Its encoding; that of its byte order mark, else UTF-8, where empty.
        keep: Hold the rows of a small file in memory between the two readings.
    """

    def __init__(self, path: Path, name: str, encoding: str = "", *, keep: bool = False) -> None:
        super().__init__(path, name)
        self._named = encoding
        self._kept: list[RowBatch] | None = [] if keep else None

    def columns(self) -> Columns:
        """Return columns in the order of their first occurrence."""
        return self._columns

    @cached_property
    def _encoding(self) -> str:
        return encoding_of(self.path, self._named)

    @cached_property
    def _columns(self) -> Columns:
        kinds: dict[str, set[str]] = {}
        size = 0
        for block, line in line_blocks(self.path, self._encoding):
            read = self._by_arrow(block, line)
            by_arrow = None if read is None else _kinds_by_arrow(read.rows)
            size += len(block)
            if read is None or by_arrow is None or size > _KEPT:
                self._kept = None
            elif self._kept is not None:
                self._kept.append(read)
            for name, column_kinds in (by_arrow or self._kinds_by_python(block, line)).items():
                kinds.setdefault(name, set()).update(column_kinds)
        if size and not kinds and any(self._parsed_blocks()):
            raise RecordsError("the objects have no fields", where=self.name)
        return {name: type_of(column_kinds) for name, column_kinds in kinds.items()}

    def _parsed_blocks(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for block, line in line_blocks(self.path, self._encoding):
            yield from self._parsed(block, line)

    def _kinds_by_python(self, block: bytes, line: int) -> dict[str, set[str]]:
        kinds: dict[str, set[str]] = {}
        for _, row in self._parsed(block, line):
            for name, value in row.items():
                kinds.setdefault(name, set()).add(kind_of(value))
        return kinds

    def pieces(self) -> Iterator[RowBatch]:
        """Read a block of lines at a time."""
        pa = require("pyarrow", "records", "reading records")
        schema = pa.schema(list(self._columns.items()))
        kept, self._kept = self._kept, None
        if kept and all(_fits(piece.rows.schema, schema) for piece in kept):
            yield from (_filled(piece, schema) for piece in kept)
            return
        for block, line in line_blocks(self.path, self._encoding):
            read = self._by_arrow(block, line, schema)
            yield self._rows_by_python(block, line, schema) if read is None else read

    def _by_arrow(self, block: bytes, line: int, schema: Any = None) -> RowBatch | None:
        """Read a block of lines; None if Arrow refuses, or there is not one row per line."""
        rows = _read(block, schema)
        lines = None if rows is None else _lines(block, line, rows.num_rows)
        if rows is None or lines is None:
            return None
        return RowBatch(rows if schema is None else rows.select(schema.names), self.name, lines)

    def _rows_by_python(self, block: bytes, line: int, schema: Any) -> RowBatch:
        pa = require("pyarrow", "records", "reading records")
        rows = list(self._parsed(block, line))
        strange = {name for _, row in rows for name in row} - set(schema.names)
        if strange:
            raise RecordsError("the file changed while it was read", where=self.name)
        columns = []
        for name, kind in zip(schema.names, schema.types, strict=True):
            try:
                columns.append(column_of([row.get(name) for _, row in rows], kind))
            except UnicodeEncodeError as error:
                raise self._half_pair(rows, name) from error
        numbers = np.array([at for at, _ in rows], np.int64)
        return RowBatch(pa.table(columns, schema=schema), self.name, numbers)

    def _half_pair(self, rows: list[tuple[int, dict[str, Any]]], name: str) -> RecordsError:
        broken = next(at for at, row in rows if _half(row.get(name)))
        return RecordsError(
            f"the field {name!r} contains half of a character (a lone surrogate)",
            where=f"{self.path}:{broken}",
            hint="write the complete character, or remove it",
        )

    def _parsed(self, block: bytes, line: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line number and object of every line that is not blank.

        Raises:
            RecordsError: A line is no JSON object; it is named.
        """
        for at, text in enumerate(block.decode("utf-8").split("\n"), line):
            if not text.strip():
                continue
            try:
                row = _DECODER.decode(text)
            except (ValueError, RecursionError) as error:
                raise RecordsError(
                    f"not JSON: {error}",
                    where=f"{self.path}:{at}",
                    hint="write one JSON object per line",
                ) from error
            if not isinstance(row, dict):
                raise RecordsError(
                    "the line is not a JSON object",
                    where=f"{self.path}:{at}",
                    hint='write one JSON object per line: {"id": 1, "text": "…"}',
                )
            yield at, row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} occurs twice")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _kinds_by_arrow(rows: ArrowTable) -> dict[str, set[str]] | None:
    """Return kinds of values by column; None if Arrow cannot tell."""
    pa = require("pyarrow", "records", "reading records")
    kinds: dict[str, set[str]] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        kind = column.type
        if pa.types.is_nested(kind):
            kinds[name] = {"other"}
        elif pa.types.is_null(kind):
            kinds[name] = set()
        elif pa.types.is_boolean(kind):
            kinds[name] = {"bool"}
        elif pa.types.is_integer(kind):
            kinds[name] = {"long" if _large(column) else "int"}
        elif pa.types.is_floating(kind):
            if _large(column):  # perhaps a whole number that lost digits
                return None
            kinds[name] = {"float"}
        else:
            kinds[name] = {"text"}
    return kinds


def _fits(present: Any, wanted: Any) -> bool:
    """Return True if columns as Arrow inferred them convert to the wanted ones without loss."""
    pa = require("pyarrow", "records", "reading records")
    for name, kind in zip(present.names, present.types, strict=True):
        target = wanted.field(name).type
        whole = pa.types.is_integer(kind) and pa.types.is_floating(target)
        if kind != target and not whole and not pa.types.is_null(kind):
            return False
    return True


def _filled(piece: RowBatch, schema: Any) -> RowBatch:
    """Return rows with exactly the columns of a schema."""
    pa = require("pyarrow", "records", "reading records")
    rows, present = piece.rows, set(piece.rows.schema.names)
    columns = [
        rows.column(name).cast(kind) if name in present else pa.nulls(rows.num_rows, kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return RowBatch(pa.table(columns, schema=schema), piece.file, piece.numbers)


def _large(column: ArrowTable) -> bool:
    compute = require("pyarrow.compute", "records", "reading records")
    bounds = compute.min_max(column).as_py()
    return bounds["max"] is not None and not -EXACT < bounds["min"] <= bounds["max"] < EXACT


def _read(block: bytes, schema: Any = None) -> ArrowTable | None:
    pa = require("pyarrow", "records", "reading records")
    reader = require("pyarrow.json", "records", "reading records")
    parsing = reader.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "error"
    )
    for size in (1 << 20, len(block) + 1):
        try:
            options = reader.ReadOptions(block_size=size)
            return reader.read_json(pa.BufferReader(block), options, parsing)
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                return None
    return None


def _lines(block: bytes, line: int, rows: int) -> NDArray[np.int64] | None:
    """Return the lines of rows, without blank ones; None if there is not one row per line."""
    blank = block[:1].isspace() or _BLANK.search(block)
    if not blank and block.count(b"\n") + (not block.endswith(b"\n")) == rows:
        return np.arange(line, line + rows, dtype=np.int64)
    lines = [at for at, text in enumerate(block.split(b"\n"), line) if text.strip()]
    return np.array(lines, np.int64) if len(lines) == rows else None


def _half(value: Any) -> bool:
    try:
        str(value).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
