"""Counters of the work under way, for whoever draws a progress bar."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """What the runner has done since it started; read it from any thread.

    ``total`` is set by whoever knows how many flows there will be.
    """

    total: int | None = None
    finished: int = 0
    failed: int = 0
    skipped: int = 0
    calls: int = 0
    reused: int = 0
    merged: int = 0
    retries: int = 0
    in_flight: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    possibly_billed: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Finished flows a second since the start."""
        elapsed = time.monotonic() - self.started
        return self.finished / elapsed if elapsed > 0 else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds to the end at the present rate, None where the total or rate is unknown."""
        if self.total is None or self.rate == 0:
            return None
        return max(0.0, (self.total - self.finished) / self.rate)
