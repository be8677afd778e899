"""The store that scales out: LanceDB tables as truth, the same read view for answers.

Any number of processes may write; other engines (Daft, Ray) read the tables as they are.
Processes must be spawned, not forked: LanceDB's threads do not survive a fork.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Document, SchemaVersionError, SnapshotGoneError, StoreBusyError, text_hash
from . import _lance_tables as lance
from ._catalog import Catalog
from ._options import StoreOptions
from ._prepare import (
    COLUMNS,
    ReadyDocument,
    check_batch,
    document_from,
    entry_digest,
    ready,
    structure_of,
    total_digest,
)
from ._store import IndexedDocument, IndexSpec, Matrix, Store, View, WriteCounts
from ._stored import StoredChunk, StoredDocument, StoredState, as_metadata, pages_from
from ._tokens import AnalyzerFactory, Analyzers
from ._view import SegmentView

_BLOCK = 500
_GRACE_SECONDS = 3600
_READS = 20

_CHANGED = "target.hash != source.hash OR target.source != source.source"


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    stamp: int
    hash: str
    source: str
    root: str
    chunks: int


@dataclass(frozen=True, slots=True)
class _State:
    digest: str
    stamps: NDArray[np.int64]


class _MovedError(Exception):
    """The rows to read have been replaced meanwhile."""


class LanceStore(Store):
    """Documents and chunks of each pair in two LanceDB tables.

    Args:
        path: Folder of the database; made where it is missing.
        options: Settings; defaults where None.
        analyzers: Makes the analyzer of a pair from its spec; the built-in ones if None.
        views: Folder of saved views; ``cache/views`` beside the database where None.

    Raises:
        MissingExtraError: LanceDB is not installed.
        SchemaVersionError: A newer ragwright wrote the store.
        StoreError: The database cannot be opened.
    """

    def __init__(
        self,
        path: Path | str,
        options: StoreOptions | None = None,
        *,
        analyzers: AnalyzerFactory | None = None,
        views: Path | str | None = None,
    ) -> None:
        self._options = options or StoreOptions()
        self._path = Path(path)
        self._where = str(path)
        self._analyzers = Analyzers(analyzers)
        self._tables: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._states: dict[str, tuple[int, _State]] = {}
        with lance.explained(self._where):
            if "://" not in self._where:
                self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = lance.connect(self._where)
            facts = self._facts()
        version = int(facts["schema"])
        if version > lance.SCHEMA_VERSION:
            raise SchemaVersionError(
                f"the store has schema version {version}, "
                f"this ragwright supports {lance.SCHEMA_VERSION}",
                where=self._where,
                hint="pip install --upgrade ragwright",
            )
        folder = Path(views) if views else self._path.parent / "cache" / "views"
        self._catalog = Catalog(folder, facts["store"], self._options)

    def _facts(self) -> dict[str, str]:
        """Identity and schema version; written by the first process."""
        names = ["store", "schema"]
        values = [secrets.token_hex(8), str(lance.SCHEMA_VERSION)]
        first = lance.arrow_table({"name": names, "value": values}, lance.facts_schema())
        table = self._made("facts", lambda: self._db.create_table("facts", data=first))
        rows = lance.select(table, ["name", "value"]).to_pylist()
        return {row["name"]: row["value"] for row in reversed(rows)}

    def _made(self, name: str, make: Callable[[], Any]) -> Any:
        """The table of that name; ``make`` makes it, another process may do so first."""
        with self._lock:
            for attempt in range(_READS):
                if name in self._tables:
                    break
                try:
                    self._tables[name] = (
                        self._db.open_table(name) if name in self._names() else make()
                    )
                except (OSError, RuntimeError, ValueError):
                    # Another process is making it: listed, but not yet to be opened.
                    if attempt == _READS - 1:
                        raise
                    time.sleep(0.05)
            return self._tables[name]

    def _names(self) -> list[str]:
        return list(self._db.list_tables().tables)

    def _opened(self, name: str) -> Any | None:
        with self._lock:
            if name not in self._tables and name not in self._names():
                return None
            return self._made(name, lambda: None)

    def _documents(self, pair: IndexSpec) -> Any | None:
        return self._opened(f"documents_{pair.key}")

    def _chunks(self, pair: IndexSpec) -> Any | None:
        return self._opened(f"chunks_{pair.key}")

    def _make_tables(self, pair: IndexSpec) -> tuple[Any, Any]:
        chunks = self._made(
            f"chunks_{pair.key}",
            lambda: self._db.create_table(
                f"chunks_{pair.key}", schema=lance.chunks_schema(pair), exist_ok=True
            ),
        )

        def documents() -> Any:
            made = self._db.create_table(
                f"documents_{pair.key}", schema=lance.documents_schema(), exist_ok=True
            )
            settings = [json.dumps(asdict(pair))]
            row = {"name": [f"pair {pair.key}"], "value": settings}
            self._tables["facts"].add(lance.arrow_table(row, lance.facts_schema()))
            return made

        return self._made(f"documents_{pair.key}", documents), chunks

    def content_hashes(self, pair: IndexSpec) -> Mapping[str, str]:
        """Document id -> content hash of what is stored under the pair."""
        return {lance.from_string(row["name"]): row["hash"] for row in self._all(pair, "hash")}

    def known_documents(self, pair: IndexSpec, document_ids: Collection[str]) -> frozenset[str]:
        """The same for some ids only; reads no others."""
        keys = {text_hash(name): name for name in document_ids}
        with lance.explained(self._where):
            table = self._documents(pair)
            if table is None:
                return frozenset()
            found = [_rows(table, ["key"], one) for one in lance.one_of("key", keys)]
        return frozenset(keys[row["key"]] for rows in found for row in rows)

    def holds(self, pair: IndexSpec) -> bool:
        """True where the pair holds at least one document."""
        with lance.explained(self._where):
            table = self._documents(pair)
            return table is not None and table.count_rows() > 0

    def sources(self, pair: IndexSpec) -> Mapping[str, str]:
        """Document id -> root it was ingested from, for pruning."""
        return {
            lance.from_string(row["name"]): lance.from_string(row["root"])
            for row in self._all(pair, "root")
        }

    def _all(self, pair: IndexSpec, column: str) -> list[dict[str, Any]]:
        with lance.explained(self._where):
            table = self._documents(pair)
            if table is None:
                return []
            return list(lance.select(table, ["name", column]).to_pylist())

    def stored_vectors(self, embedder: str, hashes: Sequence[str]) -> Mapping[str, Matrix]:
        """Vectors already stored under (embedder, chunk key), in whichever pair."""
        found: dict[str, Matrix] = {}
        for pair in self.pairs():
            missing = [hash_ for hash_ in dict.fromkeys(hashes) if hash_ not in found]
            if pair.embedder != embedder or not pair.dimensions or not missing:
                continue
            with lance.explained(self._where):
                table = self._chunks(pair)
                for condition in lance.one_of("vector_key", missing):
                    rows = lance.select(table, ["vector_key", "vector"], condition)
                    vectors = _matrix(rows["vector"], pair.dimensions)
                    found |= dict(zip(rows["vector_key"].to_pylist(), vectors, strict=True))
        return found

    def upsert(
        self, pair: IndexSpec, batch: Sequence[IndexedDocument], root: str = ""
    ) -> WriteCounts:
        """Add new documents, replace changed ones with all their chunks, skip equal ones.

        The merge into the table of documents is the one commit: before it nothing of the batch
        is visible, after it all is. Counts are those of the merge, exact even beside other writers.
        """
        check_batch(batch)
        analyzer = self._analyzers.of(pair)
        keys = [text_hash(item.document.id) for item in batch]
        with lance.explained(self._where):
            documents, chunks = self._make_tables(pair)
            known = self._entries(documents, keys)
            differs: list[tuple[IndexedDocument, str]] = []
            for key, item in zip(keys, batch, strict=True):
                old, hash_ = known.get(key), item.content_hash()
                source = lance.as_string(item.document.source)
                if old is None or (old.hash, old.source) != (hash_, source):
                    differs.append((item, hash_))
            if not differs:
                self._move(documents, list(known.values()), root)
                return WriteCounts(unchanged=len(batch))
            prepared = ready(pair, differs, analyzer)
            stamps = [secrets.randbits(62) for _ in prepared]
            rows = _chunk_columns(pair, prepared, stamps)
            if rows["id"]:
                arrow = lance.arrow_table(rows, lance.chunks_schema(pair))
                lance.retried(lambda: chunks.add(arrow), self._where)
            merged = lance.retried(
                lambda: (
                    documents.merge_insert("key")
                    .when_matched_update_all(where=_CHANGED)
                    .when_not_matched_insert_all()
                    .use_index(False)
                    .execute(_document_rows(prepared, stamps, root))
                ),
                self._where,
            )
            now = self._entries(documents, keys)
            self._move(documents, list(now.values()), root)
            live = {entry.stamp for entry in now.values()}
            lost = [entry for entry in known.values() if entry.stamp not in live]
            # Also ours if another process stored the same document first.
            dead = [entry.stamp for entry in lost] + [s for s in stamps if s not in live]
            self._delete(chunks, "stamp", dead)
        own = set(stamps)
        added, changed = merged.num_inserted_rows, merged.num_updated_rows
        return WriteCounts(
            added=added,
            changed=changed,
            unchanged=len(batch) - added - changed,
            chunks_added=sum(entry.chunks for entry in now.values() if entry.stamp in own),
            chunks_removed=sum(entry.chunks for entry in lost),
        )

    def _entries(self, documents: Any, keys: Sequence[str]) -> dict[str, _Entry]:
        found = {}
        columns = ["key", "stamp", "hash", "source", "root", "chunks"]
        for condition in lance.one_of("key", keys):
            for row in lance.select(documents, columns, condition).to_pylist():
                found[row["key"]] = _Entry(**row)
        return found

    def _move(self, documents: Any, entries: Sequence[_Entry], root: str) -> None:
        """Remember another root for documents that are otherwise unchanged."""
        value = lance.as_string(root)
        moved = [entry.key for entry in entries if entry.root != value]
        for condition in lance.one_of("key", moved):
            lance.retried(
                lambda where=condition: documents.update(where=where, values={"root": value}),  # type: ignore[misc]
                self._where,
            )

    def _delete(self, table: Any, column: str, values: Sequence[int | str]) -> int:
        removed = 0
        for condition in lance.one_of(column, values):
            done = lance.retried(
                lambda where=condition: table.delete(where),  # type: ignore[misc]
                self._where,
            )
            removed += int(done.num_deleted_rows)
        return removed

    def remove(
        self, document_ids: Sequence[str], pair: IndexSpec | None = None, *, purge: bool = False
    ) -> WriteCounts:
        """Remove documents with chunks, from one pair or (None) from all, vectors included.

        With ``purge`` all tables are rewritten and their older versions removed, also those of
        pairs without documents; processes that are reading an old version at that moment read
        again. Chunks left by a crashed writer are removed too.
        """
        counts = WriteCounts()
        keys = [text_hash(name) for name in dict.fromkeys(document_ids)]
        with lance.explained(self._where):
            for one in self._known_pairs() if pair is None else [pair]:
                documents, chunks = self._documents(one), self._chunks(one)
                if documents is None or chunks is None:
                    continue
                stamps = [entry.stamp for entry in self._entries(documents, keys).values()]
                removed = self._delete(documents, "stamp", stamps)
                if purge:
                    self._sweep(documents, chunks)
                dropped = self._delete(chunks, "stamp", stamps)
                counts += WriteCounts(removed=removed, chunks_removed=dropped)
            if purge:
                self._purge(counts)
        return counts

    def _purge(self, counts: WriteCounts) -> None:
        """Remove deleted rows from every table and from the saved views."""
        for name in self._names():
            lance.purge(self._opened(name), self._where)
        live = [
            lance.select(self._documents(pair), ["stamp"])["stamp"].to_numpy()
            for pair in self.pairs()
        ]
        left = self._catalog.purge(np.concatenate(live) if live else np.empty(0, np.int64))
        if left:
            raise StoreBusyError(
                f"{counts.removed} documents and {counts.chunks_removed} chunks are removed, "
                "but their bytes stay on disk while another process reads them",
                where=str(left[0]),
                hint="end other work on this project, then forget again",
            )

    def _sweep(self, documents: Any, chunks: Any) -> None:
        """Delete chunks that no document refers to and that no writer is about to use."""
        before = time.time_ns() - _GRACE_SECONDS * 10**9
        old = lance.select(chunks, ["stamp"], f"written < {before}")["stamp"].to_numpy()
        live = lance.select(documents, ["stamp"])["stamp"].to_numpy()
        self._delete(chunks, "stamp", np.setdiff1d(old, live).tolist())

    def snapshot(self, pair: IndexSpec) -> str:
        """Name of the pair's present state; equal content has the same name in any store."""
        with lance.explained(self._where):
            return self._catalog.snapshot(pair, self._state(pair).digest)

    def _state(self, pair: IndexSpec) -> _State:
        table = self._documents(pair)
        if table is None:
            return _State(total_digest(()), np.empty(0, np.int64))
        version = table.version
        held = self._states.get(pair.key)
        if held is not None and held[0] == version:
            return held[1]
        rows = lance.select(table, ["stamp", "digest"])
        parts = (int.from_bytes(raw, "little") for raw in rows["digest"].to_pylist())
        state = _State(total_digest(parts), np.sort(rows["stamp"].to_numpy()))
        if table.version == version:
            self._states[pair.key] = (version, state)
        return state

    def view(self, pair: IndexSpec, snapshot: str | None = None) -> View:
        """A view of the present state, or of the named one while it is still open or saved."""
        with lance.explained(self._where):
            for _ in range(_READS):
                state = self._state(pair)
                current = self._catalog.snapshot(pair, state.digest)
                name = snapshot or current
                found = self._catalog.saved(pair, name)
                if found is None and name != current:
                    raise SnapshotGoneError(
                        f"the snapshot {name!r} is no longer stored",
                        where=self._where,
                        hint=f"the present one is {current!r}: start a new run on it",
                    )
                try:
                    found = found or self._catalog.build(
                        pair, name, state.stamps, lambda wanted: self._read(pair, wanted)
                    )
                except _MovedError:
                    continue
                return SegmentView(name, pair, found, self._analyzers.of(pair))
        raise StoreBusyError(
            f"the store changed during each of {_READS} readings",
            where=self._where,
            hint="try again when less is being written",
        )

    def renewed(self, pair: IndexSpec, snapshot: str) -> View:
        """The named state's view, rebuilt from the rows even if one is open or saved."""
        self._catalog.distrust(pair, snapshot)
        return self.view(pair, snapshot)

    @contextmanager
    def reading(self, pair: IndexSpec) -> Iterator[StoredState]:
        """The stored rows of the present state; only their stamps are kept in memory."""
        with lance.explained(self._where):
            state = self._state(pair)
            yield StoredState(
                self._catalog.snapshot(pair, state.digest),
                lambda: self._unmoved(pair, state.stamps),
                self._analyzers.of(pair),
                self._options.k1,
                self._options.b,
                pair.dimensions,
            )

    def _unmoved(self, pair: IndexSpec, stamps: NDArray[np.int64]) -> Iterator[StoredDocument]:
        try:
            yield from self._read(pair, stamps)
        except _MovedError as error:
            raise StoreBusyError(
                "documents were replaced while they were read",
                where=self._where,
                hint="try again when less is being written",
            ) from error

    def _read(self, pair: IndexSpec, wanted: NDArray[np.int64]) -> Iterator[StoredDocument]:
        """Documents with these stamps and their chunks; :class:`_MovedError` if some are gone."""
        documents, chunks = self._documents(pair), self._chunks(pair)
        columns = ["stamp", "chunks", *COLUMNS]
        chunk_columns = [field for field in lance.chunks_schema(pair).names if field != "text"]
        for start in range(0, len(wanted), _BLOCK):
            block = wanted[start : start + _BLOCK].tolist()
            condition = next(lance.one_of("stamp", block))
            heads = {row["stamp"]: row for row in _rows(documents, columns, condition)}
            if len(heads) != len(block):
                raise _MovedError
            pieces: dict[int, list[tuple[int, StoredChunk]]] = {}
            for row in _rows(chunks, chunk_columns, condition):
                pieces.setdefault(row["stamp"], []).append((row["ordinal"], _chunk(row)))
            for stamp in block:
                found = sorted(pieces.get(stamp, ()), key=lambda piece: piece[0])
                if len(found) != heads[stamp]["chunks"]:
                    raise _MovedError
                yield _stored(heads[stamp], [chunk for _, chunk in found])

    def documents(self, pair: IndexSpec) -> Iterator[Document]:
        """Stored documents by id, a block of them in memory at a time."""
        names = sorted(self.content_hashes(pair))
        for start in range(0, len(names), 20):
            keys = [text_hash(name) for name in names[start : start + 20]]
            with lance.explained(self._where):
                rows = _rows(self._documents(pair), COLUMNS, next(lance.one_of("key", keys)))
            yield from sorted(map(_document, rows), key=lambda document: document.id)

    def document(self, document_id: str) -> Document | None:
        """One stored document (the last one written, if pairs differ), or None."""
        condition = next(lance.one_of("key", [text_hash(document_id)]))
        found: list[dict[str, Any]] = []
        for pair in self.pairs():
            with lance.explained(self._where):
                found += _rows(self._documents(pair), ["written", *COLUMNS], condition)
        newest = max(found, key=lambda row: int(row["written"]), default=None)
        return _document(newest) if newest else None

    def pairs(self) -> Sequence[IndexSpec]:
        """Every pair that holds at least one document."""
        with lance.explained(self._where):
            pairs = self._known_pairs()
            return [p for p in pairs if (t := self._documents(p)) is not None and t.count_rows()]

    def _known_pairs(self) -> list[IndexSpec]:
        """Every pair that has tables."""
        rows = lance.select(self._tables["facts"], ["name", "value"]).to_pylist()
        settings = {row["name"]: row["value"] for row in rows if row["name"][:5] == "pair "}
        return [IndexSpec(**json.loads(value)) for value in settings.values()]

    def close(self) -> None:
        """Close the tables; safe to call twice. Open views stay usable."""
        self._states.clear()


def _matrix(column: Any, dimensions: int) -> Matrix:
    """A column of vectors as a matrix."""
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, np.float32).reshape(-1, dimensions)


def _rows(table: Any, columns: Sequence[str], where: str) -> list[dict[str, Any]]:
    """Rows that meet a condition, a vector as an array."""
    found = lance.select(table, columns, where)
    vectors: list[Any] = []
    if "vector" in found.column_names:
        dimensions = found.schema.field("vector").type.list_size
        vectors = list(_matrix(found["vector"], dimensions))
        found = found.drop_columns(["vector"])
    rows: list[dict[str, Any]] = found.to_pylist()
    for row, vector in zip(rows, vectors, strict=False):
        row["vector"] = vector
    return rows


def _document(row: Mapping[str, Any]) -> Document:
    return document_from([lance.from_string(row[column]) for column in COLUMNS])


def _stored(row: Mapping[str, Any], chunks: Sequence[StoredChunk]) -> StoredDocument:
    document = _document(row)
    return StoredDocument(
        stamp=row["stamp"],
        id=document.id,
        source=document.source,
        title=document.title,
        language=document.language,
        created=document.created,
        modified=document.modified,
        metadata=document.metadata,
        text=document.text,
        chunks=chunks,
    )


def _chunk(row: Mapping[str, Any]) -> StoredChunk:
    return StoredChunk(
        id=lance.from_string(row["id"]),
        start=row["start"],
        end=row["end"],
        page=row["page"],
        pages=pages_from(row["pages"]),
        headings=tuple(json.loads(row["headings"])),
        metadata=as_metadata(json.loads(row["metadata"])),
        terms=row["terms"],
        vector=row.get("vector"),
    )


def _document_rows(prepared: Sequence[ReadyDocument], stamps: Sequence[int], root: str) -> Any:
    """Documents as rows of their table."""
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
            "root": lance.as_string(root),
            "name": lance.as_string(document.id),
            "structure": structure_of(document),
            "metadata": json.dumps(dict(document.metadata)),
        }
        for name, values in columns.items():
            values.append(row[name] if name in row else lance.as_string(getattr(document, name)))
    return lance.arrow_table(columns, lance.documents_schema())


def _chunk_columns(
    pair: IndexSpec, prepared: Sequence[ReadyDocument], stamps: Sequence[int]
) -> dict[str, list[Any]]:
    """Chunks as columns of their table, their texts among them for other engines."""
    written = time.time_ns()
    columns: dict[str, list[Any]] = {name: [] for name in lance.chunks_schema(pair).names}
    for item, stamp in zip(prepared, stamps, strict=True):
        for chunk in item.chunks:
            row = {
                "stamp": stamp,
                "written": written,
                "id": lance.as_string(chunk.id),
                "text": lance.as_string(item.document.text[chunk.start : chunk.end]),
            }
            if pair.dimensions:
                row["vector_key"] = (chunk.vector_key or b"").hex()
                row["vector"] = np.frombuffer(chunk.vector or b"", np.float32)
            for name, values in columns.items():
                values.append(row[name] if name in row else getattr(chunk, name))
    return columns
