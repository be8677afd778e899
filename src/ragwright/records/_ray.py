"""The engine of a cluster: the same tasks, carried out by Daft's workers on Ray.

A row of a Daft frame is one task, one row per partition, so that tasks spread over the nodes. The
step is sent pickled, once per wave; a worker opens it once and keeps it for the next tasks. Only
the rows' facts come back: files are read and written by the workers, on storage that every node
sees under the same path.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import logging
import os
import pickle
import socket
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from ..core import ConfigError, RagwrightError, RecordsError, require
from ._daft import daft_module, quiet
from ._engine import run_task
from ._seams import ArrowTable, Engine, Step, Task, TaskResult

OWN = "local"
"""Address for a cluster on this machine only, started and ended by the engine."""

_CONNECT = 5.0
"""Seconds for a cluster to answer, as Ray itself kills the process if none does."""

_SEEN = 10.0
"""Seconds for a worker's file to appear here, as network file systems cache absence."""

_WAVE = 8
"""Tasks of a wave per processor: enough that idle time at its end matters little."""

_ATTEMPTS = 3
"""Attempts of a task before it counts as killing its workers."""


class RayEngine(Engine):
    """Workers of a Ray cluster; each must see the tables' folder under the same path.

    Attributes:
        rows_by_node: Rows that each node has worked on since the engine was opened, by node id.

    Args:
        address: ``host:port`` of a cluster, ``auto`` for the one that runs on this machine,
            ``local`` for a private one; empty for the environment's ``RAY_ADDRESS``.
        workers: Processors of a private cluster; others are used completely.

    Raises:
        ConfigError: No address, no cluster at the address, or Ray or Daft already runs in this
            process with other settings.
        MissingExtraError: Ray or Daft is not installed.
    """

    def __init__(self, address: str = "", workers: int | None = None) -> None:
        where = address or os.environ.get("RAY_ADDRESS", "")
        quiet()
        self._ray = require("ray", "cluster", "running records on a cluster")
        daft = daft_module()
        self._own = not self._ray.is_initialized()
        self._open = True
        self.rows_by_node: Counter[str] = Counter()
        if self._own:
            self._connect(where, workers)
        else:
            _check_quiet(self._ray)
        try:
            # Daft's runner of the process: None if another one was set
            self._runner = daft.set_runner_ray(noop_if_initialized=True)
            if self._runner.name != "ray":
                raise RuntimeError(f"it is {self._runner.name}")
        except Exception as error:
            self.close()
            raise ConfigError(
                f"Daft cannot run on Ray in this process: {error}",
                hint="do not set Daft's runner before a cluster is used, or use engine: local",
            ) from error

    def _connect(self, where: str, workers: int | None) -> None:
        """Join the cluster, with telemetry off in every process of this job."""
        if not where:
            raise ConfigError(
                "engine ray needs the address of a cluster",
                where="records.address",
                hint="set records.address or RAY_ADDRESS to host:port, to auto for the cluster of "
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
            raise _unreachable(where, error) from error

    def run(self, step: Step, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Outcomes in order; tasks are sent in waves, several per processor."""
        if not self._open:
            raise RecordsError("the engine is closed", hint="open another one")
        size = _WAVE * max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        packed = pickle.dumps(step)
        queue = iter(tasks)
        wave = list(islice(queue, size))
        try:
            while wave:
                coming: list[Task] = []
                for outcome in self._outcomes(wave, packed):
                    # the next wave is prepared while the workers run this one
                    coming += islice(queue, min(1, size - len(coming)))
                    yield outcome
                wave = coming + list(islice(queue, size - len(coming)))
        finally:
            if wave:
                self._abandon(wave)

    def _outcomes(self, wave: list[Task], packed: bytes) -> Iterator[TaskResult]:
        """Results of a wave, in the order of its tasks."""
        early: dict[int, _Reply] = {}
        at = 0
        for reply in _replies(wave, packed):
            early[reply.at] = reply
            while at in early:
                yield self._outcome(wave[at], early.pop(at))
                at += 1
        if at < len(wave):
            raise _gave_up("fewer results came back than tasks were sent")

    def _outcome(self, task: Task, reply: _Reply) -> TaskResult:
        if reply.error is not None:
            error: Exception = pickle.loads(reply.error)  # noqa: S301 - made by our own worker
            raise error
        ipc = require("pyarrow.ipc", "records", "reading records")
        facts = ipc.open_stream(reply.facts).read_all()
        self.rows_by_node[reply.node] += facts.num_rows
        if not reply.wrote:
            return TaskResult(task, facts, None)
        _wait_for(task.target, reply.node)
        return TaskResult(task, facts, task.target)

    def _abandon(self, wave: Iterable[Task]) -> None:
        """End what still runs of a step, so that no worker writes after its refresh gave up."""
        plans = getattr(self._runner, "flotilla_plan_runner", None)
        if plans is not None and self._ray.is_initialized():
            # the workers belong to this actor and end with it
            self._ray.kill(plans.runner)
            self._runner.flotilla_plan_runner = None
        for task in wave:
            _marks(task).unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the cluster, or end the private one; safe to call twice."""
        if not self._open:
            return
        self._open = False
        runner = getattr(self, "_runner", None)
        if runner is not None:
            # it holds an actor of this connection, and the process may open another engine
            runner.flotilla_plan_runner = None
        if self._own:
            self._ray.shutdown()


def _replies(wave: list[Task], packed: bytes) -> Iterator[_Reply]:
    """Results of the workers, as they come.

    Raises:
        RecordsError: The cluster failed, not a task.
    """
    try:
        for batch in _frame(wave, packed).to_arrow_iter(results_buffer_size=None):
            for row in batch.to_pylist():
                yield _Reply(**row)
    except Exception as error:
        told = _gave_up(str(error).strip() or type(error).__name__)
        # not as its cause: a traceback would keep the plan's objects, which die with the cluster
        told.add_note(traceback.format_exc())
        raise told from None


def _gave_up(why: str) -> RecordsError:
    return RecordsError(
        f"the cluster failed: {why}",
        hint="nothing was changed; check that its nodes have ragwright[cluster] of this version "
        "and enough memory, and run again",
    )


def _frame(tasks: list[Task], packed: bytes) -> Any:
    """A lazy frame with one partition per task, whose rows are the results."""
    daft = daft_module()
    pa = require("pyarrow", "records", "reading records")
    kind = daft.DataType
    carried = daft.func(
        carry_out,
        return_dtype=kind.struct(
            {
                "at": kind.int64(),
                "node": kind.string(),
                "wrote": kind.bool(),
                "facts": kind.binary(),
                "error": kind.binary(),
            }
        ),
        unnest=True,
        use_process=False,
    )
    rows = [
        pa.table({"at": [at], "task": pa.array([_packed_task(task)], pa.large_binary())})
        for at, task in enumerate(tasks)
    ]
    frame = daft.from_arrow(rows)
    return frame.select(carried(frame["at"], frame["task"], packed, version("ragwright")))


@dataclass(frozen=True, slots=True)
class _Reply:
    """A worker's result of a task: its facts as an Arrow stream, or its error, pickled."""

    at: int
    node: str
    wrote: bool = False
    facts: bytes | None = None
    error: bytes | None = None

    def as_row(self) -> dict[str, Any]:
        """The row of the frame."""
        return {name: getattr(self, name) for name in self.__slots__}


def carry_out(at: int, task: bytes, packed: bytes, driver: str) -> Mapping[str, Any]:
    """Runs in a worker: one task, and its result or error."""
    node = _node()
    try:
        if (mine := version("ragwright")) != driver:
            raise RecordsError(
                f"a worker has ragwright {mine}, this process {driver}",
                where=node,
                hint="install the same version on every node",
            )
        wanted = _unpacked_task(task)
        check_storage(wanted, node)
        _check_attempts(wanted, node)
        with _steps.held(packed) as step:
            outcome = run_task(step, wanted)
        _marks(wanted).unlink(missing_ok=True)
        facts = _stream(outcome.facts)
        return _Reply(at, node, outcome.target is not None, facts).as_row()
    except Exception as error:
        return _Reply(at, node, error=packed_error(error, node)).as_row()


@dataclass
class _Held:
    step: Step
    stack: ExitStack
    users: int = 0


@dataclass
class _Steps:
    """Steps that this worker holds open: the one in use, by the hash of its pickle."""

    held_now: dict[str, _Held] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    @contextmanager
    def held(self, packed: bytes) -> Iterator[Step]:
        """The opened step; unused ones are closed."""
        name = hashlib.blake2b(packed, digest_size=16).hexdigest()
        with self.lock:
            if name not in self.held_now:
                for other in [n for n, held in self.held_now.items() if not held.users]:
                    self.held_now.pop(other).stack.close()
                step: Step = pickle.loads(packed)  # noqa: S301 - made by our own driver
                stack = ExitStack()
                stack.enter_context(step.opened())
                self.held_now[name] = _Held(step, stack)
            held = self.held_now[name]
            held.users += 1
        try:
            yield held.step
        finally:
            with self.lock:
                held.users -= 1

    def close(self) -> None:
        """Close all of them."""
        while self.held_now:
            self.held_now.popitem()[1].stack.close()


_steps = _Steps()
atexit.register(_steps.close)


def _packed_task(task: Task) -> bytes:
    """A task as bytes: paths valid on every node, known rows as an Arrow stream."""
    placed = replace(task, source=task.source.absolute(), target=task.target.absolute(), known=None)
    known = None if task.known is None else _stream(task.known)
    return pickle.dumps((placed, known), protocol=5)


def _unpacked_task(packed: bytes) -> Task:
    task, known = pickle.loads(packed)  # noqa: S301 - made by our own driver
    assert isinstance(task, Task)
    if known is None:
        return task
    ipc = require("pyarrow.ipc", "records", "reading records")
    return replace(task, known=ipc.open_stream(known).read_all())


def _stream(table: ArrowTable) -> bytes:
    ipc = require("pyarrow.ipc", "records", "reading records")
    sink = io.BytesIO()
    options = ipc.IpcWriteOptions(compression="lz4")
    with ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _node() -> str:
    ray = require("ray", "cluster", "running records on a cluster")
    return str(ray.get_runtime_context().get_node_id())


def check_storage(task: Task, node: str) -> None:
    """Check that the node sees the driver's files."""
    for path in (task.source, task.target.parent):
        if not path.exists():
            raise RecordsError(
                f"a worker does not see {path}",
                where=f"node {node} ({socket.gethostname()})",
                hint="keep the project's data on storage that every node mounts at the same path",
            )


def _marks(task: Task) -> Path:
    return task.target.with_name(f".{task.target.name}.begun")


def _check_attempts(task: Task, node: str) -> None:
    """Record this attempt with one byte, and stop a task that kills its workers.

    The cluster restarts a task whose worker died, without end: one that exhausted memory would do
    so again.
    """
    with _marks(task).open("ab") as file:
        file.write(b".")
        begun = file.tell()
    if begun > _ATTEMPTS:
        _marks(task).unlink(missing_ok=True)
        raise RecordsError(
            f"{_ATTEMPTS} workers died on the same part",
            where=f"{task.source}, node {node} ({socket.gethostname()})",
            hint="check the cluster's logs; if memory is too small, lower records.part_rows",
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
        told = RecordsError(
            f"a step failed: {type(error).__name__}: {error}",
            where=f"node {node} ({socket.gethostname()})",
        )
        return pickle.dumps(told)


def _wait_for(target: Path, node: str) -> None:
    """Check that a worker's file is visible here too."""
    until = time.monotonic() + _SEEN
    while not target.is_file():
        if time.monotonic() > until:
            raise RecordsError(
                f"a worker wrote {target.name}, but it is not here",
                where=f"{target.parent}, written by node {node}",
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
    said = str(error).strip().splitlines()
    return ConfigError(
        f"no Ray cluster can be reached: {said[0] if said else type(error).__name__}",
        where=address,
        hint="start one (ray start --head), set records.address or RAY_ADDRESS to host:port of its "
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
