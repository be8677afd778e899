"""The history of jobs, written as events happen, and their notices.

A run that has no end and whose lock is free was interrupted.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from ..core import NoticeError, require
from ..ledger import ErasureRule, Tables, ledger_tables, open_database

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
    "running",
]

CUT_OFF = "its process was killed"
OWED = "its process ended before it was sent"
"""Reason of a notice before it is sent; after a crash it remains, and the notice is sent later."""

_MOST_RUNS = 1_000
"""Runs of a job that are kept."""


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

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._database.transaction() as connection:
            return list(connection.execute(sql, values).fetchall())

    def begin(self, run: JobRun) -> int:
        """Store a run, or a scheduled time without one; returns its number."""
        ((number,),) = self._rows(
            f"INSERT INTO job_runs ({_FACTS}, {_RESULT}) "  # noqa: S608
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            *(run.job, run.trigger, run.started, run.due),
            *(json.dumps(dict(run.flags), sort_keys=True), run.timezone, *_result(run)),
        )
        return int(number)

    def end(self, run: JobRun) -> None:
        """Store the result of a run, and its notices."""
        self._rows(
            "UPDATE job_runs SET ended = ?, state = ?, reason = ?, notices = ? WHERE id = ?",
            *(*_result(run), run.id),
        )

    def step(self, run: int, step: StepRun) -> None:
        """Store one attempt of a step."""
        self._rows("INSERT INTO job_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", run, *astuple(step))

    def since(self, job: str, schedule: str, now: float) -> float:
        """Return when this schedule of a job was first served; now, if never.

        Times before that are not missed. A schedule that is restored after another one counts from
        then on.
        """
        known = self._rows(
            "SELECT schedule, since FROM job_schedules WHERE job = ? ORDER BY rowid DESC LIMIT 1",
            job,
        )
        if known and known[0][0] == schedule:
            return float(known[0][1])
        self._rows("INSERT INTO job_schedules VALUES (?, ?, ?)", job, schedule, now)
        return now

    def answered(self, job: str) -> float | None:
        """Return the last scheduled time in the history."""
        ((due,),) = self._rows("SELECT max(due) FROM job_runs WHERE job = ?", job)
        return None if due is None else float(due)

    def prune(self, job: str) -> None:
        """Delete all but the newest 1,000 runs of a job."""
        old = "SELECT id FROM job_runs WHERE job = ? ORDER BY id DESC LIMIT -1 OFFSET ?"
        for table, column in (("job_steps", "run"), ("job_runs", "id")):
            self._rows(f"DELETE FROM {table} WHERE {column} IN ({old})", job, _MOST_RUNS)  # noqa: S608

    def runs(self, job: str = "", limit: int = -1) -> list[JobRun]:
        """List runs, newest first; of every job by default.

        A run without an end is ``running`` here; check its lock to be sure.
        """
        return self._select("WHERE ? IN ('', job) ORDER BY id DESC LIMIT ?", job, limit)

    def open(self, job: str) -> list[JobRun]:
        """List the runs of a job without an end or with unsent notices, oldest first."""
        where = "WHERE job = ? AND (state = 'running' OR instr(notices, ?)) ORDER BY id"
        return self._select(where, job, OWED)

    def run(self, number: int) -> JobRun:
        """Return one run by its number."""
        return self._select("WHERE id = ?", number)[0]

    def _select(self, where: str, *values: Any) -> list[JobRun]:
        runs = []
        select = f"SELECT {_FACTS}, id, {_RESULT} FROM job_runs {where}"  # noqa: S608
        for row in self._rows(select, *values):
            *facts, flags, timezone, number, ended, state, reason, notices = row
            steps = self._rows(
                "SELECT step, attempt, line, started, seconds, code, state, output FROM job_steps "
                "WHERE run = ? ORDER BY rowid",
                number,
            )
            told = tuple(NoticeSent(*notice) for notice in json.loads(notices))
            done = tuple(StepRun(*step) for step in steps)
            result = (number, ended, state, reason, done, told)
            runs.append(JobRun(*[*facts, json.loads(flags), timezone, *result]))
        return runs


_FACTS = "job, trigger, started, due, flags, timezone"
_RESULT = "ended, state, reason, notices"


def _result(run: JobRun) -> tuple[Any, ...]:
    notices = json.dumps([astuple(notice) for notice in run.notices])
    return run.ended, run.state, run.reason, notices


FORGOTTEN = "(removed by `ragwright forget`)"
"""Output of job steps that ran before a document was forgotten."""

_JOBS = (
    "CREATE TABLE IF NOT EXISTS job_runs (id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "job TEXT NOT NULL, trigger TEXT NOT NULL, started REAL NOT NULL, due REAL, "
    "flags TEXT NOT NULL, timezone TEXT NOT NULL, ended REAL, state TEXT NOT NULL, "
    "reason TEXT NOT NULL, notices TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS job_runs_by_job ON job_runs (job, id)",
    "CREATE TABLE IF NOT EXISTS job_steps (run INTEGER NOT NULL, step INTEGER NOT NULL, "
    "attempt INTEGER NOT NULL, line TEXT NOT NULL, started REAL NOT NULL, seconds REAL NOT NULL, "
    "code INTEGER, state TEXT NOT NULL, output TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS job_steps_by_run ON job_steps (run)",
    "CREATE TABLE IF NOT EXISTS job_schedules (job TEXT NOT NULL, schedule TEXT NOT NULL, "
    "since REAL NOT NULL)",
)
"""Runs of jobs with their notices, their steps; schedules and since when they are served."""

_JOBS_FORGET = (
    # what a step has printed may quote any document and name anybody
    ErasureRule(
        "job_steps",
        f"output NOT IN ('', '{FORGOTTEN}')",
        person=f"output NOT IN ('', '{FORGOTTEN}')",
        counts="jobs",
        becomes=f"output = '{FORGOTTEN}'",
        local=True,
    ),
)

JOB_TABLES = Tables("jobs", (), 1, local=_JOBS, forgets=_JOBS_FORGET)
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
    """Sends notices and checks addresses."""

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
        """Create the Apprise service of an address."""
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
        whole = _VARIABLE.fullmatch(address)
        if whole:
            return self._environ[whole[1]]
        # quoted, so that a password may contain @ or /
        return _VARIABLE.sub(lambda match: quote(self._environ[match[1]], safe=""), address)


_LOADING = threading.Lock()


_LOGGERS = ("urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry")
"""Loggers that would write whole addresses."""


def _apprise() -> Any:
    """Load the library with its services; it prints nothing."""
    with _LOADING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its e-mail service imports a module that Python removed
        apprise = require("apprise", "jobs", "a notice")
        _ = "json" in apprise.apprise.N_MGR
    for name in _LOGGERS:
        logging.getLogger(name).disabled = True
    logger = logging.getLogger("apprise")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    logger.setLevel(logging.WARNING)  # below it, records hold whole addresses
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
