"""The tables of the server in the ledger: keys, sessions, people, counts, conversations."""

from __future__ import annotations

import json

from ..ledger import Forgets, Former, FormerText, Tables

_ACCESS = (
    """CREATE TABLE IF NOT EXISTS serve_keys (
        number INTEGER PRIMARY KEY AUTOINCREMENT,  -- tells that a key was made, once it is revoked
        name TEXT NOT NULL UNIQUE,
        hash TEXT NOT NULL UNIQUE,       -- SHA-256 of the key
        role TEXT NOT NULL,              -- reader | owner
        configurations TEXT NOT NULL,    -- JSON list
        filters TEXT NOT NULL,           -- JSON list
        per_minute INTEGER,
        daily_budget REAL,
        created TEXT NOT NULL,           -- ISO 8601, UTC
        reader_groups TEXT NOT NULL DEFAULT '[]'  -- JSON list
    )""",
    """CREATE TABLE IF NOT EXISTS serve_sessions (
        id TEXT PRIMARY KEY,             -- SHA-256 of the session's id
        key TEXT NOT NULL,               -- hash of the key
        ends REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS serve_signed_in (
        id TEXT PRIMARY KEY,             -- SHA-256 of the session's id
        person TEXT NOT NULL,
        groups_of TEXT NOT NULL,         -- JSON list
        roles TEXT NOT NULL,             -- JSON list of the provider's names
        issuer TEXT NOT NULL,
        session TEXT NOT NULL,           -- the provider's id of the session
        began REAL NOT NULL,
        ends REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS serve_people (
        name TEXT PRIMARY KEY,           -- unique: provider and subject
        label TEXT NOT NULL,
        refused_before REAL NOT NULL     -- tokens issued until then were revoked
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS serve_used (
        id TEXT PRIMARY KEY,             -- SHA-256 of what may be used once
        ends REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS serve_secrets (
        name TEXT PRIMARY KEY,
        secret TEXT NOT NULL
    ) WITHOUT ROWID""",
)
"""Keys, sessions, and people who signed in."""

_COUNTS = "cost REAL, prompt_tokens INTEGER, completion_tokens INTEGER, PRIMARY KEY (key, day)"
_SERVED = (
    """CREATE TABLE IF NOT EXISTS served_reserved (
        name TEXT PRIMARY KEY,
        key TEXT NOT NULL,
        day TEXT NOT NULL,
        amount REAL NOT NULL,
        ends REAL NOT NULL               -- seconds since 1970: then its process was killed
    ) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS served_minutes (key TEXT, minute INTEGER, requests INTEGER, "
    "PRIMARY KEY (key, minute)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS served_calls (key TEXT, day TEXT, calls INTEGER, "
    f"{_COUNTS}) WITHOUT ROWID",
)
"""Requests of a minute and costs of a day under each key, and what requests under way hold."""

_CONVERSATIONS = (
    """CREATE TABLE IF NOT EXISTS conversations (
        id TEXT PRIMARY KEY,             -- random, the end of its address
        person TEXT NOT NULL,            -- name of the identity that holds it
        scope TEXT NOT NULL,             -- tenant that its answers were made for
        configuration TEXT NOT NULL,     -- name of the configuration that answers
        began TEXT NOT NULL,             -- ISO 8601, UTC
        changed TEXT NOT NULL,
        shared INTEGER NOT NULL          -- 1: its link opens for others who may see its passages
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS conversations_by_person ON conversations (person, changed)",
    """CREATE TABLE IF NOT EXISTS conversation_turns (
        conversation TEXT NOT NULL,
        turn INTEGER NOT NULL,           -- from 1
        round TEXT NOT NULL,             -- random, the same for answers of one asking
        answer TEXT NOT NULL,            -- name of an output, which holds question and answer
        current INTEGER NOT NULL,        -- 0: replaced, since the question was asked again
        PRIMARY KEY (conversation, turn, answer)
    ) WITHOUT ROWID""",
)
"""Conversations of the pages; their texts are outputs."""


def _keys(text: str) -> FormerText:
    body = json.loads(text)
    rows = [
        {
            **{name: _checked_text(key[name]) for name in ("name", "hash", "role", "created")},
            **{name: json.dumps(key[name]) for name in ("configurations", "filters")},
            **{name: key[name] for name in ("per_minute", "daily_budget")},
        }
        for key in body["keys"]
    ]
    # also after the last key was revoked: the server stays closed
    return FormerText(body["version"], {"serve_keys": rows}, {"serve_keys": max(1, len(rows))})


def _sessions(text: str) -> FormerText:
    body = json.loads(text)
    rows = [
        {"id": name, "key": _checked_text(key), "ends": float(ends)}
        for name, (key, ends) in body["sessions"].items()
    ]
    return FormerText(body["version"], {"serve_sessions": rows})


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


_PERSON_FORGETS = (
    Forgets(
        "conversation_turns",
        person="conversation IN (SELECT id FROM conversations WHERE person = :name)",
    ),
    Forgets("conversations", person="person = :name", counts="conversations"),
    Forgets(
        "serve_sessions",
        person="key IN (SELECT hash FROM serve_keys WHERE name = :name)",
        counts="sessions",
    ),
    Forgets("serve_signed_in", person="person = :name", counts="sessions"),
    Forgets("serve_keys", person="name = :name", counts="keys"),
    # access tokens that were issued until now stay refused
    Forgets(
        "serve_people",
        person="name = :erased AND EXISTS (SELECT 1 FROM serve_people p WHERE p.name = :name)",
    ),
    Forgets(
        "serve_people",
        person="name = :name",
        becomes="name = :erased, label = '', refused_before = clock_seconds()",
        counts="people",
    ),
    Forgets("served_minutes", person="key = :name", counts="limits"),
    Forgets("served_reserved", person="key = :name", becomes="key = '(erased)'", counts="limits"),
    # the day's spend still counts for the budget of the server
    Forgets(
        "served_calls",
        person="key = :name",
        becomes="key = '(erased) ' || (SELECT count(*) FROM served_calls other "
        "WHERE other.day = served_calls.day AND other.key LIKE '(erased)%')",
        counts="limits",
    ),
)
"""What goes with a person, or is kept without the name."""

SERVE_TABLES = Tables(
    "serve",
    (*_ACCESS, *_SERVED, *_CONVERSATIONS),
    1,
    moved={
        "serve_keys": "ON CONFLICT DO NOTHING",
        # tokens that were revoked stay revoked
        "serve_people": "ON CONFLICT (name) DO UPDATE SET refused_before = excluded.refused_before "
        "WHERE serve_people.refused_before < excluded.refused_before",
        **dict.fromkeys(("conversation_turns", "conversations"), "ON CONFLICT DO NOTHING"),
    },
    renumbered={"serve_keys": "number"},
    forgets=(
        Forgets(
            "conversation_turns",
            scope="conversation IN (SELECT id FROM conversations WHERE scope = ?)",
        ),
        Forgets("conversations", scope="scope = ?"),
        *_PERSON_FORGETS,
    ),
    former=(
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
        Former("serve/keys.json", 1, {"serve_keys": "serve_keys"}, read=_keys),
        Former("serve/sessions.json", 1, {"serve_sessions": "serve_sessions"}, read=_sessions),
    ),
)
"""Access to the server, and conversations: shared by machines that share the ledger.

The version is the ledger's.
"""
