"""Index sync: the documents of gold rows that changed are embedded and written, no others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import SnapshotGoneError, require
from ..index import Pair, Store, WriteCounts
from ..ingest import Failure, Fetched
from ..records import RecordsReader, Tables, WholeChunker, record_document_id
from ._ingest import Feed, Ingest, IngestProgress
from ._opened import Opened

_KEYS = ["record_key", "record_hash"]


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Gold rows that were embedded, written, left as they were and removed."""

    embedded: int = 0
    unchanged: int = 0
    written: int = 0
    removed: int = 0
    failures: tuple[Failure, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The shape under ``index`` that ``ragwright records refresh --json`` prints."""
        return {
            "embedded": self.embedded,
            "unchanged": self.unchanged,
            "written": self.written,
            "removed": self.removed,
            "failures": [
                {"source": failure.source, "reason": failure.error.what}
                for failure in self.failures
            ],
        }


def sync_index(
    opened: Opened,
    tables: Tables,
    on_start: Callable[[IngestProgress], None] | None = None,
) -> IndexCounts:
    """Bring the index up to the newest version of gold.

    Where the index was left as the last sync left it, only rows that differ between the two
    versions are looked at; else every row is, and those that the index holds cost no more.

    Raises:
        ModelError: The embedding model fails; what was written before stays.
    """
    pair, store = opened.settled_pair(), opened.store
    total = tables.rows("gold") if tables.version else 0
    marker = _Marker.load(tables.folder, pair)
    if marker.holds(tables.version, store, pair):
        return IndexCounts(unchanged=total)
    before = _gold_before(tables, marker, store, pair)
    gone = _gone(tables, before, store, pair)
    model = opened.settings.embed.model
    embedding = (model, bool(model) and opened.models.is_local(model))
    work = Ingest(store, pair, WholeChunker(), embedding, opened.runner, None)
    if on_start is not None:
        on_start(work.progress)
    feed = Feed(RecordsReader.address, (RecordsReader(_changed(tables, before)),))
    report = work.run([feed], _no_network)
    counts = report.counts
    removed = WriteCounts() if not gone else store.remove(gone, pair)
    if not report.failures:
        _Marker(tables.version, store.snapshot(pair)).save(tables.folder, pair)
    written = counts.added + counts.changed
    return IndexCounts(
        report.embedded,
        total - written - len(report.failures),
        written,
        removed.removed,
        report.failures,
    )


def index_is_behind(opened: Opened, tables: Tables) -> bool:
    """True where the next :func:`sync_index` has something to look at; asks no model."""
    marker = _Marker.load(tables.folder, opened.pair)
    return not marker.holds(tables.version, opened.store, opened.pair)


def _no_network(url: str) -> Fetched:
    raise AssertionError(f"records are read from tables, not from {url}")


def _gold_before(
    tables: Tables, marker: _Marker, store: Store, pair: Pair
) -> dict[str, str] | None:
    """Key -> hash of the gold rows that the index holds, None where nobody knows."""
    if not marker.version or marker.snapshot != store.snapshot(pair):
        return None
    try:
        return dict(_pairs(tables, marker.version))
    except SnapshotGoneError:
        return None


def _pairs(tables: Tables, version: int | None = None) -> Iterator[tuple[str, str]]:
    for batch in tables.read("gold", _KEYS, version):
        yield from zip(*(batch.column(name).to_pylist() for name in _KEYS), strict=True)


def _changed(tables: Tables, before: dict[str, str] | None) -> Iterator[Any]:
    """Gold rows that the index may not hold."""
    pa = require("pyarrow", "records", "reading records")
    for batch in tables.read("gold"):
        if before is None:
            yield batch
            continue
        columns = (batch.column(name).to_pylist() for name in _KEYS)
        differs = [before.get(key) != hash_ for key, hash_ in zip(*columns, strict=True)]
        if any(differs):
            yield batch.filter(pa.array(differs))


def _gone(tables: Tables, before: dict[str, str] | None, store: Store, pair: Pair) -> Sequence[str]:
    """Documents in the index whose row is in gold no more."""
    now = {record_document_id(key) for key, _ in _pairs(tables)}
    if before is not None:
        return sorted({record_document_id(key) for key in before} - now)
    held = (name for name, root in store.sources(pair).items() if root == RecordsReader.address)
    return sorted(set(held) - now)


@dataclass(frozen=True, slots=True)
class _Marker:
    """Which version of the tables the index holds, and the snapshot it left."""

    version: int = 0
    snapshot: str = ""

    @classmethod
    def load(cls, folder: Path, pair: Pair) -> _Marker:
        try:
            found = json.loads(_marker_file(folder, pair).read_text("utf-8"))
            return cls(int(found["version"]), str(found["snapshot"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    def holds(self, version: int, store: Store, pair: Pair) -> bool:
        """True where the index is as it was left, and that was for this version."""
        if not version or self.version != version:
            return False
        return store.holds(pair) and store.snapshot(pair) == self.snapshot

    def save(self, folder: Path, pair: Pair) -> None:
        file = _marker_file(folder, pair)
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({"version": self.version, "snapshot": self.snapshot}), "utf-8")
        beside.replace(file)


def _marker_file(folder: Path, pair: Pair) -> Path:
    return folder / f"index-{pair.key}.json"
