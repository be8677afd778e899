"""Settings and results of a refresh of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from .. import index, project, records
from ..core import ConfigError, RagwrightError, RecordsError, SnapshotGoneError, replace_text
from ..engines import open_engine
from ..index import IndexSpec, Store
from ..ingest import Failure, Fetched
from ..ledger import FileLock
from ..project import IngestProgress, Project
from ..records import (
    Changes,
    CheckReport,
    RecordsOptions,
    RecordsSpec,
    RecordTables,
    RefreshProgress,
    RefreshReport,
    TableName,
    spec_faults,
)


@dataclass(frozen=True, slots=True)
class RefreshOptions:
    """Settings of a refresh, in addition to the declarations.

    Attributes:
        source: Source that overrides source.yaml; ``key`` and ``text`` likewise.
        query: Query that overrides source.yaml.
        engine: Engine that overrides ``records.engine``.
        full: Run every step again, also for unchanged rows.
        index: Also update the index.
        dry_run: Do everything, but store nothing.
        max_chars: Length that overrides ``max_characters`` of cleaning.yaml.
    """

    source: str = ""
    key: str = ""
    text: str = ""
    query: str = ""
    engine: str = ""
    full: bool = False
    index: bool = True
    dry_run: bool = False
    max_chars: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the keys of source.yaml that are overridden."""
        overrides = {"source": self.source, "key": self.key, "text": self.text, "query": self.query}
        settings: dict[str, Any] = {name: value for name, value in overrides.items() if value}
        if self.source and not self.query:
            settings["query"] = ""
        return settings


@dataclass(frozen=True, slots=True)
class RecordsReport:
    """Results of a refresh for the tables, and for the index (None if it was not updated)."""

    tables: RefreshReport
    index: IndexCounts | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the form that ``ragwright records refresh --json`` prints."""
        body = self.tables.as_dict()
        if self.index is not None:
            body["index"] = self.index.as_dict()
        return body


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Gold rows that were embedded, written, unchanged and removed."""

    embedded: int = 0
    unchanged: int = 0
    written: int = 0
    removed: int = 0
    failures: tuple[Failure, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Return the form under ``index`` that ``ragwright records refresh --json`` prints."""
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
    spec = opened.settled_spec()
    lock = tables.folder / f"index-{spec.key}.lock"
    tables.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(
        lock,
        "index sync of records",
        wait=opened.settings.part("records", records.RecordsOptions).wait,
    ):
        return _sync_locked(opened, tables, spec, on_start)


def _sync_locked(
    opened: Project,
    tables: RecordTables,
    spec: IndexSpec,
    on_start: Callable[[IngestProgress], None] | None,
) -> IndexCounts:
    store, version = opened.store, tables.version
    total = tables.rows("gold", version) if version else 0
    marker = _Marker.load(tables.folder, spec, opened.settings.groups.key)
    if marker.holds(version, store, spec):
        return IndexCounts(unchanged=total)
    changes = _known_changes(tables, version, marker, store, spec)
    known = changes is not None
    rows, gone = (
        (changes.rows, changes.gone)
        if changes
        else _all_rows_and_gone(tables, version, store, spec)
    )
    model = opened.settings.embed.model
    embedding = (model, bool(model) and opened.models.is_local(model))
    work = project.Ingest(store, spec, records.MessageChunker(), embedding, opened.runner, None)
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
    removed = store.remove(gone_documents, spec) if gone_documents else index.WriteCounts()
    if not report.failures:
        _Marker(version, store.snapshot(spec), opened.settings.groups.key).save(tables.folder, spec)
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
    return not _Marker.load(tables.folder, opened.index_spec, opened.settings.groups.key).holds(
        tables.version, opened.store, opened.index_spec
    )


def _no_network(url: str) -> Fetched:
    raise AssertionError(f"records are read from tables, not from {url}")


def _known_changes(
    tables: RecordTables, version: int, marker: _Marker, store: Store, spec: IndexSpec
) -> Changes | None:
    """Return the differences of gold and the index, None if the index's version is unknown."""
    if not marker.version or marker.snapshot != store.snapshot(spec):
        return None
    try:
        return tables.changes("gold", marker.version, version)
    except SnapshotGoneError:
        return None


def _all_rows_and_gone(
    tables: RecordTables, version: int, store: Store, spec: IndexSpec
) -> tuple[Iterator[Any], Sequence[str]]:
    """Return all rows of gold, and the indexed keys that gold no longer contains."""
    indexed_keys = {
        key
        for name, root in store.sources(spec).items()
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
    def load(cls, folder: Path, spec: IndexSpec, rules: str) -> _Marker:
        """The marker of the last sync; nothing is known of one under other rules."""
        try:
            stored = json.loads(_marker_file(folder, spec).read_text("utf-8"))
            if stored.get("rules", "") != rules:
                return cls()
            return cls(int(stored["version"]), str(stored["snapshot"]), rules)
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    def holds(self, version: int, store: Store, spec: IndexSpec) -> bool:
        """True if the index is unchanged since the sync of this version."""
        if not version or self.version != version:
            return False
        return store.holds(spec) and store.snapshot(spec) == self.snapshot

    def save(self, folder: Path, spec: IndexSpec) -> None:
        file = _marker_file(folder, spec)
        replace_text(
            file,
            json.dumps({"version": self.version, "snapshot": self.snapshot, "rules": self.rules}),
            private=True,
        )


def _marker_file(folder: Path, spec: IndexSpec) -> Path:
    return folder / f"index-{spec.key}.json"


Started: TypeAlias = "Callable[[RefreshProgress | IngestProgress], None]"
"""A function called with the counters of each part of a refresh as it begins."""


class ProjectRecords:
    """The declarations of ``records/``, and their tables.

    Args:
        opened: The project.
    """

    def __init__(self, opened: Project) -> None:
        self._opened = opened
        self._options = opened.settings.part("records", records.RecordsOptions)

    @property
    def folder(self) -> Path:
        """Folder of the declarations."""
        return self._opened.folder.root / "records"

    @property
    def tables(self) -> RecordTables:
        """Bronze, silver, gold and left_out, in all their versions."""
        return records.RecordTables(self._opened.folder.data / "records")

    def spec(self, options: RefreshOptions | None = None) -> RecordsSpec:
        """Load the declarations, with the overrides of ``options``.

        Raises:
            ConfigError: The folder does not exist.
            RecordsError: A declaration is wrong, with file and line.
        """
        self._require_folder()
        spec = records.load_spec(self.folder, self._options.format)
        overrides = options or RefreshOptions()
        if overrides.max_chars is not None:
            spec = replace(
                spec, cleaning=replace(spec.cleaning, max_characters=overrides.max_chars)
            )
        return replace(spec, source=spec.source.instead(overrides.given()).complete())

    def check(
        self, options: RefreshOptions | None = None, rows: int = 10_000, seed: int = 0
    ) -> CheckReport:
        """Check the declarations and test them on real rows; stores nothing.

        Args:
            options: Overrides of source.yaml.
            rows: Most rows to test, sampled evenly from those read.
            seed: Seed of the sample.

        Raises:
            ConfigError: The folder does not exist.
        """
        self._require_folder()
        refreshing = options or RefreshOptions()
        checking = records.CheckOptions(self._options.format, refreshing.given(), rows, seed)
        base = Path.cwd() if refreshing.source else self._opened.folder.root
        return records.check_records(self.folder, base, checking)

    def _require_folder(self) -> None:
        if not self.folder.is_dir():
            raise ConfigError(
                "this project has no records",
                where=str(self.folder),
                hint="run: ragwright init --template records",
            )

    def refresh(
        self, options: RefreshOptions | None = None, on_start: Started | None = None
    ) -> RecordsReport:
        """Update tables and index; unchanged rows cost next to nothing.

        Raises:
            RecordsError: A row or a declaration cannot be used; tables and index stay.
            DatabaseError: The source fails, also half-way; tables and index stay.
            StoreBusyError: Another refresh is under way.
            ModelError: The embedding model fails; the tables are updated, the index is behind, and
                the next refresh continues with it.
        """
        refreshing = options or RefreshOptions()
        spec = self.spec(refreshing)
        plan = records.RefreshPlan(
            spec,
            wait=self._options.wait,
            full=refreshing.full,
            dry_run=refreshing.dry_run,
        )
        progress = records.RefreshProgress()
        if on_start is not None:
            on_start(progress)
        base = Path.cwd() if refreshing.source else self._opened.folder.root
        tables = self.tables
        with open_engine(self._options, refreshing.engine) as engine:
            report = records.refresh(
                plan, tables, records.open_source(spec.source, base), engine, progress
            )
        if refreshing.dry_run or not refreshing.index:
            return RecordsReport(report)
        return RecordsReport(report, sync_index(self._opened, tables, on_start))

    def rows(
        self,
        table: TableName,
        limit: int,
        keys: Sequence[str] = (),
        version: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the first rows of a table, or those with some keys, as plain values."""
        wanted_keys, rows = set(keys), []
        for batch in self.tables.read(table, version=version):
            for row in batch.to_pylist() if wanted_keys else batch.slice(0, limit).to_pylist():
                if not wanted_keys or row["record_key"] in wanted_keys:
                    rows.append(row)
            if len(rows) >= limit:
                break
        return rows[:limit]

    def export(self, table: TableName, file: Path, version: int | None = None) -> int:
        """Write a table to a file, by its suffix; return the number of rows.

        ``.chat.jsonl`` writes gold as chats: the request and the message.
        """
        if not file.name.endswith(".chat.jsonl"):
            return records.export_table(self.tables, table, file, version=version)
        if table != "gold":
            raise RecordsError(f"no chats can be made of {table}", hint="export gold")
        return records.export_chats(
            self.tables,
            file,
            records.load_spec(self.folder, self._options.format).format.request,
            version=version,
        )

    def forget(self, document_id: str) -> int:
        """Delete the row of a document from all tables and versions; return the number of rows.

        The number is 0 for a document without a row.
        """
        key = records.record_key(document_id)
        return 0 if key is None else self.tables.forget([key], wait=self._options.wait)


Finding = tuple[Literal["ok", "note", "fault"], str, str]
"""State of a finding, its text, and the advised action."""


def record_findings(project: Project) -> Iterator[Finding]:
    """Yield findings on the tables of records and their index; none if there are no records."""
    records = ProjectRecords(project)
    if not records.folder.is_dir():
        return
    for fault in spec_faults(
        records.folder, project.settings.part("records", RecordsOptions).format
    ):
        yield "fault", f"{fault.where}: {fault.what}", fault.hint or ""
    try:
        tables = records.tables
        head = tables.manifest() if tables.version else None
    except RagwrightError as error:
        yield "fault", error.what, error.hint or ""
        return
    if head is None:
        yield "note", "the tables are empty", "run: ragwright records refresh"
        return
    rows = ", ".join(f"{count:,} {name}" for name, count in head.rows.items())
    yield "ok", f"version {head.version} of {head.created}: {rows}", ""
    if index_is_behind(project, tables):
        yield (
            "note",
            "the index is not at the newest version of the tables",
            "run: ragwright records refresh",
        )
