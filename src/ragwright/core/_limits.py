"""Bounds of memory and processor time for a worker process."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STATUS = Path("/proc/self/statm")


def address_space() -> int:
    """Address space of this process in bytes; 0 where the system does not say."""
    try:
        return int(_STATUS.read_text("ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return 0


@contextmanager
def bounded_work(most: int, seconds: float, waiting: float = 0.0) -> Iterator[None]:
    """A block that may take ``most`` bytes of address space, if not 0, and ``seconds`` of CPU.

    More memory is a MemoryError; more time ends the process by ``SIGPROF``. With ``waiting``, more
    seconds by the clock end it by ``SIGALRM``.
    """
    _limit_memory(most or resource.RLIM_INFINITY)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, waiting)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _limit_memory(resource.RLIM_INFINITY)


def _limit_memory(most: int) -> None:
    with suppress(OSError, ValueError):  # systems that bound no address space
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard != resource.RLIM_INFINITY:
            most = hard if most == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
