"""One refresh: source to bronze to silver to gold, only what changed, all or nothing.

The driver only reads keys, hashes and reasons; the engine moves rows from file to file.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import count_noun, hide_secret, value_hash
from ..engines import Engine, Work
from . import stages
from ._seams import (
    DUPLICATE,
    HASH,
    KEY,
    REASON,
    TEXT_HASH,
    ArrowTable,
    RowSource,
    Step,
    StepTask,
    TableName,
    TaskResult,
    UpsertCounts,
    compute,
    pa,
    parquet,
)
from ._spec import RecordsSpec
from .tables import (
    LivePart,
    RecordTables,
    SourceState,
    TableWriter,
    read_file,
    write_part,
)


@dataclass(slots=True)
class RefreshProgress:
    """Progress of a refresh; can be read from any thread."""

    stage: str = "opening"
    read: int = 0
    done: int = 0
    total: int = 0
    started: float = field(default_factory=time.monotonic)

    def begin(self, stage: str, total: int = 0) -> None:
        """Start a stage; ``total`` rows are expected, if known."""
        self.stage, self.done, self.total = stage, 0, total


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """Result of a refresh.

    Attributes:
        version: Version of the tables afterwards.
        counts: Rows inserted, updated and unchanged in bronze, silver and gold.
        removed: Rows removed from bronze, silver and gold.
        left_out: Reason -> rows that are left out now, as in the table ``left_out``.
        read: Rows read from the source.
        notes: Notes for the user.
    """

    version: int
    counts: Mapping[str, UpsertCounts]
    removed: Mapping[str, int]
    left_out: Mapping[str, int]
    read: int = 0
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The form that ``ragwright records refresh --json`` prints, without the index."""
        return {
            **{name: counts.as_dict() for name, counts in self.counts.items()},
            "removed": dict(self.removed),
            "left_out": dict(self.left_out),
            "read": self.read,
            "version": self.version,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class RefreshPlan:
    """Settings of a refresh.

    Attributes:
        spec: The declarations of the folder.
        part_rows: Rows of one file and one batch.
        wait: Seconds to wait for another refresh.
        note: Note in the history.
        full: Read the source and run every step again, also for unchanged rows.
        dry_run: Do everything, but store nothing.
    """

    spec: RecordsSpec
    part_rows: int = 16_384
    wait: float = 600.0
    note: str = "refresh"
    full: bool = False
    dry_run: bool = False


Mask = NDArray[np.bool_]

_COUNTED: tuple[TableName, ...] = ("bronze", "silver", "gold")


def refresh(
    plan: RefreshPlan,
    tables: RecordTables,
    source: RowSource,
    engine: Engine,
    progress: RefreshProgress | None = None,
) -> RefreshReport:
    """Update the tables from their source and declarations.

    Raises:
        RecordsError: A row or a declaration cannot be used; the tables are unchanged.
        DatabaseError: The source fails, also half-way; the tables are unchanged.
        StoreBusyError: Another refresh is still under way after ``plan.wait`` seconds.
    """
    shown = progress or RefreshProgress()
    shown.begin("waiting")
    with tables.writing("records refresh", plan.wait) as writing:
        return _Refresh(plan, tables, writing, engine, shown).run(source)


class _Refresh:
    """One refresh under way, within one writing."""

    def __init__(
        self,
        plan: RefreshPlan,
        tables: RecordTables,
        writing: TableWriter,
        engine: Engine,
        progress: RefreshProgress,
    ) -> None:
        self._plan = plan
        self._spec = plan.spec
        self._tables = tables
        self._writing = writing
        self._engine = engine
        self._progress = progress
        self._before = {} if not tables.version else dict(tables.manifest().lineage)
        if plan.full:
            self._before = {}
        self._lineage = _lineage(plan.spec)
        self._came_from = tables.manifest().lineage.get("from")
        self._lineage["from"] = self._came_from
        self._state = SourceState.load(tables)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._notes: list[str] = []
        # columns of the last reading: an all-null column is in no file
        self._columns = set(tables.manifest().lineage.get("columns", ()))

    def run(self, source: RowSource) -> RefreshReport:
        """All stages, then one commit."""
        self._bronze(source)
        self._silver()
        self._gold()
        self._progress.begin("writing")
        report = self._report()
        if self._plan.dry_run:
            return report
        self._lineage["columns"] = sorted(self._columns)
        self._lineage["left_out"] = dict(report.left_out)
        version = self._writing.commit(self._lineage, self._plan.note)
        self._state.save(self._tables)
        return replace(report, version=version)

    def _bronze(self, source: RowSource) -> None:
        same = self._before.get("source") == self._lineage["source"]
        stamp = source.stamp()
        if same and self._state.seen(stamp):
            return
        since = self._state.watermark if same else ""
        rows = stages.BronzeRows(source, self._spec.source, self._plan.part_rows)
        known = self._writing.known("bronze")
        self._progress.begin("reading")
        waiting: list[ArrowTable] = []
        met: set[str] = set()
        for batch in rows.batches(since):
            met.update(batch.column_names)
            self._pass("bronze", batch.column(KEY))
            self._progress.read = self._progress.done = rows.read
            new, changed = known.compare(batch.column(KEY), batch.column(HASH))
            kept = batch.filter(_mask(new | changed))
            if kept.num_rows:
                waiting.append(kept)
            if sum(rows.num_rows for rows in waiting) >= self._plan.part_rows:
                waiting = self._write_bronze(waiting, whole=False)
        self._write_bronze(waiting, whole=True)
        self._columns = met or self._columns
        for refused in rows.refused():
            # neither its present nor its earlier rows may be used
            for table in _COUNTED:
                self._remove(table, refused.column(KEY))
            self._leave_out(refused, "bronze")
        self._notes += rows.notes
        self._note_origin()
        self._state.read(stamp, rows.reached or since)

    def _note_origin(self) -> None:
        """Note if rows of another source than before are added, or replace some."""
        spec = self._spec.source
        now = [hide_secret(spec.source, spec.source), value_hash(spec.query)]
        self._lineage["from"] = now
        if self._came_from in (None, now):
            return
        changed_part = "source" if self._came_from[0] != now[0] else "query"
        over = self._counts["bronze", "updated"]
        rows = count_noun(over, "row that was there has", "rows that were there have")
        self._notes.append(
            f"another {changed_part} than the last refresh read ({self._came_from[0]}): "
            f"its rows are added to the earlier ones, and {rows} been replaced by one with the "
            "same key"
        )

    def _write_bronze(self, waiting: list[ArrowTable], *, whole: bool) -> list[ArrowTable]:
        """Write full parts (``whole``: the rest too); other rows wait."""
        if not waiting:
            return []
        joined = pa.concat_tables(waiting, promote_options="permissive")
        size = self._plan.part_rows
        for at in range(0, joined.num_rows, size):
            rows = joined.slice(at, size)
            if rows.num_rows < size and not whole:
                return [rows]
            self._adopt("bronze", rows)
        return []

    # -- silver ----------------------------------------------------------------------------

    def _silver(self) -> None:
        spec = self._spec
        step = stages.SilverStep(spec.cleaning, spec.tags, spec.source.text)
        if self._before.get("silver") != self._lineage["silver"]:
            self._run("silver", step, self._tasks(step, "bronze", "silver", self._live("bronze")))
            return
        stale = self._stale_tags()
        old = {part.path for part in self._live("silver")} if stale else set()
        self._run(
            "silver", step, self._tasks(step, "bronze", "silver", self._writing.adopted("bronze"))
        )
        if stale:
            # Tags only depend on the clean text, so cleaning need not run again.
            left = [part for part in self._live("silver") if part.path in old]
            retag = stages.RetagStep(spec.tags, stale)
            self._run("silver", retag, self._tasks(retag, "silver", "silver", left))

    def _stale_tags(self) -> tuple[str, ...]:
        """Tags whose pattern is new, changed or removed; also one of them if the order changed."""
        listed, lists = self._before.get("tags", []), self._lineage["tags"]
        before, now = dict(listed), dict(lists)
        stale = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if not stale and listed != lists:
            stale = list(now)[:1]
        return tuple(stale)

    # -- gold ------------------------------------------------------------------------------

    def _gold(self) -> None:
        spec = self._spec
        rules = self._before.get("gold") != self._lineage["gold"]
        adopted = {part.path for part in self._writing.adopted("silver")}
        if not rules and not adopted and not self._counts["silver", "removed"]:
            return
        self._progress.begin("duplicates", self._rows("silver"))
        # columns in which duplicates agree; an all-null column distinguishes nothing
        there = self._writing.columns("silver")
        unheard = self._columns | set(self._writing.columns("bronze"))
        by = [name for name in spec.rules.duplicates_by if name in there or name not in unheard]
        same = (TEXT_HASH, *by)
        losers = stages.duplicates(lambda columns: self._writing.read("silver", columns), same)
        self._remove("gold", losers.column(KEY))
        self._leave_out(losers, "gold")
        twice = set(losers.column(KEY).to_pylist())
        # keys that gold left out for their content, when it last saw them
        barred = {
            row[KEY]
            for batch in self._writing.read("left_out", [KEY, "stage", REASON])
            for row in batch.to_pylist()
            if row["stage"] == "gold" and not row[REASON].startswith(DUPLICATE)
        }
        known = self._writing.known("gold")
        parts: list[LivePart] = []
        for part in self._live("silver"):
            rows = _read(part, [KEY, HASH])
            wanted = ~_held(rows.column(KEY), twice)
            if not rules and part.path not in adopted:
                new, _ = known.compare(rows.column(KEY), rows.column(HASH))
                wanted &= new & ~_held(rows.column(KEY), barred)
            live = wanted if part.live is None else _within(part.live, wanted)
            if live.any():
                parts.append(replace(part, live=live))
        rollups = replace(spec.rollups, biographies={})  # not needed, and may be large
        step = stages.GoldStep(spec.tags, rollups, spec.rules, spec.format, spec.source.keep)
        self._run("gold", step, self._tasks(step, "silver", "gold", parts))

    # -- what the stages share -------------------------------------------------------------

    def _live(self, table: TableName) -> Sequence[LivePart]:
        return self._writing.live(table)

    def _rows(self, table: TableName) -> int:
        return self._writing.rows(table)

    def _known_columns(self, step: Step, table: TableName) -> tuple[str, ...]:
        """The columns of a step that the table has, even if a file lacks them."""
        there = self._columns | set(self._writing.columns("bronze"))
        if table == "silver":
            there.discard(self._spec.source.text)
        return tuple(name for name in step.columns if name in there)

    def _tasks(
        self, step: Step, source: TableName, target: TableName, parts: Iterable[LivePart]
    ) -> Iterator[StepTask]:
        """One task per part; ``known`` are its rows in the target."""
        parts = list(parts)
        self._progress.begin(target, sum(map(_count, parts)))
        if not parts:
            return
        known = self._writing.known(target)
        for part in parts:
            held = known.slice(_read(part, [KEY]).column(KEY)) if len(known) else None
            path = self._writing.new_part(target)
            yield StepTask(part.path, path, part.live, held, self._known_columns(step, source))

    def _run(self, table: TableName, step: Step, tasks: Iterator[StepTask]) -> None:
        for outcome in self._engine.run(StepWork(step), tasks):
            self._take(table, outcome)
            self._progress.done += outcome.facts.num_rows

    def _take(self, table: TableName, outcome: TaskResult) -> None:
        if outcome.target is not None:
            self._count(table, self._writing.adopt(table, outcome.target))
        facts = outcome.facts
        refused = compute.is_valid(facts.column(REASON))
        out = facts.filter(refused)
        if table == "silver":
            self._remove("silver", out.column(KEY))
        self._remove("gold", out.column(KEY))
        self._leave_out(out, table)
        self._pass(table, facts.column(KEY).filter(compute.invert(refused)))

    @cached_property
    def _left_out(self) -> Mapping[str, Set[str]]:
        """Keys that each stage had left out; read by the first stage with rows."""
        return stages.read_left_out_keys(self._writing)

    def _pass(self, stage: str, keys: ArrowTable) -> None:
        """Remove passed rows from the left-out rows of this stage."""
        before = _held(keys, self._left_out[stage])
        if before.any():
            self._remove("left_out", keys.filter(_mask(before)))

    def _leave_out(self, refused: ArrowTable, stage: str) -> None:
        """Record rows that are left out, with ``left_out`` as the reason."""
        if not refused.num_rows:
            return
        reasons = refused.column(REASON).to_pylist()
        hashes = {why: value_hash([stage, why])[:32] for why in reasons}
        noted = pa.table(
            {
                KEY: refused.column(KEY),
                HASH: pa.array([hashes[why] for why in reasons], pa.string()),
                "stage": pa.array([stage] * len(reasons), pa.string()),
                REASON: pa.array(reasons, pa.string()),
            }
        )
        new, changed = self._writing.known("left_out").compare(
            noted.column(KEY), noted.column(HASH)
        )
        rows = noted.filter(_mask(new | changed))
        if rows.num_rows:
            self._adopt("left_out", rows)

    def _adopt(self, table: TableName, rows: ArrowTable) -> None:
        self._count(table, self._writing.add(table, rows))

    def _count(self, table: TableName, counts: UpsertCounts) -> None:
        self._counts[table, "inserted"] += counts.inserted
        self._counts[table, "updated"] += counts.updated

    def _remove(self, table: TableName, keys: ArrowTable) -> None:
        if len(keys):
            self._counts[table, "removed"] += self._writing.remove(table, keys)

    def _report(self) -> RefreshReport:
        counts: dict[str, UpsertCounts] = {}
        for table in _COUNTED:
            new, changed = self._counts[table, "inserted"], self._counts[table, "updated"]
            counts[table] = UpsertCounts(new, changed, self._rows(table) - new - changed)
        return RefreshReport(
            self._tables.version,
            counts,
            {table: self._counts[table, "removed"] for table in _COUNTED},
            self._reasons(),
            self._progress.read,
            tuple(self._notes),
        )

    def _reasons(self) -> Mapping[str, int]:
        """Reason -> rows that are left out now; as it was where nothing was written or removed."""
        counted = self._tables.manifest().lineage.get("left_out")
        if counted is not None and not self._writing.opened("left_out"):
            return dict(counted)
        reasons: Counter[str] = Counter()
        for batch in self._writing.read("left_out", [REASON]):
            for count in batch.column(REASON).value_counts().to_pylist():
                reasons[stages.kind_of_reason(count["values"])] += count["counts"]
        return dict(sorted(reasons.items()))


def _held(keys: ArrowTable, held: Set[str]) -> Mask:
    """The mask of the keys that are in a set."""
    return np.array([key in held for key in keys.to_pylist()], np.bool_)


def _lineage(spec: RecordsSpec) -> dict[str, Any]:
    """Dependencies of each table besides the previous one."""
    source = spec.source
    shape = [source.text, dict(source.rename)]
    return {
        "source": source.fingerprint,
        "silver": value_hash([spec.cleaning.fingerprint, shape]),
        "tags": [list(pair) for pair in spec.tags.fingerprints.items()],
        "gold": value_hash(
            [
                spec.tags.fingerprint,
                spec.rollups.fingerprint,
                spec.rules.fingerprint,
                spec.format.fingerprint,
                list(source.keep),
            ]
        ),
    }


def _read(part: LivePart, columns: Sequence[str]) -> ArrowTable:
    """Live rows of a part, some columns."""
    rows = read_file(part.path, columns)
    return rows if part.live is None else rows.filter(_mask(part.live))


def _count(part: LivePart) -> int:
    return part.rows if part.live is None else int(np.count_nonzero(part.live))


def _within(live: Mask, wanted: Mask) -> Mask:
    """A mask over the live rows, as a mask over all rows."""
    whole = live.copy()
    whole[np.flatnonzero(live)[~wanted]] = False
    return whole


def _mask(rows: Mask) -> ArrowTable:
    return pa.array(rows)


def _held_rows(results: ArrowTable, known: ArrowTable) -> ArrowTable:
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
        batch = parquet.read_table(task.source, use_threads=False)
        if task.live is not None:
            batch = batch.filter(pa.array(task.live))
        for name in task.columns:
            if name not in batch.column_names:
                batch = batch.append_column(name, pa.nulls(batch.num_rows, pa.null()))
        results = self._step(batch)
        wanted = compute.is_null(results.column(REASON))
        if task.known is not None and task.known.num_rows:
            wanted = compute.and_(wanted, compute.invert(_held_rows(results, task.known)))
        rows = results.filter(wanted).drop_columns([REASON])
        facts = results.select([KEY, HASH, REASON, *self._step.facts]).append_column(
            "written", wanted
        )
        if not rows.num_rows:
            return TaskResult(facts, None)
        write_part(rows, task.target)
        return TaskResult(facts, task.target)
