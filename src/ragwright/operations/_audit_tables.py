"""The table of the audit log."""

from __future__ import annotations

from ..ledger import Appended, Forgets, Tables

ERASED = "(erased)"
"""Stands in an event for what `ragwright forget` removed."""

EVENT_COLUMNS = (
    *("at", "kind", "who", "role", "origin", "request", "configuration", "action", "outcome"),
    *("subject", "documents", "question", "scope", "kept_until"),
)
"""Columns of an event, without its number."""

_EVENTS = (
    """CREATE TABLE IF NOT EXISTS audit_events (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,                -- ISO 8601, UTC
        kind TEXT NOT NULL,              -- asked | saw | changed | exported | promoted | erased | …
        who TEXT NOT NULL,               -- name of a key, a person or a user of the machine
        role TEXT NOT NULL,
        origin TEXT NOT NULL,            -- address, or name of the machine of a command
        request TEXT NOT NULL,           -- id of the request
        configuration TEXT NOT NULL,
        action TEXT NOT NULL,            -- method and route, or the command
        outcome TEXT NOT NULL,           -- begun | done | refused | failed | cut off
        subject TEXT NOT NULL,           -- output, key, testset or setting
        documents TEXT NOT NULL,         -- ids between line ends
        question TEXT NOT NULL,
        scope TEXT NOT NULL,
        kept_until REAL NOT NULL         -- seconds since 1970
    )""",
    "CREATE INDEX IF NOT EXISTS audit_events_by_time ON audit_events (at)",
    "CREATE INDEX IF NOT EXISTS audit_events_by_end ON audit_events (kept_until)",
)
"""Who did what."""

_LINE_END = "'\n'"
_NAME = f"{_LINE_END} || replace(?, {_LINE_END}, ' ') || {_LINE_END}"
_NAMED = f"instr(documents, {_NAME}) > 0"
_WITHOUT_NAME = f"documents = replace(documents, {_NAME}, {_LINE_END} || '{ERASED}' || {_LINE_END})"

_CHANGEABLE = ("who", "origin", "subject", "documents", "question", "scope")
_FIXED = " AND ".join(
    f"NEW.{name} = OLD.{name}" for name in ("number", *EVENT_COLUMNS) if name not in _CHANGEABLE
)
_ERASING = " AND ".join(
    f"(NEW.{name} = OLD.{name} OR NEW.{name} IN ('', '{ERASED}') "
    f"OR NEW.{name} LIKE 'sha256:%' OR instr(NEW.{name}, '{_end}{ERASED}{_end}') > 0)"
    for name, _end in ((name, "\n") for name in _CHANGEABLE)
)

OPERATION_TABLES = Tables(
    "operations",
    _EVENTS,
    1,
    forgets=(
        # the question may quote the document
        Forgets("audit_events", _NAMED, becomes=f"question = '', {_WITHOUT_NAME}"),
        Forgets(
            "audit_events",
            scope="scope = ?",
            becomes=f"question = '', documents = '', scope = '{ERASED}'",
        ),
        Forgets(
            "audit_events",
            person="who = :name",
            becomes="who = :erased, origin = '', question = ''",
            counts="events",
        ),
        Forgets(
            "audit_events",
            person="subject = :name",
            becomes="subject = :erased",
            counts="events",
        ),
    ),
    appended=(
        Appended("audit_events", f"{_FIXED} AND {_ERASING}", "OLD.kept_until < clock_seconds()"),
    ),
)
"""The audit log; its version is the ledger's."""
