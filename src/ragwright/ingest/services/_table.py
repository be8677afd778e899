"""Tables with a column of texts: Parquet files, folders of them, and Delta tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ...core import (
    Document,
    MalformedSourceError,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
    near,
    require,
)
from .._files import relative_id
from .._language import guess_language
from .._normalise import clean_metadata, normalise
from .._options import TableOptions
from .._seams import Failure, FetchBytes, Reader, RemoteFile, SourceFile, read_files

_PURPOSE = "reading tables"
_ROWS = 256
"""Rows in memory at a time."""

_SLICE = 2_000
"""Least rows of a part of a row group."""
_SLICES = 32
"""Most parts of a row group: each decodes the rows before it too."""


class TableReader(Reader):
    """Reads rows of a table as documents, a batch in memory at a time.

    The parts of a table are what files are of a folder: those of an unchanged file are not read
    again, and the workers of a cluster read different ones.

    Args:
        options: Columns.
        base: Folder that relative paths start from; the working directory by default.
        home: Folder that sources are named relative to; ``base`` by default.
    """

    name = "table"

    def __init__(
        self, options: TableOptions, base: Path | None = None, home: Path | None = None
    ) -> None:
        self.options = options
        self._base = base or Path.cwd()
        self._home = Path(os.path.abspath(home or self._base))  # noqa: PTH100

    def accepts(self, source: str) -> bool:
        """Return True for any source: its columns say that it is a table."""
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Read the documents of all rows, in order."""
        return read_files(self, self.files(source))

    def files(self, source: str) -> Iterator[SourceFile | Failure]:
        """List the parts of the table's files, each with a version; reads only the files' ends."""
        try:
            parquet = require("pyarrow.parquet", "records", _PURPOSE)
            files = self._files(source)
        except RagwrightError as error:
            yield Failure(source, error)
            return
        for path in files:
            try:
                with parquet.ParquetFile(path) as file:
                    faults = self._faults(file.schema_arrow.names, path)
                    sizes = [
                        (file.metadata.row_group(n).num_rows, _bytes(file.metadata.row_group(n)))
                        for n in range(file.num_row_groups)
                    ]
                status = path.stat()
            except (OSError, ValueError, NotImplementedError) as error:  # as pyarrow raises them
                yield Failure(self._named(path), _damaged(error, self._named(path)))
                continue
            if faults is not None:
                yield Failure(self._named(path), faults)
                continue
            version = f"{status.st_mtime_ns} {status.st_size}"
            for group, (rows, size) in enumerate(sizes):
                yield from _parts(path, group, rows, size, version)

    def _files(self, source: str) -> Sequence[Path]:
        """List the Parquet files of a source, by name.

        Raises:
            SourceError: There are none.
        """
        if "://" in source:
            raise UnsupportedSourceError(
                "tables are read from local or mounted folders only",
                where=source,
                hint="mount the store, or copy the table",
            )
        path = self._base / Path(source).expanduser()
        if (path / "_delta_log").is_dir():
            return _delta_files(path)
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not files or not files[0].exists():
            raise SourceError(
                "no Parquet file found",
                where=str(path),
                hint="give a Parquet file, a folder of them, or the folder of a Delta table",
            )
        return files

    def _named(self, path: Path) -> str:
        return relative_id(Path(os.path.abspath(path)), self._home)  # noqa: PTH100

    def _columns(self) -> list[str]:
        options = self.options
        named = [options.id_column, options.text_column, options.title_column]
        return [name for name in dict.fromkeys([*named, *options.metadata_columns]) if name]

    def _faults(self, there: Sequence[str], path: Path) -> SourceError | None:
        """Return the error for columns that a file does not have."""
        missing = [name for name in self._columns() if name not in there]
        if not missing:
            return None
        return SourceError(
            f"the table has no column {missing[0]!r}",
            where=self._named(path),
            hint=near(missing[0], there),
        )

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of one part of a table."""
        assert isinstance(path, RemoteFile)
        file, _, part = path.id.rpartition("#")
        group, start, stop = (int(number) for number in part.split("-"))
        parquet = require("pyarrow.parquet", "records", _PURPOSE)
        name = self._named(Path(file))
        empty: list[int] = []
        try:
            with parquet.ParquetFile(file) as opened:
                at = 0
                batches = opened.iter_batches(_ROWS, row_groups=[group], columns=self._columns())
                for batch in batches:
                    if at >= stop:
                        break
                    if at + batch.num_rows > start:
                        rows = batch.slice(max(0, start - at), stop - max(at, start))
                        yield from self._documents(rows.to_pylist(), name, max(at, start), empty)
                    at += batch.num_rows
        except (OSError, ValueError) as error:
            yield Failure(name, _damaged(error, name))
        if empty:
            rows_said = f"{len(empty):,} rows have" if len(empty) > 1 else "1 row has"
            yield Failure(
                name,
                UnsupportedSourceError(
                    f"{rows_said} no text", where=f"{name}, row group {group}, row {empty[0]}"
                ),
                skipped=True,
            )

    def _documents(
        self, rows: Iterable[dict[str, Any]], name: str, at: int, empty: list[int]
    ) -> Iterator[Document | Failure]:
        """Yield a document for each row; counts rows without text in ``empty``."""
        options = self.options
        for number, row in enumerate(rows, at):
            text, key = row[options.text_column], row[options.id_column]
            if key is None or str(key) == "":
                place = f"{name}, row {number}"
                yield Failure(place, MalformedSourceError("the row has no id", where=place))
                continue
            cleaned = normalise(str(text)) if text is not None else ""
            if not cleaned.strip():
                empty.append(number)
                continue
            title = row[options.title_column] if options.title_column else None
            yield Document(
                id=str(key),
                source=f"{name}#{key}",
                text=cleaned,
                title=" ".join(normalise(str(title)).split()) if title is not None else "",
                language=guess_language(cleaned),
                media_type="application/vnd.apache.parquet",
                metadata=clean_metadata({c: row[c] for c in options.metadata_columns}),
            )


def _bytes(group: Any) -> int:
    return int(group.total_byte_size)


def _parts(path: Path, group: int, rows: int, size: int, version: str) -> Iterator[RemoteFile]:
    """List the parts of a row group."""
    step = max(_SLICE, -(-rows // _SLICES))
    for start in range(0, rows, step):
        stop = min(rows, start + step)
        share = size * (stop - start) // rows
        yield RemoteFile(f"{path.absolute()}#{group}-{start}-{stop}", version, share)


def _delta_files(path: Path) -> Sequence[Path]:
    """List the files of the current version of a Delta table.

    Raises:
        SourceError: It cannot be read without its deletion vectors.
        MissingExtraError: deltalake is not installed.
    """
    deltalake = require("deltalake", "delta", "reading Delta tables")
    try:
        table = deltalake.DeltaTable(str(path))
        features = table.protocol().reader_features or ()
        uris = table.file_uris()
    except Exception as error:
        raise _damaged(error, str(path)) from error
    if any("deletionVectors" in str(feature) for feature in features):
        raise UnsupportedSourceError(
            "the Delta table has deletion vectors",
            where=str(path),
            hint="rewrite it without them (REORG TABLE … APPLY (PURGE)), or export it as Parquet",
        )
    files = (unquote(urlsplit(uri).path) if uri.startswith("file:") else uri for uri in uris)
    return sorted(Path(file) for file in files)


def _damaged(error: Exception, where: str) -> MalformedSourceError:
    return MalformedSourceError(
        f"the table cannot be read: {error}", where=where, hint="write the file again"
    )
