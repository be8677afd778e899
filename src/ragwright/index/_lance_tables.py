"""Tables of the LanceDB store, and its errors as ours.

Each pair has a table of documents and one of chunks. Chunks are appended first, under stamps
that nothing refers to yet; the merge into the table of documents makes them visible, and is the
only commit of a write; chunks of replaced documents are deleted last. A crash in between leaves
chunks that no document refers to: no answer contains them.

Documents are merged by ``key`` (a hash of their id) with the key declared to Lance and
without any index on it: with a BTree there, several writers insert one new key twice
(lance #4585, lancedb #3377).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from ..core import RagwrightError, StoreBusyError, StoreError, StoreFullError, require
from ._store import IndexSpec

SCHEMA_VERSION = 1

_ATTEMPTS = 8
_PRIMARY = {"lance-schema:unenforced-primary-key:position": "1"}
"""What ``set_unenforced_primary_key`` writes; set at creation, so that no writer interferes."""

_ESCAPED = "\0json:"

T = TypeVar("T")


def connect(uri: str) -> Any:
    """A connection whose tables see what other processes have written."""
    lancedb = require("lancedb", "lance", "the LanceDB store")
    return lancedb.connect(uri, read_consistency_interval=timedelta(0))


def facts_schema() -> Any:
    """Properties of the store and its pairs: one table of names and values."""
    pa = _arrow()
    return pa.schema([_needed("name", pa.string()), _needed("value", pa.string())])


def documents_schema() -> Any:
    """Documents of one pair; ``digest`` is what each adds to the digest of the pair."""
    pa = _arrow()
    texts = ("name", "source", "title", "language", "created", "modified", "media_type")
    return pa.schema(
        [
            _needed("key", pa.string()).with_metadata(_PRIMARY),
            _needed("hash", pa.string()),
            _needed("stamp", pa.int64()),
            _needed("written", pa.int64()),
            _needed("digest", pa.binary()),
            _needed("chunks", pa.int32()),
            _needed("root", pa.string()),
            *(_needed(name, pa.string()) for name in texts),
            _needed("structure", pa.string()),
            _needed("metadata", pa.string()),
            _needed("text", pa.large_string()),
        ]
    )


def chunks_schema(pair: IndexSpec) -> Any:
    """Chunks of one pair; terms as :func:`ragwright.index._tokens.pack_terms` packs them."""
    pa = _arrow()
    fields = [
        _needed("stamp", pa.int64()),
        _needed("written", pa.int64()),
        _needed("ordinal", pa.int32()),
        _needed("id", pa.string()),
        _needed("text", pa.string()),
        _needed("start", pa.int32()),
        _needed("end", pa.int32()),
        pa.field("page", pa.int32()),
        _needed("pages", pa.string()),
        _needed("headings", pa.string()),
        _needed("metadata", pa.string()),
        _needed("tokens", pa.int32()),
        _needed("terms", pa.binary()),
    ]
    if pair.dimensions:
        fields += [
            _needed("vector_key", pa.string()),
            _needed("vector", pa.list_(pa.float32(), pair.dimensions)),
        ]
    return pa.schema(fields)


def _arrow() -> Any:
    return require("pyarrow", "lance", "the LanceDB store")


def _needed(name: str, kind: Any) -> Any:
    return _arrow().field(name, kind, nullable=False)


def arrow_table(columns: dict[str, list[Any]], schema: Any) -> Any:
    """Columns as an Arrow table of a schema."""
    return _arrow().Table.from_pydict(columns, schema=schema)


def as_string(text: str) -> str:
    """A text that UTF-8 can encode: lone surrogates are escaped, the rest stays as it is."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _ESCAPED + json.dumps(text)
    return _ESCAPED + json.dumps(text) if text.startswith(_ESCAPED) else text


def from_string(text: str) -> str:
    """The text that :func:`as_string` encoded."""
    return str(json.loads(text[len(_ESCAPED) :])) if text.startswith(_ESCAPED) else text


def one_of(column: str, values: Iterable[int | str], size: int = 1000) -> Iterator[str]:
    """Conditions that together select the rows with these values, one per block of values.

    Strings must be hexadecimal (hashes): they are not escaped.
    """
    listed = list(values)
    for start in range(0, len(listed), size):
        block = listed[start : start + size]
        spelled = ", ".join(f"'{v}'" if isinstance(v, str) else str(v) for v in block)
        yield f"{column} IN ({spelled})"


def select(table: Any, columns: Sequence[str], where: str = "") -> Any:
    """An Arrow table of some columns of the rows that meet a condition."""
    query = table.search().select(list(columns))
    if where:
        query = query.where(where)
    return query.to_arrow()


def purge(table: Any, where: str) -> None:
    """Remove deleted rows from the disk.

    Lance only marks rows as deleted, compacts files that lost a tenth, and does not report which
    files hold such rows. So all rows are rewritten, and old versions are removed.
    """
    column = table.schema.names[0]
    if table.count_rows():
        retried(lambda: table.update(values_sql={column: column}), where)
    retried(table.optimize, where)
    # Versions older than a millisecond are removed; 0 would warn on every call.
    time.sleep(0.005)
    retried(lambda: table.optimize(cleanup_older_than=timedelta(milliseconds=1)), where)


def retried(work: Callable[[], T], where: str) -> T:
    """The result of ``work``, retried while commits of other processes conflict.

    Raises:
        StoreBusyError: They conflicted every time.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return work()
        except Exception as error:
            if isinstance(error, RagwrightError) or not _conflict(error):
                raise
            time.sleep(0.02 * 2**attempt)
    raise StoreBusyError(
        f"other processes wrote between each of {_ATTEMPTS} attempts",
        where=where,
        hint="run the command again, or write from fewer processes",
    )


def _conflict(error: Exception) -> bool:
    text = str(error).lower()
    return any(word in text for word in ("conflict", "concurrent", "contention"))


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn LanceDB's errors, which are of many kinds, into ours."""
    try:
        yield
    except RagwrightError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).partition("\n")[0]
        if "no space left" in str(error).lower():
            raise StoreFullError(
                "no space left for the store; what was committed before is intact",
                where=where,
                hint="free some space and run the same command again",
            ) from error
        if _conflict(error):
            raise StoreBusyError("other processes keep writing", where=where) from error
        raise StoreError(f"LanceDB: {first}", where=where) from error
