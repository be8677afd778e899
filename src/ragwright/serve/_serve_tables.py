"""The tables of the server in the ledger: keys, and counts of requests and costs."""

from __future__ import annotations

from ..ledger import ErasureRule, Tables

_ACCESS = """CREATE TABLE IF NOT EXISTS serve_keys (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- tells that a key was made, once it is revoked
    name TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL UNIQUE,       -- SHA-256 of the key
    created TEXT NOT NULL DEFAULT '',           -- ISO 8601, UTC
    rights TEXT NOT NULL DEFAULT '{}'           -- JSON: role, filters, groups, limits ...
)"""
"""Keys."""

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


_PERSON_FORGETS = (
    ErasureRule("serve_keys", person="name = :name", counts="keys"),
    ErasureRule("served_minutes", person="key = :name", counts="limits"),
    ErasureRule(
        "served_reserved", person="key = :name", becomes="key = '(erased)'", counts="limits"
    ),
    # the day's spend still counts for the budget of the server
    ErasureRule(
        "served_calls",
        person="key = :name",
        becomes="key = '(erased) ' || (SELECT count(*) FROM served_calls other "
        "WHERE other.day = served_calls.day AND other.key LIKE '(erased)%')",
        counts="limits",
    ),
)
"""What goes with a person, or is kept without the name."""

SERVE_TABLES = Tables("serve", (_ACCESS, *_SERVED), 1, forgets=_PERSON_FORGETS)
"""Access to the server: shared by machines that share the ledger.

The version is the ledger's.
"""
