"""Takes over the rows of files that an older ragwright kept."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import SchemaVersionError, StoreDamagedError, StoreFullError
from ._database import Former, Tables
from ._kept_files import discard, file_error, rolled_back
from ._locks import folder_locked

_WAIT_SECONDS = 600.0
"""How long other processes wait while one takes over; a large table of outputs takes minutes."""


_DAMAGED = "restore it from a backup, or move it away: what it holds is then left out"


@dataclass(frozen=True, slots=True)
class _File:
    """A former file as it is: its version, tables, hash and highest numbers given.

    It is empty if it has no rows and has given no numbers. ``rows`` are those of a file of text.
    """

    former: Former
    path: Path
    version: int
    names: frozenset[str]
    hash: str
    numbers: Mapping[str, int]
    empty: bool
    rows: Mapping[str, Sequence[Mapping[str, Any]]] | None = None


def former_files(path: Path, tables: Tables) -> list[tuple[Former, Path]]:
    """Files beside a file that hold, or held, rows for its tables."""
    folder = path.parent
    there = (former for former in tables.former if os.path.exists(f"{folder}/{former.file}"))  # noqa: PTH110 - at every opening: half the time
    return [(former, folder / former.file) for former in there]


def left_to_take(connection: sqlite3.Connection, path: Path, tables: Tables) -> list[Path]:
    """Former files whose rows are not in the tables yet; nothing is written.

    A file that a kill left behind, after its rows were taken, is not among them.
    """
    files = former_files(path, tables)
    taken = set(_taken(connection)) if files else set()
    return [file for former, file in files if former.file not in taken]


def take_over(connection: sqlite3.Connection, path: Path, tables: Tables) -> None:
    """Copy the rows of former files in one transaction, then rename these to ``NAME.vN.bak``.

    One process does it, others wait. Killed in the middle, it is done again: either no row was
    copied, or all were and only the files are renamed.

    Args:
        connection: A connection to the file, outside of a transaction.
        path: The file.
        tables: Its tables, which are there.

    Raises:
        StoreBusyError: An older ragwright still works with a former file.
        StoreDamagedError: A former file is damaged, or another program's.
        SchemaVersionError: A former file is newer, or was written to after its rows were taken.
        StoreFullError: The disk is full; the former files are as they were.
    """
    with folder_locked(path.parent, "the ledger takes over older files", wait=_WAIT_SECONDS):
        files = [_read_former(former, file) for former, file in former_files(path, tables)]
        try:
            with _attached(connection, files):
                connection.execute("PRAGMA synchronous = FULL")  # the files are renamed after it
                connection.execute("BEGIN IMMEDIATE")
                for at, file in enumerate(files):
                    _take(connection, f"former{at}", file, path)
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            typed = file_error(error, path)
            if isinstance(typed, StoreFullError):
                raise StoreFullError(
                    f"the disk is full: {path.name} cannot take over the files of an older "
                    "ragwright; they are untouched",
                    where=str(path),
                    # once for the log, once for the file
                    hint=f"free {2 * sum(file.path.stat().st_size for file in files):,} bytes and "
                    "run it again",
                ) from error
            raise typed from error
        for file in files:
            if not file.empty:  # else it would take the place of a backup
                file.path.replace(file.path.with_name(f"{file.path.name}.v{file.version}.bak"))
            discard(file.path)  # with its logs, which are empty


def _read_former(former: Former, path: Path) -> _File:
    """Read a former file, its log included; refuse one that is damaged or another program's."""
    return _database_file(former, path) if former.read is None else _text_file(former, path)


def _text_file(former: Former, path: Path) -> _File:
    assert former.read is not None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise file_error(error, path) from error
    try:
        held = former.read(content.decode())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreDamagedError(
            f"{path.name} is damaged: {error}", where=str(path), hint=_DAMAGED
        ) from error
    _refuse_newer(former, path, held.version)
    digest = hashlib.sha256(content).hexdigest()
    empty = not any(held.rows.values()) and not any(held.numbers.values())
    names = frozenset(former.tables)
    return _File(former, path, held.version, names, digest, held.numbers, empty, held.rows)


def _refuse_newer(former: Former, path: Path, version: int) -> None:
    if version > former.version:
        raise SchemaVersionError(
            f"{path.name} has schema version {version}; this ragwright takes over {former.version}",
            where=str(path),
            hint="upgrade ragwright: pip install -U ragwright",
        )


def _database_file(former: Former, path: Path) -> _File:
    try:
        rolled_back(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            names = {str(n) for (n,) in connection.execute("SELECT name FROM sqlite_master")}
            if names and names.isdisjoint(former.tables):
                raise StoreDamagedError(
                    f"{path.name} is a SQLite file of another program: it has no table "
                    f"{next(iter(former.tables))!r}",
                    where=str(path),
                    hint="move it away and run the command again",
                )
            _refuse_newer(former, path, version)
            connection.execute("PRAGMA journal_mode = DELETE")  # refused while another has it open
            counted = "sqlite_sequence" in names
            numbers = connection.execute(
                "SELECT name, seq FROM sqlite_sequence" if counted else "SELECT '', 0"
            ).fetchall()
            firsts = (f"SELECT 1 FROM {table} LIMIT 1" for table in names & former.tables.keys())  # noqa: S608
            rows = [connection.execute(first).fetchone() for first in firsts]
        # once it is closed: to close a second handle would end SQLite's locks
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        raise file_error(
            error,
            path,
            busy="end the work of the older ragwright, then run the command again",
            damaged=_DAMAGED,
        ) from error
    empty = not any(rows) and not any(number for _, number in numbers)
    return _File(former, path, version, frozenset(names), digest, dict(numbers), empty)


@contextmanager
def _attached(connection: sqlite3.Connection, files: list[_File]) -> Iterator[None]:
    attached = []
    try:
        for at, file in enumerate(files):
            if file.rows is None:
                connection.execute(f"ATTACH ? AS former{at}", (str(file.path),))
                attached.append(at)
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        for at in attached:
            connection.execute(f"DETACH former{at}")


def _take(connection: sqlite3.Connection, schema: str, file: _File, path: Path) -> None:
    """Copy the rows of one former file, unless they were copied before."""
    former = file.former
    tables = {old: new for old, new in former.tables.items() if old in file.names}
    if file.empty or _taken(connection).get(former.file) == file.hash:
        return
    for new in {*tables.values()}:
        if connection.execute(f"SELECT 1 FROM main.{new} LIMIT 1").fetchone() is not None:  # noqa: S608
            raise SchemaVersionError(
                f"{file.path.name} was written to after {path.name} had taken its place",
                where=str(file.path),
                hint=f"an older ragwright was used here; to keep what it wrote, move {path.name} "
                f"away, else move {file.path.name} away",
            )
    for table, rows in (file.rows or {}).items():
        for row in rows:
            columns, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            insert = f"INSERT INTO main.{table} ({columns}) VALUES ({marks})"  # noqa: S608
            connection.execute(insert, [*row.values()])
    for old, new in tables.items() if file.rows is None else ():
        # a plain scan, so that rows keep their order
        connection.execute(f"INSERT INTO main.{new} SELECT * FROM {schema}.{old}")  # noqa: S608
    for old, number in file.numbers.items():  # a number is never given twice
        if old in tables:
            new = tables[old]
            connection.execute("DELETE FROM main.sqlite_sequence WHERE name = ?", (new,))
            connection.execute("INSERT INTO main.sqlite_sequence VALUES (?, ?)", (new, number))
    for version, statement in former.upgrades.items():
        if file.version < version:
            connection.execute(statement)
    connection.execute(
        "INSERT INTO taken_over VALUES (?, ?) "
        "ON CONFLICT (file) DO UPDATE SET hash = excluded.hash",
        (former.file, file.hash),
    )


def _taken(connection: sqlite3.Connection) -> dict[str, str]:
    """Hash of every former file whose rows are here."""
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'taken_over'").fetchone()
    rows = connection.execute("SELECT file, hash FROM taken_over").fetchall() if known else []
    return {str(file): str(digest) for file, digest in rows}
