"""The SQLite store, and opening the store that the settings name."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from ..core import Document, StoreBusyError, StoreDamagedError, count_noun
from . import _sqlite_rows as rows
from ._catalog import Catalog
from ._connections import StoreFile
from ._lance import LanceStore
from ._postings import AnalyzerFactory, default_analyzer
from ._prepare import (
    COLUMNS,
    check_batch,
    decode_text,
    document_from,
    encode_text,
    pack_vector,
    prepare_documents,
    total_digest,
)
from ._store import (
    IndexedDocument,
    IndexSpec,
    Matrix,
    Store,
    StoredState,
    StoreOptions,
    View,
    WriteCounts,
    snapshot_gone,
    snapshot_name,
)
from ._view import SegmentView


class SqliteStore(Store):
    """Documents, chunks, vectors and terms in one SQLite file (WAL).

    Args:
        path: The file; made where it is missing, mode 0600.
        options: Settings; defaults where None.
        analyzers: Makes the analyzer of an index spec from its spec; ours where None.
        views: Folder of saved views; ``cache/views`` beside the file where None.

    Raises:
        SchemaVersionError: Another version of ragwright wrote the file.
        StoreDamagedError: The file is damaged, or is empty although saved views belong to it.
        StoreError: The file cannot be opened, or belongs to another program.
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
        self._analyzer = cache(analyzers or default_analyzer)
        folder = Path(views) if views else self._path.parent / "cache" / "views"
        _refuse_emptied(self._path, folder)
        self._connections = StoreFile(self._path, self._options)
        with self._connections.reading() as db:
            store_id = db.execute("SELECT value FROM facts WHERE name = 'store'").fetchone()[0]
        self._catalog = Catalog(folder, store_id, self._options)

    def content_hashes(self, index_spec: IndexSpec) -> Mapping[str, str]:
        """Map each document id under the index spec to its stored content hash."""
        with self._connections.reading() as db:
            cursor = db.execute(
                "SELECT e.name, d.hash FROM entries e JOIN documents d ON d.id = e.document "
                "WHERE e.pair = (SELECT id FROM pairs WHERE key = ?)",
                (index_spec.key,),
            )
            return {decode_text(name): hash_ for name, hash_ in cursor}

    def sources(self, index_spec: IndexSpec) -> Mapping[str, str]:
        """Map each document id to the root it was ingested from, for pruning."""
        with self._connections.reading() as db:
            cursor = db.execute(
                "SELECT name, root FROM entries WHERE pair = (SELECT id FROM pairs WHERE key = ?)",
                (index_spec.key,),
            )
            return {decode_text(name): decode_text(root) for name, root in cursor}

    def stored_vectors(self, embedder: str, hashes: Sequence[str]) -> Mapping[str, Matrix]:
        """Vectors already stored under (embedder, chunk key): one row each, for those known."""
        with self._connections.reading() as db:
            keys = [bytes.fromhex(hash_) for hash_ in dict.fromkeys(hashes)]
            return {
                key.hex(): np.frombuffer(data, np.float32)
                for key, data in rows.vectors(db, embedder, keys)
            }

    def upsert(
        self, index_spec: IndexSpec, batch: Sequence[IndexedDocument], root: str = ""
    ) -> WriteCounts:
        """Add new documents, replace changed ones with all their chunks, skip equal ones.

        A document is unchanged where its content hash and its source are those stored. All
        analysis happens before the write transaction begins.
        """
        check_batch(batch)
        analyzer = self._analyzer(index_spec.analyzer)
        hashes = [item.content_hash() for item in batch]
        names = [item.document.id for item in batch]
        with self._connections.reading() as db:
            entries = rows.entries(db, index_spec, names)
        differs = [
            (item, hash_)
            for item, hash_ in zip(batch, hashes, strict=True)
            if (entry := entries.get(item.document.id)) is None
            or not entry.holds(item.document, hash_)
        ]
        prepared = {
            document.document.id: document
            for document in prepare_documents(index_spec, differs, analyzer)
        }
        with self._connections.writing() as db:
            writer = rows.BatchWriter(db, index_spec)
            entries = rows.entries(db, index_spec, names)
            for item, hash_ in zip(batch, hashes, strict=True):
                name = item.document.id
                entry = entries.get(name)
                if entry is not None and entry.holds(item.document, hash_):
                    writer.keep(entry, root)
                    continue
                if name not in prepared:
                    # Another process changed it meanwhile.
                    [prepared[name]] = prepare_documents(index_spec, [(item, hash_)], analyzer)
                writer.put(prepared[name], entry, root)
            return writer.finish()

    def replace_vectors(self, index_spec: IndexSpec, vectors: Mapping[str, Matrix]) -> None:
        """Replace stored vectors; documents and texts stay."""
        data = {bytes.fromhex(key): pack_vector(index_spec, row) for key, row in vectors.items()}
        with self._connections.writing() as db:
            index_specs = [
                p for p in self._stored_index_specs(db) if p.embedder == index_spec.embedder
            ]
            rows.drop_spare_vectors(db, 0)  # they would stay those of the former model
            if not rows.replace_vectors(
                db, index_spec.embedder, data, [p.key for p in index_specs]
            ):
                return
        # The new snapshots must not use segments with the old vectors.
        for stored_spec in index_specs:
            self._catalog.outdate(stored_spec)

    def remove(
        self,
        document_ids: Sequence[str],
        index_spec: IndexSpec | None = None,
        *,
        purge: bool = False,
    ) -> WriteCounts:
        """Remove documents with chunks, from one index spec or (None) from all, vectors included.

        With ``purge`` the log is emptied too (in the file, deleted content is always overwritten),
        and saved segments with content that is no longer stored are deleted.
        """
        names = list(dict.fromkeys(document_ids))
        counts = WriteCounts()
        with self._connections.writing() as db:
            for target in self._stored_index_specs(db) if index_spec is None else [index_spec]:
                writer = rows.BatchWriter(db, target)
                for entry in rows.entries(db, target, names).values():
                    writer.drop(entry)
                counts += writer.finish()
            if purge:
                rows.drop_spare_vectors(db, 0)
        if not purge:
            return counts
        # The log first: once it is empty, no process is building a segment from an older state.
        emptied = self._connections.empty_log()
        with self._connections.reading() as db:
            live = np.fromiter((row[0] for row in db.execute("SELECT id FROM entries")), np.int64)
        in_use = self._catalog.purge(live)
        if in_use or not emptied:
            raise StoreBusyError(
                f"{count_noun(counts.removed, 'document')} and "
                f"{count_noun(counts.chunks_removed, 'chunk')} removed, "
                "but their bytes stay on disk while another process or thread reads them",
                where=str(in_use[0] if in_use else self._path),
                hint="end other work on this project, then forget again",
            )
        return counts

    def settle(self, index_spec: IndexSpec) -> None:
        """Delete vectors that have been spare for long."""
        with self._connections.writing() as db:
            rows.drop_spare_vectors(db)

    def snapshot(self, index_spec: IndexSpec) -> str:
        """Name of the index spec's present state: ``<index spec key>@<16 digits>``.

        The digits are a hash of the documents and of k1 and b, so that equal names mean equal
        answers, on any machine.
        """
        with self._connections.reading() as db:
            return self._snapshot_name(db, index_spec)

    def view(self, index_spec: IndexSpec, snapshot: str | None = None) -> View:
        """A view of the present state, or of the named one while it is still open or saved."""
        with self._connections.reading() as db:
            current = self._snapshot_name(db, index_spec)
            name = snapshot or current
            state = self._catalog.saved(index_spec, name)
            if state is None:
                if name != current:
                    raise snapshot_gone(name, current, str(self._path))
                live = rows.stamps(db, index_spec)
                state = self._catalog.build(
                    index_spec,
                    name,
                    live,
                    lambda stamps: rows.documents_with_chunks(db, index_spec, stamps),
                )
        return SegmentView(name, index_spec, state, self._analyzer(index_spec.analyzer))

    def rebuild_view(self, index_spec: IndexSpec, snapshot: str) -> View:
        """The named state's view, built from the rows even if one is open or saved."""
        self._catalog.outdate(index_spec)
        return self.view(index_spec, snapshot)

    @contextmanager
    def reading(self, index_spec: IndexSpec) -> Iterator[StoredState]:
        """The stored rows of the present state, within one read transaction."""
        with self._connections.reading() as db:
            yield StoredState(
                self._snapshot_name(db, index_spec),
                lambda: rows.documents_with_chunks(db, index_spec, rows.stamps(db, index_spec)),
                self._analyzer(index_spec.analyzer),
                self._options.k1,
                self._options.b,
                index_spec.dimensions,
            )

    def documents(self, index_spec: IndexSpec) -> Iterator[Document]:
        """Stored documents by id, one in memory at a time, all of one state."""
        with self._connections.reading() as db:
            columns = ", ".join(f"d.{column}" for column in COLUMNS)
            cursor = db.execute(
                f"SELECT {columns} FROM entries e JOIN documents d ON d.id = e.document "  # noqa: S608
                "WHERE e.pair = (SELECT id FROM pairs WHERE key = ?) ORDER BY e.name",
                (index_spec.key,),
            )
            for row in cursor:
                yield document_from(row)

    def document(self, document_id: str) -> Document | None:
        """One stored document (the one written last, should index specs differ), or None."""
        with self._connections.reading() as db:
            row = db.execute(
                f"SELECT {', '.join(COLUMNS)} FROM documents d WHERE name = ? "  # noqa: S608
                "AND EXISTS (SELECT 1 FROM entries WHERE document = d.id) "
                "ORDER BY id DESC LIMIT 1",
                (encode_text(document_id),),
            ).fetchone()
            return document_from(row) if row else None

    def index_specs(self) -> Sequence[IndexSpec]:
        """Every index spec that holds at least one document."""
        with self._connections.reading() as db:
            return list(self._stored_index_specs(db))

    def _snapshot_name(self, db: sqlite3.Connection, index_spec: IndexSpec) -> str:
        row = db.execute("SELECT digest FROM pairs WHERE key = ?", (index_spec.key,)).fetchone()
        return snapshot_name(index_spec, row[0] if row else total_digest(()), self._options)

    @staticmethod
    def _stored_index_specs(db: sqlite3.Connection) -> Iterable[IndexSpec]:
        stored = db.execute(
            "SELECT settings FROM pairs p WHERE EXISTS "
            "(SELECT 1 FROM entries WHERE pair = p.id) ORDER BY p.id"
        ).fetchall()
        return [IndexSpec(**json.loads(settings)) for (settings,) in stored]

    def close(self) -> None:
        """Close files; safe to call twice. Open views stay usable."""
        self._connections.close()


def _refuse_emptied(path: Path, views: Path) -> None:
    """Refuse an empty file that was a store: SQLite would start a new one in it."""
    if not path.is_file() or path.stat().st_size or not any(views.glob("*/*/*.view")):
        return
    log = path.with_name(f"{path.name}-wal")
    if not log.is_file() or not log.stat().st_size:
        raise StoreDamagedError(
            f"{path.name} is empty, but saved views show that it once held documents",
            where=str(path),
            hint="restore it from a backup, or delete it and run: ragwright ingest (documents, "
            "chunks and vectors are made again)",
        )


def open_store(
    options: StoreOptions,
    folder: Path,
    analyzers: AnalyzerFactory | None = None,
    *,
    root: Path | None = None,
) -> Store:
    """The store of a project.

    Args:
        options: Kind, path and settings.
        folder: The project's data folder (``.ragwright``): holds ``data/`` and ``cache/``.
        analyzers: Makes the analyzer of an index spec from its spec; ours where None.
        root: The project folder, where relative paths of the options start; ``folder`` if None.

    Raises:
        MissingExtraError: The kind needs a package that is not installed.
        SchemaVersionError: Another version of ragwright wrote the store.
        StoreError: The store cannot be opened.
    """
    path = folder / f"data/store.{options.kind}"
    if options.path:
        path = (root or folder) / options.path
    if options.kind == "lance":
        # An address (s3://…) is not a path below the project.
        place = options.path if "://" in options.path else path
        return LanceStore(place, options, analyzers=analyzers)
    return SqliteStore(path, options, analyzers=analyzers, views=folder / "cache/views")
