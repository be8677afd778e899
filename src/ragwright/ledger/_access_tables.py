"""The tables of what one machine keeps: promotions, and notes of its work."""

from __future__ import annotations

from ._database import Forgets

ACCESS_STATEMENTS = (
    """CREATE TABLE IF NOT EXISTS served_changes (
        change INTEGER PRIMARY KEY AUTOINCREMENT,
        number INTEGER NOT NULL,         -- of the configuration that is served from then on
        replaced INTEGER,
        action TEXT NOT NULL,            -- promote | back
        at TEXT NOT NULL,
        "by" TEXT NOT NULL,
        configuration TEXT NOT NULL,     -- hash
        run TEXT NOT NULL,
        reason TEXT NOT NULL,
        gate TEXT NOT NULL,              -- JSON
        baseline TEXT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS embedders (
        identity TEXT PRIMARY KEY,
        name TEXT NOT NULL               -- as it was configured
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS system_rounds (
        system TEXT PRIMARY KEY,         -- hash of the system under test, testset and rows
        round TEXT NOT NULL              -- keeps its replies apart from those of earlier runs
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS last_ingest (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        report TEXT NOT NULL             -- JSON
    )""",
)
"""Tables of this machine alone."""


ACCESS_FORGETS = (
    Forgets("last_ingest", "? != ''", local=True),  # it may name any document
    Forgets(
        "served_changes",
        person='"by" = :name',
        becomes='"by" = :erased',
        counts="promotions",
        local=True,
    ),
)
