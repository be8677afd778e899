"""Settings and results of a refresh of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ingest import Failure
from ...records import RefreshReport


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
