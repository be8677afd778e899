"""Jobs: many flows over named rows, stored as they end, and resumed where they stopped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from ..core import FlowError, RagwrightError
from ._context import Outcome
from ._runner import Runner
from ._runs import RunRow, Runs
from ._verbs import Flow

T = TypeVar("T")
Maker: TypeAlias = Callable[[], Flow[T]]


def _whole(_value: Any) -> bool:
    return False


def _no_sources(_value: Any) -> Sequence[str]:
    return ()


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
    sources: Callable[[T], Sequence[str]] = _no_sources
    scope: str = ""
    resume: bool = True
    reuse: bool = False
    retry_errors: bool = False
    failed: Callable[[T], bool] = _whole
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
        with runner.giving_up(), closing(rows) as outcomes:
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
                self._progress.kept += 1
                continue
            self._under_way.append((ordinal, row))
            yield make

    def _write(self, ordinal: int, row: str, outcome: Outcome[T]) -> None:
        body: Mapping[str, Any] = {}
        sources: Sequence[str] = ()
        state = "skipped"
        if outcome.state == "done":
            value = outcome.unwrap()
            state = "errored" if self._job.failed(value) else "done"
            body, sources = self._job.encode(value), self._job.sources(value)
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
    """An error as stored in a row: kind, message, place and hint."""
    if isinstance(error, RagwrightError):
        parts = {"what": error.what, "where": error.where, "hint": error.hint}
        body = {name: value for name, value in parts.items() if value}
    else:
        body = {"what": str(error)}
    return {"error": type(error).__name__, **body}
