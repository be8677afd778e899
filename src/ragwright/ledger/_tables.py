"""The tables of caches, which may be lost: replies of models, and stamps of files."""

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
    ),
    2,
    damaged="run: ragwright cache clear (the replies in it are lost: repeated calls are paid for "
    "again)",
    rebuild="run: ragwright cache clear",
    side_by_side=True,
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
    warnings TEXT NOT NULL,
    PRIMARY KEY (reading, path)
) WITHOUT ROWID""",
    ),
    2,
)
"""Sizes and times of files when they were last read."""
