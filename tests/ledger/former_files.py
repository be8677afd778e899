"""The files that ragwright kept before the ledger, with rows of every table.

The folder ``former`` holds dumps of the databases, and the files of text, that the last version
with them wrote.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

DUMPS = Path(__file__).parent / "former"
NAMES = ("runs", "outputs", "spending", "jobs", "served")
TEXTS = (
    *("serve/keys.json", "serve/sessions.json", "served/history.jsonl"),
    *("embedders.json", "systems.json", "ingested.json"),
)


def old_file(data: Path, name: str, after: str = "") -> Path:
    """A former file in a data folder, as that version left it, then changed by SQL."""
    path = data / ("serve" if name == "served" else "") / f"{name}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript((DUMPS / f"{name}.sql").read_text("utf-8") + after)
    path.chmod(0o600)
    return path


def old_text(data: Path, file: str) -> Path:
    """A former file of text in a data folder, as that version left it."""
    path = data / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((DUMPS / path.name).read_bytes())
    path.chmod(0o600)
    return path


def old_files(data: Path) -> None:
    """Make all former files; see :func:`old_file` and :func:`old_text`."""
    for name in NAMES:
        old_file(data, name)
    for file in TEXTS:
        old_text(data, file)


def rows_in(path: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of a table, in the order in which they lie; of all columns, unless some are named."""
    names = ", ".join(f'"{name}"' for name in columns) or "*"
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {names} FROM {table}").fetchall()
