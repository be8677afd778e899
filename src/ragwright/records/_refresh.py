"""One refresh: source to bronze to silver to gold, only what changed, all or nothing."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core import replace_text, value_hash
from ..ingest import Engine
from . import stages
from ._delta import TableWriter
from ._seams import HASH, KEY, REASON, TEXT_HASH, ArrowTable, TableName, UpsertCounts, compute, pa
from ._spec import RecordsSpec
from ._tables import RecordTables
from .sources import RowSource


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
        wait: Seconds to wait for another refresh.
        full: Read the source and run every step again, also for unchanged rows.
        dry_run: Do everything, but store nothing.
    """

    spec: RecordsSpec
    wait: float = 600.0
    full: bool = False
    dry_run: bool = False


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
    progress = progress or RefreshProgress()
    progress.begin("waiting")
    with tables.writing("records refresh", plan.wait) as writer:
        under_way = _Refresh(plan, tables, writer, engine, progress)
        under_way.bronze(source)
        under_way.silver()
        under_way.gold()
        return under_way.finish()


class _Refresh:
    """One refresh under way, within one writing."""

    def __init__(
        self,
        plan: RefreshPlan,
        tables: RecordTables,
        writer: TableWriter,
        engine: Engine,
        progress: RefreshProgress,
    ) -> None:
        self._plan, self._spec = plan, plan.spec
        self._tables, self._writer = tables, writer
        self._engine, self._progress = engine, progress
        before = tables.manifest().lineage
        self._before = {} if plan.full else before
        self._lineage = _lineage(plan.spec)
        # columns of the last reading: an all-null column is in no table
        self._columns = set(before.get("columns", ()))
        self._state = self._load_state()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._notes: list[str] = []
        self._came: list[str] = []
        # key -> stage that left the row out, and why
        self._left_out: dict[str, tuple[str, str]] = {
            row[KEY]: (row["stage"], row[REASON])
            for batch in writer.read("left_out")
            for row in batch.to_pylist()
        }

    # -- what is known of the source ---------------------------------------------------------

    def _load_state(self) -> dict[str, Any]:
        """Stamp and watermark of the last reading; lost or old, they cost a reading of it all."""
        try:
            stored = json.loads((self._tables.folder / "source.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return stored if stored["version"] == self._tables.version else {}

    def bronze(self, source: RowSource) -> None:
        """Rows that are new or changed since the last refresh join bronze."""
        same = self._before.get("source") == self._lineage["source"]
        stamp = source.stamp()
        if same and stamp and stamp == self._state.get("stamp"):
            return
        since = self._state.get("watermark", "") if same else ""
        rows = stages.BronzeRows(source, self._spec.source)
        self._progress.begin("reading")
        met: set[str] = set()
        for batch in rows.batches(since):
            met.update(batch.column_names)
            self._take("bronze", batch)
            self._progress.read = self._progress.done = rows.read
        self._columns = met or self._columns
        # neither their present nor their earlier rows may be used
        self._refuse("bronze", rows.refused())
        self._notes += rows.notes
        self._state = {"stamp": stamp, "watermark": source.reached or since}

    # -- silver and gold ---------------------------------------------------------------------

    def silver(self) -> None:
        """Rows that came are cleaned and tagged; all of them if a declaration changed."""
        spec = self._spec
        everything = self._before.get("silver") != self._lineage["silver"]
        if everything or self._came:
            step = stages.SilverStep(spec.cleaning, spec.tags, spec.source.text)
            rows = self._writer.read("bronze", keys=None if everything else self._came)
            total = self._writer.rows("bronze") if everything else len(self._came)
            self._run("silver", step, rows, total)
        stale = () if everything else self._stale_tags()
        if stale:
            # Tags only depend on the clean text, so cleaning need not run again.
            retag = stages.RetagStep(spec.tags, stale)
            self._run("silver", retag, self._writer.read("silver"), self._writer.rows("silver"))

    def _stale_tags(self) -> tuple[str, ...]:
        """Tags whose pattern is new, changed or removed; also one of them if the order changed."""
        listed, lists = self._before.get("tags", []), self._lineage["tags"]
        before, now = dict(listed), dict(lists)
        stale = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return tuple(stale or (list(now)[:1] if listed != lists else ()))

    def gold(self) -> None:
        """Silver without duplicates becomes gold, if a row of it or a declaration changed."""
        spec, writer = self._spec, self._writer
        changed = any(table == "silver" for table, _ in +self._counts)
        if not changed and self._before.get("gold") == self._lineage["gold"]:
            return
        self._left_out = {key: why for key, why in self._left_out.items() if why[0] != "gold"}
        self._progress.begin("duplicates", writer.rows("silver"))
        # columns in which duplicates agree; an all-null column distinguishes nothing
        there = writer.columns("silver")
        by = [n for n in spec.rules.duplicates_by if n in there or n not in self._columns]
        losers = stages.duplicates(lambda columns: writer.read("silver", columns), (TEXT_HASH, *by))
        self._refuse("gold", losers)
        rollups = replace(spec.rollups, biographies={})  # not needed, and may be large
        step = stages.GoldStep(spec.tags, rollups, spec.rules, spec.format, spec.source.keep)
        rows = (
            batch.filter(compute.invert(compute.is_in(batch[KEY], losers[KEY].combine_chunks())))
            for batch in writer.read("silver")
        )
        passed = self._run("gold", step, rows, writer.rows("silver") - losers.num_rows)
        self._remove("gold", writer.hashes("gold").keys() - passed)

    def _run(
        self,
        table: TableName,
        step: stages.SilverStep | stages.RetagStep | stages.GoldStep,
        rows: Iterable[ArrowTable],
        total: int,
    ) -> set[str]:
        """Rows through a step into a table; the keys of those that pass."""
        self._progress.begin(table, total)
        known = self._columns.intersection(step.columns)
        if table == "gold":  # silver lacks the column that its text was made of
            known.discard(self._spec.source.text)
        passed: set[str] = set()
        for results in self._engine.run(step, _widened(rows, known)):
            fit = compute.is_null(results[REASON])
            self._refuse(table, results.filter(compute.invert(fit)))
            passed.update(self._take(table, results.filter(fit).drop_columns([REASON])))
            self._progress.done += results.num_rows
        return passed

    # -- what the stages share ---------------------------------------------------------------

    def _take(self, table: TableName, rows: ArrowTable) -> Sequence[str]:
        """Rows join a table; their keys."""
        keys: list[str] = rows[KEY].to_pylist()
        for key in keys:
            if self._left_out.get(key, ("", ""))[0] == table:
                del self._left_out[key]
        new, written = self._writer.upsert(table, rows)
        self._counts[table, "inserted"] += new
        self._counts[table, "updated"] += written.num_rows - new
        if table == "bronze":
            self._came += written[KEY].to_pylist()
        return keys

    def _refuse(self, stage: TableName, rows: ArrowTable) -> None:
        """Rows leave the table of a stage and those after it, with ``left_out`` as the reason."""
        keys = rows[KEY].to_pylist()
        for key, why in zip(keys, rows[REASON].to_pylist(), strict=True):
            self._left_out[key] = stage, why
        for table in _COUNTED[_COUNTED.index(stage) :]:
            self._remove(table, keys)

    def _remove(self, table: TableName, keys: Iterable[str]) -> None:
        self._counts[table, "removed"] += self._writer.remove(table, keys)

    def finish(self) -> RefreshReport:
        """Store what was left out, and commit all tables at once."""
        self._progress.begin("writing")
        writer, plan = self._writer, self._plan
        writer.upsert("left_out", _left_out_rows(self._left_out))
        writer.remove("left_out", writer.hashes("left_out").keys() - self._left_out.keys())
        counts: dict[str, UpsertCounts] = {}
        for table in _COUNTED:
            new, changed = self._counts[table, "inserted"], self._counts[table, "updated"]
            counts[table] = UpsertCounts(new, changed, writer.rows(table) - new - changed)
        left_out = Counter(stages.kind_of_reason(why) for _, why in self._left_out.values())
        version = self._tables.version
        if not plan.dry_run:
            version = writer.commit({**self._lineage, "columns": sorted(self._columns)}, "refresh")
            state = json.dumps({**self._state, "version": version})
            replace_text(self._tables.folder / "source.json", state, private=True)
        return RefreshReport(
            version,
            counts,
            {table: self._counts[table, "removed"] for table in _COUNTED},
            dict(sorted(left_out.items())),
            self._progress.read,
            (*self._notes, *writer.notes),
        )


def _lineage(spec: RecordsSpec) -> dict[str, Any]:
    """Dependencies of each table besides the previous one."""
    source = spec.source
    silver = [spec.cleaning.fingerprint, source.text, dict(source.rename)]
    gold = [
        spec.tags.fingerprint,
        spec.rollups.fingerprint,
        spec.rules.fingerprint,
        spec.format.fingerprint,
        list(source.keep),
    ]
    return {
        "source": source.fingerprint,
        "silver": value_hash(silver),
        "tags": [list(pair) for pair in spec.tags.fingerprints.items()],
        "gold": value_hash(gold),
    }


def _widened(rows: Iterable[ArrowTable], columns: Iterable[str]) -> Iterator[ArrowTable]:
    """Rows with some columns; those that they lack are null."""
    for batch in rows:
        for name in columns:
            if name not in batch.column_names:
                batch = batch.append_column(name, pa.nulls(batch.num_rows, pa.null()))
        yield batch


def _left_out_rows(left_out: Mapping[str, tuple[str, str]]) -> ArrowTable:
    """The table ``left_out``."""
    hashes = {why: value_hash(list(why))[:32] for why in set(left_out.values())}
    columns = {
        KEY: list(left_out),
        HASH: [hashes[why] for why in left_out.values()],
        "stage": [stage for stage, _ in left_out.values()],
        REASON: [why for _, why in left_out.values()],
    }
    return pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()})
