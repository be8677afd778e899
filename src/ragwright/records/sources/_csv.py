"""Delimited files: every value is text, unchanged."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from ...core import RecordsError, count_noun, require
from ._batches import RowBatch, piece
from ._file import Columns, RowFile
from ._text import PLAIN, encoding_of, line_blocks, unreadable, utf8_chunks

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
        pa = require("pyarrow", "records", "reading records")
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
        pa = require("pyarrow", "records", "reading records")
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
        pa = require("pyarrow", "records", "reading records")
        reader = require("pyarrow.csv", "records", "reading records")
        _, raw = next(self._records(quoted=self._quoted), (0, []))
        encoding = "utf8" if self._encoding in PLAIN else self._encoding
        batches = reader.open_csv(
            self.path,
            read_options=reader.ReadOptions(block_size=_BLOCK, encoding=encoding),
            parse_options=reader.ParseOptions(
                delimiter=self._delimiter,
                quote_char='"' if self._quoted else False,
                newlines_in_values=self._quoted,
            ),
            convert_options=reader.ConvertOptions(
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
        pa = require("pyarrow", "records", "reading records")
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
