"""Settings that choose an engine, the same in every section that has one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..core import ConfigError, option, suggest_name
from ._ray import RayEngine
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


EngineName: TypeAlias = Literal["local", "ray"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of where work runs."""

    engine: EngineName = option(
        "local", "Where the work runs: local (this machine) or ray (a cluster)."
    )


def choose_engine(options: EngineOptions, name: str = "") -> EngineName:
    """The engine of a name, of the options if it is empty.

    Raises:
        ConfigError: No engine has this name; the nearest is named.
    """
    for known in get_args(EngineName):
        if known == (name or options.engine):
            engine: EngineName = known
            return engine
    raise ConfigError(f"unknown engine {name!r}", hint=suggest_name(name, get_args(EngineName)))


def open_engine(options: EngineOptions, name: str = "") -> Engine:
    """The engine of a name, of the options if it is empty; to be closed.

    Args:
        options: Settings.
        name: Engine that overrides the options'.

    Raises:
        ConfigError: Unknown name, or no cluster can be reached.
        MissingExtraError: Ray is not installed.
    """
    if choose_engine(options, name) == "ray":
        return RayEngine()
    return LocalEngine()
