"""Rows of files: one, those of a folder, or those that a pattern names."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...core import RecordsError
from .._seams import pa, parquet
from ..declared import SourceSpec
from ._batches import (
    Columns,
    RowBatch,
    RowFile,
    Watermark,
    WatermarkedSource,
    common_type,
    encoding_of,
    piece,
    source_name,
    unreadable,
)
from ._csv import DelimitedFile, JsonlFile

_KINDS = {
    ".csv": "delimited",
    ".tab": "delimited",
    ".tsv": "delimited",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}

_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zX")
"""First bytes of gzip, zip (and spreadsheets), zstandard, bzip2 and xz files."""

_RACY_NS = 2_000_000_000
"""A file changed within this time of being looked at may change again under the same times."""


class FileSource(WatermarkedSource):
    """Files in the order of their names; a column that one of them lacks is null there."""

    def __init__(self, spec: SourceSpec, root: Path) -> None:
        self._spec = spec
        self._root = root
        super().__init__()

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

    def _pieces(self, since: str) -> Iterator[RowBatch]:
        self._watermark = Watermark(since)
        column = source_name(self._spec, self._spec.watermark)
        _ = self._columns  # all files are looked at before the first row goes on
        for file in self._files:
            for rows in file.pieces():
                cast = self._cast(rows)
                if column in cast.rows.schema.names:
                    wanted = self._watermark.wanted(cast.rows.column(column))
                    cast = cast if wanted.all() else cast.filter(wanted)
                yield cast

    def _cast(self, piece: RowBatch) -> RowBatch:
        columns = []
        for name, kind in self._columns.items():
            if name not in piece.rows.schema.names:
                columns.append(pa.nulls(piece.rows.num_rows, kind))
                continue
            try:
                columns.append(piece.rows.column(name).cast(kind))
            except pa.ArrowException as error:
                raise RecordsError(
                    f"the column {name!r} has another type than in other files, and cannot be "
                    f"converted to {kind} without loss: {error}",
                    where=piece.file,
                    hint="store it as one type in all files",
                ) from error
        return RowBatch(pa.table(columns, names=list(self._columns)), piece.file, piece.numbers)

    @cached_property
    def _columns(self) -> Columns:
        kinds: dict[str, list[Any]] = {}
        for file in self._files:
            for name, kind in file.columns.items():
                kinds.setdefault(name, []).append(kind)
        types = {name: common_type(*several) for name, several in kinds.items()}
        return {n: pa.string() if pa.types.is_null(kind) else kind for n, kind in types.items()}

    @cached_property
    def _files(self) -> Sequence[RowFile]:
        return [self._file(path) for path in self._paths]

    def _file(self, path: Path) -> RowFile:
        name = str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)
        kind = _KINDS.get(path.suffix.lower()) or _sniffed(path, self._spec.encoding)
        if kind == "parquet":
            return ParquetFile(path, name)
        if kind == "jsonl":
            return JsonlFile(path, name, self._spec.encoding)
        return DelimitedFile(path, name, self._spec.encoding, self._spec.delimiter)

    @cached_property
    def _paths(self) -> Sequence[Path]:
        source = self._spec.source
        path = Path(source).expanduser()
        path = path if path.is_absolute() else self._root / path
        if path.is_file():
            return [path]
        if path.is_dir():
            inside = (
                p
                for p in path.rglob("*")
                if p.suffix.lower() in _KINDS
                and p.is_file()
                and not any(part.startswith(".") for part in p.relative_to(path).parts)
            )
            return self._some_files(sorted(inside), f"*{' *'.join(sorted(_KINDS))}")
        if any(mark in source for mark in "*?["):
            anchor = Path(path.anchor)
            inside = (p for p in anchor.glob(str(path.relative_to(anchor))) if p.is_file())
            return self._some_files(sorted(inside), source)
        raise RecordsError(
            f"{source!r} does not exist",
            where=self._spec.place("source"),
            hint=_beside(path),
        )

    def _some_files(self, paths: list[Path], wanted: str) -> list[Path]:
        if not paths:
            raise RecordsError(
                f"{self._spec.source!r} contains no files to read",
                where=self._spec.place("source"),
                hint=f"looked for {wanted}",
            )
        return paths


def _beside(path: Path) -> str:
    """List the files in the folder of a missing file."""
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in _KINDS)
    folder = folder.resolve()  # what "." is, depends on who reads
    return f"in {folder} there are: {', '.join(names[:10])}" if names else f"looked in {folder}"


def _sniffed(path: Path, encoding: str) -> str:
    """Detect the kind of a file without a known suffix by its beginning."""
    try:
        with path.open("rb") as file:
            start_bytes = file.read(4)
        if start_bytes == b"PAR1":
            return "parquet"
        if start_bytes.startswith(_PACKED):
            raise RecordsError(
                "the file is compressed, or an archive",
                where=str(path),
                hint="unpack it first; CSV, TSV, JSONL and Parquet files are read",
            )
        with path.open(encoding=encoding_of(path, encoding), errors="replace") as text:
            start = next((line for line in text if line.strip()), "")
    except OSError as error:
        raise unreadable(path, error) from error
    json_text = path.suffix.lower() == ".json" or start.lstrip().startswith("{")
    return "jsonl" if json_text else "delimited"


_ROWS = 8_192


class ParquetFile(RowFile):
    """One Parquet file, read a few thousand rows at a time."""

    @cached_property
    def columns(self) -> Columns:
        """Columns and types of the file's schema."""
        with self._opened() as file:
            return {
                column.name: column.type.value_type
                if pa.types.is_dictionary(column.type)
                else column.type
                for column in file.schema_arrow
            }

    def pieces(self) -> Iterator[RowBatch]:
        """Read rows in the file's order."""
        schema = pa.schema(list(self.columns.items()))
        row = 1
        with self._opened() as file:
            batches = file.iter_batches(batch_size=_ROWS, use_threads=True)
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
                yield piece(pa.Table.from_batches([batch]).cast(schema), self.name, row)
                row += batch.num_rows

    def _opened(self) -> Any:
        try:
            return parquet.ParquetFile(self.path, pre_buffer=False, memory_map=False)
        except pa.ArrowException as error:
            raise RecordsError(f"not a Parquet file: {error}", where=self.name) from error
        except OSError as error:
            raise unreadable(self.path, error) from error
