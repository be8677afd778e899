"""Tables of the Lance store, and its errors as ours.

``docs/decisions/0017-lance.md`` describes the tables, how a batch becomes visible and how a reader
opens a state. Each pair has a table of documents, one of chunks and one of the values of its
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

from ..core import (
    RagwrightError,
    SnapshotGoneError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    require,
)
from ._store import IndexSpec

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


def connect(uri: str, cache_mb: int) -> Any:
    """A connection whose tables see what other processes have written.

    Args:
        uri: Folder or address of the database. Credentials and addresses of an object store
            come from the environment, as the library reads them.
        cache_mb: Most megabytes of indexes and of metadata that stay in memory.
    """
    lancedb = require("lancedb", "lance", "the LanceDB store")
    # An eighth for manifests and file footers; the rest for pages of indexes.
    metadata = max(16, cache_mb // 8) * 2**20
    session = lancedb.Session(
        index_cache_size_bytes=max(16 * 2**20, cache_mb * 2**20 - metadata),
        metadata_cache_size_bytes=metadata,
    )
    return lancedb.connect(
        uri,
        read_consistency_interval=timedelta(0),
        session=session,
        storage_options=dict(_STABLE),
    )


def facts_schema() -> Any:
    """Properties of the store and its pairs: one table of names and values."""
    pa = _pyarrow()
    return pa.schema([_required_field("name", pa.string()), _required_field("value", pa.string())])


def documents_schema() -> Any:
    """Documents of one pair; ``digest`` is what each adds to the digest of the pair."""
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


def chunks_schema(pair: IndexSpec) -> Any:
    """Chunks of one pair, with what keyword search, filters and dense search need."""
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
    if pair.dimensions:
        fields += [
            _required_field("vector_key", pa.string()),
            _required_field("vector", pa.list_(pa.float32(), pair.dimensions)),
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
    ("nosuchbucket", StoreError, "the bucket does not exist", "create it, or change store.uri"),
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
