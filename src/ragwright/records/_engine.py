"""Execution of tasks, the same for every engine."""

from __future__ import annotations

from ..engines import Work
from . import tables
from ._seams import HASH, KEY, REASON, ArrowTable, Step, StepTask, TaskResult, compute, pa, parquet


def run_task(step: Step, task: StepTask) -> TaskResult:
    """Read the rows of a task, call the step, write the rows that differ from the known ones."""
    batch = parquet.read_table(task.source, use_threads=False)
    if task.live is not None:
        batch = batch.filter(pa.array(task.live))
    for name in task.columns:
        if name not in batch.column_names:
            batch = batch.append_column(name, pa.nulls(batch.num_rows, pa.null()))
    results = step(batch)
    wanted = compute.is_null(results.column(REASON))
    if task.known is not None and task.known.num_rows:
        wanted = compute.and_(wanted, compute.invert(_held(results, task.known)))
    rows = results.filter(wanted).drop_columns([REASON])
    facts = results.select([KEY, HASH, REASON, *step.facts]).append_column("written", wanted)
    if not rows.num_rows:
        return TaskResult(facts, None)
    tables.write_part(rows, task.target)
    return TaskResult(facts, task.target)


def _held(results: ArrowTable, known: ArrowTable) -> ArrowTable:
    """Rows that the target already has, by key and hash."""
    keys, hashes = known.column(KEY).combine_chunks(), known.column(HASH).combine_chunks()
    place = compute.index_in(results.column(KEY).cast(keys.type), value_set=keys)
    same = compute.equal(
        results.column(HASH).cast(hashes.type), hashes.take(place.combine_chunks())
    )
    return compute.fill_null(same, False)


class StepWork(Work[StepTask, TaskResult]):
    """A step as the work of an engine: rows of a file, through the step, into another file."""

    advice = "give the workers more memory"

    def __init__(self, step: Step) -> None:
        self._step = step

    def carry_out(self, task: StepTask) -> TaskResult:
        """The facts of a task's rows; rows that differ from the known ones are written."""
        return run_task(self._step, task)
