"""Processes for tests that kill or race them: forked from one that has imported the program."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["ragwright.jobs._promotion"])


@contextmanager
def child(work: Callable[..., None], *words: Any) -> Iterator[Connection]:
    """What ``work(tell, *words)`` sends through ``tell`` in a process killed (-9) at the end."""
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(tell, *words))
    process.start()
    tell.close()
    try:
        yield told
    finally:
        process.kill()
        process.join()
        told.close()
