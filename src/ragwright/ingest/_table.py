"""Rows as documents: Parquet files, folders of them, Delta tables, collections of BEIR."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ..core import (
    Document,
    DuplicateIdError,
    EmptySourceError,
    MalformedSourceError,
    RagwrightError,
    SourceError,
    UnsupportedSourceError,
    count_noun,
    require,
    suggest_name,
)
from ._files import relative_id
from ._normalise import clean_metadata, guess_language, normalise
from ._options import SourceOptions
from ._seams import Failure, Reader, RemoteFile, SourceFile

_PURPOSE = "reading tables"
_ROWS = 256
"""Rows in memory at a time."""


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
        self, options: SourceOptions, base: Path | None = None, home: Path | None = None
    ) -> None:
        self.options = options
        self._base = base or Path.cwd()
        self._home = Path(os.path.abspath(home or self._base))  # noqa: PTH100

    def accepts(self, source: str) -> bool:
        """Return True for any source: its columns say that it is a table."""
        return True

    def files(self, source: str) -> Iterator[SourceFile | Failure]:
        """List the row groups of the table's files, each with a version; reads the files' ends."""
        parquet = require("pyarrow.parquet", "records", _PURPOSE)
        for path in self._files(source):
            try:
                with parquet.ParquetFile(path) as file:
                    there = file.schema_arrow.names
                    groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
                    sizes = [int(group.total_byte_size) for group in groups]
                status = path.stat()
            except (OSError, ValueError, NotImplementedError) as error:  # as pyarrow raises them
                yield Failure(
                    self._name_in_project(path), _table_error(error, self._name_in_project(path))
                )
                continue
            missing = [name for name in self._columns() if name not in there]
            if missing:
                fault = SourceError(
                    f"the table has no column {missing[0]!r}",
                    where=self._name_in_project(path),
                    hint=suggest_name(missing[0], there),
                )
                yield Failure(self._name_in_project(path), fault)
                continue
            version = f"{status.st_mtime_ns} {status.st_size}"
            for number, size in enumerate(sizes):
                yield RemoteFile(f"{path.absolute()}#{number}", version, size)

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

    def _name_in_project(self, path: Path) -> str:
        return relative_id(Path(os.path.abspath(path)), self._home)  # noqa: PTH100

    def _columns(self) -> list[str]:
        options = self.options
        named = [options.id_column, options.text_column, options.title_column]
        return [name for name in dict.fromkeys([*named, *options.metadata_columns]) if name]

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of one part of a table."""
        assert isinstance(path, RemoteFile)
        file, _, group = path.id.rpartition("#")
        parquet = require("pyarrow.parquet", "records", _PURPOSE)
        name = self._name_in_project(Path(file))
        empty: list[int] = []
        try:
            with parquet.ParquetFile(file) as table:
                wanted = {"row_groups": [int(group)], "columns": self._columns()}
                batches = (batch.to_pylist() for batch in table.iter_batches(_ROWS, **wanted))
                for number, row in enumerate(chain.from_iterable(batches)):
                    item = self._document(row, name, f"{name}, row {number}")
                    if item is None:
                        empty.append(number)
                    else:
                        yield item
        except (OSError, ValueError) as error:
            yield Failure(name, _table_error(error, name))
        if empty:
            where = f"{name}, row group {group}, row {empty[0]}"
            nothing = UnsupportedSourceError(
                f"{count_noun(len(empty), 'row')} without text", where=where
            )
            yield Failure(name, nothing, skipped=True)

    def _document(self, row: dict[str, Any], name: str, where: str) -> Document | Failure | None:
        """Return the document of a row; None if it has no text."""
        options = self.options
        text, key = row[options.text_column], row[options.id_column]
        if key is None or str(key) == "":
            return Failure(where, MalformedSourceError("the row has no id", where=where))
        text = normalise("" if text is None else str(text))
        if not text.strip():
            return None
        title = row.get(options.title_column)
        return Document(
            id=str(key),
            source=f"{name}#{key}",
            text=text,
            title=" ".join(normalise("" if title is None else str(title)).split()),
            language=guess_language(text),
            media_type="application/vnd.apache.parquet",
            metadata=clean_metadata({c: row[c] for c in options.metadata_columns}),
        )


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
        raise _table_error(error, str(path)) from error
    if any("deletionVectors" in str(feature) for feature in features):
        raise UnsupportedSourceError(
            "the Delta table has deletion vectors",
            where=str(path),
            hint="rewrite it without them (REORG TABLE … APPLY (PURGE)), or export it as Parquet",
        )
    files = (unquote(urlsplit(uri).path) if uri.startswith("file:") else uri for uri in uris)
    return sorted(Path(file) for file in files)


def _table_error(error: Exception, where: str) -> MalformedSourceError:
    return MalformedSourceError(
        f"the table cannot be read: {error}", where=where, hint="write the file again"
    )


_SAMPLE = 50
"""Number of documents from which the language of a collection is detected."""


class BeirReader(Reader):
    """Reads ``beir:DIR``: lines ``{"_id", "title", "text", "metadata"}`` of ``corpus.jsonl``.

    ``corpus.jsonl.gz`` is read where the plain file is absent. A document's id is its
    ``_id``; a text that is empty is replaced by the title. A line that is not a document, or
    repeats an id, is a failure that names it, and reading continues. Memory is constant except for
    the ids. The language is detected once for the collection, unless metadata names it.

    Args:
        base: Folder that relative paths start from.
    """

    name = "beir"

    def __init__(self, base: Path | None = None) -> None:
        self.base = base or Path()

    def accepts(self, source: str) -> bool:
        """True for ``beir:``."""
        return source.lower().startswith("beir:")

    def files(self, source: str) -> Iterator[Path | Failure]:
        """Return the corpus file of the folder."""
        folder = self.base / Path(source.partition(":")[2]).expanduser()
        path = next(
            (p for p in (folder / "corpus.jsonl", folder / "corpus.jsonl.gz") if p.is_file()), None
        )
        if path is not None:
            yield path
            return
        error = UnsupportedSourceError(
            "the folder contains no corpus.jsonl or corpus.jsonl.gz",
            where=str(folder),
            hint="give the folder to which a BEIR data set was unpacked",
        )
        yield Failure(source, error)

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        """Read the documents of a corpus file, in its order."""
        assert isinstance(path, Path)
        items = _read_lines(path, f"beir:{path.parent}")
        first = list(islice(items, _SAMPLE))
        if not first:
            error = EmptySourceError(
                "the corpus contains no document",
                where=str(path),
                hint="write one object per line, or download the data set again",
            )
            yield Failure(f"beir:{path.parent}", error)
        texts = (item.text[:400] for item in first if isinstance(item, Document))
        language = guess_language("\n".join(texts))
        for item in chain(first, items):
            if isinstance(item, Document):
                stated = item.metadata.get("language")
                yield replace(item, language=str(stated or language))
            else:
                yield item


def _read_lines(path: Path, source: str) -> Iterator[Document | Failure]:
    """Yield the document of each line, or its failure."""
    lines: dict[str, int] = {}
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    document = _document(line, f"{path}:{number}") if line.strip() else None
                    if document and lines.setdefault(document.id, number) != number:
                        raise DuplicateIdError(
                            f"the id {document.id!r} is on line {lines[document.id]} and again on "
                            f"line {number}",
                            where=f"{path}:{number}",
                            hint="make the ids unique; the first document was kept",
                        )
                except RagwrightError as error:
                    yield Failure(source, error)
                    continue
                if document:
                    yield document
    except (OSError, EOFError, zlib.error) as error:
        yield Failure(
            source,
            MalformedSourceError(
                f"the rest of the file cannot be read: {error}",
                where=f"{path}:{number + 1}",
                hint="unpack or download it again; the documents before were kept",
            ),
        )


def _document(line: bytes, where: str) -> Document:
    """Read a line.

    Raises:
        MalformedSourceError: It is not a JSON object with an id and texts.
        EmptySourceError: Neither title nor text.
    """
    try:
        record = json.loads(line.decode("utf-8-sig"))
        values = (record["_id"], *(record.get(name) for name in ("title", "text", "metadata")))
        expected = (str | int, str | None, str | None, dict | None)
        named = not isinstance(values[0], bool) and str(values[0]).strip()
        if not named or not all(map(isinstance, values, expected)):
            raise TypeError("_id, title and text must be strings, metadata an object")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise MalformedSourceError(
            f"the line is not a document: {type(error).__name__}: {error}",
            where=where,
            hint='write one object per line, in UTF-8: {"_id": "1", "title": "…", "text": "…"}',
        ) from error
    title = " ".join(normalise(values[1] or "").split())
    text = normalise(values[2] or "")
    if not title and not text.strip():
        raise EmptySourceError(f"document {values[0]!r} has neither title nor text", where=where)
    return Document(
        id=str(values[0]),
        source=where,
        text=text if text.strip() else title,
        title=title,
        metadata=clean_metadata(values[3] or {}),
    )
