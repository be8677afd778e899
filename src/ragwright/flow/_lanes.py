"""Limits per model: how many requests may be in flight, when the next may go, and counters.

Concurrency follows the server: additive increase, multiplicative decrease (AIMD), never
above the limit asked for; Retry-After holds the whole lane back. A few failures among many replies
do not count as an overload: they are only retried.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from ..core import (
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    RagwrightError,
    RateLimitedError,
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again, and after how long.

    Attributes:
        attempts: Most attempts at a call that fails.
        rate_limited_attempts: Most attempts where the server asks to slow down.
        timed_out_attempts: Most attempts that may pass a time limit.
        base: Seconds of the first pause, doubled each time, spread by full jitter.
        longest: Longest pause in seconds, unless the server asks for more.
        longest_asked: Seconds a server may ask for; where it asks for more, the call fails.
    """

    attempts: int = 5
    rate_limited_attempts: int = 20
    timed_out_attempts: int = 2
    base: float = 0.5
    longest: float = 30.0
    longest_asked: float = 900.0

    def pause(self, error: RagwrightError, attempt: int, chance: random.Random) -> float | None:
        """Seconds to wait before attempt + 1, None if no further attempt makes sense."""
        limited = isinstance(error, RateLimitedError)
        if not retryable(error):
            return None
        if attempt >= (self.rate_limited_attempts if limited else self.attempts):
            return None
        wait = chance.uniform(0.5, 1.0) * min(self.longest, self.base * 2.0 ** min(attempt - 1, 16))
        wanted: float | None = getattr(error, "retry_after", None)
        if wanted is None:
            return wait
        return wanted + 0.1 * wait if wanted <= self.longest_asked else None

    def held_back(self, error: RagwrightError) -> float | None:
        """Seconds the server asks the whole lane to wait, None if it asks for too many."""
        wanted: float | None = getattr(error, "retry_after", None)
        return wanted if wanted is not None and wanted <= self.longest_asked else None


def retryable(error: RagwrightError) -> bool:
    """True for errors that another attempt may cure."""
    return isinstance(error, ModelUnavailableError | ModelTimeoutError | ModelReplyError) or bool(
        getattr(error, "retryable", False)
    )


def is_pushback(error: RagwrightError) -> bool:
    """True where a server could not keep up: a model's 429, 5xx or timeout, another's 429, 503."""
    return isinstance(error, ModelUnavailableError | ModelTimeoutError) or getattr(
        error, "status", 0
    ) in {429, 503}


_PUSHES = 3
_SHARE = 0.25
"""Number of refusals, and their share of the latest outcomes, that count as an overload."""


class Lane:
    """The queue in front of one model.

    Lives on the runner's loop; not thread-safe.
    """

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.allowed = float(limit)
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._not_before = 0.0
        self._cut_at = float("-inf")
        self._latest: deque[bool] = deque(maxlen=max(12, 2 * limit))
        self._timer: asyncio.TimerHandle | None = None
        self._unreached = 0
        self._probes = 0

    async def acquire(self) -> None:
        """Wait for a place in flight; first come, first served."""
        loop = asyncio.get_running_loop()
        if self._waiting or not self._room(loop.time()):
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append(place)
            self._pump()
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self.release()
                raise
            return
        self.in_flight += 1

    def release(self) -> None:
        """Release the place."""
        self.in_flight -= 1
        self._pump()

    def succeeded(self) -> None:
        """A reply arrived: allow slightly more requests."""
        self._latest.append(False)
        self._unreached = self._probes = 0
        if self.allowed < self.limit:
            self.allowed = min(float(self.limit), self.allowed + 1.0 / max(self.allowed, 1.0))
            self._pump()

    def overloaded(self, retry_after: float | None, sent_at: float, *, slow: bool = False) -> None:
        """The server refused: halve the limit, and wait as long as it asks.

        The limit is halved if the server names a time, refuses a quarter of the requests, or
        exceeded a time limit (``slow``). Requests sent (on the loop's clock) before the last cut do
        not count: a burst that is refused as a whole halves the limit once.
        """
        now = asyncio.get_running_loop().time()
        self._latest.append(True)
        pushes = sum(self._latest)
        overload = pushes >= _PUSHES and pushes >= _SHARE * len(self._latest)
        if sent_at >= self._cut_at and (retry_after or slow or overload):
            self._cut_at = now
            self._latest.clear()
            self.allowed = max(1.0, min(self.allowed, float(max(self.in_flight, 1))) / 2)
        if retry_after:
            self._not_before = max(self._not_before, now + retry_after)
        self._pump()

    def unreachable(self, policy: RetryPolicy) -> bool:
        """No connection: from the third time on send one request at a time, with longer pauses.

        Returns True where the server has been out of reach for as many pauses as a call has.
        """
        self._unreached += 1
        if self._unreached < _PUSHES:
            return False
        self.allowed = 1.0
        now = asyncio.get_running_loop().time()
        if now >= self._not_before:
            self._probes += 1
            self._not_before = now + min(policy.longest, policy.base * 2.0 ** (self._probes - 1))
        return self._probes >= policy.attempts

    def _room(self, now: float) -> bool:
        return self.in_flight < int(self.allowed) and now >= self._not_before

    def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and self._room(now):
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)
        if self._waiting and now < self._not_before and self._timer is None:
            self._timer = loop.call_at(self._not_before, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._pump()


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
        warnings: Warnings to show during the work; the list only grows.
        awaited: Model -> its calls in flight.
        given_up: Model -> calls that a stop by the user cancelled before their reply.
    """

    total: int | None = None
    unit: str = "rows"
    finished: int = 0
    calls: int = 0
    reused: int = 0
    retries: int = 0
    in_flight: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    possibly_billed: int = 0
    warnings: list[str] = field(default_factory=list)
    awaited: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    _waiting: dict[tuple[str, bool], Waiting] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _unused: Counter[str] = field(default_factory=Counter)

    def begin(self, total: int | None, unit: str = "rows") -> None:
        """Begin a job, or another phase: count its rows, or what ``unit`` says, from zero."""
        self.total, self.unit, self.finished = total, unit, 0

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
