"""Reads a file that a test wrote: its documents and what is said about it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.documents import no_network

from ragwright.core import Document
from ragwright.ingest import Failure, FileReader, SourceOptions


def read_all(
    folder: Path, name: str, data: bytes | str, options: SourceOptions | None = None
) -> tuple[list[Document], list[Failure]]:
    """The documents of a file with this name, and its warnings and failures."""
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    items = list(FileReader(options, base=folder).read(name, no_network))
    documents = [item for item in items if isinstance(item, Document)]
    return documents, [item for item in items if isinstance(item, Failure)]


def read(
    folder: Path, name: str, data: bytes | str, options: SourceOptions | None = None
) -> tuple[Document, list[Failure]]:
    """The one document of a file, and its warnings."""
    (document,), warnings = read_all(folder, name, data, options)
    assert all(warning.warning for warning in warnings)
    return document, warnings
