"""The records of a project: tables refreshed from their source, and the index after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from ... import records
from ...core import ConfigError, RecordsError
from ...engines import open_engine
from ...project import IngestProgress, Project
from ...records import CheckReport, RecordsSpec, RecordTables, RefreshProgress, TableName
from ._index import sync_index
from ._refreshing import RecordsReport, RefreshOptions

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
        return self._opened.folder.root / self._options.folder

    @property
    def tables(self) -> RecordTables:
        """Bronze, silver, gold and left_out, in all their versions."""
        where = self._opened.folder.data / "records"
        return records.RecordTables(where)

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
            cleaning = replace(spec.cleaning, max_characters=overrides.max_chars)
            spec = replace(spec, cleaning=cleaning)
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
                hint="run: ragwright init --template records   (or set records.folder)",
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
