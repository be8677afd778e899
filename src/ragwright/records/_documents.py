"""Gold rows as documents: one per row, one chunk each, with filterable fields as metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..core import Document, MetaValue, Span
from ..ingest import Chunker, Failure, FetchBytes, Reader
from ._seams import HASH, KEY, ArrowTable

_ADDRESS = "records:"

KIND = "record"
"""Value of the field ``kind`` that marks records."""

_NOT_METADATA = {KEY, HASH, "text", "document", "text_hash", "left_out"}


def record_document_id(key: str) -> str:
    """Id of the document of a row."""
    return f"{KIND}:{key}"


def record_key(document_id: str) -> str | None:
    """Key of a document's row, None for other documents."""
    head, colon, key = document_id.partition(":")
    return key if colon and head == KIND else None


def gold_documents(batch: ArrowTable) -> Iterator[Document]:
    """Documents of a batch of gold rows, in order.

    The text is the assembled one. Metadata are ``kind``, ``client``, ``ask_type``, ``topic``,
    ``tone``, ``length``, ``message_at`` (where the message begins in the text), the fields that
    rules set and the columns that source.yaml keeps; empty values are left out.
    """
    names = [name for name in batch.column_names if name not in _NOT_METADATA]
    columns = [[_meta(value) for value in batch.column(name).to_pylist()] for name in names]
    keys, texts = (batch.column(name).to_pylist() for name in (KEY, "document"))
    for key, text, *values in zip(keys, texts, *columns, strict=True):
        metadata: dict[str, MetaValue] = {"kind": KIND}
        for name, value in zip(names, values, strict=True):
            if value is not None:
                metadata[name] = value
        yield Document(record_document_id(key), f"{_ADDRESS}{key}", text, metadata=metadata)


def _meta(value: Any) -> MetaValue | None:
    if isinstance(value, str):
        return value or None
    if value is None or value == []:
        return None
    if isinstance(value, list):
        return tuple(map(str, value))
    if isinstance(value, int | float | bool):
        return value
    if isinstance(value, Mapping):
        return None
    return str(value)


class RecordsReader(Reader):
    """Provides the documents of gold rows.

    Attributes:
        address: Source of these documents in the index.
    """

    name = "records"
    address = _ADDRESS

    def __init__(self, batches: Iterable[ArrowTable]) -> None:
        self._batches = batches

    def accepts(self, source: str) -> bool:
        """True for the records of a project."""
        return source == self.address

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """The documents, a batch in memory at a time."""
        for batch in self._batches:
            yield from gold_documents(batch)


class MessageChunker(Chunker):
    """One chunk per document: a message is found and shown as a whole."""

    spec = "whole"

    def cut(self, document: Document) -> list[Span]:
        """The whole text, nothing if there is none."""
        return [Span(0, len(document.text))] if document.text else []
