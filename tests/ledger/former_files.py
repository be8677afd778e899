"""The files that ragwright kept before the ledger, with rows of every table.

The folder ``former`` holds dumps of files that the last such version wrote.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

DUMPS = Path(__file__).parent / "former"
NAMES = ("runs", "outputs", "spending", "jobs", "served")


def old_file(data: Path, name: str, after: str = "") -> Path:
    """A former file in a data folder, as that version left it, then changed by SQL."""
    path = data / ("serve" if name == "served" else "") / f"{name}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript((DUMPS / f"{name}.sql").read_text("utf-8") + after)
    path.chmod(0o600)
    return path


def old_files(data: Path) -> None:
    """Make all former files; see :func:`old_file`."""
    for name in NAMES:
        old_file(data, name)


def rows_in(path: Path, table: str) -> list[tuple[Any, ...]]:
    """Rows of a table, in the order in which they lie."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()
