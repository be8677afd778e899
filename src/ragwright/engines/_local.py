"""The engine of one machine: threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from ._seams import Engine, R, T, Work


class LocalEngine(Engine):
    """Threads of this process, for work whose kernels release the GIL.

    Args:
        workers: Tasks at once; by default the number of cores.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or _cores()
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="ragwright-engine")

    def run(self, work: Work[T, R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in order, at most one task more under way than there are workers."""
        under_way: deque[Future[R]] = deque()
        try:
            with work.opened():
                for task in tasks:
                    under_way.append(self._pool.submit(work.carry_out, task))
                    if len(under_way) > self._workers:
                        yield under_way.popleft().result()
                while under_way:
                    yield under_way.popleft().result()
        finally:
            for left in under_way:
                left.cancel()

    def close(self) -> None:
        """End the threads; safe to call twice."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _cores() -> int:
    """Cores that this process may use; of the whole machine where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
