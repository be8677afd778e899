"""Execution of tasks, the same for every engine, and the engine of one machine."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from ..core import require
from . import tables
from ._seams import HASH, KEY, REASON, ArrowTable, Engine, Step, Task, TaskResult


def run_task(step: Step, task: Task) -> TaskResult:
    """Read the rows of a task, call the step, write the rows that differ from the known ones."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    parquet = require("pyarrow.parquet", "records", "reading records")
    batch = parquet.read_table(task.source, use_threads=False)
    if task.live is not None:
        batch = batch.filter(pa.array(task.live))
    for name in task.columns:
        if name not in batch.column_names:
            batch = batch.append_column(name, pa.nulls(batch.num_rows, pa.null()))
    made = step(batch)
    wanted = compute.is_null(made.column(REASON))
    if task.known is not None and task.known.num_rows:
        wanted = compute.and_(wanted, compute.invert(_held(made, task.known)))
    rows = made.filter(wanted).drop_columns([REASON])
    facts = made.select([KEY, HASH, REASON, *step.facts]).append_column("written", wanted)
    if not rows.num_rows:
        return TaskResult(task, facts, None)
    tables.write_part(rows, task.target)
    return TaskResult(task, facts, task.target)


def _held(made: ArrowTable, known: ArrowTable) -> ArrowTable:
    """Rows that the target already has, by key and hash."""
    compute = require("pyarrow.compute", "records", "reading records")
    keys, hashes = known.column(KEY).combine_chunks(), known.column(HASH).combine_chunks()
    place = compute.index_in(made.column(KEY).cast(keys.type), value_set=keys)
    same = compute.equal(made.column(HASH).cast(hashes.type), hashes.take(place.combine_chunks()))
    return compute.fill_null(same, False)


class LocalEngine(Engine):
    """Threads of this process: the steps' kernels release the GIL.

    Args:
        workers: Tasks at once; by default the number of cores.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="ragwright-records")

    def run(self, step: Step, tasks: Iterable[Task]) -> Iterator[TaskResult]:
        """Outcomes in order, at most one task more under way than there are workers."""
        under_way: deque[Future[TaskResult]] = deque()
        try:
            with step.opened():
                for task in tasks:
                    under_way.append(self._pool.submit(run_task, step, task))
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
