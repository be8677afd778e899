"""Progress, result and forecast of an ingest."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core import count_noun
from ...flow import Forecast
from ...index import WriteCounts
from ...ingest import Failure, ScanProgress


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
            "failures": [_failure_record(failure) for failure in self.failures],
            "skipped": [_failure_record(failure) for failure in self.skipped],
            "warnings": [_failure_record(failure) for failure in self.warnings],
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


_SHARE = 0.02
"""Share of the bytes to read before an estimate: the first files say little of the rest."""


@dataclass(slots=True)
class IngestProgress:
    """Progress of an ingest; can be read from any thread.

    Attributes:
        read: Documents read so far, unchanged ones included.
        bytes_done: Bytes of local files read, of ``bytes_total``.
        texts: Chunks to embed found so far; ``embedded`` of them have their vector.
        all_read: True once every source is read: all chunks to embed are known.
        scans: Pages read by OCR.
    """

    read: int = 0
    chunks: int = 0
    unchanged: int = 0
    failed: int = 0
    current: str = ""
    bytes_done: int = 0
    bytes_total: int = 0
    texts: int = 0
    embedded: int = 0
    all_read: bool = False
    scans: ScanProgress = field(default_factory=ScanProgress)

    @property
    def expected(self) -> float | None:
        """Chunks to embed in all: those known, and for files not read yet as many per byte.

        None while too little is read.
        """
        if self.all_read:
            return float(self.texts)
        if not self.bytes_total or self.bytes_done < _SHARE * self.bytes_total:
            return None
        return self.texts * max(1.0, self.bytes_total / self.bytes_done)


def _failure_record(failure: Failure) -> dict[str, object]:
    error = failure.error
    return {"source": failure.source, "reason": error.what, "where": error.where, "do": error.hint}


def scan_notes(scans: ScanProgress) -> tuple[str, ...]:
    """Say what OCR read and how long it took, or that it is not installed."""
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
            f"{count_noun(scans.unread, 'document has', 'documents have')} pages without "
            "text, which were not read: "
            "pip install 'ragwright[ocr]' reads them by OCR"
        )
    return tuple(notes)
