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
from collections.abc import Sequence
from functools import partial
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
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)

CHANGED = "a table has changed"
"""The error where a table is not the one that the statement was written for."""

_REFUSED = {"load_extension", "readfile", "writefile", "edit"}


def opened(address: str, timeout: float) -> sqlite3.Connection:
    """A read-only connection with a time limit in seconds."""
    # not `immutable`: another program may be writing, and its locks must be respected
    connection = sqlite3.connect(address, uri=True, timeout=timeout)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    end = time.monotonic() + timeout
    connection.set_progress_handler(lambda: int(time.monotonic() > end), STEPS)
    return connection


def _allowed(
    tables: Sequence[str],
    views: Sequence[str],
    action: int,
    first: str | None,
    second: str | None,
    base: str | None,
    by: str | None,
) -> int:
    """SQLite's authorizer callback; anything not listed is denied."""
    if action == sqlite3.SQLITE_READ:
        # `by` is the view through which a table is read: allowed if the view is
        open_to = not tables or (first or "") in tables or (by or "").lower() in views
        return sqlite3.SQLITE_OK if open_to or not first else sqlite3.SQLITE_DENY
    if action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        refused = (second or "").lower() in _REFUSED
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _bounded() -> None:
    """Set the system's limit on memory, if it has one."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _json_cell(value: Any, longest: int) -> Any:
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    return value[: longest + 1] if isinstance(value, str) else value


def _connection(job: dict[str, Any]) -> sqlite3.Connection:
    """The file, or a copy in memory of the tables that the statement may read."""
    statement, held = job.get("held") or ("", [])
    copied = job.get("copied")
    connection = opened(job["address"] if copied is None else ":memory:", job["timeout"])
    connection.execute("PRAGMA temp_store = MEMORY")  # sorting must not fill the disk
    if copied is not None:
        connection.isolation_level = None
        connection.execute("ATTACH ? AS source", (job["address"],))
    if not statement:
        return connection
    connection.execute("BEGIN")  # what is checked is what is read
    if not {*map(tuple, held)} <= {*connection.execute(statement)}:
        raise RuntimeError(CHANGED)
    for table in copied or ():
        connection.execute(f"CREATE TABLE main.{table} AS SELECT * FROM source.{table}")  # noqa: S608
    if copied is not None:
        connection.execute("COMMIT")
        connection.execute("DETACH source")
    return connection


def _run(job: dict[str, Any]) -> None:
    connection = _connection(job)
    for limit, most in _LIMITS:
        connection.setlimit(limit, most)
    connection.set_authorizer(partial(_allowed, job["tables"], job["views"]))
    cursor = connection.execute(job["statement"])
    _tell([str(column[0]) for column in cursor.description or ()])
    used = 0
    for number, row in enumerate(cursor):
        cells = [_json_cell(value, job["cell"]) for value in row]
        _tell(cells)
        used += sum(len(str(value)) for value in cells)
        if number >= job["max_rows"] or used > job["max_characters"]:
            break


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
