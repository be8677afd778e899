"""Turns: how many answers are made at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ._errors import ApiError


class Turns:
    """How many answers are made at once, and how many requests may wait for their turn."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._most = waiting
        self.waiting = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn.

        Raises:
            ApiError: 503, where too many wait already.
        """
        if self._free.locked() and self.waiting >= self._most:
            raise ApiError(
                503, "too many requests wait for an answer", "overloaded", retry_after=2.0
            )
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self._free.release()
