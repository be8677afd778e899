"""How records are refreshed, and what that did to the tables and to the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...ingest import Failure
    from ...records import RefreshReport


@dataclass(frozen=True, slots=True)
class Refreshing:
    """How to refresh, beyond what is declared.

    Attributes:
        source: In place of the source that source.yaml names; ``key`` and ``text`` likewise.
        query: In place of its query.
        engine: In place of ``records.engine``.
        full: Run every step again, whatever is known.
        index: Bring the index up to date too.
        dry_run: Do all but keep it.
    """

    source: str = ""
    key: str = ""
    text: str = ""
    query: str = ""
    engine: str = ""
    full: bool = False
    index: bool = True
    dry_run: bool = False

    def given(self) -> dict[str, Any]:
        """Keys of source.yaml that other values stand in place of."""
        named = {"source": self.source, "key": self.key, "text": self.text, "query": self.query}
        given: dict[str, Any] = {name: value for name, value in named.items() if value}
        if self.source and not self.query:
            given["query"] = ""
        return given


@dataclass(frozen=True, slots=True)
class RecordsReport:
    """What a refresh did to the tables, and to the index (None where it was left alone)."""

    tables: RefreshReport
    index: IndexCounts | None = None

    def as_dict(self) -> dict[str, object]:
        """The shape that ``ragwright records refresh --json`` prints."""
        found = self.tables.as_dict()
        if self.index is not None:
            found["index"] = self.index.as_dict()
        return found


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
