"""The interfaces of the room: work, the tasks that it is done on, engines that do it.

The same work object is called by a thread of this process or by a worker of a cluster. A worker
reads and writes files, on storage that it shares with the driver; what it returns is small.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from ..core import ConfigError, EngineError, RagwrightError, option, require, suggest_name


class Task(Protocol):
    """One piece of work; picklable, with paths that are valid in other processes."""

    @property
    def needs(self) -> Sequence[Path]:
        """Files and folders that it reads."""

    @property
    def target(self) -> Path:
        """File that it may write; no other task has the same one."""


class Result(Protocol):
    """The result of a task; picklable, and small."""

    @property
    def target(self) -> Path | None:
        """The file written, None if none was."""

    @property
    def rows(self) -> int:
        """Rows or documents worked on."""


T = TypeVar("T", bound=Task)
R = TypeVar("R", bound=Result)


class Work(ABC, Generic[T, R]):
    """The work done on each task; picklable, and equal by value.

    Attributes:
        advice: What to do if workers run out of memory, for the message.
    """

    advice: str = "give the nodes more memory"

    @abstractmethod
    def carry_out(self, task: T) -> R:
        """The result of a task.

        Raises:
            RagwrightError: It cannot be done; the engine raises the same error to its caller.
        """

    def opened(self) -> AbstractContextManager[None]:
        """Resources of a worker while it does this work; none here."""
        return nullcontext()


class Engine(ABC):
    """Does work on many tasks; a context manager."""

    @abstractmethod
    def run(self, work: Work[T, R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in the order of the tasks; tasks are read lazily.

        Raises:
            RagwrightError: A task failed; others under way are abandoned.
        """

    def __enter__(self) -> Engine:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release workers."""
        self.close()

    def close(self) -> None:
        """Release workers; safe to call twice."""


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


_QUIET = {
    "DO_NOT_TRACK": "1",
    "DAFT_ANALYTICS_ENABLED": "0",
    "SCARF_NO_ANALYTICS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DAFT_PROGRESS_BAR": "0",
}
"""Read when Daft and Ray are imported, so set before; workers inherit them."""


def quiet() -> dict[str, str]:
    """Set the variables that switch telemetry off, unless set; returns them for workers."""
    return {name: os.environ.setdefault(name, value) for name, value in _QUIET.items()}


OWN = "local"
"""Address for a cluster on this machine only, started and ended by the engine."""

_CONNECT = 5.0
"""Seconds for a cluster to answer, as Ray itself kills the process if none does."""

_SEEN = 10.0
"""Seconds for a worker's file to appear here, as network file systems cache absence."""

_CANCEL = 10.0
"""Seconds for workers to end tasks that were cancelled."""

_AHEAD = 4
"""Tasks under way per processor: enough that none waits while the first one takes long."""

_ATTEMPTS = 3
"""Attempts of a task: the cluster begins it again if its worker or node dies."""


class RayEngine(Engine):
    """Workers of a Ray cluster; each must see the files of its tasks under the same path.

    Args:
        address: ``host:port`` of a cluster, ``auto`` for the one that runs on this machine,
            ``local`` for a private one; empty for the environment's ``RAY_ADDRESS``.

    Raises:
        ConfigError: No address, no cluster at the address, or Ray already runs in this process with
            other settings.
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, address: str = "") -> None:
        where = address or os.environ.get("RAY_ADDRESS", "")
        quiet()
        self._ray = require("ray", "cluster", "work on a cluster")
        self._own = not self._ray.is_initialized()
        self._open = True
        self._under_way: list[deque[tuple[Task, Any]]] = []
        if self._own:
            self._connect(where)
        else:
            _check_quiet(self._ray)

    def _connect(self, where: str) -> None:
        """Join the cluster, with telemetry off in every process of this job."""
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
        if where not in (OWN, "auto"):
            _check_answers(where)
        own = {"include_dashboard": False} if where == OWN else {}
        try:
            self._ray.init(
                address=where,
                runtime_env={"env_vars": quiet()},
                log_to_driver=False,
                logging_level=logging.ERROR,
                **own,
            )
        except Exception as error:
            raise _unreachable(where, error) from error

    @property
    def processors(self) -> int:
        """Processors of the cluster, as it is now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(self, work: Work[T, R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in order; several tasks per processor are under way."""
        if not self._open:
            raise EngineError("the engine is closed", hint="open another one")
        packed = self._ray.put(_pickled(work))
        remote = self._ray.remote(
            num_cpus=1, max_retries=_ATTEMPTS - 1, scheduling_strategy="SPREAD"
        )(carry_out)
        queue = iter(tasks)
        under_way: deque[tuple[Any, Any]] = deque()
        self._under_way.append(under_way)

        def start(most: int) -> None:
            for task in islice(queue, most):
                under_way.append((task, remote.remote(task, packed, version("ragwright"))))

        try:
            start(_AHEAD * self.processors)
            while under_way:
                result: R = self._result(*under_way[0], work.advice)
                under_way.popleft()
                start(1)
                yield result
        finally:
            self._abandon(under_way)
            self._under_way.remove(under_way)

    def _result(self, task: Task, coming: Any, advice: str) -> Any:
        """Wait for the result of a task.

        Raises:
            EngineError: The cluster failed, not the task.
            RagwrightError: What the task raised.
        """
        errors = self._ray.exceptions
        try:
            result = self._ray.get(coming)
        except errors.RayTaskError as error:
            raised: Exception = error.cause
            if not isinstance(raised, RagwrightError):
                raised.add_note(str(error))
            raise raised from None
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            raise EngineError(
                f"{_ATTEMPTS} workers died on the same part",
                where=str(task.target),
                hint=f"check the cluster's logs; if memory is too small, {advice}",
            ) from error
        except Exception as error:
            raise _gave_up(error) from None
        if result.target is not None:
            _wait_for(task.target)
        return result

    def _abandon(self, under_way: Iterable[tuple[Task, Any]]) -> None:
        """End what still runs, so that no worker writes after its driver gave up."""
        left = list(under_way)
        if left and self._ray.is_initialized():
            for _, coming in left:
                with suppress(Exception):
                    self._ray.cancel(coming, force=True)
            with suppress(Exception):  # cancelling does not wait, and a worker may just begin
                coming = [task for _, task in left]
                self._ray.wait(coming, num_returns=len(coming), timeout=_CANCEL, fetch_local=False)

    def close(self) -> None:
        """Leave the cluster, or end the private one; safe to call twice."""
        if not self._open:
            return
        self._open = False
        for under_way in self._under_way:  # of runs that nobody ended
            self._abandon(under_way)
        if self._own:
            self._ray.shutdown()


def _pickled(work: Work[Any, Any]) -> bytes:
    """Return the work as bytes.

    Raises:
        ConfigError: It cannot be sent to another process.
    """
    try:
        return pickle.dumps(work, protocol=5)
    except Exception as error:
        raise ConfigError(
            f"the work cannot be sent to the workers of a cluster: {error}",
            where=type(work).__name__,
            hint="define it in a module that can be imported and let it hold no open file, or use "
            "engine: local",
        ) from error


def _gave_up(error: Exception) -> EngineError:
    reason = str(error).strip() or type(error).__name__
    failure = EngineError(
        f"the cluster failed: {reason}",
        hint="what was committed stays; check that its nodes have ragwright[cluster] of this "
        "version and enough memory, and run again",
    )
    # not as its cause: a traceback would keep objects that die with the cluster
    failure.add_note(traceback.format_exc())
    return failure


def carry_out(task: Task, packed: bytes, driver: str) -> Any:
    """Do one task in a worker; returns its result."""
    if (mine := version("ragwright")) != driver:
        raise EngineError(
            f"a worker has ragwright {mine}, this process {driver}",
            where=node_name(),
            hint="install the same version on every node",
        )
    check_storage(task, node_name())
    return _opened_work(packed).carry_out(task)


_resources = ExitStack()
atexit.register(_resources.close)


@lru_cache(maxsize=1)
def _opened_work(packed: bytes) -> Work[Any, Any]:
    """Open a work for all tasks of this worker that follow; the one before is closed."""
    _resources.close()
    work: Work[Any, Any] = pickle.loads(packed)  # noqa: S301 - made by our own driver
    _resources.enter_context(work.opened())
    return work


def node_name() -> str:
    """Id of the node that this worker runs on; empty outside a cluster."""
    ray = require("ray", "cluster", "work on a cluster")
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def check_storage(task: Task, node: str) -> None:
    """Check that the node sees the driver's files."""
    for path in (*task.needs, task.target.parent):
        if not path.exists():
            raise EngineError(
                f"a worker does not see {path}",
                where=f"node {node} ({socket.gethostname()})",
                hint="keep the project's data on storage that every node mounts at the same path",
            )


def _wait_for(target: Path) -> None:
    """Check that a worker's file is visible here too."""
    until = time.monotonic() + _SEEN
    while not target.is_file():
        if time.monotonic() > until:
            raise EngineError(
                f"a worker wrote {target.name}, but it is not here",
                where=str(target.parent),
                hint="keep the project's data on storage that every node mounts at the same path",
            )
        time.sleep(0.1)


def _check_answers(address: str) -> None:
    """Check that the address is reachable."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> ConfigError:
    lines = str(error).strip().splitlines()
    return ConfigError(
        f"no Ray cluster can be reached: {lines[0] if lines else type(error).__name__}",
        where=address,
        hint="start one (ray start --head), set RAY_ADDRESS to host:port of its "
        "head, or use engine: local",
    )


def _check_quiet(ray: Any) -> None:
    """Check that an existing connection has telemetry off in its workers."""
    variables = ray.get_runtime_context().runtime_env.get("env_vars") or {}
    missing = {name: value for name, value in quiet().items() if variables.get(name) != value}
    if missing:
        raise ConfigError(
            "Ray runs in this process already, and its workers would send usage figures",
            hint="call ray.shutdown() before, or give ray.init(runtime_env={'env_vars': "
            f"{missing}}})",
        )
