"""Settings, progress and result of a refresh."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ._seams import UpsertCounts
from ._spec import RecordsSpec


@dataclass(slots=True)
class RefreshProgress:
    """Progress of a refresh; can be read from any thread."""

    stage: str = "opening"
    read: int = 0
    done: int = 0
    total: int = 0
    started: float = field(default_factory=time.monotonic)
    stage_started: float = field(default_factory=time.monotonic)

    def begin(self, stage: str, total: int = 0) -> None:
        """Start a stage; ``total`` rows are expected, if known."""
        self.stage, self.done, self.total = stage, 0, total
        self.stage_started = time.monotonic()

    @property
    def rate(self) -> float:
        """Rows per second in this stage."""
        return self.done / max(1e-9, time.monotonic() - self.stage_started)

    @property
    def eta(self) -> float | None:
        """Seconds to the end of the stage, None if unknown."""
        if not self.total or not self.done:
            return None
        return max(0, self.total - self.done) / self.rate


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """Result of a refresh.

    Attributes:
        version: Version of the tables afterwards.
        counts: Rows inserted, updated and unchanged in bronze, silver and gold.
        removed: Rows removed from bronze, silver and gold.
        left_out: Reason -> rows that are left out now, as in the table ``left_out``.
        read: Rows read from the source.
        notes: Notes for the user.
    """

    version: int
    counts: Mapping[str, UpsertCounts]
    removed: Mapping[str, int]
    left_out: Mapping[str, int]
    read: int = 0
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The form that ``ragwright records refresh --json`` prints, without the index."""
        return {
            **{name: counts.as_dict() for name, counts in self.counts.items()},
            "removed": dict(self.removed),
            "left_out": dict(self.left_out),
            "read": self.read,
            "version": self.version,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """Settings of a refresh.

    Attributes:
        spec: The declarations of the folder.
        part_rows: Rows of one file and one batch.
        wait: Seconds to wait for another refresh.
        note: Note in the history.
        full: Read the source and run every step again, also for unchanged rows.
        dry_run: Do everything, but store nothing.
    """

    spec: RecordsSpec
    part_rows: int = 16_384
    wait: float = 600.0
    note: str = "refresh"
    full: bool = False
    dry_run: bool = False
