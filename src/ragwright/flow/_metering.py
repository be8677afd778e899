"""Metering: the cost of each call is charged to the work that started it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..core import Usage


@dataclass(frozen=True, slots=True)
class Meter:
    """Gets what calls cost.

    Attributes:
        note: Gets the usage of each call that was sent, as soon as it ended, on the runner's
            thread: it must be quick. A call that was cut off or timed out counts with the most it
            can cost, because it may have been billed; its tokens are unknown and 0.
        priced: Refuse calls of a model that costs and has no price.
    """

    note: Callable[[Usage], None]
    priced: bool = False


_METER: ContextVar[Meter | None] = ContextVar("ragwright_meter", default=None)


@contextmanager
def metered(meter: Meter) -> Iterator[None]:
    """Note what the calls cost that work started inside the block makes, whatever drives it.

    It follows tasks and ``asyncio.to_thread``, as context variables do. A call that several flows
    share is noted once, for the flow that started it; a stored reply is not noted.
    """
    token = _METER.set(meter)
    try:
        yield
    finally:
        _METER.reset(token)


def present_meter() -> Meter | None:
    """The meter of the present task."""
    return _METER.get()
