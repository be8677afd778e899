"""Files of text: delimited ones, whose values are texts, and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from ...core import RecordsError, count_noun
from .._seams import pa
from ._batches import (
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
)

_DELIMITERS = ",\t;|"

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
        """True if a quote at the beginning of a value opens a quoted value."""
        if self._delimiter != "\t":
            return True
        try:
            return len({len(fields) for _, fields in self._records(quoted=True)}) == 1
        except csv.Error:
            return False

    @cached_property
    def columns(self) -> Columns:
        """The columns; all are text."""
        _, names = next(self._complete_records(), (0, []))
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
        return dict.fromkeys(names, pa.string())

    def pieces(self) -> Iterator[RowBatch]:
        """Read some thousand rows at a time."""
        first, records = 1, islice(self._complete_records(), 1, None)
        while taken := [fields for _, fields in islice(records, _ROWS)]:
            values = (pa.array(column, pa.string()) for column in zip(*taken, strict=True))
            rows = pa.table(dict(zip(self.columns, values, strict=True)))
            yield piece(rows, self.name, first)
            first += len(taken)

    def _complete_records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and values of every record, the header's first.

        Raises:
            RecordsError: A record has more or fewer values than the header, or a quote does not
                close; it is named.
        """
        wanted, line = 0, 1
        try:
            for line, fields in self._records(quoted=self._quoted):
                wanted = wanted or len(fields)
                if len(fields) != wanted:
                    raise RecordsError(
                        f"the row has {len(fields)} values, but the header has "
                        f"{count_noun(wanted, 'column')}",
                        where=f"{self.name}:{line}",
                        hint="quote values that hold the delimiter or a line break",
                    )
                yield line, fields
        except csv.Error as error:
            raise RecordsError(
                f"a quoted value of the row after line {line} does not end correctly: {error}",
                where=f"{self.name}:{line}",
                hint='within quotes a quote is written twice: "say ""hi"""',
            ) from error

    def _records(self, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
        """Yield the line where a record begins, and its values; blank lines are skipped."""
        csv.field_size_limit(_LONGEST)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        line = 1
        with self._text() as file:
            reader = csv.reader(file, delimiter=self._delimiter, quoting=quoting, strict=True)
            try:
                for fields in reader:
                    if fields:
                        yield line, fields
                    line = reader.line_num + 1
            except UnicodeError as error:
                for _ in line_blocks(self.path, self._encoding):
                    pass  # it names the line
                raise RecordsError(
                    f"the file is not encoded as {self._encoding}", where=self.name
                ) from error

    def _text(self, errors: str = "strict") -> IO[str]:
        try:
            return self.path.open(encoding=self._encoding, errors=errors, newline="")
        except OSError as error:
            raise unreadable(self.path, error) from error


class JsonlFile(RowFile):
    """One JSON object a line; it is read twice, once for its columns and once for its rows.

    A field that is not there is null. Types are those of the whole file; no text is taken for a
    date.

    Args:
        path: The file.
        name: What it is called in messages.
        encoding: Its encoding; that of its byte order mark, else UTF-8, where empty.
    """

    def __init__(self, path: Path, name: str, encoding: str = "") -> None:
        super().__init__(path, name)
        self._named = encoding

    @cached_property
    def columns(self) -> Columns:
        """Columns in the order of their first occurrence."""
        kinds: dict[str, set[str]] = {}
        rows = 0
        for _, row in self._rows():
            rows += 1
            for name, value in row.items():
                kinds.setdefault(name, set()).add(kind_of(value))
        if rows and not kinds:
            raise RecordsError("the objects have no fields", where=self.name)
        return {name: type_of(column_kinds) for name, column_kinds in kinds.items()}

    def pieces(self) -> Iterator[RowBatch]:
        """Read some thousand lines at a time."""
        rows = self._rows()
        while taken := list(islice(rows, _ROWS)):
            if {name for _, row in taken for name in row} - self.columns.keys():
                raise RecordsError("the file changed while it was read", where=self.name)
            columns = {
                name: column_of([row.get(name) for _, row in taken], kind)
                for name, kind in self.columns.items()
            }
            lines = np.array([at for at, _ in taken], np.int64)
            yield RowBatch(pa.table(columns), self.name, lines)

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line number and object of every line that is not blank.

        Raises:
            RecordsError: A line is no JSON object; it is named.
        """
        for block, line in line_blocks(self.path, encoding_of(self.path, self._named)):
            for at, text in enumerate(block.decode("utf-8").split("\n"), line):
                if not text.strip():
                    continue
                where = f"{self.path}:{at}"
                try:
                    row = _DECODER.decode(text)
                    if "\\u" in text:
                        json.dumps(row, ensure_ascii=False).encode("utf-8")
                except UnicodeEncodeError as error:
                    raise RecordsError(
                        "a field contains half of a character (a lone surrogate)",
                        where=where,
                        hint="write the complete character, or remove it",
                    ) from error
                except (ValueError, RecursionError) as error:
                    hint = "write one JSON object per line"
                    raise RecordsError(f"not JSON: {error}", where=where, hint=hint) from error
                if not isinstance(row, dict):
                    raise RecordsError(
                        "the line is not a JSON object",
                        where=where,
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
