"""Runs: rows that reports read and ``--resume`` continues, and the jobs that make them."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from ..core import FlowError, RagwrightError, StoreError, canonical_json, value_hash
from ..ledger import Connection, Ledger, Place
from ._runner import Runner
from ._verbs import Flow, Outcome

_MOST_QUEUED = 256
_TICK = 1e-4
"""Seconds between the starts of two runs, at least."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored: its id, what was run, how it ended, and its name if it has one."""

    id: str
    kind: str
    manifest: Mapping[str, Any]
    state: str
    started: float
    ended: float | None
    name: str = ""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row of a run: position, id, state (``done``, ``errored``, ``skipped``) and body."""

    ordinal: int
    id: str
    state: str
    body: Mapping[str, Any]


class Runs:
    """Append-only runs in the ledger: a SQLite file, or a database that several machines share.

    Rows are committed in groups.

    Args:
        place: File to use, made with mode 0600; or a shared database.
    """

    def __init__(self, place: Place) -> None:
        self._ledger = Ledger(place)
        self._queued: deque[Future[None]] = deque()

    def start(self, kind: str, manifest: Mapping[str, Any], *, scope: str = "") -> str:
        """Open a run; its name sorts by time."""
        run = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"
        self._ledger.writer.execute(
            # never before an existing run: the newest is the last, whatever the clock says
            "INSERT INTO runs (run, kind, manifest, hash, scope, state, started) "
            "SELECT ?, ?, ?, ?, ?, 'open', max(moment) FROM (SELECT clock_seconds() AS moment "
            "UNION ALL SELECT coalesce(max(started), 0) + ? FROM runs) AS moments "
            "WHERE true ON CONFLICT DO NOTHING",
            (run, kind, canonical_json(manifest), value_hash(manifest), scope, _TICK),
        ).result()
        return run

    def unfinished(
        self, kind: str, manifest: Mapping[str, Any], *, scope: str = "", errored: bool = False
    ) -> str | None:
        """The newest run with this manifest and scope that is not complete, else None.

        ``errored`` counts a run that holds errored rows as not complete.
        """
        row = self._first(
            "SELECT run FROM runs WHERE kind = ? AND hash = ? AND scope = ? AND ("
            "state != 'complete' OR (? = 1 AND EXISTS (SELECT 1 FROM rows "
            "WHERE rows.run = runs.run AND rows.state = 'errored'))) "
            "ORDER BY started DESC LIMIT 1",
            (kind, value_hash(manifest), scope, int(errored)),
        )
        return None if row is None else str(row[0])

    def complete(self, kind: str, manifest: Mapping[str, Any], *, scope: str = "") -> str | None:
        """The newest complete run with this manifest and scope, else None."""
        row = self._first(
            "SELECT run FROM runs WHERE kind = ? AND hash = ? AND scope = ? "
            "AND state = 'complete' ORDER BY started DESC LIMIT 1",
            (kind, value_hash(manifest), scope),
        )
        return None if row is None else str(row[0])

    def states(self, run: str) -> dict[str, str]:
        """State of every row of a run, by row id; bodies are not read."""
        return dict(self._ledger.select("SELECT row, state FROM rows WHERE run = ?", (run,)))

    def append(self, run: str, row: RunRow, *, sources: Sequence[str] = ()) -> None:
        """Add a row; a row of that id replaces an earlier one only if that was not ``done``.

        Waits only if more than some hundred rows are not yet written, so that memory stays
        bounded; :meth:`flush` and :meth:`finish` wait for all, and raise the first error.
        """
        body = json.dumps(row.body, ensure_ascii=False, sort_keys=True)

        def work(connection: Connection) -> None:
            connection.execute(
                "INSERT INTO rows (run, ordinal, row, state, body, written) VALUES "
                "(?, ?, ?, ?, ?, clock_seconds()) ON CONFLICT (run, row) DO UPDATE "
                "SET state = excluded.state, body = excluded.body, written = excluded.written "
                "WHERE rows.state != 'done'",
                (run, row.ordinal, row.id, row.state, body),
            )
            connection.executemany(
                "INSERT INTO row_sources (source, run, row) VALUES (?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                [(source, run, row.id) for source in sources],
            )

        self._queued.append(self._ledger.writer.submit(work))
        while len(self._queued) > _MOST_QUEUED and self._queued[0].exception() is None:
            self._queued.popleft()

    def flush(self) -> None:
        """Wait until every appended row is committed; raise the first failure."""
        queued, self._queued = self._queued, deque()
        for failure in [row.exception() for row in queued]:
            if failure is not None:
                raise failure

    def finish(self, run: str, state: str) -> None:
        """Close a run as ``complete`` or ``stopped``, after all its rows are committed."""
        self.flush()
        self._ledger.writer.execute(
            "UPDATE runs SET state = ?, ended = CASE WHEN started > clock_seconds() "
            "THEN started ELSE clock_seconds() END WHERE run = ?",
            (state, run),
        ).result()

    def get(self, run: str) -> Run:
        """A run by its name.

        Raises:
            StoreError: The run does not exist.
        """
        runs = self._matching("run = ?", (run,))
        if not runs:
            raise StoreError(
                f"unknown run {run!r}",
                where=self._ledger.database.where,
                hint="see ragwright report",
            )
        return runs[0]

    def holds(self, run: str) -> bool:
        """True if there is a run with this id."""
        return self._first("SELECT 1 FROM runs WHERE run = ?", (run,)) is not None

    def list(self, kind: str | None = None) -> Sequence[Run]:
        """Runs, oldest first."""
        return self._matching("1 = 1", ()) if kind is None else self._matching("kind = ?", (kind,))

    def _matching(self, where: str, values: Sequence[str]) -> Sequence[Run]:
        names = "LEFT JOIN names USING (run)"
        columns = "run, kind, manifest, state, started, ended, coalesce(name, '')"
        query = f"SELECT {columns} FROM runs {names} WHERE {where} ORDER BY started, run"  # noqa: S608
        rows = self._ledger.select(query, values)
        return [Run(r[0], r[1], json.loads(r[2]), *r[3:]) for r in rows]

    def name(self, run: str, name: str) -> None:
        """Name a run; several may have the same name, an empty one removes it."""

        def work(connection: Connection) -> None:
            connection.execute("DELETE FROM names WHERE run = ?", (run,))
            if name:
                connection.execute("INSERT INTO names (run, name) VALUES (?, ?)", (run, name))

        self._ledger.writer.call(work)

    def keep(self, run: str, fact: str, value: Mapping[str, Any]) -> None:
        """Store a further fact about a run; it does not affect what is resumed."""
        self._ledger.writer.execute(
            "INSERT INTO facts (run, fact, value) VALUES (?, ?, ?) "
            "ON CONFLICT (run, fact) DO UPDATE SET value = excluded.value",
            (run, fact, canonical_json(value)),
        ).result()

    def kept(self, run: str, fact: str) -> Mapping[str, Any]:
        """The fact that :meth:`keep` stored; empty if there is none."""
        row = self._first("SELECT value FROM facts WHERE run = ? AND fact = ?", (run, fact))
        return {} if row is None else dict(json.loads(row[0]))

    def rows(self, run: str) -> Iterator[RunRow]:
        """Rows of a run in input order, as they were when reading began."""
        # its own connection: a half-read cursor blocks no other reader
        database = self._ledger.database
        connection = database.connect()
        try:
            query = "SELECT ordinal, row, state, body FROM rows WHERE run = ? ORDER BY ordinal, row"
            with database.explained():
                for row in database.stream(connection, query, (run,)):
                    yield RunRow(row[0], row[1], row[2], json.loads(row[3]))
        finally:
            connection.close()

    def close(self) -> None:
        """Finish what is queued; safe to call twice."""
        self._ledger.close()

    def _first(self, query: str, values: Sequence[Any]) -> Any:
        return next(iter(self._ledger.select(query, values)), None)


T = TypeVar("T")
Maker: TypeAlias = Callable[[], Flow[T]]


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """A job: a flow for each row, and how its results are stored.

    Attributes:
        kind: Kind of run (``eval``, ``sweep``, …).
        manifest: Everything that determines the results, JSON-able: a run is resumed only by a job
            with an equal manifest (put the pinned index snapshot in it).
        items: (row id, maker of its flow) in input order; read lazily, ids are unique.
        encode: JSON-able body of a row's result.
        sources: Ids of the documents whose text a result holds, so that they can be forgotten.
        scope: Who may see replies and rows (tenant, permissions).
        resume: Continue the newest unfinished run of this manifest, where there is one.
        reuse: Use a complete run of this manifest as it is, rather than make another.
        retry_errors: Run errored rows again, also those of a complete run; the runner's
            ``attempt`` decides whether new replies are requested.
        failed: True for a result in which something failed: it is stored with the state
            ``errored``, so that ``retry_errors`` runs its row again, and with its body, which stays
            until there is a new one.
        limit: Most flows open at once, None for the runner's default.
        timeout: Seconds for one row as a whole, None for no bound.
    """

    kind: str
    manifest: Mapping[str, Any]
    items: Iterable[tuple[str, Maker[T]]]
    encode: Callable[[T], Mapping[str, Any]]
    sources: Callable[[T], Sequence[str]] | None = None
    scope: str = ""
    resume: bool = True
    reuse: bool = False
    retry_errors: bool = False
    failed: Callable[[T], bool] | None = None
    limit: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The outcome of a job.

    Attributes:
        run: Name of its run.
        resumed: True where the run had been started before.
        total: Rows of the job.
        kept: Rows that an earlier start finished; they also count as done or errored.
        done: Rows with a result.
        errored: Rows whose flow failed.
        skipped: Rows that were not reached, or not finished.
        reason: Why the work was stopped, None where it was not.
    """

    run: str
    resumed: bool
    total: int
    kept: int
    done: int
    errored: int
    skipped: int
    reason: RagwrightError | None = None

    @property
    def complete(self) -> bool:
        """True if every row was finished."""
        return self.skipped == 0


def run_job(runner: Runner, runs: Runs, job: Job[T]) -> RunSummary:
    """Run a job's rows, append each as it ends, and close the run.

    Rows are appended in input order with the state ``done``, ``errored`` or ``skipped``; rows
    that were done before are not run again. A run with skipped rows ends as ``stopped`` and is
    resumed by the next job with its manifest.

    Raises:
        KeyboardInterrupt: After Ctrl-C, once the work under way is stored.
        FlowError: Two rows share an id.
        StoreError: A row could not be written.
    """
    work = _Work(runner, runs, job)
    flows = (make() for make in work.makers())
    rows = runner.outcomes(flows, limit=job.limit, scope=job.scope, timeout=job.timeout)
    try:
        with runner.stop_if_unreachable(), closing(rows) as outcomes:
            for outcome in outcomes:
                work.take(outcome)
        work.skip_rest()
        return work.end()
    except KeyboardInterrupt as stop:
        work.skip_rest()
        summary = work.end()
        if not summary.complete:
            kept = summary.done + summary.errored
            stop.add_note(f"{kept} of {summary.total} rows are kept in run {summary.run}")
        raise
    except BaseException:
        runs.flush()  # finished rows are kept; the runs stay open and can be resumed
        raise


class _Work(Generic[T]):
    """One run of a job under way."""

    def __init__(self, runner: Runner, runs: Runs, job: Job[T]) -> None:
        run = None
        if job.resume:
            run = runs.unfinished(job.kind, job.manifest, scope=job.scope, errored=job.retry_errors)
        if job.reuse:
            run = run or runs.complete(job.kind, job.manifest, scope=job.scope)
        self._resumed = run is not None
        self._run = run or runs.start(job.kind, job.manifest, scope=job.scope)
        self._progress = runner.progress
        self._runs = runs
        self._job = job
        self._items = iter(job.items)
        self._before = runs.states(self._run)
        self._ids: set[str] = set()
        self._under_way: deque[tuple[int, str]] = deque()
        self._counts = {"done": 0, "errored": 0, "skipped": 0}
        self._kept = 0
        self._seen = 0
        self._reason: RagwrightError | None = None
        self._progress.begin(len(job.items) if isinstance(job.items, Sized) else None)

    def take(self, outcome: Outcome[T]) -> None:
        """Write how the oldest row under way ended."""
        self._write(*self._under_way.popleft(), outcome)
        if outcome.state != "skipped":
            self._progress.finished += 1

    def end(self) -> RunSummary:
        """Close the run."""
        counts = self._counts
        self._runs.finish(self._run, "stopped" if counts["skipped"] else "complete")
        return RunSummary(
            run=self._run,
            resumed=self._resumed,
            total=self._seen,
            kept=self._kept,
            done=counts["done"],
            errored=counts["errored"],
            skipped=counts["skipped"],
            reason=self._reason,
        )

    def skip_rest(self) -> None:
        """Store unfinished rows as skipped."""
        outcome: Outcome[T] = Outcome("skipped", error=self._reason)
        while self._under_way:
            self.take(outcome)
        for _ in self.makers():
            self.take(outcome)

    def makers(self) -> Iterator[Maker[T]]:
        """The flows of unfinished rows, noted as under way when they are read."""
        settled = {"done"} if self._job.retry_errors else {"done", "errored"}
        for row, make in self._items:
            if row in self._ids:
                raise FlowError(
                    f"two rows of the job share the id {row!r}", hint="give every row its own id"
                )
            self._ids.add(row)
            ordinal, self._seen = self._seen, self._seen + 1
            state = self._before.get(row, "")
            if state in settled:
                self._kept += 1
                self._counts[state] += 1
                self._progress.finished += 1
                continue
            self._under_way.append((ordinal, row))
            yield make

    def _write(self, ordinal: int, row: str, outcome: Outcome[T]) -> None:
        body: Mapping[str, Any] = {}
        sources: Sequence[str] = ()
        state = "skipped"
        if outcome.state == "done":
            value = outcome.unwrap()
            state = "errored" if self._job.failed and self._job.failed(value) else "done"
            body = self._job.encode(value)
            sources = self._job.sources(value) if self._job.sources else ()
        elif outcome.state == "failed":
            state, body = "errored", _error_body(outcome.error)
        elif isinstance(outcome.error, RagwrightError):
            self._reason = self._reason or outcome.error
            body = _error_body(outcome.error)
        self._counts[state] += 1
        if state == "skipped" and self._before.get(row) == "errored":
            return  # keep what an earlier start stored for the row
        self._runs.append(self._run, RunRow(ordinal, row, state, body), sources=sources)


def _error_body(error: Exception | None) -> dict[str, Any]:
    if isinstance(error, RagwrightError):
        parts = {"what": error.what, "where": error.where, "hint": error.hint}
        body = {name: value for name, value in parts.items() if value}
    else:
        body = {"what": str(error)}
    return {"error": type(error).__name__, **body}
