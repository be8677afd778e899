"""The history of jobs: rows are written as events happen and never changed, so it survives crashes.

A run has a row for its start and one for its end; a run without the second whose lock is free was
interrupted.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from ..core import NoticeError, require
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
    "SELECT job, trigger, started, due, pid, flags, timezone, id, ended, state, reason "
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
class JobRun:
    """A run of a job, or a scheduled time without one.

    Attributes:
        job: Name of the job.
        trigger: What triggered it.
        started: Seconds since 1970.
        due: Its time in the schedule; None if started by hand.
        pid: Process id of the runner.
        flags: Every flag and whether it is on.
        timezone: Time zone for display.
        id: Its number in the history; 0 before it is stored.
        ended: Seconds since 1970; None if unknown.
        state: Its result.
        reason: Reason of the result.
        steps: Attempts of its steps.
        notices: Notices that were sent or are to be sent.
    """

    job: str
    trigger: Trigger
    started: float
    due: float | None = None
    pid: int = 0
    flags: Mapping[str, bool] = field(default_factory=dict)
    timezone: str = "UTC"
    id: int = 0
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
        codes = {"succeeded": 0, "gate failed": 100, "not trusted": 101, "stopped": 130}
        return codes.get(self.state, 1)


class JobHistory:
    """The history of the jobs of a project, in its ledger; several processes use it.

    Raises:
        StoreError: The file cannot be used, or is of a newer version.
    """

    def __init__(self, path: Path) -> None:
        # Each reading and writing has a connection of its own: nothing has to be closed.
        self._database = open_database(path, ledger_tables())

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """Run one statement; returns its rows."""
        with self._database.transaction() as connection:
            return list(connection.execute(sql, values).fetchall())

    def begin(self, start: JobRun) -> int:
        """Store the start of a run; returns its number."""
        with self._database.transaction() as connection:
            return _begin(connection, start)

    def step(self, run: int, step: StepRun) -> None:
        """Store one attempt of a step."""
        self._rows(
            "INSERT INTO job_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (run, *astuple(step))
        )

    def end(
        self, run: int, at: float, state: JobState, reason: str = "", owed: Sequence[str] = ()
    ) -> None:
        """Store the end of a run, and the addresses that need a notice."""
        with self._database.transaction() as connection:
            _end(connection, (run, at, state, reason), owed)

    def notice(self, run: int, at: float, notice: NoticeSent) -> None:
        """Store that a notice was sent, or why not."""
        self._rows("INSERT INTO job_notices VALUES (?, ?, ?, ?, ?)", (run, at, *astuple(notice)))

    def not_run(self, start: JobRun, state: JobState, reason: str, owed: Sequence[str] = ()) -> int:
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
        ((due,),) = self._rows("SELECT max(due) FROM job_runs WHERE job = ?", (job,))
        return None if due is None else float(due)

    def prune(self, job: str) -> None:
        """Delete all but the newest 1,000 runs of a job."""
        old = "SELECT id FROM job_runs WHERE job = ? ORDER BY id DESC LIMIT -1 OFFSET ?"
        for table in ("job_steps", "job_notices", "job_ends", "job_runs"):
            column = "id" if table == "job_runs" else "run"
            delete = f"DELETE FROM {table} WHERE {column} IN ({old})"  # noqa: S608
            self._rows(delete, (job, _MOST_RUNS))

    def runs(self, job: str = "", limit: int = -1) -> list[JobRun]:
        """List runs, newest first; of every job by default.

        A run without an end is ``running`` here; check its lock to be sure.
        """
        return self._select("WHERE ? IN ('', job) ORDER BY id DESC LIMIT ?", (job, limit))

    def owing(self, job: str) -> list[int]:
        """List the runs of a job with unsent notices."""
        rows = self._rows(
            "SELECT DISTINCT run FROM job_notices JOIN job_runs ON id = run WHERE job = ? "
            "GROUP BY run, address HAVING 2 * sum(reason = ?) > count(*) ORDER BY run",
            (job, OWED),
        )
        return [run for (run,) in rows]

    def run(self, number: int) -> JobRun:
        """Return one run by its number."""
        return self._select("WHERE id = ?", (number,))[0]

    def _select(self, where: str, values: Sequence[Any]) -> list[JobRun]:
        with self._database.transaction() as connection:
            rows = connection.execute(f"{_SELECT} {where}", values).fetchall()
            return [_run(connection, row) for row in rows]


def _begin(connection: Connection, start: JobRun) -> int:
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
    *facts, flags, timezone, number, ended, state, reason = row
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
    end = (ended, state or "running", reason or "", tuple(StepRun(*step) for step in steps))
    return JobRun(*[*facts, json.loads(flags), timezone, number, *end, tuple(notices)])


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


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECONDS = 30.0
_SUBJECT = 200
_OPEN_KINDS = {"form", "forms", "json", "jsons", "mailto", "mailtos", "xml", "xmls"}
"""Kinds of addresses whose host is not secret; for chat services it may be a token."""


@dataclass(frozen=True, slots=True)
class NoticeText:
    """Text of a notice, and whether it reports success (None: neither)."""

    subject: str
    body: str
    good: bool | None = None


def printable(text: str, keep: str = "") -> str:
    """Replace control characters and halves of surrogate pairs by spaces."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def mask_address(address: str) -> str:
    """Return an address for display: variables by name, kinds, hosts of e-mail and web.

    A password in the file (which the settings refuse) would not be shown either.
    """
    address = printable(address)
    if _VARIABLE.fullmatch(address):
        return address
    kind, sign, rest = address.partition("://")
    if not sign:
        return "…"
    if kind.lower() not in _OPEN_KINDS:
        return f"{kind}://…"
    host = rest.split("?")[0].split("/")[0].rpartition("@")[2]
    return f"{kind}://{host}"


def hide_secrets(
    text: str, addresses: Iterable[str], environ: Mapping[str, str], *, pieces: bool = False
) -> str:
    """Replace the values of the variables of addresses in a text by their names.

    ``pieces`` also replaces parts of a value, if a value is a whole address.
    """
    names = {name for address in addresses for name in _VARIABLE.findall(address)}
    values = {(environ.get(name, ""), name) for name in names}
    if pieces:
        values |= {(part, name) for v, name in values for part in re.split(r"[:/@?&=]+", v)}
    for value, name in sorted(values, key=lambda pair: (-len(pair[0]), pair)):
        if len(value) >= _SHORTEST:
            # each character as it is, or as %XX
            spelt = "".join(f"(?:{re.escape(c)}|{re.escape(quote(c, safe=''))})" for c in value)
            text = re.sub(spelt, f"${{{name}}}", text, flags=re.IGNORECASE)
    return text


_SHORTEST = 4
"""Shorter values would match inside ordinary words."""


class Notices:
    """Sends notices and checks addresses.

    Args:
        environ: Source of variables; the environment if None.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ

    def clean(self, text: str, addresses: Iterable[str]) -> str:
        """Remove the values of the variables of addresses from a text."""
        return hide_secrets(text, addresses, self._environ)

    def unset(self, address: str) -> str:
        """Return the first variable of an address that is not set; empty if all are."""
        return next((n for n in _VARIABLE.findall(address) if not self._environ.get(n)), "")

    def send(self, address: str, text: NoticeText) -> NoticeSent:
        """Send one notice; errors are returned in the result, not raised."""
        shown = mask_address(address)
        try:
            service = self._service(address)
            # a line break in a subject would start another header
            subject, body = printable(text.subject)[:_SUBJECT], printable(text.body, keep="\n")
            reason = _sent(service, NoticeText(subject, body, text.good))
        except NoticeError as error:
            reason = error.what
        except Exception as error:  # a fault of a plug-in must not affect the job
            reason = f"{type(error).__name__}: {error}"
        reason = printable(hide_secrets(reason, [address], self._environ, pieces=True))
        return NoticeSent(shown, not reason, reason)

    def problem(self, address: str) -> str:
        """Return the fault of an address, without sending anything; empty if there is none.

        Raises:
            MissingExtraError: Apprise is not installed.
        """
        _apprise()
        try:
            self._service(address)
        except NoticeError as error:
            return error.what
        return ""

    def _service(self, address: str) -> Any:
        """Create the Apprise service of an address.

        Raises:
            NoticeError: A variable is not set, or Apprise does not know the address.
        """
        apprise = _apprise()
        filled = self._filled(address)
        asset = apprise.AppriseAsset(
            app_id="ragwright",
            app_desc="ragwright",
            app_url="",
            # no remote images, nothing stored on disk, no keys made
            image_url_mask="",
            image_url_logo="",
            storage_mode=apprise.common.PersistentStoreMode.MEMORY.value,
            pgp_autogen=False,
            pem_autogen=False,
            async_mode=False,
            service_timeout=_SECONDS,
        )
        try:
            service = apprise.Apprise.instantiate(filled, asset=asset)
        except Exception as error:
            raise NoticeError(
                f"Apprise cannot use this address: {type(error).__name__}",
                where=mask_address(address),
            ) from error
        if service is None:
            raise NoticeError(
                "Apprise does not know this address",
                where=mask_address(address),
                hint="see its list of services; write for example mailto://, json:// or slack://",
            )
        return service

    def _filled(self, address: str) -> str:
        missing = self.unset(address)
        if missing:
            raise NoticeError(
                f"the environment variable {missing} is not set",
                where=mask_address(address),
                hint=f"export {missing}=…",
            )
        _SCRUBBER.filled.update({n: self._environ[n] for n in _VARIABLE.findall(address)})
        whole = _VARIABLE.fullmatch(address)
        if whole:
            return self._environ[whole[1]]
        # quoted, so that a password may contain @ or /
        return _VARIABLE.sub(lambda match: quote(self._environ[match[1]], safe=""), address)


_LOADING = threading.Lock()


class _Scrubber(logging.Filter):
    """Removes secrets of addresses from log records of libraries, for all handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.filled: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite a record; it is always passed on."""
        names = [f"${{{name}}}" for name in tuple(self.filled)]
        record.msg = hide_secrets(record.getMessage(), names, self.filled, pieces=True)
        record.args = None
        return True


_SCRUBBER = _Scrubber()
_LOGGERS = ("apprise", "urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry")
"""Loggers that write whole addresses; a filter only works on its own logger."""


def _apprise() -> Any:
    """Load the library with its services; it prints nothing."""
    with _LOADING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its e-mail service imports a module that Python removed
        apprise = require("apprise", "jobs", "a notice")
        _ = "json" in apprise.apprise.N_MGR
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_SCRUBBER)
    logger = logging.getLogger("apprise")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return apprise


def _sent(service: Any, text: NoticeText) -> str:
    """Send through a service; returns the reason of a failure, else empty."""
    apprise = _apprise()
    kinds = apprise.NotifyType
    kind = {True: kinds.SUCCESS, False: kinds.FAILURE, None: kinds.INFO}[text.good]
    sender = apprise.Apprise(asset=service.asset)
    sender.add(service)
    result = sender.notify(
        title=text.subject, body=text.body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
    )
    if result:
        return ""
    messages = [entry.message for entry in result.logs() if entry.level in ("WARNING", "ERROR")]
    return "; ".join(dict.fromkeys(messages)) or f"it was not sent ({result.status.name.lower()})"
