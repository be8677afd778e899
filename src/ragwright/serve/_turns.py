"""Turns: limits on the requests that are worked on at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

from ._errors import ApiError


class Turns:
    """Limits on the requests that are worked on at once, and on those that wait for their turn."""

    def __init__(self) -> None:
        self._at_once = self._most = 1
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def taken(self) -> int:
        """The number of requests that are worked on now."""
        return self._taken

    def limit(self, at_once: int, waiting: int) -> None:
        """Set the limits; requests that have or wait for a turn keep their place."""
        self._at_once, self._most = at_once, waiting
        self._pass_on()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for a turn; gives whether it had to wait.

        Raises:
            ApiError: 503, where too many wait already.
        """
        wait = self._taken >= self._at_once
        if wait and len(self._waiting) >= self._most:
            raise ApiError(
                503, "too many requests wait for an answer", "overloaded", retry_after=2.0
            )
        self._taken += not wait
        if wait:
            await self._wait_for_turn()
        try:
            yield wait
        finally:
            self._taken -= 1
            self._pass_on()

    async def _wait_for_turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with contextlib.suppress(ValueError):  # passed over at the same moment
                    self._waiting.remove(turn)
            else:  # it came at the same moment
                self._taken -= 1
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting and self._taken < self._at_once:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
