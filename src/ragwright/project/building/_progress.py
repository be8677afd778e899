"""Progress, result and forecast of an ingest."""

from __future__ import annotations

import time
from collections import deque
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


_WINDOW = 60.0
"""Seconds that a rate looks back."""

_LEAST = 3.0
"""Fewest seconds between the first and the last count that a rate is computed from."""


_SHARE = 0.02
"""Share of the bytes to read before an estimate: the first files say little of the rest."""


class Pace:
    """A rate over the last minute, from counts with their times."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()
        self._total = 0

    def note(self, count: int, now: float | None = None) -> None:
        """Add a count, at ``time.monotonic()`` unless given."""
        now = time.monotonic() if now is None else now
        self._total += count
        self._counts.append((now, self._total))
        # the newest one before the window stays, so that slow counts have a rate as well
        while len(self._counts) > 2 and self._counts[1][0] <= now - _WINDOW:
            self._counts.popleft()

    @property
    def since(self) -> float | None:
        """Time of the last count, None before the first."""
        return self._counts[-1][0] if self._counts else None

    @property
    def rate(self) -> float:
        """Counts per second over the last minute; 0 while too little is known.

        The first count gives none: it may include opening a model.
        """
        if len(self._counts) < 2:
            return 0.0
        (begin, before), (end, after) = self._counts[0], self._counts[-1]
        return (after - before) / (end - begin) if end - begin >= _LEAST else 0.0


@dataclass(slots=True)
class IngestProgress:
    """Progress of an ingest; can be read from any thread.

    Attributes:
        read: Documents read so far, unchanged ones included.
        bytes_done: Bytes of local files read, of ``bytes_total``.
        texts: Chunks to embed found so far; ``embedded`` of them have their vector.
        all_read: True once every source is read: all chunks to embed are known.
        scans: Pages read by OCR.
        pace: The rate at which chunks are embedded.
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
    all_read: bool = False
    scans: ScanProgress = field(default_factory=ScanProgress)
    pace: Pace = field(default_factory=Pace)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def embed(self, count: int) -> None:
        """Count chunks that have their vector now."""
        self.embedded += count
        self.pace.note(count)

    @property
    def eta(self) -> float | None:
        """Seconds to the end, None while too little is known.

        With an embedding model, by the rate of the last minute: the chunks to come are those
        known, and for files not read yet as many per byte as in those read. Without one, by the
        bytes of local files.
        """
        if not self.texts:
            known = self.bytes_done >= _SHARE * self.bytes_total and self.seconds >= _LEAST
            if not self.bytes_total or not known:
                return None
            left = max(0, self.bytes_total - self.bytes_done)
            return self.seconds * left / self.bytes_done
        rate, last = self.pace.rate, self.pace.since
        if not rate or last is None:
            return None
        expected = float(self.texts)
        if not self.all_read:
            if not self.bytes_total or self.bytes_done < _SHARE * self.bytes_total:
                return None
            expected *= max(1.0, self.bytes_total / self.bytes_done)
        return max(0.0, (expected - self.embedded) / rate - (time.monotonic() - last))


def _failure_record(failure: Failure) -> dict[str, object]:
    error = failure.error
    return {
        "source": failure.source,
        "reason": error.what,
        "where": error.where,
        "do": error.hint,
    }


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
