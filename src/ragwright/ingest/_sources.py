"""From sources to documents: each source is read by the first reader that accepts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ..core import (
    PluginError,
    RagwrightError,
    SourceError,
    StoppedError,
    UnsupportedSourceError,
    find_additions,
    load_addition,
)
from ._apart import ScanProgress
from ._files import FileReader, RemoteReader
from ._options import SourceOptions
from ._seams import Failure, Reader, SourceFile, SuffixReader
from ._table import BeirReader
from ._web import ArxivReader, WebReader, WikipediaReader
from .parsers import check_parser

T = TypeVar("T")

_FORMS = (
    "a file, folder or pattern (manuals/*.pdf)",
    "https://…",
    "wikipedia:Title or wikipedia:fr:Titre",
    "arxiv:2401.01234 or arxiv:words?max=5",
    "beir:FOLDER",
    "s3://BUCKET/FOLDER, gs://, az://, sftp://, github://ORG:REPO@REF/, zip://::FILE.zip",
)


def default_readers(
    options: SourceOptions | None = None,
    base: Path | None = None,
    home: Path | None = None,
    scans: ScanProgress | None = None,
) -> tuple[Reader, ...]:
    """The readers in the order in which they are tried: of installed packages, then built-in.

    Args:
        options: What to read and within which limits.
        base: Folder that relative paths start from; the working directory by default.
        home: Folder that ids of documents are relative to; ``base`` by default.
        scans: Counts the pages that OCR reads.

    Raises:
        MissingExtraError: The parser that the options name is not installed.
    """
    if options is not None:
        check_parser(options)
    installed = tuple(load_reader(name) for name in find_additions("readers"))
    by_suffix = {
        suffix: reader
        for reader in installed
        if isinstance(reader, SuffixReader)
        for suffix in reader.suffixes
    }
    return (
        *installed,
        BeirReader(base),
        WikipediaReader(),
        ArxivReader(options),
        WebReader(options),
        RemoteReader(options, base, home, scans),
        FileReader(options, base, home, scans, by_suffix),
    )


def load_reader(address: str) -> Reader:
    """The custom reader of a name: a `Reader`, or a callable that returns one.

    Args:
        address: ``module:object``, or the name of an installed reader.

    Raises:
        PluginError: It cannot be loaded, or is not a reader.
    """
    reader = load_addition("readers", address, where="reader")
    if callable(reader) and not isinstance(reader, Reader):
        try:
            reader = reader()
        except Exception as error:
            raise PluginError(f"{address!r} cannot be made: {error}", where="reader") from error
    if not isinstance(reader, Reader):
        raise PluginError(
            f"{address!r} is not a reader", where="reader", hint="subclass ragwright.ingest.Reader"
        )
    return reader


def pick_reader(source: str, readers: Sequence[Reader]) -> Reader:
    """Return the first reader that accepts a source.

    Raises:
        UnsupportedSourceError: None accepts it; the error lists the known forms.
        SourceError: A reader fails when it checks the source.
    """
    for reader in readers:
        try:
            accepted = reader.accepts(source)
        except RagwrightError:
            raise
        except Exception as error:
            raise _reader_error(reader, source, error) from error
        if accepted:
            return reader
    raise UnsupportedSourceError(
        f"no reader for sources of the kind {source.partition(':')[0] + ':'!r}",
        where=source,
        hint="known are " + "; ".join(_FORMS),
    )


def files_of(reader: Reader, source: str) -> Iterator[SourceFile | Failure] | None:
    """List the files of a source; None if it is not made of files."""
    try:
        files = reader.files(source)
    except StoppedError:
        raise
    except Exception as error:
        known = error if isinstance(error, RagwrightError) else _reader_error(reader, source, error)
        return iter([Failure(source, known)])
    return None if files is None else catch_failures(files, source, reader)


def catch_failures(
    items: Iterator[T | Failure], source: str, reader: Reader
) -> Iterator[T | Failure]:
    """Read a reader's documents; an error becomes a failure, so other sources are still read."""
    try:
        yield from items
    except StoppedError:
        raise
    except Exception as error:  # a custom reader must not affect the other sources
        known = error if isinstance(error, RagwrightError) else _reader_error(reader, source, error)
        yield Failure(source, known)


def _reader_error(reader: Reader, source: str, error: Exception) -> SourceError:
    wrapped = SourceError(
        f"the reader {reader.name or type(reader).__name__!r} failed: "
        f"{type(error).__name__}: {error}",
        where=source,
        hint="this is a fault of the reader; the other sources were read",
    )
    wrapped.__cause__ = error
    return wrapped
