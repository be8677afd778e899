"""The tables of jobs in the ledger."""

from __future__ import annotations

from ..ledger import Forgets, Tables

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
