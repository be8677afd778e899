"""The driver of PostgreSQL, adapted: how it reads numbers, and when it gives a server up."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any

from ..core import require


@lru_cache(maxsize=1)
def watching() -> Any:
    """The driver's connection, which gives up a server that has stopped answering.

    A statement may take long, for a lock or much data. So after some seconds without a reply the
    server is tried with a connection of its own, and only given up if that fails as well.
    """
    psycopg = require("psycopg", "pg", "a shared PostgreSQL database")

    class Watching(psycopg.Connection):  # type: ignore[misc, name-defined]
        patience = 30.0
        alive: Callable[[], bool] = staticmethod(lambda: True)

        def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
            """Wait for a reply as the driver does, and try the server where none comes."""
            return super().wait(self._watched(gen), *arguments, **named)

        def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
            since = time.monotonic()
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if ready:
                        since = time.monotonic()
                    elif time.monotonic() - since > self.patience:
                        if not self.alive():
                            raise psycopg.OperationalError(f"no reply for {self.patience:g} s")
                        since = time.monotonic()
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

    return Watching
