"""Waiting for what another thread, process or server does."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """The results of work that is done so often at the same time, in the order of its numbers."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def free_port() -> int:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port: int = link.getsockname()[1]
        return port


def wait_until(holds: Callable[[], object], what: str = "waited in vain") -> None:
    """Look until it holds; fail after thousands of looks.

    Looks are counted, and no clock is read: a machine at work on other things only waits longer.
    """
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError(what)


def skip_short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``asyncio.sleep`` take no time, as before another attempt; claims are renewed as ever."""
    sleep = asyncio.sleep

    async def at_once(seconds: float, result: Any = None) -> Any:
        return await sleep(seconds if seconds >= 300 else 0, result)

    monkeypatch.setattr("asyncio.sleep", at_once)


def when(holds: Callable[[], object], act: Callable[..., object], *given: Any) -> None:
    def wait() -> None:
        wait_until(holds)
        act(*given)

    threading.Thread(target=wait, daemon=True).start()
