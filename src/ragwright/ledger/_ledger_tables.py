"""The tables of the ledger: runs, outputs, money and access; those of parts are added."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ..core import own_additions
from ._access_tables import ACCESS_FORGETS, ACCESS_STATEMENTS
from ._database import Forgets, Tables
from ._output_tables import OUTPUT_STATEMENTS, OUTPUTS_FORGET

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

_OWN = Tables(
    "ledger",
    (*_RUNS, *OUTPUT_STATEMENTS, *_SPENDING),
    6,
    local=ACCESS_STATEMENTS,
    damaged="restore it from a backup, or move it away: runs, outputs, feedback, what was spent, "
    "the history of jobs, keys of the server and promotions begin anew",
    forgets=(*_RUNS_FORGET, *OUTPUTS_FORGET, *ACCESS_FORGETS),
)
"""Tables of several rooms; a change of any table of the ledger raises the version here."""


@cache
def ledger_tables() -> Tables:
    """All that a project keeps in the ledger, with the tables of the parts of ragwright."""
    parts: list[Tables] = [part.load() for part in own_additions("tables")]
    return replace(
        _OWN,
        statements=(
            *_OWN.statements,
            *(statement for part in parts for statement in part.statements),
        ),
        local=(*_OWN.local, *(statement for part in parts for statement in part.local)),
        forgets=(*_OWN.forgets, *(rule for part in parts for rule in part.forgets)),
        appended=tuple(appended for part in parts for appended in part.appended),
    )
