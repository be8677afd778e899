"""Delimited files: every value is text, unchanged."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, count_noun
from .._seams import ArrowTable, compute, csv_files, json_files, pa
from ._batches import (
    EXACT,
    PLAIN,
    Columns,
    RowBatch,
    RowFile,
    column_of,
    encoding_of,
    kind_of,
    line_blocks,
    piece,
    type_of,
    unreadable,
    utf8_chunks,
)

_DELIMITERS = ",\t;|"

_BLOCK = 1 << 22
"""Bytes that Arrow parses at once; a longer row is read by Python."""

_ROWS = 4_096

_LONGEST = 2**31 - 1
"""Characters of a value, for Python's reader, which stops at 131,072 otherwise."""


class DelimitedFile(RowFile):
    r"""A CSV file or similar, with a header line; quoted values may contain line breaks.

    An empty value is an empty text and not null; nothing is taken for a number, a date or a
    null. In tab separated files quotes are only quotes where all of the file agrees with that:
    ``"Gimme a few" was`` is a value of its own.

    Args:
        path: The file.
        name: What it is called in messages.
        encoding: Its encoding; that of its byte order mark, else UTF-8, where empty.
        delimiter: What separates values; found in the header where empty.

    Raises:
        RecordsError: The delimiter is not one character of ASCII.
    """

    def __init__(self, path: Path, name: str, encoding: str = "", delimiter: str = "") -> None:
        super().__init__(path, name)
        self._named = encoding
        self._given = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if self._given and (len(self._given) > 1 or not self._given.isascii() or delimiter == '"'):
            raise RecordsError(
                f"{delimiter!r} is not a delimiter", hint="use one character: , ; or a tab"
            )

    def columns(self) -> Columns:
        """Return the columns; all are text."""
        return {name: pa.string() for name in self._header}

    @cached_property
    def _encoding(self) -> str:
        return encoding_of(self.path, self._named)

    @cached_property
    def _delimiter(self) -> str:
        if self._given:
            return self._given
        with self._text(errors="replace") as file:
            start = next((line for line in file if line.strip()), "")
        outside = "".join(start.split('"')[::2])
        return max(_DELIMITERS, key=lambda mark: (outside.count(mark), mark == ","))

    @cached_property
    def _quoted(self) -> bool:
        """True if a quote at the beginning of a value opens a quoted value.

        Raises:
            RecordsError: Only part of the quotes are, and the file is not tab separated.
        """
        chunks = utf8_chunks(self.path, self._encoding)
        tabs = self._delimiter == "\t"
        plain = (
            not any(b'"' in chunk for chunk in chunks)
            if tabs
            else well_quoted(chunks, self._delimiter)
        )
        if plain:
            return True
        # Quotes within values are not a fault, but only a reader of records can tell.
        widths, line = set(), 1
        try:
            for begin, fields in self._records(quoted=True):
                widths.add(len(fields))
                line = begin
        except csv.Error as error:
            if tabs:
                return False
            raise RecordsError(
                f"a quoted value of the row after line {line} does not end correctly: {error}",
                where=f"{self.name}:{line}",
                hint='within quotes a quote is written twice: "say ""hi"""',
            ) from error
        return not tabs or len(widths) == 1

    @cached_property
    def _header(self) -> list[str]:
        _, names = next(self._records(quoted=self._quoted), (0, []))
        names = [name.strip() or f"column_{at}" for at, name in enumerate(names, 1)]
        if not names:
            raise RecordsError(
                "the file is empty: not even a header line",
                where=self.name,
                hint="the first line must name the columns",
            )
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise RecordsError(
                f"the column {twice[0]!r} occurs twice",
                where=f"{self.name}:1",
                hint=f"the columns are: {', '.join(names)}",
            )
        return names

    def pieces(self) -> Iterator[RowBatch]:
        """Read rows by Arrow; by Python after a row that is longer than Arrow's blocks."""
        row = 1
        try:
            for batch in self._by_arrow():
                rows = pa.Table.from_batches([batch]).rename_columns(self._header)
                yield piece(rows, self.name, row)
                row += rows.num_rows
        except (pa.ArrowException, UnicodeError) as error:
            if "straddling" not in str(error):
                raise self._fault(error) from error
            yield from self._by_python(row)
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _by_arrow(self) -> Iterator[Any]:
        _, raw = next(self._records(quoted=self._quoted), (0, []))
        batches = csv_files.open_csv(
            self.path,
            read_options=csv_files.ReadOptions(
                block_size=_BLOCK, encoding="utf8" if self._encoding in PLAIN else self._encoding
            ),
            parse_options=csv_files.ParseOptions(
                delimiter=self._delimiter,
                quote_char='"' if self._quoted else False,
                newlines_in_values=self._quoted,
            ),
            convert_options=csv_files.ConvertOptions(
                column_types=dict.fromkeys(raw, pa.string()), null_values=[]
            ),
        )
        yield from batches

    def _by_python(self, first: int) -> Iterator[RowBatch]:
        """Read rows from row ``first`` on (from 1)."""
        records = self._complete_records()
        for row, _ in enumerate(records, 1):  # the header is the first record
            if row == first:
                break
        while taken := list(islice(records, _ROWS)):
            yield piece(self._table(taken), self.name, first)
            first += len(taken)

    def _table(self, rows: list[list[str]]) -> Any:
        columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        return pa.table(dict(zip(self._header, columns, strict=True)))

    def _complete_records(self) -> Iterator[list[str]]:
        """Yield the values of every record, the header's first.

        Raises:
            RecordsError: A record has more or fewer values than the header; it is named.
        """
        wanted = 0
        for line, fields in self._records(quoted=self._quoted):
            wanted = wanted or len(fields)
            if len(fields) != wanted:
                raise RecordsError(
                    f"the row has {len(fields)} values, but the header has "
                    f"{count_noun(wanted, 'column')}",
                    where=f"{self.name}:{line}",
                    hint="quote values that hold the delimiter or a line break",
                )
            yield fields

    def _fault(self, error: Exception) -> RecordsError:
        """Read again to find where Arrow failed."""
        try:
            for _ in self._complete_records():
                pass
        except RecordsError as fault:
            return fault
        except csv.Error as fault:
            return RecordsError(f"the file cannot be read: {fault}", where=self.name)
        return RecordsError(f"the file cannot be read: {error}", where=self.name)

    def _records(self, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
        """Yield the line where a record begins, and its values; blank lines are skipped."""
        csv.field_size_limit(_LONGEST)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        with self._text() as file:
            reader = csv.reader(file, delimiter=self._delimiter, quoting=quoting, strict=True)
            line = 1
            while True:
                try:
                    fields = next(reader, None)
                except UnicodeError as error:
                    raise self._undecodable() from error
                if fields is None:
                    return
                if fields:
                    yield line, fields
                line = reader.line_num + 1

    def _undecodable(self) -> RecordsError:
        """Find where the bytes are not of the encoding."""
        try:
            for _ in line_blocks(self.path, self._encoding):
                pass
        except RecordsError as fault:
            return fault
        return RecordsError(f"the file is not encoded as {self._encoding}", where=self.name)

    def _text(self, errors: str = "strict") -> IO[str]:
        try:
            return self.path.open(encoding=self._encoding, errors=errors, newline="")
        except OSError as error:
            raise unreadable(self.path, error) from error


def well_quoted(chunks: Iterable[bytes], delimiter: str) -> bool:
    """Return True if all quotes open values, close them, or are doubled within them.

    An open quote would swallow rows without a word; most files are cleared of that here, at
    the speed of memory.
    """
    beside = np.zeros(256, np.bool_)
    beside[[10, 13, ord('"'), ord(delimiter)]] = True
    held, inside = b"\n", 0
    for chunk in chain(chunks, (b"\n",)):
        data = np.frombuffer(held + chunk, np.uint8)
        at = np.flatnonzero(data[1:-1] == ord('"')) + 1
        opening, closing = at[inside::2], at[1 - inside :: 2]
        if not (beside[data[opening - 1]].all() and beside[data[closing + 1]].all()):
            return False
        inside ^= len(at) & 1
        held = data[-2:].tobytes()
    return not inside


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
        blocks = line_blocks(self.path, self._encoding) if size and not kinds else ()
        if any(row for block, line in blocks for row in self._parsed(block, line)):
            raise RecordsError("the objects have no fields", where=self.name)
        return {name: type_of(column_kinds) for name, column_kinds in kinds.items()}

    def _kinds_by_python(self, block: bytes, line: int) -> dict[str, set[str]]:
        kinds: dict[str, set[str]] = {}
        for _, row in self._parsed(block, line):
            for name, value in row.items():
                kinds.setdefault(name, set()).add(kind_of(value))
        return kinds

    def pieces(self) -> Iterator[RowBatch]:
        """Read a block of lines at a time."""
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
        rows = list(self._parsed(block, line))
        strange = {name for _, row in rows for name in row} - set(schema.names)
        if strange:
            raise RecordsError("the file changed while it was read", where=self.name)
        columns = []
        for name, kind in zip(schema.names, schema.types, strict=True):
            try:
                columns.append(column_of([row.get(name) for _, row in rows], kind))
            except UnicodeEncodeError as error:
                broken = next(at for at, row in rows if _half(row.get(name)))
                raise RecordsError(
                    f"the field {name!r} contains half of a character (a lone surrogate)",
                    where=f"{self.path}:{broken}",
                    hint="write the complete character, or remove it",
                ) from error
        return RowBatch(
            pa.table(columns, schema=schema), self.name, np.array([at for at, _ in rows], np.int64)
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
    for name, kind in zip(present.names, present.types, strict=True):
        target = wanted.field(name).type
        whole = pa.types.is_integer(kind) and pa.types.is_floating(target)
        if kind != target and not whole and not pa.types.is_null(kind):
            return False
    return True


def _filled(piece: RowBatch, schema: Any) -> RowBatch:
    """Return rows with exactly the columns of a schema."""
    rows, present = piece.rows, set(piece.rows.schema.names)
    columns = [
        rows.column(name).cast(kind) if name in present else pa.nulls(rows.num_rows, kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return RowBatch(pa.table(columns, schema=schema), piece.file, piece.numbers)


def _large(column: ArrowTable) -> bool:
    bounds = compute.min_max(column).as_py()
    return bounds["max"] is not None and not -EXACT < bounds["min"] <= bounds["max"] < EXACT


def _read(block: bytes, schema: Any = None) -> ArrowTable | None:
    parsing = json_files.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "error"
    )
    for size in (1 << 20, len(block) + 1):
        try:
            options = json_files.ReadOptions(block_size=size)
            return json_files.read_json(pa.BufferReader(block), options, parsing)
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
