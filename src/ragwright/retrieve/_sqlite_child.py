"""Runs one statement on a SQLite file in a separate process, which can be killed at any time.

SQLite checks the time between its steps but not within a function: ``instr`` of two long values can
run for hours. A process can be killed, and the system bounds its memory. This file is run by its
path and imports nothing of the package, so that it starts as fast as a bare interpreter. It reads a
job from standard input and writes a line of JSON for each row.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

if sys.platform != "win32":
    import resource

STEPS = 1_000
"""Instructions of SQLite's virtual machine between two checks of the time."""

MEMORY = 512 * 2**20
"""Most bytes of address space of the process."""

_GRACE = 0.25
"""Seconds that SQLite has to stop by itself."""

_LIMITS = (
    # Most bytes of one value, also of intermediate ones.
    (sqlite3.SQLITE_LIMIT_LENGTH, 4_000_000),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 20_100),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)

_STAMPS = "SELECT name, hash FROM _tables JOIN _documents ON id = document"
"""Table of sheets -> hash of its document."""

CHANGED = "a table has changed"
"""The error where a table is not the one that the statement was written for."""

_SPAN = ('"_start"', '"_end"')
"""Columns that no statement reads: first and last character of a row in its document."""

_REFUSED = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}


def open_read_only(address: str, timeout: float) -> sqlite3.Connection:
    """A read-only connection with a time limit in seconds."""
    # not `immutable`: another program may be writing, and its locks must be respected
    connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    end = time.monotonic() + timeout
    connection.set_progress_handler(lambda: int(time.monotonic() > end), STEPS)
    return connection


def _guard(
    connection: sqlite3.Connection, readable: Callable[[str, str, str], bool]
) -> sqlite3.Connection:
    """Bound the connection; `readable` gets a name, its schema, and its view, if one reads it."""

    def allowed(
        action: int, first: str | None, second: str | None, schema: str | None, by: str | None
    ) -> int:
        if action == sqlite3.SQLITE_READ:
            may = not first or readable(first, schema or "", by or "")
        elif action == sqlite3.SQLITE_FUNCTION:
            may = (second or "").lower() not in _REFUSED
        else:
            may = action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}
        return sqlite3.SQLITE_OK if may else sqlite3.SQLITE_DENY

    for limit, most in _LIMITS:
        connection.setlimit(limit, most)
    connection.set_authorizer(allowed)
    return connection


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    query = "SELECT name FROM pragma_table_xinfo(?)"
    return [_quoted(name) for (name,) in connection.execute(query, (table,))]


def _tables_read(statement: str, tables: Mapping[str, Sequence[str]], schema: str) -> set[str]:
    """The tables that a statement reads, compiled where only these tables exist, all of them empty.

    So no name in it can mean anything else: another table, a view of the file, its list of tables.
    SQLite's authorizer alone would not do: it cannot tell a view from a ``WITH`` subquery of its
    name, is not asked about columns named by ``USING``, and its refusals tell which tables exist.
    """
    empty = sqlite3.connect(":memory:")
    for name, columns in tables.items():
        empty.execute(f"CREATE TABLE {schema}.{_quoted(name)} ({', '.join(columns)})")
    listed = "sqlite_temp_master" if schema == "temp" else "sqlite_master"
    pages = dict(empty.execute(f"SELECT rootpage, name FROM {listed}"))  # noqa: S608
    _guard(empty, lambda name, *_: name in tables)
    steps = empty.execute(f"EXPLAIN {statement}").fetchall()
    return {pages[page] for _, step, _, page, *_ in steps if step == "OpenRead"}


def _open_to(connection: sqlite3.Connection, job: Mapping[str, Any]) -> dict[str, str]:
    """Let the statement of a job read what it may, and nothing else.

    Returns the tables of sheets that it reads: name in the statement -> name in the file.
    """
    statement, tables = job["statement"], job["tables"]
    if job["sheets"] is not None:
        return _open_sheets(connection, statement, job["sheets"])
    if tables:
        kinds = dict(connection.execute("SELECT name, type FROM sqlite_master"))
        named = {name: _columns(connection, name) for name in tables if name in kinds}
        _tables_read(statement, named, "main")
        views = {name for name in named if kinds[name] == "view"}
        _guard(connection, lambda name, _, by: name in named or by in views)
    else:
        _guard(connection, lambda *_: True)
    return {}


def _open_sheets(
    connection: sqlite3.Connection, statement: str, sheets: Sequence[Sequence[str]]
) -> dict[str, str]:
    """Let a statement read some tables of sheets, each under another name than in the file."""
    connection.execute("BEGIN")  # what is checked is what is read
    if not {(real, stamp) for _, real, stamp in sheets} <= {*connection.execute(_STAMPS)}:
        raise RuntimeError(CHANGED)
    reals = {name: real for name, real, _ in sheets}
    named = {
        name: [column for column in _columns(connection, real) if column not in _SPAN]
        for name, real in reals.items()
    }
    read = _tables_read(statement, named, "temp")
    for name, real in reals.items():  # all of them: a name must not mean a table of the file
        columns = ", ".join(named[name])
        connection.execute(
            f"CREATE TEMP VIEW {_quoted(name)} AS SELECT {columns} FROM main.{_quoted(real)}"  # noqa: S608
        )
    files = {*reals.values()}
    _guard(connection, lambda name, schema, _: name in (files if schema == "main" else reals))
    return {name: reals[name] for name in read}


def _place(connection: sqlite3.Connection, table: str, numbers: Sequence[int]) -> Any:
    """First and last character of rows of a sheet in their document."""
    connection.set_authorizer(None)
    listed = ", ".join(map(str, numbers))
    query = f"SELECT min(_start), max(_end) FROM main.{_quoted(table)} WHERE _row IN ({listed})"  # noqa: S608
    start, end = connection.execute(query).fetchone()
    return start or 0, end or 0


def _bounded() -> None:
    """Set the system's limit on memory, if it has one."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _json_cell(value: Any, longest: int) -> Any:
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    return value[: longest + 1] if isinstance(value, str) else value


def _run(job: dict[str, Any]) -> None:
    connection = open_read_only(job["address"], job["timeout"])
    connection.execute("PRAGMA temp_store = MEMORY")  # sorting must not fill the disk
    read = _open_to(connection, job)
    cursor = connection.execute(job["statement"])
    if cursor.description is None:
        raise ValueError("it selects nothing")
    columns = [str(column[0]) for column in cursor.description]
    _tell({"columns": columns, "read": sorted(read)})
    at = columns.index("_row") if len(read) == 1 and "_row" in columns else -1
    used, numbers = 0, []
    for number, row in enumerate(cursor):
        cells = [_json_cell(value, job["cell"]) for value in row]
        _tell(cells)
        used += sum(len(str(value)) for value in cells)
        if number >= job["max_rows"] or used > job["max_characters"]:
            break
        if at >= 0 and isinstance(row[at], int):
            numbers.append(row[at])
    _tell({"place": _place(connection, next(iter(read.values())), numbers) if numbers else (0, 0)})


def _tell(line: object) -> None:
    sys.stdout.write(f"{json.dumps(line)}\n")


def _end() -> None:
    """Kill the process, whatever function it is in."""
    os.write(1, b'\n{"error": "interrupted"}\n')
    os._exit(0)


def main() -> None:
    """Run the job on standard input."""
    try:
        _bounded()
        job = json.load(sys.stdin)
        # SQLite releases the GIL while it works, so this thread is not blocked.
        timer = threading.Timer(job["timeout"] + _GRACE, _end)
        timer.daemon = True
        timer.start()
        _run(job)
        timer.cancel()
    except MemoryError:
        _tell({"error": f"it needed more than {MEMORY // 2**20} MB of memory"})
    except Exception as error:
        _tell({"error": str(error)})


if __name__ == "__main__":
    main()
