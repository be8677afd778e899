"""Reads what a test wrote: a file by its bytes, or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.documents import no_network

from ragwright.core import Document, RagwrightError
from ragwright.ingest import Extract, Failure, FileReader, SourceOptions, extract_bytes

Data = bytes | str


def as_bytes(data: Data) -> bytes:
    return data.encode() if isinstance(data, str) else data


def read(name: str, data: Data, **settings: Any) -> Extract:
    return extract_bytes(name, as_bytes(data), SourceOptions(**settings))


def warned(extract: Extract) -> list[str]:
    return [fault.what.partition(":")[0] for fault in extract.faults]


def refused(kind: type[RagwrightError], name: str, data: Data, **settings: Any) -> str:
    """The message of the error, which must name the place and a way out."""
    with pytest.raises(kind) as caught:
        read(name, data, **settings)
    assert type(caught.value) is kind
    assert name in (caught.value.where or "")
    assert caught.value.hint
    return str(caught.value)


def read_folder(
    folder: Path, source: str = ".", **settings: Any
) -> tuple[list[Document], list[Failure]]:
    """The documents of a source below a folder, and its failures and warnings."""
    items = list(FileReader(SourceOptions(**settings), base=folder).read(source, no_network))
    documents = [item for item in items if isinstance(item, Document)]
    return documents, [item for item in items if isinstance(item, Failure)]


def read_all(
    folder: Path, name: str, data: Data, **settings: Any
) -> tuple[list[Document], list[Failure]]:
    """The documents of a file and of its attachments, and its failures and warnings."""
    (folder / name).write_bytes(as_bytes(data))
    return read_folder(folder, name, **settings)
