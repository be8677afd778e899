"""Time limits on silence: a server may take long as long as it keeps sending."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..core import ModelTimeoutError
from ._options import ModelSettings

Heard: TypeAlias = Callable[[], None]
"""Called for every piece that a server sends."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a server may be silent; a whole reply has no limit.

    Attributes:
        connect: Seconds to connect.
        first_piece: Seconds from sending a request to the first piece of its reply.
        silence: Seconds between two pieces.
    """

    connect: float = 15.0
    first_piece: float = 600.0
    silence: float = 120.0

    @classmethod
    def of(cls, settings: ModelSettings) -> TimeLimits:
        """The limits of a model's settings, else the defaults."""
        return cls().merged(settings)

    def merged(self, settings: ModelSettings) -> TimeLimits:
        """These limits, with those that a model's settings name."""
        return TimeLimits(
            settings.connect_timeout or self.connect,
            settings.first_piece_timeout or self.first_piece,
            settings.silence_timeout or self.silence,
        )

    def applied(self, settings: ModelSettings) -> ModelSettings:
        """A model's settings with all three limits."""
        limits = self.merged(settings)
        return replace(
            settings,
            connect_timeout=limits.connect,
            first_piece_timeout=limits.first_piece,
            silence_timeout=limits.silence,
        )


@asynccontextmanager
async def watched(
    model: str, where: str, limits: TimeLimits, total: float | None = None
) -> AsyncIterator[Heard]:
    """Cancel the block once the server has been silent for too long.

    Yields a function to call for each piece that arrives. ``total`` is in seconds, for the block
    as a whole.

    Raises:
        ModelTimeoutError: Names the setting of the limit that was exceeded.
    """
    loop = asyncio.get_running_loop()
    end = None if total is None else loop.time() + total
    pieces = 0

    def heard() -> None:
        nonlocal pieces
        pieces += 1
        _not_after(limit, loop.time() + limits.silence, end)

    try:
        async with asyncio.timeout(None) as limit:
            _not_after(limit, loop.time() + limits.first_piece, end)
            yield heard
    except TimeoutError:
        if not limit.expired():
            raise
        if end is not None and limit.when() == end:
            what, key = f"{model} did not reply within {total:g} s", "timeout"
        elif pieces:
            what = f"{model} broke off: silent for {limits.silence:g} s after {pieces} pieces"
            key = "silence_timeout"
        else:
            what, key = f"{model} sent nothing for {limits.first_piece:g} s", "first_piece_timeout"
        raise ModelTimeoutError(
            f"{what} ({key})",
            where=where or None,
            hint=f"raise {key} under models: (or budget: for all models), or lower concurrency",
        ) from None


def _not_after(limit: asyncio.Timeout, when: float, end: float | None) -> None:
    limit.reschedule(when if end is None else min(when, end))
