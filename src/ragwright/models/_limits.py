"""Time limits on silence: a server may take long as long as it keeps sending."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from ..core import ModelTimeoutError
from ._options import TimeLimits

Heard: TypeAlias = Callable[[], None]
"""Called for every piece that a server sends."""


class Queue:
    """Calls of one model that wait for their first piece, in the order in which they were sent.

    A server that works on one reply at a time lets the others wait. While it sends replies to calls
    that may be ahead of one that waits, it is not silent for that one: its limit begins anew. Calls
    that are sent together arrive in any order, so as many later ones may be ahead as ever waited at
    once. Replies to those after them change nothing: a call that the server has lost is given up.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, float] = {}
        self._most = 0
        self._sent = 0

    def enter(self, now: float) -> int:
        """Register a call that is being sent; returns its number."""
        self._sent += 1
        self.waiting[self._sent] = now
        self._most = max(self._most, len(self.waiting))
        return self._sent

    def heard(self, number: int, now: float) -> None:
        """Record that a piece came for this call."""
        self.waiting.pop(number, None)
        for waiting in self.waiting:
            if waiting + self._most > number:
                self.waiting[waiting] = now


@asynccontextmanager
async def watch_silence(
    model: str,
    where: str,
    limits: TimeLimits,
    total: float | None = None,
    queue: Queue | None = None,
) -> AsyncIterator[Heard]:
    """Cancel the block once the server has been silent for too long.

    Yields a function to call for each piece that arrives. ``total`` is in seconds, for the block
    as a whole; ``queue`` holds the other calls that wait for the same server.

    Raises:
        ModelTimeoutError: Names the setting of the limit that was exceeded.
    """
    loop = asyncio.get_running_loop()
    queue = queue or Queue()
    end = math.inf if total is None else loop.time() + total
    number = queue.enter(loop.time())
    pieces = 0
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        due = queue.waiting[number] + limits.first_piece
        if due <= loop.time():
            limit.reschedule(loop.time())
        else:
            timer = loop.call_at(due, look)

    timer = loop.call_later(limits.first_piece, look)

    def heard() -> None:
        nonlocal pieces
        pieces += 1
        timer.cancel()
        queue.heard(number, loop.time())
        limit.reschedule(min(loop.time() + limits.silence, end))

    try:
        async with asyncio.timeout_at(None if total is None else end) as limit:
            yield heard
    except TimeoutError:
        if not limit.expired():
            raise
        late = limit.when() == end
        raise _limit_error(model, where, limits, pieces, total if late else None) from None
    finally:
        timer.cancel()
        queue.waiting.pop(number, None)


def _limit_error(
    model: str, where: str, limits: TimeLimits, pieces: int, total: float | None
) -> ModelTimeoutError:
    """The error for the limit that was exceeded; ``total`` is None if it was another."""
    if total is not None:
        problem, key = f"{model} did not reply within {total:g} s", "timeout"
    elif pieces:
        problem = f"{model} broke off: silent for {limits.silence:g} s after {pieces} pieces"
        key = "silence_timeout"
    else:
        problem, key = f"{model} sent nothing for {limits.first_piece:g} s", "first_piece_timeout"
    return ModelTimeoutError(
        f"{problem} ({key})",
        where=where or None,
        hint=f"raise {key} under models: (or budget: for all models), or lower concurrency",
    )
