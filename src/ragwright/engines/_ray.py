"""The engine of a cluster: the same work, done by the processes of a Ray cluster.

A task needs one processor. Ray starts a process for each that is free, and keeps it for the next
tasks, so that Python's lock bounds no node. The work is sent pickled, once; a process opens it once
and keeps it. Only small results come back: files are read and written by the workers, on storage
that every node sees under the same path.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import pickle
import socket
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from ..core import ConfigError, EngineError, RagwrightError, require
from ._seams import Engine, R, T, Task, Work

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
"""Attempts of a task before it counts as killing its workers."""


class RayEngine(Engine):
    """Workers of a Ray cluster; each must see the files of its tasks under the same path.

    Attributes:
        rows_by_node: Rows that each node has worked on since the engine was opened, by node id.

    Args:
        address: ``host:port`` of a cluster, ``auto`` for the one that runs on this machine,
            ``local`` for a private one; empty for the environment's ``RAY_ADDRESS``.
        workers: Processors of a private cluster; others are used completely.
        section: Section of the project file that names the address, for messages.

    Raises:
        ConfigError: No address, no cluster at the address, or Ray already runs in this process with
            other settings.
        MissingExtraError: Ray is not installed.
    """

    def __init__(
        self, address: str = "", workers: int | None = None, section: str = "records"
    ) -> None:
        where = address or os.environ.get("RAY_ADDRESS", "")
        quiet()
        self._ray = require("ray", "cluster", "work on a cluster")
        self._section = section
        self._own = not self._ray.is_initialized()
        self._open = True
        self.rows_by_node: Counter[str] = Counter()
        self._under_way: list[deque[tuple[Task, Any]]] = []
        if self._own:
            self._connect(where, workers)
        else:
            _check_quiet(self._ray)

    def _connect(self, where: str, workers: int | None) -> None:
        """Join the cluster, with telemetry off in every process of this job."""
        key = f"{self._section}.address"
        if not where:
            raise ConfigError(
                "engine ray needs the address of a cluster",
                where=key,
                hint=f"set {key} or RAY_ADDRESS to host:port, to auto for the cluster of "
                "this machine (ray start --head), or to local for one that ends with the command",
            )
        if where.startswith("ray://"):
            raise ConfigError(
                "Ray's client protocol is not supported",
                where=where,
                hint="run on a machine of the cluster and give host:port of its head, or auto",
            )
        if where not in (OWN, "auto"):
            _check_answers(where, key)
        own = {"num_cpus": workers, "include_dashboard": False} if where == OWN else {}
        try:
            self._ray.init(
                address=where,
                runtime_env={"env_vars": quiet()},
                log_to_driver=False,
                logging_level=logging.ERROR,
                **own,
            )
        except Exception as error:
            raise _unreachable(where, error, key) from error

    @property
    def processors(self) -> int:
        """Processors of the cluster, as it is now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(self, work: Work[T, R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in order; several tasks per processor are under way."""
        if not self._open:
            raise EngineError("the engine is closed", hint="open another one")
        packed = self._ray.put(_packed(work))
        # retried by Ray if a worker or its node dies; _check_attempts ends that
        retries = 2 * _ATTEMPTS
        remote = self._ray.remote(num_cpus=1, max_retries=retries, scheduling_strategy="SPREAD")(
            carry_out
        )
        queue = iter(tasks)
        under_way: deque[tuple[Any, Any]] = deque()
        self._under_way.append(under_way)

        def start(most: int) -> None:
            for task in islice(queue, most):
                sent = _pickled(task, "a task")
                reply = remote.remote(sent, packed, version("ragwright"), work.advice)
                under_way.append((task, reply))

        try:
            start(_AHEAD * self.processors)
            while under_way:
                result: R = self._result(*under_way[0])
                under_way.popleft()
                start(1)
                yield result
        finally:
            self._abandon(under_way)
            self._under_way.remove(under_way)

    def _result(self, task: Task, coming: Any) -> Any:
        """The result of a task, once it has come.

        Raises:
            EngineError: The cluster failed, not the task.
            RagwrightError: What the task raised.
        """
        try:
            reply: _Reply = self._ray.get(coming)
        except Exception as error:
            raise _gave_up(error) from None
        if reply.error is not None:
            raised: Exception = pickle.loads(reply.error)  # noqa: S301 - made by our own worker
            raise raised
        result = pickle.loads(reply.result or b"")  # noqa: S301 - made by our own worker
        self.rows_by_node[reply.node] += result.rows
        if result.target is not None:
            _wait_for(task.target, reply.node)
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
        for task, _ in left:
            _marks(task).unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the cluster, or end the private one; safe to call twice."""
        if not self._open:
            return
        self._open = False
        for under_way in self._under_way:  # of runs that nobody ended
            self._abandon(under_way)
        if self._own:
            self._ray.shutdown()


def _packed(work: Work[Any, Any]) -> bytes:
    return _pickled(work, "the work")


def _pickled(thing: object, what: str) -> bytes:
    """A thing as bytes.

    Raises:
        ConfigError: It cannot be sent to another process.
    """
    try:
        return pickle.dumps(thing, protocol=5)
    except Exception as error:
        raise ConfigError(
            f"{what} cannot be sent to the workers of a cluster: {error}",
            where=type(thing).__name__,
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


@dataclass(frozen=True, slots=True)
class _Reply:
    """A worker's result of a task, or its error, pickled."""

    node: str
    result: bytes | None = None
    error: bytes | None = None


def carry_out(task: bytes, packed: bytes, driver: str, advice: str) -> _Reply:
    """Runs in a worker: one task, and its result or error."""
    node = node_name()
    try:
        if (mine := version("ragwright")) != driver:
            raise EngineError(
                f"a worker has ragwright {mine}, this process {driver}",
                where=node,
                hint="install the same version on every node",
            )
        wanted: Task = pickle.loads(task)  # noqa: S301 - made by our own driver
        check_storage(wanted, node)
        _check_attempts(wanted, node, advice)
        with _works.held(packed) as work:
            result = work.carry_out(wanted)
        _marks(wanted).unlink(missing_ok=True)
        return _Reply(node, pickle.dumps(result, protocol=5))
    except Exception as error:
        return _Reply(node, error=packed_error(error, node))


@dataclass
class _Held:
    work: Work[Any, Any]
    stack: ExitStack
    users: int = 0


@dataclass
class _Works:
    """Works that this worker holds open: the one in use, by the hash of its pickle."""

    held_now: dict[str, _Held] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    @contextmanager
    def held(self, packed: bytes) -> Iterator[Work[Any, Any]]:
        """The opened work; unused ones are closed."""
        name = hashlib.blake2b(packed, digest_size=16).hexdigest()
        with self.lock:
            if name not in self.held_now:
                for other in [n for n, held in self.held_now.items() if not held.users]:
                    self.held_now.pop(other).stack.close()
                work: Work[Any, Any] = pickle.loads(packed)  # noqa: S301 - made by our own driver
                stack = ExitStack()
                stack.enter_context(work.opened())
                self.held_now[name] = _Held(work, stack)
            held = self.held_now[name]
            held.users += 1
        try:
            yield held.work
        finally:
            with self.lock:
                held.users -= 1

    def close(self) -> None:
        """Close all of them."""
        while self.held_now:
            self.held_now.popitem()[1].stack.close()


_works = _Works()
atexit.register(_works.close)


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


def _marks(task: Task) -> Path:
    return task.target.with_name(f".{task.target.name}.begun")


def _check_attempts(task: Task, node: str, advice: str) -> None:
    """Record this attempt with one byte, and stop a task that kills its workers.

    The cluster restarts a task whose worker died: one that exhausted memory would do so again.
    """
    with _marks(task).open("ab") as file:
        file.write(b".")
        begun = file.tell()
    if begun > _ATTEMPTS:
        _marks(task).unlink(missing_ok=True)
        raise EngineError(
            f"{_ATTEMPTS} workers died on the same part",
            where=f"{task.target}, node {node} ({socket.gethostname()})",
            hint=f"check the cluster's logs; if memory is too small, {advice}",
        )


def packed_error(error: Exception, node: str) -> bytes:
    """An error that can be raised in another process; one that cannot be pickled becomes text."""
    if not isinstance(error, RagwrightError):
        trace = "".join(traceback.format_exception(error))
        error.add_note(f"on node {node} ({socket.gethostname()}):\n{trace}")
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # noqa: S301 - our own, of just now
        return packed
    except Exception:
        failure = EngineError(
            f"a task failed: {type(error).__name__}: {error}",
            where=f"node {node} ({socket.gethostname()})",
        )
        return pickle.dumps(failure)


def _wait_for(target: Path, node: str) -> None:
    """Check that a worker's file is visible here too."""
    until = time.monotonic() + _SEEN
    while not target.is_file():
        if time.monotonic() > until:
            raise EngineError(
                f"a worker wrote {target.name}, but it is not here",
                where=f"{target.parent}, written by node {node}",
                hint="keep the project's data on storage that every node mounts at the same path",
            )
        time.sleep(0.1)


def _check_answers(address: str, key: str) -> None:
    """Check that the address is reachable."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise _unreachable(address, error, key) from error


def _unreachable(address: str, error: Exception, key: str) -> ConfigError:
    lines = str(error).strip().splitlines()
    return ConfigError(
        f"no Ray cluster can be reached: {lines[0] if lines else type(error).__name__}",
        where=address,
        hint=f"start one (ray start --head), set {key} or RAY_ADDRESS to host:port of its "
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
