"""Index sync: embeds and writes only the documents of changed gold rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import index, project, records
from ...core import SnapshotGoneError, replace_text
from ...index import IndexSpec, Store
from ...ingest import Fetched
from ...ledger import FileLock
from ...project import IngestProgress, Project
from ...records import Changes, RecordTables
from ._refreshing import IndexCounts

_KEY = "record_key"


def sync_index(
    opened: Project,
    tables: RecordTables,
    on_start: Callable[[IngestProgress], None] | None = None,
) -> IndexCounts:
    """Update the index to the newest version of gold.

    If the index is unchanged since the last sync, only rows that differ between the two versions
    are read; else all rows are read, and those already in the index cost nothing more.

    One process at a time updates an index, to the version that is newest when it begins: later
    versions are left to the next sync.

    Raises:
        ModelError: The embedding model fails; what was written before stays.
        StoreBusyError: Another process is doing this for longer than ``records.wait`` seconds.
    """
    pair = opened.settled_spec()
    lock = tables.folder / f"index-{pair.key}.lock"
    tables.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(
        lock,
        "index sync of records",
        wait=opened.settings.part("records", records.RecordsOptions).wait,
    ):
        return _sync_locked(opened, tables, pair, on_start)


def _sync_locked(
    opened: Project,
    tables: RecordTables,
    pair: IndexSpec,
    on_start: Callable[[IngestProgress], None] | None,
) -> IndexCounts:
    store, version = opened.store, tables.version
    total = tables.rows("gold", version) if version else 0
    marker = _Marker.load(tables.folder, pair, opened.settings.groups.key)
    if marker.holds(version, store, pair):
        return IndexCounts(unchanged=total)
    changes = _known_changes(tables, version, marker, store, pair)
    known = changes is not None
    rows, gone = (
        (changes.rows, changes.gone)
        if changes
        else _all_rows_and_gone(tables, version, store, pair)
    )
    model = opened.settings.embed.model
    embedding = (model, bool(model) and opened.models.is_local(model))
    work = project.Ingest(store, pair, records.MessageChunker(), embedding, opened.runner, None)
    if on_start is not None:
        on_start(work.progress)
    feed = project.Feed(
        records.RecordsReader.address,
        (records.RecordsReader(rows),),
        changes=known,
        groups=opened.settings.groups,
    )
    report = work.run([feed], _no_network)
    counts = report.counts
    gone_documents = [records.record_document_id(key) for key in gone]
    removed = store.remove(gone_documents, pair) if gone_documents else index.WriteCounts()
    if not report.failures:
        saved = _Marker(version, store.snapshot(pair), opened.settings.groups.key)
        saved.save(tables.folder, pair)
    written = counts.added + counts.changed
    return IndexCounts(
        report.embedded,
        total - written - len(report.failures),
        written,
        removed.removed,
        report.failures,
    )


def index_is_behind(opened: Project, tables: RecordTables) -> bool:
    """True if the next :func:`sync_index` has work; calls no model."""
    marker = _Marker.load(tables.folder, opened.pair, opened.settings.groups.key)
    return not marker.holds(tables.version, opened.store, opened.pair)


def _no_network(url: str) -> Fetched:
    raise AssertionError(f"records are read from tables, not from {url}")


def _known_changes(
    tables: RecordTables, version: int, marker: _Marker, store: Store, pair: IndexSpec
) -> Changes | None:
    """Return the differences of gold and the index, None if the index's version is unknown."""
    if not marker.version or marker.snapshot != store.snapshot(pair):
        return None
    try:
        return tables.changes("gold", marker.version, version)
    except SnapshotGoneError:
        return None


def _all_rows_and_gone(
    tables: RecordTables, version: int, store: Store, pair: IndexSpec
) -> tuple[Iterator[Any], Sequence[str]]:
    """Return all rows of gold, and the indexed keys that gold no longer contains."""
    indexed_keys = {
        key
        for name, root in store.sources(pair).items()
        if root == records.RecordsReader.address and (key := records.record_key(name)) is not None
    }
    if indexed_keys:
        for batch in tables.read("gold", [_KEY], version):
            indexed_keys.difference_update(batch.column(_KEY).to_pylist())
    return tables.read("gold", version=version), sorted(indexed_keys)


@dataclass(frozen=True, slots=True)
class _Marker:
    """The version of the tables in the index, its snapshot, and the rules of readers' groups."""

    version: int = 0
    snapshot: str = ""
    rules: str = ""

    @classmethod
    def load(cls, folder: Path, pair: IndexSpec, rules: str) -> _Marker:
        """The marker of the last sync; nothing is known of one under other rules."""
        try:
            stored = json.loads(_marker_file(folder, pair).read_text("utf-8"))
            if stored.get("rules", "") != rules:
                return cls()
            return cls(int(stored["version"]), str(stored["snapshot"]), rules)
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    def holds(self, version: int, store: Store, pair: IndexSpec) -> bool:
        """True if the index is unchanged since the sync of this version."""
        if not version or self.version != version:
            return False
        return store.holds(pair) and store.snapshot(pair) == self.snapshot

    def save(self, folder: Path, pair: IndexSpec) -> None:
        file = _marker_file(folder, pair)
        marker = {"version": self.version, "snapshot": self.snapshot, "rules": self.rules}
        replace_text(file, json.dumps(marker), private=True)


def _marker_file(folder: Path, pair: IndexSpec) -> Path:
    return folder / f"index-{pair.key}.json"
