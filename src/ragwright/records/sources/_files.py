"""Rows of files: one, those of a folder, or those that a pattern names."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from ...core import RecordsError, count_noun
from .._seams import pa, parquet
from ..declared import SourceSpec
from ._batches import (
    ROWS,
    RowBatch,
    RowFile,
    RowSource,
    column_of,
    encoding_of,
    undecodable,
    unreadable,
)

_JSONL = (".json", ".jsonl", ".ndjson")
_PARQUET = (".parquet", ".pq")
_SUFFIXES = (".csv", ".tab", ".tsv", ".jsonl", ".ndjson", *_PARQUET)

_RACY_NS = 2_000_000_000
"""A file changed within this time of being looked at may change again under the same times."""


class FileSource(RowSource):
    """Files in the order of their names; a column that one of them lacks is null there."""

    def __init__(self, spec: SourceSpec, root: Path) -> None:
        self._spec = spec
        self._root = root

    def stamp(self) -> str:
        """Return sizes and times of all files; empty if one changed just now."""
        stamps: list[list[object]] = []
        now = time.time_ns()
        for path in self._paths:
            try:
                status = path.stat()
            except OSError as error:
                raise unreadable(path, error) from error
            times = (status.st_mtime_ns, status.st_ctime_ns)
            if now - max(times) < _RACY_NS:
                return ""
            stamps.append([str(path), status.st_size, *times])
        return json.dumps(stamps)

    def batches(self, since: str = "") -> Iterator[RowBatch]:
        """Yield all rows, file by file; ``since`` is for databases."""
        # all files are looked at before the first row goes on
        names = list(dict.fromkeys(name for file in self._files for name in file.columns))
        for file in self._files:
            for batch in file.batches():
                there, count = batch.rows.column_names, batch.rows.num_rows
                columns = [batch.rows[name] if name in there else pa.nulls(count) for name in names]
                yield replace(batch, rows=pa.table(columns, names=names))

    @cached_property
    def _files(self) -> Sequence[RowFile]:
        return [self._file(path) for path in self._paths]

    def _file(self, path: Path) -> RowFile:
        name = str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)
        suffix = path.suffix.lower()
        if suffix in _PARQUET:
            return ParquetFile(path, name)
        if suffix in _JSONL:
            return JsonlFile(path, name, self._spec.encoding)
        return DelimitedFile(path, name, self._spec.encoding, self._spec.delimiter)

    @cached_property
    def _paths(self) -> Sequence[Path]:
        source = self._spec.source
        path = Path(source).expanduser()
        path = path if path.is_absolute() else self._root / path
        if path.is_file():
            return [path]
        anchor, wanted = Path(path.anchor), source
        if path.is_dir():
            wanted = f"*{' *'.join(_SUFFIXES)}"
            paths = [
                p
                for p in path.rglob("*")
                if p.suffix.lower() in _SUFFIXES
                and not any(part.startswith(".") for part in p.relative_to(path).parts)
            ]
        elif any(mark in source for mark in "*?["):
            paths = list(anchor.glob(str(path.relative_to(anchor))))
        else:
            raise RecordsError(
                f"no such file or folder: {source}",
                where=self._spec.place("source"),
                hint=f"looked in {path.parent.resolve()}",
            )
        files = sorted(filter(Path.is_file, paths))
        if not files:
            raise RecordsError(
                f"{source!r} contains no files to read",
                where=self._spec.place("source"),
                hint=f"looked for {wanted}",
            )
        return files


class ParquetFile(RowFile):
    """One Parquet file, read a few thousand rows at a time."""

    @cached_property
    def columns(self) -> Sequence[str]:
        """Columns of the file's schema."""
        with self._opened() as file:
            return list(file.schema_arrow.names)

    def batches(self) -> Iterator[RowBatch]:
        """Read rows in the file's order."""
        row = 1
        with self._opened() as file:
            batches = file.iter_batches(batch_size=ROWS, use_threads=True)
            while True:
                try:
                    batch = next(batches, None)
                    if batch is not None:
                        batch.validate(full=True)  # texts may hold bytes that are no UTF-8
                except (pa.ArrowException, OSError) as error:
                    raise RecordsError(
                        f"the file is damaged: {error}", where=f"{self.name}, row {row}"
                    ) from error
                if batch is None:
                    return
                rows = pa.Table.from_batches([batch])
                for at, column in enumerate(rows.schema):
                    if pa.types.is_dictionary(column.type):
                        plain = rows.column(at).cast(column.type.value_type)
                        rows = rows.set_column(at, column.name, plain)
                yield RowBatch(rows, self.name, range(row, row + batch.num_rows))
                row += batch.num_rows

    def _opened(self) -> Any:
        try:
            return parquet.ParquetFile(self.path, pre_buffer=False, memory_map=False)
        except pa.ArrowException as error:
            raise RecordsError(f"not a Parquet file: {error}", where=self.name) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


_DELIMITERS = ",\t;|"

_LONGEST = 2**31 - 1
"""Characters of a value, for Python's reader, which stops at 131,072 otherwise."""


class DelimitedFile(RowFile):
    r"""A CSV file or similar, with a header line; quoted values may contain line breaks.

    An empty value is an empty text and not null; nothing is taken for a number, a date or a
    null. In tab separated files quotes are only quotes where all of the file agrees with that:
    ``"Gimme a few" was`` is a value of its own.

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
    def columns(self) -> Sequence[str]:
        """The names in the header."""
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
        return names

    def batches(self) -> Iterator[RowBatch]:
        """Read some thousand rows at a time; all columns are text."""
        first, records = 1, islice(self._complete_records(), 1, None)
        while taken := [fields for _, fields in islice(records, ROWS)]:
            values = [pa.array(column, pa.string()) for column in zip(*taken, strict=True)]
            rows = pa.table(values, names=self.columns)
            yield RowBatch(rows, self.name, range(first, first + len(taken)))
            first += len(taken)

    def _complete_records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and values of every record, the header's first."""
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
                raise undecodable(self.path, self._encoding) from error

    def _text(self, errors: str = "strict") -> IO[str]:
        try:
            return self.path.open(encoding=self._encoding, errors=errors, newline="")
        except OSError as error:
            raise unreadable(self.path, error) from error


class JsonlFile(RowFile):
    """One JSON object a line; it is read twice, once for its columns and once for its rows.

    A field that is not there is null; no text is taken for a date.
    """

    def __init__(self, path: Path, name: str, encoding: str = "") -> None:
        super().__init__(path, name)
        self._named = encoding

    @cached_property
    def columns(self) -> Sequence[str]:
        """Columns in the order of their first occurrence."""
        return list(dict.fromkeys(name for _, row in self._rows() for name in row))

    def batches(self) -> Iterator[RowBatch]:
        """Read some thousand lines at a time."""
        rows = self._rows()
        while taken := list(islice(rows, ROWS)):
            columns = [column_of([row.get(name) for _, row in taken]) for name in self.columns]
            lines = [line for line, _ in taken]
            yield RowBatch(pa.table(columns, names=self.columns), self.name, lines)

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line number and object of every line that is not blank."""
        encoding = encoding_of(self.path, self._named)
        try:
            with self.path.open(encoding=encoding, newline="\n") as file:
                for line, text in enumerate(file, 1):
                    if text.strip():
                        yield line, _decode(text, f"{self.path}:{line}")
        except UnicodeDecodeError as error:
            raise undecodable(self.path, encoding) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


def _decode(text: str, where: str) -> dict[str, Any]:
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
    return row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} occurs twice")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_once)
