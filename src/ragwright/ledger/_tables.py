"""Every table of experiments, models and money, declared once."""

from __future__ import annotations

from ._database import Tables

REPLY_TABLES = Tables(
    "replies",
    (
        """CREATE TABLE IF NOT EXISTS replies (
        key TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        lane TEXT NOT NULL,
        scope TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL,             -- pending | done | spent (paid, never reused)
        body BLOB,
        created REAL NOT NULL,
        owner TEXT NOT NULL DEFAULT '',
        lease REAL NOT NULL DEFAULT 0,
        prompt_tokens INTEGER NOT NULL DEFAULT 0,
        completion_tokens INTEGER NOT NULL DEFAULT 0,
        cost REAL,
        characters INTEGER NOT NULL DEFAULT 0,
        seconds REAL NOT NULL DEFAULT 0
    ) WITHOUT ROWID""",
        """CREATE TABLE IF NOT EXISTS reply_sources (
        source TEXT NOT NULL,
        key TEXT NOT NULL,
        PRIMARY KEY (source, key)
    ) WITHOUT ROWID""",
        "CREATE INDEX IF NOT EXISTS replies_by_age ON replies (created)",
        # covers facts and statistics: columns behind a large body are slow to read
        "CREATE INDEX IF NOT EXISTS replies_by_use ON replies (lane, state, key, kind, "
        "prompt_tokens, completion_tokens, cost, characters, seconds)",
        "DROP INDEX IF EXISTS replies_by_lane",
    ),
    2,
    damaged="run: ragwright cache clear (the replies in it are lost: repeated calls are paid for "
    "again)",
    side_by_side=True,
    backup=False,
    moved={
        "replies": "ON CONFLICT (key) DO UPDATE SET scope = excluded.scope, "
        "state = excluded.state, body = excluded.body, created = excluded.created, "
        "owner = '', lease = 0, prompt_tokens = excluded.prompt_tokens, "
        "completion_tokens = excluded.completion_tokens, cost = excluded.cost, "
        "characters = excluded.characters, seconds = excluded.seconds "
        "WHERE replies.state != 'done' AND excluded.state = 'done'",
        "reply_sources": "ON CONFLICT DO NOTHING",
    },
)
"""Replies of models, and the documents that they were made from."""

RUN_TABLES = Tables(
    "runs",
    (
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
    ),
    3,  # 2 has names, 3 facts; missing tables are made when an older file is opened
    moved={
        "rows": "ON CONFLICT (run, row) DO UPDATE SET state = excluded.state, "
        "body = excluded.body, written = excluded.written "
        "WHERE rows.state != 'done' AND rows.written < excluded.written",
        "row_sources": "ON CONFLICT DO NOTHING",
        "names": "ON CONFLICT DO NOTHING",
        "facts": "ON CONFLICT DO NOTHING",
        # last, so that a run is not seen without its rows
        "runs": "ON CONFLICT (run) DO UPDATE SET state = excluded.state, ended = excluded.ended "
        "WHERE runs.state != 'complete' AND runs.state != excluded.state",
    },
)
"""Evaluations, studies and other runs: their rows, names and facts."""

SPENDING_TABLES = Tables(
    "spending",
    (
        """CREATE TABLE IF NOT EXISTS spending (
        day INTEGER PRIMARY KEY,         -- days since 1970-01-01, UTC, by the database's clock
        cost REAL NOT NULL
    )""",
        """CREATE TABLE IF NOT EXISTS reserved (
        name TEXT PRIMARY KEY,
        day INTEGER NOT NULL,
        amount REAL NOT NULL
    ) WITHOUT ROWID""",
    ),
    1,
    damaged="delete it: what was spent today is then counted from 0",
)
"""What was spent and is reserved, by day."""

JOB_TABLES = Tables(
    "jobs",
    (
        "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, "
        "trigger TEXT NOT NULL, due REAL, started REAL NOT NULL, pid INTEGER NOT NULL, "
        "flags TEXT NOT NULL, timezone TEXT NOT NULL)",
        "CREATE INDEX runs_job ON runs (job, id)",
        "CREATE TABLE steps (run INTEGER NOT NULL, step INTEGER NOT NULL, "
        "attempt INTEGER NOT NULL, line TEXT NOT NULL, "
        "started REAL NOT NULL, seconds REAL NOT NULL, code INTEGER, "
        "state TEXT NOT NULL, output TEXT NOT NULL)",
        "CREATE INDEX steps_run ON steps (run)",
        "CREATE TABLE ends (run INTEGER PRIMARY KEY, ended REAL, state TEXT NOT NULL, "
        "reason TEXT NOT NULL)",
        "CREATE TABLE notices (run INTEGER NOT NULL, at REAL NOT NULL, address TEXT NOT NULL, "
        "sent INTEGER NOT NULL, reason TEXT NOT NULL)",
        "CREATE INDEX notices_run ON notices (run)",
        "CREATE TABLE schedules (job TEXT NOT NULL, schedule TEXT NOT NULL, since REAL NOT NULL)",
    ),
    1,
)
"""Runs of jobs, their steps, ends and notices; schedules and since when they are served."""

_COUNTS = "cost REAL, prompt_tokens INTEGER, completion_tokens INTEGER, PRIMARY KEY (key, day)"
SERVED_TABLES = Tables(
    "served",
    (
        "CREATE TABLE IF NOT EXISTS served_minutes (key TEXT, minute INTEGER, requests INTEGER, "
        "PRIMARY KEY (key, minute)) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS served_calls (key TEXT, day TEXT, calls INTEGER, "
        f"{_COUNTS}) WITHOUT ROWID",
        # Version 1 counted answers, and named the tenants of answers.
        "CREATE TABLE IF NOT EXISTS served_days (key TEXT, day TEXT, answers INTEGER, "
        f"{_COUNTS}) WITHOUT ROWID",
        "INSERT INTO served_calls SELECT * FROM served_days",
        "DROP TABLE served_days",
        "DROP TABLE IF EXISTS served_answers",
    ),
    2,
)
"""Requests of a minute and costs of a day under each key."""

STAMP_TABLES = Tables(
    "stamps",
    (
        """CREATE TABLE IF NOT EXISTS stamps (
    reading TEXT NOT NULL,
    path BLOB NOT NULL,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    documents TEXT NOT NULL,
    PRIMARY KEY (reading, path)
) WITHOUT ROWID""",
    ),
    1,
    backup=False,
)
"""Sizes and times of files when they were last read."""
