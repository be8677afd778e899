"""Tables of the Lance store, and its errors as ours.

``docs/decisions/0017-lance.md`` describes the tables, how a batch becomes visible and how a reader
opens a state. Each index spec has a table of documents, one of chunks and one of the values of its
metadata fields. Chunks are appended first, under stamps that nothing refers to yet; the merge into
the table of documents makes them visible, and is the only commit of a write; chunks of replaced
documents are deleted last.

Documents are merged by ``key`` (a hash of their id) with the key declared to Lance and
without any index on it: with a BTree there, several writers insert one new key twice
(lance #4585, lancedb #3377).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Document,
    RagwrightError,
    SnapshotGoneError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    require,
    text_hash,
)
from ._postings import chunk_fields, number_of, pack_numbers, unpack_terms, words_of
from ._prepare import (
    COLUMNS,
    ReadyDocument,
    document_from,
    entry_digest,
    pack_standing,
    structure_of,
    unpack_standing,
)
from ._store import IndexSpec, StoredChunk, StoredDocument, pages_from, read_metadata

SCHEMA_VERSION = 2

OWN_COLUMNS = {
    "document_id": "document",
    "source": "source",
    "title": "title",
    "created": "created",
    "modified": "modified",
}
"""Fields with a column of their own, since nearly every document has another value."""

_ATTEMPTS = 8
_PRIMARY = {"lance-schema:unenforced-primary-key:position": "1"}
"""What ``set_unenforced_primary_key`` writes; set at creation, so that no writer interferes."""

_STABLE = {"new_table_enable_stable_row_ids": "true"}
"""Rows keep their ids when files are compacted, so that no index has to be written again."""

_ESCAPED = "\0json:"

_KEYS = ("AWS_ACCESS_KEY_ID", "GOOGLE_SERVICE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")

T = TypeVar("T")


CACHE_BYTES = 512 * 2**20
"""Most bytes of indexes and of metadata that one process keeps in memory."""


def connect(uri: str) -> Any:
    """A connection whose tables see what other processes have written.

    Args:
        uri: Folder or address of the database. Credentials and addresses of an object store
            come from the environment, as the library reads them.
    """
    lancedb = require("lancedb", "lance", "the LanceDB store")
    # An eighth for manifests and file footers; the rest for pages of indexes.
    metadata = CACHE_BYTES // 8
    return lancedb.connect(
        uri,
        read_consistency_interval=timedelta(0),
        session=lancedb.Session(
            index_cache_size_bytes=CACHE_BYTES - metadata, metadata_cache_size_bytes=metadata
        ),
        storage_options=dict(_STABLE),
    )


def facts_schema() -> Any:
    """Properties of the store and its index specs: one table of names and values."""
    pa = _pyarrow()
    return pa.schema([_required_field("name", pa.string()), _required_field("value", pa.string())])


def documents_schema() -> Any:
    """Documents of one index spec; ``digest`` is what each adds to the digest of the index spec."""
    pa = _pyarrow()
    texts = ("name", "source", "title", "language", "created", "modified", "media_type")
    return pa.schema(
        [
            _required_field("key", pa.string()).with_metadata(_PRIMARY),
            _required_field("hash", pa.string()),
            _required_field("stamp", pa.int64()),
            _required_field("written", pa.int64()),
            _required_field("digest", pa.binary()),
            _required_field("chunks", pa.int32()),
            _required_field("length", pa.int64()),
            _required_field("root", pa.string()),
            *(_required_field(name, pa.string()) for name in texts),
            _required_field("structure", pa.string()),
            _required_field("metadata", pa.string()),
            _required_field("text", pa.large_string()),
        ]
    )


def chunks_schema(index_spec: IndexSpec) -> Any:
    """Chunks of one index spec, with what keyword search, filters and dense search need."""
    pa = _pyarrow()
    fields = [
        _required_field("stamp", pa.int64()),
        _required_field("written", pa.int64()),
        _required_field("ordinal", pa.int32()),
        _required_field("id", pa.string()),
        *(_required_field(name, pa.string()) for name in OWN_COLUMNS.values()),
        _required_field("text", pa.string()),
        _required_field("start", pa.int32()),
        _required_field("end", pa.int32()),
        pa.field("page", pa.int32()),
        _required_field("pages", pa.string()),
        _required_field("headings", pa.string()),
        _required_field("metadata", pa.string()),
        _required_field("tokens", pa.int32()),
        _required_field("length", pa.int32()),
        _required_field("words", pa.string()),
        _required_field("terms", pa.list_(_required_field("item", pa.int64()))),
        _required_field("counts", pa.list_(_required_field("item", pa.uint32()))),
        _required_field("facets", pa.list_(_required_field("item", pa.string()))),
    ]
    if index_spec.dimensions:
        fields += [
            _required_field("vector_key", pa.string()),
            _required_field("vector", pa.list_(pa.float32(), index_spec.dimensions)),
        ]
    return pa.schema(fields)


def values_schema() -> Any:
    """Values that metadata fields have had; an empty value stands for the field itself."""
    pa = _pyarrow()
    return pa.schema([_required_field("field", pa.string()), _required_field("value", pa.string())])


def _pyarrow() -> Any:
    return require("pyarrow", "lance", "the LanceDB store")


def _required_field(name: str, kind: Any) -> Any:
    return _pyarrow().field(name, kind, nullable=False)


def arrow_table(columns: Mapping[str, Sequence[Any]], schema: Any) -> Any:
    """Columns as an Arrow table of a schema."""
    return _pyarrow().Table.from_pydict(dict(columns), schema=schema)


def escape_surrogates(text: str) -> str:
    """A text that UTF-8 can encode: lone surrogates are escaped, the rest stays as it is."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _ESCAPED + json.dumps(text)
    return _ESCAPED + json.dumps(text) if text.startswith(_ESCAPED) else text


def unescape_surrogates(text: str) -> str:
    """The text that :func:`escape_surrogates` encoded."""
    return str(json.loads(text[len(_ESCAPED) :])) if text.startswith(_ESCAPED) else text


def literal(value: int | str) -> str:
    """A value as SQL."""
    if isinstance(value, int):
        return str(value)
    return "'" + escape_surrogates(value).replace("'", "''") + "'"


def one_of(column: str, values: Iterable[int | str], size: int = 1000) -> Iterator[str]:
    """Conditions that together select the rows with these values, one per block of values."""
    all_values = list(values)
    for start in range(0, len(all_values), size):
        block = all_values[start : start + size]
        yield f"{column} IN ({', '.join(map(literal, block))})"


def set_fact(facts: Any, name: str, value: str, where: str) -> None:
    """Set a property of the store."""
    retry_conflicts(lambda: facts.delete(f"name = {literal(name)}"), where)
    row = arrow_table({"name": [name], "value": [value]}, facts_schema())
    retry_conflicts(lambda: facts.add(row), where)


def delete_rows(table: Any, column: str, values: Iterable[int | str], where: str) -> int:
    """Delete the rows with these values; how many there were."""
    return sum(
        int(retry_conflicts(lambda c=condition: table.delete(c), where).num_deleted_rows)  # type: ignore[misc]
        for condition in one_of(column, values)
    )


def both(*conditions: str) -> str:
    """All of these conditions, the empty ones left out."""
    return " AND ".join(f"({condition})" for condition in conditions if condition)


def select(table: Any, columns: Sequence[str] | Mapping[str, str], where: str = "") -> Any:
    """An Arrow table of some columns of the rows that meet a condition."""
    return _select_query(table, columns, where).to_arrow()


def batches(
    table: Any, columns: Sequence[str] | Mapping[str, str], where: str = "", limit: int = 0
) -> Iterator[Any]:
    """Select the same in record batches, a few in memory at a time."""
    query = _select_query(table, columns, where)
    if limit:
        query = query.limit(limit)
    for batch in query.to_batches(4096):
        if batch.num_rows:
            yield batch


def _select_query(table: Any, columns: Sequence[str] | Mapping[str, str], where: str) -> Any:
    chosen = dict(columns) if isinstance(columns, Mapping) else list(columns)
    query = table.search().select(chosen)
    return query.where(where) if where else query


def retry_conflicts(work: Callable[[], T], where: str) -> T:
    """The result of ``work``, retried while commits of other processes conflict.

    Raises:
        StoreBusyError: They conflicted every time.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return work()
        except Exception as error:
            if isinstance(error, RagwrightError) or not re.search(_CONFLICT, str(error).lower()):
                raise
            time.sleep(0.02 * 2**attempt)
    raise StoreBusyError(
        f"other processes wrote between each of {_ATTEMPTS} attempts",
        where=where,
        hint="run the command again, or write from fewer processes",
    )


_CONFLICT = "conflict|concurrent|contention"


@contextmanager
def type_lance_errors(where: str, *, pinned: bool = False) -> Iterator[None]:
    """Turn LanceDB's errors, which are of many kinds, into ours.

    Args:
        where: Folder or address of the store.
        pinned: A version is being read that clean-up or ``forget`` may have removed.
    """
    try:
        yield
    except RagwrightError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise _typed_lance_error(error, where, pinned) from error


_ERRORS: Sequence[tuple[str, type[StoreError], str, str | None]] = (
    (
        "no space left",
        StoreFullError,
        "no space left for the store; what was committed before is intact",
        "free some space and run the same command again",
    ),
    (
        "accessdenied|403 forbidden|invalidaccesskeyid|signaturedoesnotmatch|401 unauthorized"
        "|unauthenticated",
        StoreError,
        "the object store refused the credentials ({used})",
        "set the credentials of the object store in the environment, "
        "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    ("nosuchbucket", StoreError, "the bucket does not exist", "create it, or change store.path"),
    (
        r"\b(503|429|slowdown|too many requests)\b",
        StoreBusyError,
        "the object store is throttling requests",
        "run the command again later, or from fewer processes",
    ),
    (
        "^remote .*(error sending request|connect|timed out|timeout|dns)",
        StoreError,
        "the object store does not answer",
        "check the network, and AWS_ENDPOINT if the store is not Amazon's; "
        "what was committed before is intact",
    ),
    (_CONFLICT, StoreBusyError, "other processes keep writing", None),
)
"""What LanceDB's message holds, and our error for it."""


def _typed_lance_error(error: Exception, where: str, pinned: bool) -> RagwrightError:
    """Our error for one of LanceDB's; keys of an object store are never part of it."""
    full = str(error)
    text = f"{'remote' if '://' in where else 'local'} {full.lower()}"
    if pinned and "not found" in text and "no space left" not in text:
        return SnapshotGoneError(
            "files of this snapshot were removed while it was being read",
            where=where,
            hint="clean-up or forget removed the version: search again, or start a new run",
        )
    names = [name for name in _KEYS if os.environ.get(name)]
    used = f"those of {' and '.join(names)}" if names else "none are set"
    for pattern, kind, what, hint in _ERRORS:
        if re.search(pattern, text, re.DOTALL):
            return kind(what.format(used=used), where=where, hint=hint)
    return StoreError(f"LanceDB: {full.partition(chr(10))[0]}", where=where)


LONGEST = 256
"""Characters up to which a value is stored whole in ``facets``."""

_DATES = ("created", "modified")

_BLOCK = 500
"""Documents that are read at once."""

_SEARCHED = frozenset(("text", "words", "facets", "length", *OWN_COLUMNS.values()))
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
    return field in OWN_COLUMNS and not (field in _DATES and number_of(value) is not None)


def facet_values(facets: Iterable[str]) -> set[tuple[str, str]]:
    """The (field, value) pairs of stored facets, as they are stored."""
    field_values = set()
    for text in map(unescape_surrogates, facets):
        name, _, value = text.partition("=")
        name = name.replace("%3D", "=").replace("%25", "%")
        field_values.add((escape_surrogates(name), escape_surrogates(value)))
    return field_values


def document_rows(prepared: Sequence[ReadyDocument], stamps: Sequence[int], root: str) -> Any:
    """Documents as an Arrow table of their schema.

    Args:
        prepared: The documents.
        stamps: A number for each that no other document has had.
        root: The source they were read from.
    """
    written = time.time_ns()
    columns: dict[str, list[Any]] = {name: [] for name in documents_schema().names}
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
            "root": escape_surrogates(root),
            "name": escape_surrogates(document.id),
            "structure": structure_of(document),
            "metadata": json.dumps(dict(document.metadata)),
        }
        for name, values in columns.items():
            values.append(row[name] if name in row else escape_surrogates(getattr(document, name)))
    return arrow_table(columns, documents_schema())


def chunk_rows(
    index_spec: IndexSpec, prepared: Sequence[ReadyDocument], stamps: Sequence[int]
) -> tuple[Any, set[tuple[str, str]]]:
    """Chunks as an Arrow table of their schema, and the (field, value) pairs of their facets."""
    written = time.time_ns()
    columns: dict[str, list[Any]] = {name: [] for name in chunks_schema(index_spec).names}
    field_values: set[tuple[str, str]] = set()
    for item, stamp in zip(prepared, stamps, strict=True):
        for ready in item.chunks:
            chunk = ready.chunk
            numbers, counts = unpack_terms(ready.terms)
            row: dict[str, Any] = {
                "stamp": stamp,
                "written": written,
                "id": escape_surrogates(chunk.id),
                "text": escape_surrogates(chunk.text),
                "start": chunk.span.start,
                "end": chunk.span.end,
                "pages": json.dumps(chunk.pages) if chunk.pages else "[]",
                "headings": pack_standing(chunk),
                "metadata": json.dumps(dict(chunk.metadata)),
                "length": int(counts.sum()),
                "words": words_of(numbers.tolist(), counts.tolist()),
                "terms": numbers.astype(np.int64, casting="unsafe"),
                "counts": counts,
                **dict.fromkeys(OWN_COLUMNS.values(), ""),
            }
            fields = chunk_fields(item.document, chunk.metadata, chunk.headings, chunk.page)
            row["facets"] = list(_facets_of(fields, row, field_values))
            if index_spec.dimensions:
                row["vector_key"] = (ready.vector_key or b"").hex()
                row["vector"] = np.frombuffer(ready.vector or b"", np.float32)
            for name, values in columns.items():
                values.append(row[name] if name in row else getattr(chunk, name))
    return arrow_table(columns, chunks_schema(index_spec)), field_values


def _facets_of(
    fields: Mapping[str, Sequence[str]], row: dict[str, Any], field_values: set[tuple[str, str]]
) -> Iterator[str]:
    """Facets of a chunk; what has a column of its own goes there."""
    for name, values in fields.items():
        field_values.add((escape_surrogates(name), ""))
        if len(values) == 1 and has_own_column(name, values[0]):
            row[OWN_COLUMNS[name]] = escape_surrogates(values[0])
            continue
        yield escape_surrogates(facet(name))
        for value in values:
            yield escape_surrogates(facet(name, value))
            field_values.add((escape_surrogates(name), escape_surrogates(value)))


def rows_of(table: Any, columns: Sequence[str], where: str) -> list[dict[str, Any]]:
    """Rows that meet a condition, a vector as an array."""
    table_rows = select(table, columns, where)
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
    return document_from([unescape_surrogates(row[column]) for column in COLUMNS])


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
        condition = next(one_of("stamp", block))
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
            pieces_of = [chunk for _, chunk in chunks_of]
            yield StoredDocument(stamp, document_of(heads[stamp]), pieces_of)


def read_chunk_row(row: Mapping[str, Any]) -> StoredChunk:
    """A chunk from its row."""
    headings, head = unpack_standing(row["headings"])
    return StoredChunk(
        id=unescape_surrogates(row["id"]),
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
