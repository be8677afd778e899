"""Counters of the work under way, for progress bars."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

FIRST_REPLIES = 20
"""Number of first replies of a model of which at least one should be usable."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why no requests go to a model at present.

    Attributes:
        lane: The model.
        until: When requests resume, by ``time.monotonic``.
        asked: True if its server asked to wait (Retry-After), False for a pause of the runner.
    """

    lane: str
    until: float
    asked: bool

    @property
    def seconds(self) -> float:
        """Seconds left, 0 where the wait is over."""
        return max(0.0, self.until - time.monotonic())


@dataclass(slots=True)
class Progress:
    """Counters of a runner since it started; readable from any thread.

    Attributes:
        total: Rows of the job under way, None if their number is unknown.
        unit: What is counted: ``rows``, or the name of another phase's units.
        finished: Rows of it that are done or failed, those of an earlier run included.
        kept: Rows among them that an earlier run had finished.
        warnings: Warnings to show during the work; the list only grows.
        awaited: Model -> its calls in flight.
        given_up: Model -> calls that a stop by the user cancelled before their reply.
    """

    total: int | None = None
    unit: str = "rows"
    finished: int = 0
    kept: int = 0
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
    warnings: list[str] = field(default_factory=list)
    awaited: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
    _waiting: dict[tuple[str, bool], Waiting] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _unused: Counter[str] = field(default_factory=Counter)

    def begin(self, total: int | None, unit: str = "rows") -> None:
        """Begin a job, or another phase: count its rows, or what ``unit`` says, from zero."""
        self.total, self.unit, self.finished, self.kept = total, unit, 0, 0
        self.began = time.monotonic()

    @property
    def rate(self) -> float:
        """Rows finished per second since :meth:`begin`, without those of an earlier run."""
        elapsed = time.monotonic() - self.began
        return (self.finished - self.kept) / elapsed if elapsed > 0 else 0.0

    @property
    def waiting(self) -> Waiting | None:
        """The longest wait of at least a second; own pauses only while nothing is in flight."""
        waits = [
            wait
            for wait in list(self._waiting.values())
            if wait.seconds >= 1 and (wait.asked or not self.in_flight)
        ]
        return max(waits, key=lambda wait: wait.until, default=None)

    def wait(self, lane: str, seconds: float, *, asked: bool) -> None:
        """Note that a model gets no requests for some seconds; a shorter wait changes nothing."""
        wait = Waiting(lane, time.monotonic() + seconds, asked)
        known = self._waiting.get((lane, asked), wait)
        self._waiting[lane, asked] = max(wait, known, key=lambda each: each.until)

    def read(self, model: str, problem: str) -> None:
        """Note that a reply was read; warn once if none of a model's first replies is usable."""
        if not problem:
            self._used.add(model)
        if model in self._used:
            return
        self._unused[model] += 1
        if self._unused[model] == FIRST_REPLIES:
            self.warnings.append(
                f"none of the first {FIRST_REPLIES} replies of {model} can be used. The last one: "
                f"{problem}"
            )
