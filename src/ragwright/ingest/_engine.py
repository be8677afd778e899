"""Where a batch of work runs: threads of this process, or workers of a Ray cluster.

Work is a function from a task to a result. The same function is called by a thread or by a worker.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import islice
from typing import Any, Literal, TypeVar

from ..core import ConfigError, EngineError, RagwrightError, option, require, suggest_name

T = TypeVar("T")
R = TypeVar("R")


class Engine(ABC):
    """Does work on many tasks; a context manager."""

    @abstractmethod
    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in the order of the tasks; tasks are read lazily.

        Args:
            work: Picklable, and equal by value. Its attribute ``advice``, if it has one, says what
                to do if workers run out of memory.
            tasks: Picklable.

        Raises:
            RagwrightError: A task failed; others under way are abandoned.
        """

    def __enter__(self) -> Engine:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release workers."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release workers; safe to call twice."""


class LocalEngine(Engine):
    """Threads of this process, for work whose kernels release the GIL.

    Args:
        workers: Tasks at once; by default the number of cores that this process may use.
    """

    def __init__(self, workers: int | None = None) -> None:
        there = hasattr(os, "sched_getaffinity")
        self._workers = workers or (len(os.sched_getaffinity(0)) if there else os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="ragwright-engine")

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in order, at most one task more under way than there are workers."""
        under_way: deque[Future[R]] = deque()
        try:
            for task in tasks:
                under_way.append(self._pool.submit(work, task))
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


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of where work runs."""

    engine: Literal["local", "ray"] = option(
        "local", "Where the work runs: local (this machine) or ray (a cluster)."
    )


def choose_engine(options: EngineOptions, name: str = "") -> str:
    """The engine of a name, of the options if it is empty.

    Raises:
        ConfigError: No engine has this name; the nearest is named.
    """
    if name not in ("", "local", "ray"):
        raise ConfigError(f"unknown engine {name!r}", hint=suggest_name(name, ("local", "ray")))
    return name or options.engine


def open_engine(options: EngineOptions, name: str = "") -> Engine:
    """The engine of a name, of the options if it is empty; to be closed.

    Raises:
        ConfigError: Unknown name, or no cluster can be reached.
        MissingExtraError: Ray is not installed.
    """
    return RayEngine() if choose_engine(options, name) == "ray" else LocalEngine()


_QUIET = {
    "DO_NOT_TRACK": "1",
    "DAFT_ANALYTICS_ENABLED": "0",
    "SCARF_NO_ANALYTICS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DAFT_PROGRESS_BAR": "0",
}
"""Read when Daft and Ray are imported, so set before; workers inherit them."""


def silence_telemetry() -> dict[str, str]:
    """Set the variables that switch telemetry off, unless set; returns them for workers."""
    return {name: os.environ.setdefault(name, value) for name, value in _QUIET.items()}


_ATTEMPTS = 3
"""Attempts of a task: the cluster begins it again if its worker or node dies."""


class RayEngine(Engine):
    """Workers of a Ray cluster; each must see the project's files under the same path.

    Args:
        address: ``host:port`` of a cluster, ``auto`` for the one that runs on this machine,
            ``local`` for a private one; empty for the environment's ``RAY_ADDRESS``.

    Raises:
        ConfigError: No address, or no cluster at the address.
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, address: str = "") -> None:
        variables = silence_telemetry()
        self._ray = require("ray", "cluster", "work on a cluster")
        self._own = not self._ray.is_initialized()
        self._open = True
        if self._own:
            where = address or os.environ.get("RAY_ADDRESS", "")
            own = {"include_dashboard": False} if where == "local" else {}
            _check_address(where)
            try:
                self._ray.init(
                    address=where,
                    runtime_env={"env_vars": variables},
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **own,
                )
            except Exception as error:
                raise _unreachable(where, error) from error

    def run(self, work: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in order; several tasks per processor are under way."""
        if not self._open:
            raise EngineError("the engine is closed", hint="open another one")
        packed = self._ray.put(pickle.dumps(work, protocol=5))
        remote = self._ray.remote(
            num_cpus=1, max_retries=_ATTEMPTS - 1, scheduling_strategy="SPREAD"
        )(_carry_out)
        queue = iter(tasks)
        processors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        under_way: deque[Any] = deque()

        def start(most: int) -> None:
            for task in islice(queue, most):
                under_way.append(remote.remote(task, packed, version("ragwright")))

        try:
            start(4 * processors)  # so that none waits while the first one takes long
            while under_way:
                result: R = self._result(under_way[0], work)
                under_way.popleft()
                start(1)
                yield result
        finally:
            self._abandon(list(under_way))

    def _result(self, coming: Any, work: object) -> Any:
        """Wait for the result of a task."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(coming)
        except errors.RayTaskError as error:
            raised: Exception = error.cause
            if not isinstance(raised, RagwrightError):
                raised.add_note(str(error))
            raise raised from None
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            advice = getattr(work, "advice", "give the nodes more memory")
            raise EngineError(
                f"{_ATTEMPTS} workers died on the same part",
                hint=f"check the cluster's logs; if memory is too small, {advice}",
            ) from error
        except Exception as error:
            failure = EngineError(
                f"the cluster failed: {str(error).strip() or type(error).__name__}",
                hint="what was committed stays; check that its nodes have ragwright[cluster] of "
                "this version and enough memory, and run again",
            )
            # not as its cause: a traceback would keep objects that die with the cluster
            failure.add_note(traceback.format_exc())
            raise failure from None

    def _abandon(self, left: list[Any]) -> None:
        """End what still runs, so that no worker writes after its driver gave up."""
        if left and self._ray.is_initialized():
            with suppress(Exception):  # cancelling does not wait, and a worker may just begin
                for coming in left:
                    self._ray.cancel(coming, force=True)
                self._ray.wait(left, num_returns=len(left), timeout=10, fetch_local=False)

    def close(self) -> None:
        """Leave the cluster, or end the private one; safe to call twice."""
        if self._open and self._own:
            self._ray.shutdown()
        self._open = False


def _carry_out(task: Any, packed: bytes, driver: str) -> Any:
    """Do one task in a worker; returns its result."""
    if (mine := version("ragwright")) != driver:
        raise EngineError(
            f"a worker has ragwright {mine}, this process {driver}",
            where=socket.gethostname(),
            hint="install the same version on every node",
        )
    return _unpack(packed)(task)


# The work for all tasks of this worker that follow, with what it holds open; made by our driver.
_unpack: Callable[[bytes], Any] = lru_cache(maxsize=1)(pickle.loads)


def _check_address(where: str) -> None:
    """Check that a cluster answers at an address: Ray kills the process if none does."""
    if not where:
        raise ConfigError(
            "engine ray needs the address of a cluster",
            where="RAY_ADDRESS",
            hint="set RAY_ADDRESS to host:port, to auto for the cluster of "
            "this machine (ray start --head), or to local for one that ends with the command",
        )
    if where.startswith("ray://"):
        raise ConfigError(
            "Ray's client protocol is not supported",
            where=where,
            hint="run on a machine of the cluster and give host:port of its head, or auto",
        )
    if where in ("local", "auto"):
        return
    host, _, port = where.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise _unreachable(where, error) from error


def _unreachable(address: str, error: Exception) -> ConfigError:
    lines = str(error).strip().splitlines()
    return ConfigError(
        f"no Ray cluster can be reached: {lines[0] if lines else type(error).__name__}",
        where=address,
        hint="start one (ray start --head), set RAY_ADDRESS to host:port of its "
        "head, or use engine: local",
    )
