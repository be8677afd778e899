"""The tables of the ledger: runs, outputs, money, jobs and access."""

from __future__ import annotations

from ._access_tables import ACCESS_FORGETS, ACCESS_STATEMENTS, FORMER_ACCESS
from ._database import Forgets, Former, Tables
from ._output_tables import FORMER_OUTPUTS, OUTPUT_STATEMENTS, OUTPUTS_FORGET, OUTPUTS_MOVED

FORGOTTEN = "(removed by `ragwright forget`)"
"""Output of job steps that ran before a document was forgotten."""

_RUNS = (
    """CREATE TABLE IF NOT EXISTS runs (
        run TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        manifest TEXT NOT NULL,
        hash TEXT NOT NULL,
        scope TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,             -- open | complete | stopped
        started REAL NOT NULL,
        ended REAL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS rows (
        run TEXT NOT NULL,
        ordinal INTEGER NOT NULL,
        row TEXT NOT NULL,
        state TEXT NOT NULL,
        body TEXT NOT NULL,
        written REAL NOT NULL,
        PRIMARY KEY (run, row)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS row_sources (
        source TEXT NOT NULL,
        run TEXT NOT NULL,
        row TEXT NOT NULL,
        PRIMARY KEY (source, run, row)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS names (
        run TEXT PRIMARY KEY,
        name TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS facts (
        run TEXT NOT NULL,
        fact TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (run, fact)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS runs_by_hash ON runs (kind, hash, started)",
)
"""Evaluations, studies and other runs: their rows, names and facts."""

_RUNS_MOVED = {
    "rows": "ON CONFLICT (run, row) DO UPDATE SET state = excluded.state, "
    "body = excluded.body, written = excluded.written "
    "WHERE rows.state != 'done' AND rows.written < excluded.written",
    "row_sources": "ON CONFLICT DO NOTHING",
    "names": "ON CONFLICT DO NOTHING",
    "facts": "ON CONFLICT DO NOTHING",
    # last, so that a run is not seen without its rows
    "runs": "ON CONFLICT (run) DO UPDATE SET state = excluded.state, ended = excluded.ended "
    "WHERE runs.state != 'complete' AND runs.state != excluded.state",
}

_MADE_OF = "(run, row) IN (SELECT run, row FROM row_sources WHERE source = ?)"
_OF_SCOPE = "run IN (SELECT run FROM runs WHERE scope = ?)"
_RUNS_FORGET = (
    Forgets("rows", _MADE_OF, _OF_SCOPE, counts="rows"),
    Forgets("row_sources", _MADE_OF, _OF_SCOPE),
    Forgets("names", scope=_OF_SCOPE),
    Forgets("facts", scope=_OF_SCOPE),
    Forgets("runs", scope="scope = ?"),
)

_SPENDING = (
    """CREATE TABLE IF NOT EXISTS spending (
        day INTEGER PRIMARY KEY,         -- days since 1970-01-01, UTC, by the database's clock
        cost REAL NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS reserved (
        name TEXT PRIMARY KEY,
        day INTEGER NOT NULL,
        amount REAL NOT NULL
    ) WITHOUT ROWID""",
)
"""What was spent and is reserved, by day."""

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
    # what a step has printed may quote any document
    Forgets(
        "job_steps",
        f"output NOT IN ('', '{FORGOTTEN}')",
        counts="jobs",
        becomes=f"output = '{FORGOTTEN}'",
        local=True,
    ),
)

_COUNTS = "cost REAL, prompt_tokens INTEGER, completion_tokens INTEGER, PRIMARY KEY (key, day)"
_SERVED = (
    "CREATE TABLE IF NOT EXISTS served_minutes (key TEXT, minute INTEGER, requests INTEGER, "
    "PRIMARY KEY (key, minute)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS served_calls (key TEXT, day TEXT, calls INTEGER, "
    f"{_COUNTS}) WITHOUT ROWID",
)
"""Requests of a minute and costs of a day under each key."""

_TAKEN_OVER = "CREATE TABLE IF NOT EXISTS taken_over (file TEXT PRIMARY KEY, hash TEXT NOT NULL)"
"""Files of an older ragwright whose rows are here, as they were then."""

_FORMER = (
    Former("runs.sqlite", 3, {name: name for name in _RUNS_MOVED}, schema="runs"),
    FORMER_OUTPUTS,
    Former(
        "spending.sqlite", 1, {"spending": "spending", "reserved": "reserved"}, schema="spending"
    ),
    Former(
        "jobs.sqlite",
        1,
        {name: f"job_{name}" for name in ("runs", "steps", "ends", "notices", "schedules")},
    ),
    Former(
        "serve/served.sqlite",
        2,
        # version 1 counted answers
        {
            "served_minutes": "served_minutes",
            "served_calls": "served_calls",
            "served_days": "served_calls",
        },
    ),
    *FORMER_ACCESS,
)

LEDGER_TABLES = Tables(
    "ledger",
    (*_RUNS, *OUTPUT_STATEMENTS, *_SPENDING),
    2,
    local=(*_JOBS, *_SERVED, *ACCESS_STATEMENTS, _TAKEN_OVER),
    damaged="restore it from a backup, or move it away: runs, outputs, feedback, what was spent, "
    "the history of jobs, keys of the server and promotions begin anew",
    moved=_RUNS_MOVED | OUTPUTS_MOVED,
    numbered={"batches": ("batch", "at", "asked"), "feedback": ("number",)},
    forgets=(*_RUNS_FORGET, *OUTPUTS_FORGET, *_JOBS_FORGET, *ACCESS_FORGETS),
    former=_FORMER,
)
"""All that a project keeps in tables; jobs, requests and keys are those of one machine."""
