"""The open tables of a Lance store, and one state of a pair in them.

A state is read from two versions that belong together.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import SnapshotGoneError, StoreBusyError, StoreError
from . import _lance_tables as lance
from ._prepare import DIGEST_MODULUS
from ._store import IndexSpec

_READS = 20
_MOST_ORPHANS = 5_000
"""Stamps that a filter leaves out; with more of them an older version of the chunks is opened."""

_BACK = 50


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the documents of a state: their digest, chunks and tokens."""

    digest: str
    documents: int
    chunks: int
    length: int


@dataclass(frozen=True, slots=True)
class Pinned:
    """Tables of a state, each at a fixed version.

    Attributes:
        documents: Documents.
        chunks: Chunks; ``live`` is the condition that leaves out those of no document, if any.
        values: Values of metadata fields, the newest.
        totals: Sums over the documents.
        live: SQL, empty if every row counts.
        indexes: Indexes of the chunks by column: identity, and rows that none of it covers.
    """

    documents: Any
    chunks: Any
    values: Any
    totals: Totals
    live: str
    indexes: Mapping[str, tuple[str, int]]


def totals_of(documents: Any) -> Totals:
    """Sums over the documents of a version; a few thousand rows are in memory at a time."""
    count = chunks = length = 0
    parts = [0, 0, 0, 0]
    for batch in lance.batches(documents, ["digest", "chunks", "length"]):
        raw = b"".join(batch["digest"].to_pylist())
        words = np.frombuffer(raw, "<u4").reshape(-1, 4).astype(np.uint64)
        parts = [p + int(w) for p, w in zip(parts, words.sum(axis=0).tolist(), strict=True)]
        count += batch.num_rows
        chunks += int(batch["chunks"].to_numpy().sum(dtype=np.int64))
        length += int(batch["length"].to_numpy().sum())
    digest = sum(part << (32 * at) for at, part in enumerate(parts)) % DIGEST_MODULUS
    return Totals(f"{digest:032x}", count, chunks, length)


def tag_of(snapshot: str) -> str:
    """Tag under which the versions of a snapshot stay."""
    return f"s-{snapshot.partition('@')[2]}"


def pin(opened: Callable[[str], Any], pair: IndexSpec, where: str, tag: str = "") -> Pinned:
    """Open the present state of a pair, or a tagged one.

    Args:
        opened: Opens a table anew.
        pair: The pair; its tables exist.
        where: The store, for errors.
        tag: Of both versions; the newest if empty.

    Raises:
        SnapshotGoneError: No version has the tag.
        StoreBusyError: Other processes wrote during every attempt.
    """
    for _ in range(_READS):
        documents, chunks = opened(f"documents_{pair.key}"), opened(f"chunks_{pair.key}")
        if tag:
            _checkout_tag(documents, tag)
            _checkout_tag(chunks, tag)
        else:
            documents.checkout(documents.version)
            chunks.checkout(chunks.version)
            if opened(f"documents_{pair.key}").version != documents.version:
                continue
        totals = totals_of(documents)
        live = _live_condition(documents, chunks, totals, fixed=bool(tag))
        if live is None:
            continue
        indexes = {}
        for index in chunks.list_indices():
            indexes[index.columns[0]] = (str(index.index_uuid), int(index.num_unindexed_rows or 0))
        values = opened(f"values_{pair.key}")
        return Pinned(documents, chunks, values, totals, live, indexes)
    raise StoreBusyError(
        f"the store changed during each of {_READS} readings",
        where=where,
        hint="try again when less is being written",
    )


def _checkout_tag(table: Any, tag: str) -> None:
    try:
        table.checkout(tag)
    except (RuntimeError, ValueError, OSError) as error:
        raise SnapshotGoneError(f"no version of the tables has the tag {tag!r}") from error


def _live_condition(documents: Any, chunks: Any, totals: Totals, *, fixed: bool) -> str | None:
    """The condition for live chunks; None if the two versions do not belong together.

    ``chunks`` may be set to an earlier version: during a large ingest the newest one has many
    chunks that no document refers to yet.
    """
    rows = chunks.count_rows()
    if rows == totals.chunks:
        return ""
    live = stamps_of(documents)
    for _ in range(_BACK):
        orphans = np.setdiff1d(np.unique(stamps_of(chunks)), live)
        if len(orphans) <= _MOST_ORPHANS or fixed or chunks.version < 2:
            break
        chunks.checkout(chunks.version - 1)
    numbers = ", ".join(map(str, orphans.tolist()))
    condition = f"stamp NOT IN ({numbers})" if len(orphans) else ""
    return condition if int(chunks.count_rows(condition or None)) == totals.chunks else None


def stamps_of(table: Any, where: str = "") -> NDArray[np.int64]:
    """Stamps of the rows, or of those that meet a condition."""
    parts = [batch["stamp"].to_numpy() for batch in lance.batches(table, ["stamp"], where)]
    return np.concatenate([np.empty(0, np.int64), *parts])


def keep_version(table: Any, snapshot: str) -> None:
    """Keep the version of a table that a state was opened with, so that a run can continue."""
    tag, version = tag_of(snapshot), table.version
    try:
        existing = table.tags.list().get(tag)
        if existing is None:
            table.tags.create(tag, version)
        elif int(existing["version"]) != version:
            table.tags.update(tag, version)
    except (OSError, RuntimeError, ValueError):
        # Reading needs no right to write; the state is then kept for an hour only.
        return


def search_facts(facts: Any, pair: IndexSpec) -> Mapping[str, Any]:
    """The measurements that maintenance stored of a pair's indexes; empty before the first time."""
    rows = lance.select(facts, ["value"], f"name = 'search {pair.key}'").to_pylist()
    return dict(json.loads(rows[-1]["value"])) if rows else {}


_OPENINGS = 20
"""Attempts to open a table that another process is making."""


class OpenTables:
    """Tables of a database by name.

    Args:
        database: LanceDB's connection.
    """

    def __init__(self, database: Any) -> None:
        self._db = database
        self._tables: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> Any:
        """A table that is open."""
        return self._tables[name]

    def names(self) -> list[str]:
        """Names of all tables."""
        return list(self._db.list_tables().tables)

    def make(self, name: str, schema: Any) -> Any:
        """The table of that name, made with this schema where it is missing."""
        return self.open_or_create(
            name, lambda: self._db.create_table(name, schema=schema, exist_ok=True)
        )

    def open_table(self, name: str) -> Any | None:
        """The table of that name; None if it does not exist."""
        with self._lock:
            if name not in self._tables and name not in self.names():
                return None
            return self.open_or_create(name, lambda: None)

    def open_fresh(self, name: str) -> Any:
        """A handle of its own on a table, to be set to a version."""
        return self._db.open_table(name)

    def open_or_create(self, name: str, make: Callable[[], Any]) -> Any:
        """The table of that name; ``make`` makes it, another process may do so first.

        A process that was killed, or met a full disk, while it made the table leaves a folder
        without a version, which is listed and cannot be opened. The table is then made again.
        """
        with self._lock:
            for attempt in range(_OPENINGS):
                if name in self._tables:
                    break
                try:
                    table = self._open_existing(name, again=attempt >= _OPENINGS // 2) or make()
                except (OSError, RuntimeError, ValueError):
                    # Another process is making it: listed, but not yet to be opened.
                    if attempt == _OPENINGS - 1:
                        raise
                    time.sleep(0.05)
                else:
                    if table is None:
                        return None
                    self._tables[name] = table
            return self._tables[name]

    def _open_existing(self, name: str, *, again: bool) -> Any | None:
        """The table, None where there is none; with ``again`` also where it has no version."""
        if name not in self.names():
            return None
        try:
            return self._db.open_table(name)
        except ValueError as error:
            if again and "not found" in str(error):
                return None
            raise


def store_facts(database: Any, tables: OpenTables, where: str) -> dict[str, str]:
    """Identity and schema version; written by the first process."""
    names = ["store", "schema"]
    values = [secrets.token_hex(8), str(lance.SCHEMA_VERSION)]
    first = lance.arrow_table({"name": names, "value": values}, lance.facts_schema())
    names_here = tables.names()
    if "facts" not in names_here and any(n[:7] in ("chunks_", "documen") for n in names_here):
        raise StoreError(
            "the place holds tables, but not those of a ragwright store",
            where=where,
            hint="give the store a folder or prefix of its own (store.uri)",
        )
    table = tables.open_or_create("facts", lambda: database.create_table("facts", data=first))
    if table.schema.names != lance.facts_schema().names:
        raise StoreError(
            "the table 'facts' there is not one of a ragwright store",
            where=where,
            hint="give the store a folder or prefix of its own (store.uri)",
        )
    rows = lance.select(table, ["name", "value"]).to_pylist()
    return {row["name"]: row["value"] for row in reversed(rows)}
