"""The store that scales out: Lance tables as truth, and searches answered from their indexes.

Any number of processes may write; other engines (Daft, Ray) read the tables as they are.
Processes must be spawned, not forked: LanceDB's threads do not survive a fork.
``docs/decisions/0017-lance.md`` describes the tables and how a batch becomes visible.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core import Document, SchemaVersionError, SnapshotGoneError, text_hash
from . import _lance_tables as lance, _lance_upkeep as upkeep
from ._lance_state import (
    OpenTables,
    Pinned,
    Totals,
    keep_version,
    pin,
    search_facts,
    stamps_of,
    store_facts,
    tag_of,
    totals_of,
)
from ._lance_tables import (
    chunk_rows,
    document_of,
    document_rows,
    documents_with_chunks,
    facet_values,
    matrix,
    rows_of,
)
from ._lance_view import LanceView
from ._postings import AnalyzerFactory, default_analyzer
from ._prepare import COLUMNS, check_batch, prepare_documents, total_digest
from ._store import (
    IndexedDocument,
    IndexSpec,
    LanceSizes,
    Matrix,
    Store,
    StoredState,
    StoreOptions,
    View,
    WriteCounts,
    snapshot_gone,
    snapshot_name,
)


class KnownValues:
    """Adds values that a table lacks; knows those it has seen there.

    Args:
        where: The store, for errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: dict[str, tuple[int, set[tuple[str, str]]]] = {}

    def add(self, index_spec: IndexSpec, table: Any, values: set[tuple[str, str]]) -> None:
        """Add (field, value) pairs that the table lacks; one twice does no harm."""
        version = table.version
        known_version, stored = self._known.get(index_spec.key, (-1, set()))
        if known_version != version:  # another process has written, or taken values out (`forget`)
            rows = lance.select(table, ["field", "value"])
            stored = set(zip(rows["field"].to_pylist(), rows["value"].to_pylist(), strict=True))
        fresh = values - stored
        if fresh:
            lance.retry_conflicts(lambda: table.add(_value_rows(fresh)), self._where)
        self._known[index_spec.key] = (version + bool(fresh), stored | fresh)

    def renew(self, index_spec: IndexSpec, chunks: Any, table: Any) -> None:
        """Write the table anew, from the chunks that are left."""
        self._known.pop(index_spec.key, None)
        if chunks is None or table is None:
            return
        facets: set[str] = set()
        own_values: set[tuple[str, str]] = set()
        for batch in lance.batches(chunks, ["facets", *lance.OWN_COLUMNS.values()]):
            facets.update(batch["facets"].flatten().unique().to_pylist())
            for name, column in lance.OWN_COLUMNS.items():
                if any(batch[column].unique().to_pylist()):
                    own_values.add((name, ""))
        rows = _value_rows(own_values | facet_values(facets))
        lance.retry_conflicts(lambda: table.add(rows, mode="overwrite"), self._where)


def _value_rows(field_values: set[tuple[str, str]]) -> Any:
    ordered = sorted(field_values)
    columns = {"field": [field for field, _ in ordered], "value": [value for _, value in ordered]}
    return lance.arrow_table(columns, lance.values_schema())


_BLOCK = 500
_GRACE_SECONDS = 3600
_KEYS = 20_000
"""Documents that are looked up by one reading of all keys, which no index covers."""

_IN_MEMORY = 200_000
"""Chunks up to which a second index in memory may answer for a failed view."""

_CHANGED = "target.hash != source.hash OR target.source != source.source"


class LanceStore(Store):
    """Documents and chunks of each index spec in two LanceDB tables.

    Args:
        path: Folder of the database; made where it is missing.
        options: Settings; defaults where None.
        analyzers: Makes the analyzer of an index spec from its spec; the built-in ones if None.
        sizes: From how many chunks on indexes are built and asked; measured defaults where None.

    Raises:
        MissingExtraError: LanceDB is not installed.
        SchemaVersionError: Another version of ragwright wrote the store.
        StoreError: The database cannot be opened.
    """

    def __init__(
        self,
        path: Path | str,
        options: StoreOptions | None = None,
        *,
        analyzers: AnalyzerFactory | None = None,
        sizes: LanceSizes | None = None,
    ) -> None:
        self._options = options or StoreOptions()
        self._sizes = sizes or LanceSizes()
        self._path = Path(path)
        self._where = str(path)
        self._remote = "://" in self._where
        self._analyzer = cache(analyzers or default_analyzer)
        self._totals: dict[str, tuple[int, Totals]] = {}
        self._values = KnownValues(self._where)
        self._merges = 0
        with lance.type_lance_errors(self._where):
            if not self._remote:
                self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = lance.connect(self._where)
            self._tables = OpenTables(self._db)
            facts = store_facts(self._db, self._tables, self._where)
        version = int(facts.get("schema", 0))
        if version != lance.SCHEMA_VERSION:
            raise SchemaVersionError(
                f"the store has schema version {version}; "
                f"this ragwright reads {lance.SCHEMA_VERSION}",
                where=self._where,
                hint=f"move {self._where} away, then run: ragwright ingest",
            )

    def _documents_table(self, index_spec: IndexSpec) -> Any | None:
        return self._tables.open_table(f"documents_{index_spec.key}")

    def _chunks_table(self, index_spec: IndexSpec) -> Any | None:
        return self._tables.open_table(f"chunks_{index_spec.key}")

    def _make_tables(self, index_spec: IndexSpec) -> tuple[Any, Any]:
        """Documents and chunks; an index spec is named among the facts before it has tables."""
        if all(other.key != index_spec.key for other in self._known_index_specs()):
            row = {"name": [f"pair {index_spec.key}"], "value": [json.dumps(asdict(index_spec))]}
            self._tables["facts"].add(lance.arrow_table(row, lance.facts_schema()))
        self._tables.make(f"values_{index_spec.key}", lance.values_schema())
        chunks = self._tables.make(f"chunks_{index_spec.key}", lance.chunks_schema(index_spec))
        return self._tables.make(f"documents_{index_spec.key}", lance.documents_schema()), chunks

    def content_hashes(self, index_spec: IndexSpec) -> Mapping[str, str]:
        """Map each document id under the index spec to its stored content hash."""
        return {
            lance.unescape_surrogates(row["name"]): row["hash"]
            for row in self._all_rows(index_spec, "hash")
        }

    def sources(self, index_spec: IndexSpec) -> Mapping[str, str]:
        """Map each document id to the root it was ingested from, for pruning."""
        return {
            lance.unescape_surrogates(row["name"]): lance.unescape_surrogates(row["root"])
            for row in self._all_rows(index_spec, "root")
        }

    def _all_rows(self, index_spec: IndexSpec, column: str) -> list[dict[str, Any]]:
        with lance.type_lance_errors(self._where):
            table = self._documents_table(index_spec)
            if table is None:
                return []
            return list(lance.select(table, ["name", column]).to_pylist())

    def stored_vectors(self, embedder: str, hashes: Sequence[str]) -> Mapping[str, Matrix]:
        """Vectors already stored under (embedder, chunk key), in whichever index spec."""
        vectors_by_key: dict[str, Matrix] = {}
        for index_spec in self.index_specs():
            missing = [hash_ for hash_ in dict.fromkeys(hashes) if hash_ not in vectors_by_key]
            if index_spec.embedder != embedder or not index_spec.dimensions or not missing:
                continue
            with lance.type_lance_errors(self._where):
                table = self._chunks_table(index_spec)
                for condition in lance.one_of("vector_key", missing):
                    rows = lance.select(table, ["vector_key", "vector"], condition)
                    vectors = matrix(rows["vector"])
                    vectors_by_key |= dict(
                        zip(rows["vector_key"].to_pylist(), vectors, strict=True)
                    )
        return vectors_by_key

    def upsert(
        self, index_spec: IndexSpec, batch: Sequence[IndexedDocument], root: str = ""
    ) -> WriteCounts:
        """Add new documents, replace changed ones with all their chunks, skip equal ones.

        The merge into the table of documents is the one commit: before it nothing of the batch
        is visible, after it all is; only documents that another process stored since they were
        looked for are replaced by a second one. Counts are exact even beside other writers.
        """
        check_batch(batch)
        analyzer = self._analyzer(index_spec.analyzer)
        keys = [text_hash(item.document.id) for item in batch]
        with lance.type_lance_errors(self._where):
            documents, chunks = self._make_tables(index_spec)
            stored = self._entries_of(documents, keys)
            differs: list[tuple[IndexedDocument, str]] = []
            for key, item in zip(keys, batch, strict=True):
                content = {
                    "hash": item.content_hash(),
                    "source": lance.escape_surrogates(item.document.source),
                }
                if stored.get(key, {}).items() >= content.items():
                    continue
                differs.append((item, content["hash"]))
            if not differs:
                self._change_root(documents, stored, root)
                return WriteCounts(unchanged=len(batch))
            prepared = prepare_documents(index_spec, differs, analyzer)
            stamps = [secrets.randbits(62) for _ in prepared]
            rows, values = chunk_rows(index_spec, prepared, stamps)
            if rows.num_rows:
                lance.retry_conflicts(lambda: chunks.add(rows), self._where)
            self._values.add(
                index_spec, self._tables.open_table(f"values_{index_spec.key}"), values
            )
            described = document_rows(prepared, stamps, root)
            merge = documents.merge_insert("key").when_not_matched_insert_all().use_index(False)
            merge = merge.when_matched_update_all(where=_CHANGED)
            merged = lance.retry_conflicts(lambda: merge.execute(described), self._where)
            self._merges += 1
            if self._merges % self._sizes.joined == 0:
                with suppress(OSError, RuntimeError, ValueError):  # a later one, or maintenance
                    documents.optimize()
            present = self._entries_of(documents, keys)
            self._change_root(documents, present, root)
            live = {entry["stamp"] for entry in present.values()}
            lost = [entry for entry in stored.values() if entry["stamp"] not in live]
            # Also ours if another process stored the same document first.
            dead = {*stamps, *(entry["stamp"] for entry in lost)} - live
            lance.delete_rows(chunks, "stamp", dead, self._where)
        added, changed = merged.num_inserted_rows, merged.num_updated_rows
        return WriteCounts(
            added=added,
            changed=changed,
            unchanged=len(batch) - added - changed,
            chunks_added=sum(e["chunks"] for e in present.values() if e["stamp"] in stamps),
            chunks_removed=sum(entry["chunks"] for entry in lost),
        )

    def _entries_of(self, documents: Any, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Stamp, hash, source, root and number of chunks of stored documents, by key."""
        columns = ["key", "stamp", "hash", "source", "root", "chunks"]
        return {
            row["key"]: row
            for condition in lance.one_of("key", keys, _KEYS)
            for row in lance.select(documents, columns, condition).to_pylist()
        }

    def _change_root(self, documents: Any, entries: Mapping[str, Any], root: str) -> None:
        """Remember another root for documents that are otherwise unchanged."""
        value = lance.escape_surrogates(root)
        moved = [key for key, entry in entries.items() if entry["root"] != value]
        for condition in lance.one_of("key", moved):
            lance.retry_conflicts(
                lambda where=condition: documents.update(where=where, values={"root": value}),  # type: ignore[misc]
                self._where,
            )

    def remove(
        self,
        document_ids: Sequence[str],
        index_spec: IndexSpec | None = None,
        *,
        purge: bool = False,
    ) -> WriteCounts:
        """Remove documents with chunks, from one index spec or (None) from all, vectors included.

        With ``purge`` all tables are rewritten and their older versions removed, also those of
        index specs without documents; processes that are reading an old version at that moment read
        again. Chunks left by a crashed writer are removed too, and so are files that no version
        names: nobody else may write to the store meanwhile. In an object store, which other
        machines may be writing to, such files stay for seven days.
        """
        counts = WriteCounts()
        keys = [text_hash(name) for name in dict.fromkeys(document_ids)]
        with lance.type_lance_errors(self._where):
            for target in self._known_index_specs() if index_spec is None else [index_spec]:
                documents, chunks = self._documents_table(target), self._chunks_table(target)
                if documents is None or chunks is None:
                    continue
                stamps = [entry["stamp"] for entry in self._entries_of(documents, keys).values()]
                removed = lance.delete_rows(documents, "stamp", stamps, self._where)
                dropped = lance.delete_rows(chunks, "stamp", stamps, self._where)
                if purge:
                    grace = _GRACE_SECONDS if self._remote else 0
                    upkeep.sweep_orphans(documents, chunks, self._where, grace)
                counts += WriteCounts(removed=removed, chunks_removed=dropped)
            if purge:
                self._purge_tables()
        return counts

    def _purge_tables(self) -> None:
        """Remove deleted rows and earlier versions from every table, and build its indexes anew."""
        for index_spec in self._known_index_specs():
            self._values.renew(
                index_spec,
                self._chunks_table(index_spec),
                self._tables.open_table(f"values_{index_spec.key}"),
            )
        for name in self._tables.names():
            table = self._tables.open_table(name)
            if table is not None:
                upkeep.purge(table, self._where, unnamed=not self._remote)
        if not self._remote:
            upkeep.purge_folder(self._path)
        for index_spec in self.index_specs():
            self.settle(index_spec)

    def snapshot(self, index_spec: IndexSpec) -> str:
        """Name of the index spec's present state; equal content has the same name in any store."""
        with lance.type_lance_errors(self._where):
            return snapshot_name(index_spec, self._present_totals(index_spec).digest, self._options)

    def _present_totals(self, index_spec: IndexSpec) -> Totals:
        table = self._documents_table(index_spec)
        if table is None:
            return Totals(total_digest(()), 0, 0, 0)
        version = table.version
        cached = self._totals.get(index_spec.key)
        if cached is not None and cached[0] == version:
            return cached[1]
        totals = totals_of(table)
        if table.version == version:
            self._totals[index_spec.key] = (version, totals)
        return totals

    def view(self, index_spec: IndexSpec, snapshot: str | None = None) -> View:
        """A view of the present state, or of the named one while its versions are kept."""
        with lance.type_lance_errors(self._where):
            if self._documents_table(index_spec) is None:
                self._make_tables(index_spec)
            return LanceView(
                snapshot or "",
                index_spec,
                partial(self.pinned, index_spec),
                self._analyzer(index_spec.analyzer),
                self._options,
                self._sizes,
                self._where,
            )

    def pinned(self, index_spec: IndexSpec, name: str) -> tuple[str, Pinned, Mapping[str, Any]]:
        """Tables of a state: the present one if it has this name, else the versions kept for it.

        Returns:
            The name of the state, its tables, and what was measured of its indexes.

        Raises:
            SnapshotGoneError: Its versions are no longer kept.
        """
        facts = search_facts(self._tables.open_fresh("facts"), index_spec)
        state = pin(self._tables.open_fresh, index_spec, self._where)
        current = snapshot_name(index_spec, state.totals.digest, self._options)
        if name and name != current:
            try:
                state = pin(self._tables.open_fresh, index_spec, self._where, tag_of(name))
            except SnapshotGoneError:
                raise snapshot_gone(name, current, self._where) from None
            return name, state, facts
        for table in (state.documents, state.chunks):
            keep_version(table, current)
        return current, state, facts

    def settle(self, index_spec: IndexSpec) -> None:
        """Bring indexes up to date, join small files, remove versions that nothing needs.

        Chunks that a crashed writer left more than an hour ago are removed.
        """
        with lance.type_lance_errors(self._where):
            documents, chunks = self._documents_table(index_spec), self._chunks_table(index_spec)
            if documents is None or chunks is None or not documents.count_rows():
                return
            upkeep.sweep_orphans(documents, chunks, self._where, _GRACE_SECONDS)
            facts = search_facts(self._tables.open_fresh("facts"), index_spec)
            if chunks.count_rows() < self._sizes.indexed:
                upkeep.compact([documents, chunks], self._where)
            elif upkeep.needs_build(chunks, self._options, facts, self._sizes.stale):
                lists = upkeep.build(documents, chunks, self._options, facts, self._where)
                measurements = upkeep.measure_indexes(
                    pin(self._tables.open_fresh, index_spec, self._where), self._options, lists
                )
                value = json.dumps(measurements)
                lance.set_fact(
                    self._tables["facts"], f"search {index_spec.key}", value, self._where
                )
            else:
                return
            upkeep.retire([documents, chunks], self._where)

    @contextmanager
    def reading(self, index_spec: IndexSpec) -> Iterator[StoredState]:
        """The stored rows of the present state; only their stamps are kept in memory."""
        with lance.type_lance_errors(self._where):
            documents, chunks = self._documents_table(index_spec), self._chunks_table(index_spec)
            stamps = np.sort(stamps_of(documents)) if documents else np.empty(0, np.int64)
            yield StoredState(
                self.snapshot(index_spec),
                lambda: documents_with_chunks(documents, chunks, stamps, self._where),
                self._analyzer(index_spec.analyzer),
                self._options.k1,
                self._options.b,
                index_spec.dimensions,
                self._present_totals(index_spec).chunks <= _IN_MEMORY,
            )

    def documents(self, index_spec: IndexSpec) -> Iterator[Document]:
        """Stored documents by id, a block of them in memory at a time."""
        names = sorted(self.content_hashes(index_spec))
        for start in range(0, len(names), 20):
            keys = [text_hash(name) for name in names[start : start + 20]]
            with lance.type_lance_errors(self._where):
                rows = rows_of(
                    self._documents_table(index_spec), COLUMNS, next(lance.one_of("key", keys))
                )
            yield from sorted(map(document_of, rows), key=lambda document: document.id)

    def document(self, document_id: str) -> Document | None:
        """One stored document (the last one written, if index specs differ), or None."""
        condition = next(lance.one_of("key", [text_hash(document_id)]))
        rows: list[dict[str, Any]] = []
        for index_spec in self.index_specs():
            with lance.type_lance_errors(self._where):
                rows += rows_of(self._documents_table(index_spec), ["written", *COLUMNS], condition)
        newest = max(rows, key=lambda row: int(row["written"]), default=None)
        return document_of(newest) if newest else None

    def index_specs(self) -> Sequence[IndexSpec]:
        """Every index spec that holds at least one document."""
        with lance.type_lance_errors(self._where):
            index_specs = self._known_index_specs()
            return [
                p
                for p in index_specs
                if (t := self._documents_table(p)) is not None and t.count_rows()
            ]

    def _known_index_specs(self) -> list[IndexSpec]:
        """All index specs that have tables."""
        rows = lance.select(self._tables["facts"], ["name", "value"]).to_pylist()
        settings = {row["name"]: row["value"] for row in rows if row["name"][:5] == "pair "}
        return [IndexSpec(**json.loads(value)) for value in settings.values()]

    def close(self) -> None:
        """Close the tables; safe to call twice. Open views stay usable."""
        self._totals.clear()
