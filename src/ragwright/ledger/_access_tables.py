"""The tables of what one machine keeps: promotions, and notes of its work."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ._database import Forgets, Former, FormerText

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


CHANGE_COLUMNS = (
    *("number", "replaced", "action", "at", "by", "configuration", "run", "reason", "gate"),
    "baseline",
)
"""Columns of a change of the served configuration."""


def _changes(text: str) -> FormerText:
    rows: list[Mapping[str, Any]] = []
    version = 1
    for number, line in enumerate(text.splitlines(), 1):
        try:
            change = json.loads(line)
            version = max(version, change.pop("version"))
            change["gate"] = json.dumps(change["gate"], ensure_ascii=False)
            rows.append({name: change[name] for name in CHANGE_COLUMNS})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"line {number} is not a change of the served configuration"
            ) from error
    return FormerText(version, {"served_changes": rows}, {"served_changes": len(rows)})


def _pairs(table: str, columns: Sequence[str], text: str) -> FormerText:
    pairs = json.loads(text).items()
    rows = [dict(zip(columns, (key, _text(value)), strict=True)) for key, value in pairs]
    return FormerText(1, {table: rows})


def _embedders(text: str) -> FormerText:
    return _pairs("embedders", ("identity", "name"), text)


def _rounds(text: str) -> FormerText:
    return _pairs("system_rounds", ("system", "round"), text)


def _report(text: str) -> FormerText:
    return FormerText(
        1, {"last_ingest": [{"one": 1, "report": json.dumps(dict(json.loads(text)))}]}
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


FORMER_ACCESS = tuple(
    Former(file, 1, {table: table}, read=read)
    for file, table, read in (
        ("served/history.jsonl", "served_changes", _changes),
        ("embedders.json", "embedders", _embedders),
        ("systems.json", "system_rounds", _rounds),
        ("ingested.json", "last_ingest", _report),
    )
)

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
