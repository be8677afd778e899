"""Documents and chunks as rows of Lance tables, and back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Document, StoreBusyError, text_hash
from . import _lance_tables as lance
from ._postings import chunk_fields, number_of, pack_numbers, unpack_terms, words_of
from ._prepare import (
    COLUMNS,
    ReadyDocument,
    document_from,
    entry_digest,
    structure_of,
    unpack_standing,
)
from ._store import IndexSpec, StoredChunk, StoredDocument, pages_from, read_metadata

LONGEST = 256
"""Characters up to which a value is stored whole in ``facets``."""

_DATES = ("created", "modified")

_BLOCK = 500
"""Documents that are read at once."""

_SEARCHED = frozenset(("text", "words", "facets", "length", *lance.OWN_COLUMNS.values()))
"""Columns of chunks that only searches read."""


def facet(field: str, value: str = "") -> str:
    """Encode a chunk's value of a field for ``facets``; without a value, the field.

    A long value is cut, and told from others by its hash.
    """
    name = field.replace("%", "%25").replace("=", "%3D")
    if not value:
        return name
    if len(value) > LONGEST:
        value = f"{value[: LONGEST - 50]}…{text_hash(value)}"
    return f"{name}={value}"


def has_own_column(field: str, value: str) -> bool:
    """True if a value is in the field's own column; numbers in place of dates are not."""
    return field in lance.OWN_COLUMNS and not (field in _DATES and number_of(value) is not None)


def facet_values(facets: Iterable[str]) -> set[tuple[str, str]]:
    """The (field, value) pairs of stored facets, as they are stored."""
    pairs = set()
    for text in map(lance.unescape_surrogates, facets):
        name, _, value = text.partition("=")
        name = name.replace("%3D", "=").replace("%25", "%")
        pairs.add((lance.escape_surrogates(name), lance.escape_surrogates(value)))
    return pairs


def document_rows(prepared: Sequence[ReadyDocument], stamps: Sequence[int], root: str) -> Any:
    """Documents as an Arrow table of their schema.

    Args:
        prepared: The documents.
        stamps: A number for each that no other document has had.
        root: The source they were read from.
    """
    written = time.time_ns()
    columns: dict[str, list[Any]] = {name: [] for name in lance.documents_schema().names}
    for item, stamp in zip(prepared, stamps, strict=True):
        document = item.document
        digest = entry_digest(document.id, item.hash, document.source).to_bytes(16, "little")
        row = {
            "key": text_hash(document.id),
            "hash": item.hash,
            "stamp": stamp,
            "written": written,
            "digest": digest,
            "chunks": len(item.chunks),
            "length": sum(int(unpack_terms(chunk.terms)[1].sum()) for chunk in item.chunks),
            "root": lance.escape_surrogates(root),
            "name": lance.escape_surrogates(document.id),
            "structure": structure_of(document),
            "metadata": json.dumps(dict(document.metadata)),
        }
        for name, values in columns.items():
            values.append(
                row[name] if name in row else lance.escape_surrogates(getattr(document, name))
            )
    return lance.arrow_table(columns, lance.documents_schema())


def chunk_rows(
    pair: IndexSpec, prepared: Sequence[ReadyDocument], stamps: Sequence[int]
) -> tuple[Any, set[tuple[str, str]]]:
    """Chunks as an Arrow table of their schema, and the (field, value) pairs of their facets."""
    written = time.time_ns()
    columns: dict[str, list[Any]] = {name: [] for name in lance.chunks_schema(pair).names}
    pairs: set[tuple[str, str]] = set()
    for item, stamp in zip(prepared, stamps, strict=True):
        for chunk in item.chunks:
            numbers, counts = unpack_terms(chunk.terms)
            row: dict[str, Any] = {
                "stamp": stamp,
                "written": written,
                "id": lance.escape_surrogates(chunk.id),
                "text": lance.escape_surrogates(item.document.text[chunk.start : chunk.end]),
                "length": int(counts.sum()),
                "words": words_of(numbers.tolist(), counts.tolist()),
                "terms": numbers.astype(np.int64, casting="unsafe"),
                "counts": counts,
                **dict.fromkeys(lance.OWN_COLUMNS.values(), ""),
            }
            fields = chunk_fields(
                item.document,
                read_metadata(json.loads(chunk.metadata)),
                unpack_standing(chunk.headings)[0],
                chunk.page,
            )
            row["facets"] = list(_facets_of(fields, row, pairs))
            if pair.dimensions:
                row["vector_key"] = (chunk.vector_key or b"").hex()
                row["vector"] = np.frombuffer(chunk.vector or b"", np.float32)
            for name, values in columns.items():
                values.append(row[name] if name in row else getattr(chunk, name))
    return lance.arrow_table(columns, lance.chunks_schema(pair)), pairs


def _facets_of(
    fields: Mapping[str, Sequence[str]], row: dict[str, Any], pairs: set[tuple[str, str]]
) -> Iterator[str]:
    """Facets of a chunk; what has a column of its own goes there."""
    for name, values in fields.items():
        pairs.add((lance.escape_surrogates(name), ""))
        if len(values) == 1 and has_own_column(name, values[0]):
            row[lance.OWN_COLUMNS[name]] = lance.escape_surrogates(values[0])
            continue
        yield lance.escape_surrogates(facet(name))
        for value in values:
            yield lance.escape_surrogates(facet(name, value))
            pairs.add((lance.escape_surrogates(name), lance.escape_surrogates(value)))


def rows_of(table: Any, columns: Sequence[str], where: str) -> list[dict[str, Any]]:
    """Rows that meet a condition, a vector as an array."""
    table_rows = lance.select(table, columns, where)
    vectors: list[Any] = []
    if "vector" in table_rows.column_names:
        vectors = list(matrix(table_rows["vector"]))
        table_rows = table_rows.drop_columns(["vector"])
    rows: list[dict[str, Any]] = table_rows.to_pylist()
    for row, vector in zip(rows, vectors, strict=False):
        row["vector"] = vector
    return rows


def matrix(column: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A column of vectors as a matrix."""
    flat = join_column(column).flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, np.float32).reshape(-1, column.type.list_size)


def join_column(column: Any) -> Any:
    """A column of a table or of a batch as one Arrow array."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def document_of(row: Mapping[str, Any]) -> Document:
    """A document from its row."""
    return document_from([lance.unescape_surrogates(row[column]) for column in COLUMNS])


def documents_with_chunks(
    documents: Any, chunks: Any, stamps: NDArray[np.int64], where: str
) -> Iterator[StoredDocument]:
    """Documents with these stamps and their chunks, a block of them in memory at a time.

    Raises:
        StoreBusyError: Some have been replaced meanwhile.
    """
    moved = StoreBusyError(
        "documents were replaced while they were read",
        where=where,
        hint="try again when less is being written",
    )
    columns = ["stamp", "chunks", *COLUMNS]
    for start in range(0, len(stamps), _BLOCK):
        block = stamps[start : start + _BLOCK].tolist()
        condition = next(lance.one_of("stamp", block))
        heads = {row["stamp"]: row for row in rows_of(documents, columns, condition)}
        if len(heads) != len(block):
            raise moved
        pieces: dict[int, list[tuple[int, StoredChunk]]] = {}
        names = [name for name in chunks.schema.names if name not in _SEARCHED]
        for row in rows_of(chunks, names, condition):
            pieces.setdefault(row["stamp"], []).append((row["ordinal"], read_chunk_row(row)))
        for stamp in block:
            chunks_of = sorted(pieces.get(stamp, ()), key=lambda piece: piece[0])
            if len(chunks_of) != heads[stamp]["chunks"]:
                raise moved
            document = document_of(heads[stamp])
            yield StoredDocument(
                stamp=stamp,
                id=document.id,
                source=document.source,
                title=document.title,
                language=document.language,
                created=document.created,
                modified=document.modified,
                metadata=document.metadata,
                text=document.text,
                chunks=[chunk for _, chunk in chunks_of],
            )


def read_chunk_row(row: Mapping[str, Any]) -> StoredChunk:
    """A chunk from its row."""
    headings, head = unpack_standing(row["headings"])
    return StoredChunk(
        id=lance.unescape_surrogates(row["id"]),
        start=row["start"],
        end=row["end"],
        page=row["page"],
        pages=pages_from(row["pages"]),
        headings=headings,
        metadata=read_metadata(json.loads(row["metadata"])),
        terms=pack_numbers(np.array(row["terms"], np.int64), np.array(row["counts"], np.uint32)),
        vector=row.get("vector"),
        head=head,
    )
