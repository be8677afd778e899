"""Jobs: many flows over named rows, written down as they end, and taken up where they stopped."""

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


def _no_sources(_value: Any) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """What to run over which rows, and how a result is written down.

    Attributes:
        kind: Kind of run (``eval``, ``sweep``, …).
        manifest: All that decides the results, JSON-able: a run is resumed only by a job of the
            very same manifest (put the pinned index snapshot in it).
        items: (row id, maker of its flow) in input order; read lazily, ids are unique.
        encode: JSON-able body of a row's result.
        sources: Ids of the documents whose text a result holds, so that they can be forgotten.
        scope: Who may see replies and rows (tenant, permissions).
        resume: Continue the newest unfinished run of this manifest, where there is one.
        retry_errors: Run errored rows again, also those of a complete run; the runner's
            ``attempt`` decides whether their replies are drawn anew.
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
    retry_errors: bool = False
    limit: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a job ended.

    Attributes:
        run: Name of its run.
        resumed: True where the run had been started before.
        total: Rows of the job.
        kept: Rows that an earlier start had settled; they are counted in done or errored too.
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
        """True where every row was settled."""
        return self.skipped == 0


def run_job(runner: Runner, runs: Runs, job: Job[T]) -> RunSummary:
    """Run a job's rows, append each as it ends, and close the run.

    Rows are appended in input order with the state ``done``, ``errored`` or ``skipped``; rows
    that were done before are not run again. A run with skipped rows ends as ``stopped`` and is
    taken up by the next job of its manifest.

    Raises:
        KeyboardInterrupt: After Ctrl-C, once what was under way is written down.
        FlowError: Two rows share an id.
        StoreError: A row could not be written.
    """
    found = None
    if job.resume:
        found = runs.unfinished(job.kind, job.manifest, scope=job.scope, errored=job.retry_errors)
    run = found or runs.start(job.kind, job.manifest, scope=job.scope)
    work = _Work(runner, runs, job, run)
    try:
        work.drive()
    except KeyboardInterrupt:
        work.skip_rest()
        runs.finish(run, "stopped")
        raise
    except BaseException:
        runs.flush()  # what ended is kept; the run stays open and can be resumed
        raise
    counts = work.counts
    runs.finish(run, "stopped" if counts["skipped"] else "complete")
    return RunSummary(
        run=run,
        resumed=found is not None,
        total=work.seen,
        kept=work.kept,
        done=counts["done"],
        errored=counts["errored"],
        skipped=counts["skipped"],
        reason=work.reason,
    )


class _Work(Generic[T]):
    """One run of a job under way."""

    def __init__(self, runner: Runner, runs: Runs, job: Job[T], run: str) -> None:
        self._runner = runner
        self._runs = runs
        self._job = job
        self._run = run
        self._items = iter(job.items)
        self._before = runs.states(run)
        self._ids: set[str] = set()
        self._under_way: deque[tuple[int, str]] = deque()
        self.counts = {"done": 0, "errored": 0, "skipped": 0}
        self.kept = 0
        self.seen = 0
        self.reason: RagwrightError | None = None
        runner.progress.total = len(job.items) if isinstance(job.items, Sized) else None

    def drive(self) -> None:
        """Run every row that is not settled; after a stop the rest is written as skipped."""
        job = self._job
        flows = (make() for make in self._makers())
        with closing(
            self._runner.outcomes(flows, limit=job.limit, scope=job.scope, timeout=job.timeout)
        ) as outcomes:
            for outcome in outcomes:
                self._write(*self._under_way.popleft(), outcome)
        if self.counts["skipped"]:
            self.skip_rest()

    def skip_rest(self) -> None:
        """Write what was never ended as skipped."""
        outcome: Outcome[T] = Outcome("skipped", error=self.reason)
        while self._under_way:
            self._write(*self._under_way.popleft(), outcome)
        for _ in self._makers():
            self._write(*self._under_way.popleft(), outcome)

    def _makers(self) -> Iterator[Maker[T]]:
        settled = {"done"} if self._job.retry_errors else {"done", "errored"}
        for row, make in self._items:
            if row in self._ids:
                raise FlowError(
                    f"two rows of the job share the id {row!r}", hint="give every row its own id"
                )
            self._ids.add(row)
            ordinal, self.seen = self.seen, self.seen + 1
            state = self._before.get(row, "")
            if state in settled:
                self.kept += 1
                self.counts[state] += 1
                self._runner.progress.finished += 1
                continue
            self._under_way.append((ordinal, row))
            yield make

    def _write(self, ordinal: int, row: str, outcome: Outcome[T]) -> None:
        body: Mapping[str, Any] = {}
        sources: Sequence[str] = ()
        state = "skipped"
        if outcome.state == "done":
            value = outcome.unwrap()
            state, body, sources = "done", self._job.encode(value), self._job.sources(value)
        elif outcome.state == "failed":
            state, body = "errored", _error_body(outcome.error)
        elif isinstance(outcome.error, RagwrightError):
            self.reason = self.reason or outcome.error
            body = _error_body(outcome.error)
        self.counts[state] += 1
        self._runs.append(self._run, RunRow(ordinal, row, state, body), sources=sources)


def _error_body(error: Exception | None) -> dict[str, Any]:
    """An error as a row tells it: kind, sentence, place and way out."""
    if isinstance(error, RagwrightError):
        told = {"what": error.what, "where": error.where, "hint": error.hint}
        body = {name: value for name, value in told.items() if value}
    else:
        body = {"what": str(error)}
    return {"error": type(error).__name__, **body}
