"""Progress, result and forecast of an ingest."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core import counted
from ...index import WriteCounts
from ...ingest import Failure, ScanProgress

if TYPE_CHECKING:
    from ...flow import Forecast


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Result of an ingest.

    ``failures`` lists every source that could not be read, and why; ``skipped`` those left out on
    purpose, such as a link that leads out of its source; ``warnings`` documents that were read
    although they are damaged, such as a table with ragged rows. ``engine`` is where documents were
    read and cut.
    """

    counts: WriteCounts
    failures: tuple[Failure, ...] = ()
    embedded: int = 0
    notes: tuple[str, ...] = ()
    skipped: tuple[Failure, ...] = ()
    warnings: tuple[Failure, ...] = ()
    engine: str = "local"

    @property
    def nothing_read(self) -> bool:
        """True where sources failed and no document could be read."""
        counts = self.counts
        return bool(self.failures) and not counts.added + counts.changed + counts.unchanged

    def as_dict(self) -> dict[str, object]:
        """The form that ``ragwright ingest --json`` prints."""
        counts = self.counts
        return {
            "documents": {
                "added": counts.added,
                "changed": counts.changed,
                "unchanged": counts.unchanged,
                "removed": counts.removed,
                "failed": len(self.failures),
            },
            "chunks": {
                "added": counts.chunks_added,
                "removed": counts.chunks_removed,
                "embedded": self.embedded,
            },
            "failures": [_described(failure) for failure in self.failures],
            "skipped": [_described(failure) for failure in self.skipped],
            "warnings": [_described(failure) for failure in self.warnings],
            "notes": list(self.notes),
            "engine": self.engine,
        }


@dataclass(frozen=True, slots=True)
class IngestForecast:
    """Forecast of an ingest: documents and chunks to write, texts to embed, calls to pay for.

    ``calls`` is None if no server embeds.
    """

    documents: int
    chunks: int
    unchanged: int
    texts: int
    calls: Forecast | None = None
    failures: tuple[Failure, ...] = ()
    skipped: tuple[Failure, ...] = ()


@dataclass(slots=True)
class IngestProgress:
    """Progress of an ingest; can be read from any thread.

    Attributes:
        read: Documents read so far, unchanged ones included.
        bytes_done: Bytes of local files read, of ``bytes_total``.
        texts: Texts to embed found so far; ``embedded`` of them have their vector.
        scans: Pages read by OCR.
    """

    documents: int = 0
    read: int = 0
    chunks: int = 0
    characters: int = 0
    unchanged: int = 0
    failed: int = 0
    current: str = ""
    bytes_done: int = 0
    bytes_total: int = 0
    texts: int = 0
    embedded: int = 0
    scans: ScanProgress = field(default_factory=ScanProgress)
    _stored: tuple[int, int] = (0, 0)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def mark(self) -> tuple[int, int]:
        """Bytes read and texts found so far, for :meth:`store`."""
        return self.bytes_done, self.texts

    def store(self, mark: tuple[int, int]) -> None:
        """Note that everything up to a mark is in the index."""
        self._stored = mark

    @property
    def indexed(self) -> int:
        """Finished bytes of local files: read bytes minus the share still to embed."""
        at, known = self._stored
        texts = self.texts - known
        if texts <= 0:
            return self.bytes_done
        share = min(1.0, max(0, self.embedded - known) / texts)
        return at + int((self.bytes_done - at) * share)

    @property
    def eta(self) -> float | None:
        """Seconds to the end by the bytes of local files, None if there are none."""
        if not self.indexed or not self.bytes_total:
            return None
        return self.seconds * max(0, self.bytes_total - self.indexed) / self.indexed


def _described(failure: Failure) -> dict[str, object]:
    error = failure.error
    return {
        "source": failure.source,
        "reason": error.what,
        "where": error.where,
        "do": error.hint,
    }


def scan_notes(scans: ScanProgress) -> tuple[str, ...]:
    """What OCR read and how long it took, or that it is not installed."""
    notes = []
    if scans.pages:
        pages = f"{scans.pages:,} page{'s' if scans.pages > 1 else ''}"
        files = f"{scans.files:,} file{'s' if scans.files > 1 else ''}"
        notes.append(
            f"OCR read {pages} of {files}, {scans.seconds / scans.pages:.1f} s per page: "
            "its text may hold errors"
        )
    if scans.unread:
        notes.append(
            f"{counted(scans.unread, 'document has', 'documents have')} pages without "
            "text, which were not read: "
            "pip install 'ragwright[ocr]' reads them by OCR"
        )
    return tuple(notes)
