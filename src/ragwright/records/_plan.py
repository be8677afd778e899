"""What a refresh is told, how far it is, and what it did."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ._seams import UpsertCounts
from ._spec import RecordsSpec


@dataclass(slots=True)
class RefreshProgress:
    """How far a refresh is; read it from any thread."""

    stage: str = "opening"
    read: int = 0
    done: int = 0
    total: int = 0
    started: float = field(default_factory=time.monotonic)
    stage_started: float = field(default_factory=time.monotonic)

    def begin(self, stage: str, total: int = 0) -> None:
        """A stage begins; ``total`` rows are ahead where that is known."""
        self.stage, self.done, self.total = stage, 0, total
        self.stage_started = time.monotonic()

    @property
    def rate(self) -> float:
        """Rows a second in this stage."""
        return self.done / max(1e-9, time.monotonic() - self.stage_started)

    @property
    def eta(self) -> float | None:
        """Seconds to the end of the stage, None where nobody knows."""
        if not self.total or not self.done:
            return None
        return max(0, self.total - self.done) / self.rate


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh did.

    Attributes:
        version: Version of the tables afterwards.
        counts: Rows inserted, updated and unchanged in bronze, silver and gold.
        removed: Rows that fell out of bronze, silver and gold.
        left_out: Reason -> rows that go no further now, as the table ``left_out`` says.
        read: Rows that the source gave.
        notes: What the reader should know.
    """

    version: int
    counts: Mapping[str, UpsertCounts]
    removed: Mapping[str, int]
    left_out: Mapping[str, int]
    read: int = 0
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The shape that ``ragwright records refresh --json`` prints, without the index."""
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
    """What a refresh needs to know.

    Attributes:
        spec: What is declared in the folder.
        part_rows: Rows of one file and one batch.
        wait: Seconds to wait for another refresh.
        note: What the history says of it.
        full: Read the source and run every step again, whatever is known.
        dry_run: Do everything but keep it.
    """

    spec: RecordsSpec
    part_rows: int = 16_384
    wait: float = 600.0
    note: str = "refresh"
    full: bool = False
    dry_run: bool = False
