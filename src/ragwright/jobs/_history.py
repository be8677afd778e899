"""The history of jobs: rows are written as events happen and never changed, so it survives crashes.

A run has a row for its start and one for its end; a run without the second whose lock is free was
interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..ledger import Connection, Forgets, Tables, ledger_tables, open_database

Trigger: TypeAlias = Literal["by hand", "schedule", "catch-up"]
JobState: TypeAlias = Literal[
    "succeeded",
    "failed",
    "gate failed",
    "not trusted",
    "timed out",
    "stopped",
    "cut off",
    "skipped",
    "missed",
    "running",
]

CUT_OFF = "its process was killed"
OWED = "its process ended before it was sent"
"""Reason of a notice before it is sent; after a crash it remains, and the notice is sent later."""

_MOST_RUNS = 1_000
"""Runs of a job that are kept."""

_SELECT = (
    "SELECT id, job, trigger, started, due, pid, flags, timezone, ended, state, reason "
    "FROM job_runs LEFT JOIN job_ends ON run = id"
)


@dataclass(frozen=True, slots=True)
class StepRun:
    """One attempt of one step.

    Attributes:
        step: Position among the job's steps, from 1.
        attempt: Attempt of the job, from 1.
        line: The command line.
        started: Seconds since 1970.
        seconds: Duration.
        code: Exit code; None if it was killed.
        state: ``succeeded``, ``failed``, ``timed out``, ``stopped``, or ``skipped`` by its flag.
        output: The last lines that it printed.
    """

    step: int
    attempt: int
    line: str
    started: float
    seconds: float = 0.0
    code: int | None = None
    state: JobState = "succeeded"
    output: str = ""


@dataclass(frozen=True, slots=True)
class NoticeSent:
    """A notice: address (variables by name), whether it was sent, and why not."""

    address: str
    sent: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunStart:
    """Facts at the start of a run.

    Attributes:
        job: Name of the job.
        trigger: What triggered it.
        started: Seconds since 1970.
        due: Its time in the schedule; None if started by hand.
        pid: Process id of the runner.
        flags: Every flag and whether it is on.
        timezone: Time zone for display.
    """

    job: str
    trigger: Trigger
    started: float
    due: float | None = None
    pid: int = 0
    flags: Mapping[str, bool] = field(default_factory=dict)
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a job in the history; ``ended`` is None if unknown."""

    id: int
    start: RunStart
    ended: float | None = None
    state: JobState = "running"
    reason: str = ""
    steps: tuple[StepRun, ...] = ()
    notices: tuple[NoticeSent, ...] = ()

    @property
    def attempts(self) -> int:
        """Number of attempts of the job."""
        return max((step.attempt for step in self.steps), default=0)

    @property
    def code(self) -> int:
        """Exit code: 0, the 100 or 101 of its last step, 130 if it was stopped, else 1."""
        codes: Mapping[str, int] = {
            "succeeded": 0,
            "gate failed": 100,
            "not trusted": 101,
            "stopped": 130,
        }
        return codes.get(self.state, 1)


class JobHistory:
    """The history of the jobs of a project, in its ledger; several processes use it.

    Raises:
        StoreError: The file cannot be used, or is of a newer version.
    """

    def __init__(self, path: Path) -> None:
        # Each reading and writing has a connection of its own: nothing has to be closed.
        self._database = open_database(path, ledger_tables())

    def begin(self, start: RunStart) -> int:
        """Store the start of a run; returns its number."""
        with self._database.transaction() as connection:
            return _begin(connection, start)

    def step(self, run: int, step: StepRun) -> None:
        """Store one attempt of a step."""
        row = (step.step, step.attempt, step.line, step.started, step.seconds, step.code)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO job_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (run, *row, step.state, step.output),
            )

    def end(
        self, run: int, at: float, state: JobState, reason: str = "", owed: Sequence[str] = ()
    ) -> None:
        """Store the end of a run, and the addresses that need a notice."""
        with self._database.transaction() as connection:
            _end(connection, (run, at, state, reason), owed)

    def notice(self, run: int, at: float, notice: NoticeSent) -> None:
        """Store that a notice was sent, or why not."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO job_notices VALUES (?, ?, ?, ?, ?)",
                (run, at, notice.address, notice.sent, notice.reason),
            )

    def not_run(
        self, start: RunStart, state: JobState, reason: str, owed: Sequence[str] = ()
    ) -> int:
        """Store that a scheduled time passed without a run."""
        with self._database.transaction() as connection:
            run = _begin(connection, start)
            _end(connection, (run, start.started, state, reason), owed)
            return run

    def cut_off(self, job: str, owed: Sequence[str] = ()) -> list[int]:
        """Close the runs of a job without an end; only for the holder of the job's lock."""
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT id FROM job_runs WHERE job = ? AND id NOT IN (SELECT run FROM job_ends)",
                (job,),
            ).fetchall()
            for (run,) in rows:
                _end(connection, (run, None, "cut off", CUT_OFF), owed)
            return [run for (run,) in rows]

    def since(self, job: str, schedule: str, now: float) -> float:
        """Return when this schedule of a job was first served; now, if never.

        Times before that are not missed. A schedule that is restored after another one counts from
        then on.
        """
        with self._database.transaction() as connection:
            row = connection.execute(
                "SELECT schedule, since FROM job_schedules WHERE job = ? "
                "ORDER BY rowid DESC LIMIT 1",
                (job,),
            ).fetchone()
            if row is not None and row[0] == schedule:
                return float(row[1])
            connection.execute("INSERT INTO job_schedules VALUES (?, ?, ?)", (job, schedule, now))
            return now

    def answered(self, job: str) -> float | None:
        """Return the last scheduled time in the history."""
        with self._database.transaction() as connection:
            row = connection.execute(
                "SELECT max(due) FROM job_runs WHERE job = ?", (job,)
            ).fetchone()
        return None if row[0] is None else float(row[0])

    def prune(self, job: str) -> int:
        """Delete all but the newest 1,000 runs of a job; returns the number deleted."""
        with self._database.transaction() as connection:
            old = connection.execute(
                "SELECT id FROM job_runs WHERE job = ? ORDER BY id DESC LIMIT -1 OFFSET ?",
                (job, _MOST_RUNS),
            ).fetchall()
            for table, column in (
                ("job_steps", "run"),
                ("job_notices", "run"),
                ("job_ends", "run"),
                ("job_runs", "id"),
            ):
                connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", old)  # noqa: S608
            return len(old)

    def runs(self, job: str = "", limit: int = -1) -> list[JobRun]:
        """List runs, newest first; of every job by default.

        A run without an end is ``running`` here; check its lock to be sure.
        """
        with self._database.transaction() as connection:
            where = "WHERE ? IN ('', job) ORDER BY id DESC LIMIT ?"
            rows = connection.execute(f"{_SELECT} {where}", (job, limit)).fetchall()
            return [_run(connection, row) for row in rows]

    def owing(self, job: str) -> list[int]:
        """List the runs of a job with unsent notices."""
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT DISTINCT run FROM job_notices JOIN job_runs ON id = run WHERE job = ? "
                "GROUP BY run, address HAVING 2 * sum(reason = ?) > count(*) ORDER BY run",
                (job, OWED),
            ).fetchall()
        return [run for (run,) in rows]

    def run(self, number: int) -> JobRun:
        """Return one run by its number."""
        with self._database.transaction() as connection:
            row = connection.execute(f"{_SELECT} WHERE id = ?", (number,)).fetchone()
            return _run(connection, row)


def _begin(connection: Connection, start: RunStart) -> int:
    row = (start.job, start.trigger, start.due, start.started, start.pid)
    cursor = connection.execute(
        "INSERT INTO job_runs (job, trigger, due, started, pid, flags, timezone) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (*row, json.dumps(dict(start.flags), sort_keys=True), start.timezone),
    )
    return int(cursor.fetchone()[0])


def _end(
    connection: Connection,
    end: tuple[int, float | None, JobState, str],
    owed: Sequence[str],
) -> None:
    connection.execute("INSERT INTO job_ends VALUES (?, ?, ?, ?)", end)
    rows = [(end[0], end[1] or 0.0, address, False, OWED) for address in owed]
    connection.executemany("INSERT INTO job_notices VALUES (?, ?, ?, ?, ?)", rows)


def _run(connection: Connection, row: Sequence[Any]) -> JobRun:
    number, job, trigger, started, due, pid, flags, timezone, ended, state, reason = row
    steps = connection.execute(
        "SELECT step, attempt, line, started, seconds, code, state, output FROM job_steps "
        "WHERE run = ? ORDER BY rowid",
        (number,),
    )
    rows = connection.execute(
        "SELECT address, sent, reason FROM job_notices WHERE run = ? ORDER BY rowid", (number,)
    )
    notices: list[NoticeSent] = []
    for address, sent, why in rows:
        notice = NoticeSent(address, bool(sent), why)
        owed = NoticeSent(address, False, OWED)
        if owed in notices and why != OWED:
            notices[notices.index(owed)] = notice
        else:
            notices.append(notice)
    return JobRun(
        number,
        RunStart(job, trigger, started, due, pid, json.loads(flags), timezone),
        ended,
        state or "running",
        reason or "",
        tuple(StepRun(*step) for step in steps),
        tuple(notices),
    )


FORGOTTEN = "(removed by `ragwright forget`)"
"""Output of job steps that ran before a document was forgotten."""

_JOBS = (
    "CREATE TABLE IF NOT EXISTS job_runs (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "job TEXT NOT NULL, trigger TEXT NOT NULL, due REAL, started REAL NOT NULL, "
    "pid INTEGER NOT NULL, flags TEXT NOT NULL, timezone TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS job_runs_by_job ON job_runs (job, id)",
    "CREATE TABLE IF NOT EXISTS job_steps (run INTEGER NOT NULL, step INTEGER NOT NULL, "
    "attempt INTEGER NOT NULL, line TEXT NOT NULL, started REAL NOT NULL, seconds REAL NOT NULL, "
    "code INTEGER, state TEXT NOT NULL, output TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS job_steps_by_run ON job_steps (run)",
    "CREATE TABLE IF NOT EXISTS job_ends (run INTEGER PRIMARY KEY, ended REAL, "
    "state TEXT NOT NULL, reason TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS job_notices (run INTEGER NOT NULL, at REAL NOT NULL, "
    "address TEXT NOT NULL, sent INTEGER NOT NULL, reason TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS job_notices_by_run ON job_notices (run)",
    "CREATE TABLE IF NOT EXISTS job_schedules (job TEXT NOT NULL, schedule TEXT NOT NULL, "
    "since REAL NOT NULL)",
)
"""Runs of jobs, their steps, ends and notices; schedules and since when they are served."""

_JOBS_FORGET = (
    # what a step has printed may quote any document and name anybody
    Forgets(
        "job_steps",
        f"output NOT IN ('', '{FORGOTTEN}')",
        person=f"output NOT IN ('', '{FORGOTTEN}')",
        counts="jobs",
        becomes=f"output = '{FORGOTTEN}'",
        local=True,
    ),
)

JOB_TABLES = Tables(
    "jobs",
    (),
    1,
    local=_JOBS,
    forgets=_JOBS_FORGET,
)
"""The history of jobs; its version is the ledger's."""
