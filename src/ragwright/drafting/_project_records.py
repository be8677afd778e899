"""Settings and results of a refresh of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Never, TypeAlias

from .. import index, project, records
from ..core import ConfigError, RagwrightError, RecordsError, SnapshotGoneError, replace_text
from ..index import IndexSpec, Store
from ..ingest import Failure, open_engine
from ..ledger import FileLock
from ..project import IngestProgress, Project
from ..records import (
    CheckReport,
    RecordsSpec,
    RecordTables,
    RefreshProgress,
    RefreshReport,
    TableName,
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
        names = ("source", "key", "text", "query")
        settings = {name: value for name in names if (value := getattr(self, name))}
        return {"query": "", **settings} if self.source else settings


@dataclass(frozen=True, slots=True)
class RecordsReport:
    """Results of a refresh for the tables, and for the index (None if it was not updated)."""

    tables: RefreshReport
    index: IndexCounts | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the form that ``ragwright records refresh --json`` prints."""
        body = self.tables.as_dict()
        if self.index is not None:
            counts = {name: getattr(self.index, name) for name in _COUNTS}
            failures = [{"source": f.source, "reason": f.error.what} for f in self.index.failures]
            body["index"] = {**counts, "failures": failures}
        return body


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Gold rows that were embedded, written, unchanged and removed."""

    embedded: int = 0
    unchanged: int = 0
    written: int = 0
    removed: int = 0
    failures: tuple[Failure, ...] = ()


_COUNTS = ("embedded", "unchanged", "written", "removed")
_KEY = "record_key"


def sync_index(
    opened: Project, tables: RecordTables, on_start: Callable[[IngestProgress], None] | None = None
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
    synced, changes = _synced_version(opened, tables, spec), None
    if version and synced == version:
        return IndexCounts(unchanged=total)
    if synced:
        with suppress(SnapshotGoneError):
            changes = tables.changes("gold", synced, version)
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
        changes=changes is not None,
        groups=opened.settings.groups,
    )
    report = work.run([feed], _no_network)
    counts = report.counts
    gone_documents = [records.record_document_id(key) for key in gone]
    removed = store.remove(gone_documents, spec) if gone_documents else index.WriteCounts()
    if not report.failures:
        marker = {
            "version": version,
            "snapshot": store.snapshot(spec),
            "rules": opened.settings.groups.key,
        }
        replace_text(_marker_file(tables, spec), json.dumps(marker), private=True)
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
    version = _synced_version(opened, tables, opened.index_spec)
    return not version or version != tables.version


def _no_network(url: str) -> Never:
    raise AssertionError(f"records are read from tables, not from {url}")


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


def _synced_version(opened: Project, tables: RecordTables, spec: IndexSpec) -> int:
    """Return the version of the tables in the index, 0 if unknown.

    It is unknown if the index has changed since, or the rules of readers' groups.
    """
    store = opened.store
    try:
        marker = json.loads(_marker_file(tables, spec).read_text("utf-8"))
        version, snapshot = int(marker["version"]), marker["snapshot"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    known = marker.get("rules", "") == opened.settings.groups.key and store.holds(spec)
    return version if known and store.snapshot(spec) == snapshot else 0


def _marker_file(tables: RecordTables, spec: IndexSpec) -> Path:
    return tables.folder / f"index-{spec.key}.json"


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
        base = Path.cwd() if refreshing.source else self._opened.folder.root
        return records.check_records(
            self.folder, base, refreshing.given(), self._options.format, rows, seed
        )

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
            spec, wait=self._options.wait, full=refreshing.full, dry_run=refreshing.dry_run
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
        self, table: TableName, limit: int, keys: Sequence[str] = (), version: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the first rows of a table, or those with some keys, as plain values."""
        rows: list[dict[str, Any]] = []
        for batch in self.tables.read(table, version=version):
            found = batch.to_pylist() if keys else batch.slice(0, limit).to_pylist()
            rows += [row for row in found if not keys or row["record_key"] in set(keys)]
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
    try:
        records.spec()
        tables = records.tables
        head = tables.manifest() if tables.version else None
    except RagwrightError as error:
        yield "fault", f"{error.where}: {error.what}", error.hint or ""
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
