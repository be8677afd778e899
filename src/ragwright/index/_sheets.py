"""Spreadsheets and CSV files as tables of one SQLite file."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..core import Document, StoreError, groups_in
from ._store import IndexSpec, Store

_VERSION = 6
_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".csv", ".tsv")
_HEADER_ROWS = 12
"""Rows in which the header is looked for: notes may stand above it."""
_MOST_COLUMNS = 500
_LONGEST_NAME = 60
_CELLS = re.compile(r"(?<!\\)\|")
_NUMBER = re.compile(
    r"(-?)([^\w\s.,-]?)((?:0|[1-9]\d{0,14})(?:\.\d{1,15})?)( ?[^\w\s.,]| [A-Z]{3}|)"
)
"""Numbers that a column of numbers holds, with the unit of all: ``$5``, ``7.5%``, ``3 EUR``.
``007`` and longer ones are texts.
"""
_SCHEMA = """
CREATE TABLE _documents (id TEXT PRIMARY KEY, hash TEXT NOT NULL, groups TEXT NOT NULL);
CREATE TABLE _tables (
    name TEXT PRIMARY KEY, shown TEXT NOT NULL, document TEXT NOT NULL, source TEXT NOT NULL,
    title TEXT NOT NULL, sheet TEXT NOT NULL, page INTEGER, start INTEGER NOT NULL,
    "end" INTEGER NOT NULL);
"""
_Row = tuple[int, int, list[str]]
"""First and last character of a row in its document, and its cells."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a document.

    Attributes:
        start: First character of its header.
        header: Names of its columns.
        rows: Rows of data.
        numeric: For each column: True if all of its cells are numbers.
    """

    start: int
    header: list[str]
    rows: list[_Row]
    numeric: list[bool]


def keep_sheets(store: Store, index_spec: IndexSpec, file: Path) -> None:
    """Bring the file up to the documents of an index; without a spreadsheet there is no file.

    Only documents that changed are read. A file that is damaged, or of another version, is made
    again.

    Raises:
        StoreError: The file cannot be written.
    """
    hashes = store.content_hashes(index_spec)
    wanted = {name: h for name, h in hashes.items() if name.casefold().endswith(_SUFFIXES)}
    if not wanted and not file.is_file():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    for again in (False, True):
        try:
            with closing(sqlite3.connect(file, timeout=60.0, isolation_level=None)) as connection:
                _update(connection, store, index_spec, wanted)
            break
        except (sqlite3.Error, OSError) as error:
            if again or isinstance(error, sqlite3.OperationalError | OSError):
                raise StoreError(
                    f"the tables of spreadsheets cannot be written: {error}",
                    where=str(file),
                    hint="make room on the disk or delete the file, then run ragwright ingest",
                ) from error
            file.write_bytes(b"")
    if not wanted:
        file.unlink()


def forget_sheets(file: Path, document_id: str) -> None:
    """Remove the tables of a document with all their bytes; a file that is damaged is deleted.

    Raises:
        StoreError: The file cannot be written.
    """
    if not file.is_file():
        return
    try:
        with closing(sqlite3.connect(file, timeout=60.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            _drop(connection, document_id)
            (left,) = connection.execute("SELECT count(*) FROM _documents").fetchone()
            connection.execute("COMMIT")
        if left:
            return
    except sqlite3.OperationalError as error:
        raise StoreError(
            f"the tables of spreadsheets cannot be written: {error}",
            where=str(file),
            hint="end other work on the project, or delete the file and run ragwright ingest",
        ) from error
    except sqlite3.DatabaseError:
        pass  # the next ingest makes it again
    file.unlink()


def _update(
    connection: sqlite3.Connection, store: Store, index_spec: IndexSpec, wanted: Mapping[str, str]
) -> None:
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not version:
        for statement in filter(str.strip, _SCHEMA.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    elif version != _VERSION:
        raise sqlite3.DatabaseError("another version")
    kept = dict(connection.execute("SELECT id, hash FROM _documents"))
    for name in [name for name in kept if wanted.get(name) != kept[name]]:
        _drop(connection, name)
    for name, content in wanted.items():
        if kept.get(name) == content:
            continue
        document = store.document(name)
        if document is not None and document.content_hash() != content:
            # an index of other settings holds another version
            document = next((d for d in store.documents(index_spec) if d.id == name), None)
        if document is not None:
            _write(connection, document, content)
    connection.execute("COMMIT")


def _drop(connection: sqlite3.Connection, document: str) -> None:
    query = "SELECT name FROM _tables WHERE document = ?"
    for (name,) in connection.execute(query, (document,)).fetchall():
        connection.execute(f"DROP TABLE {quote_name(name)}")
    connection.execute("DELETE FROM _tables WHERE document = ?", (document,))
    connection.execute("DELETE FROM _documents WHERE id = ?", (document,))


def _write(connection: sqlite3.Connection, document: Document, content: str) -> None:
    connection.execute(
        "INSERT INTO _documents VALUES (?, ?, ?)",
        (document.id, content, json.dumps(groups_in(document))),
    )
    taken = {name.casefold() for (name,) in connection.execute("SELECT name FROM _tables")}
    stem = PurePosixPath(document.source.rpartition("#")[2] or document.source).stem
    for table in _tables_of(document):
        page = next((p for p in document.pages if p.span.start <= table.start < p.span.end), None)
        sheet = page.label if page is not None else stem
        words = stem if sheet == stem else f"{stem}_{sheet}"
        shown = re.sub(r"\W+", "_", words).strip("_").casefold()[:_LONGEST_NAME] or "table"
        shown = f"t_{shown}" if shown.startswith("sqlite_") else shown
        name = unique(shown, taken)
        kinds = ("NUMBER" if numeric else "TEXT" for numeric in table.numeric)
        named = zip(map(quote_name, table.header), kinds, strict=True)
        columns = ", ".join(f"{column} {kind}" for column, kind in named)
        connection.execute(
            f"CREATE TABLE {quote_name(name)} "
            f"(_row INTEGER PRIMARY KEY, _start INTEGER, _end INTEGER, {columns})"
        )
        marks = ", ".join("?" * (3 + len(table.header)))
        connection.executemany(f"INSERT INTO {quote_name(name)} VALUES ({marks})", _values(table))  # noqa: S608
        connection.execute(
            "INSERT INTO _tables VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                name, shown, document.id, document.source, document.title, sheet,
                None if page is None else page.number, table.start, table.rows[-1][1],
            ),
        )  # fmt: skip


def _values(table: _Table) -> Iterator[Sequence[object]]:
    """The rows as they are stored: empty cells as NULL, numbers in columns of numbers."""
    for number, (start, end, cells) in enumerate(table.rows, 1):
        typed = (
            None if not cell else _NUMBER.sub(r"\1\3", cell) if numeric else cell
            for cell, numeric in zip(cells, table.numeric, strict=True)
        )
        yield (number, start, end, *typed)


def _tables_of(document: Document) -> Iterator[_Table]:
    """The tables in the text of a spreadsheet, in order; those without a row of data left out."""
    block: list[_Row] = []
    at = 0
    for line in [*document.text.split("\n"), ""]:
        if line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|") for cell in _CELLS.split(line.rstrip()[1:-1])]
            block.append((at, at + len(line), cells))
        elif block:
            del block[1]  # the line under the first row
            yield from _table_of(block)
            block = []
        at += len(line) + 1


def _table_of(block: Sequence[_Row]) -> Iterator[_Table]:
    width = max(len(cells) for _, _, cells in block)
    rows = [(start, end, cells + [""] * (width - len(cells))) for start, end, cells in block]
    filled = [sum(map(bool, cells)) for _, _, cells in rows[:_HEADER_ROWS]]
    # a header may lack the name of one column
    enough = max(min(2, max(filled)), max(filled) - 1)
    head = next(at for at, count in enumerate(filled) if count >= enough)
    body = rows[head + 1 :]
    if not body or width > _MOST_COLUMNS:
        return
    taken = {"_row", "_start", "_end"}
    header = [
        unique(cell[:_LONGEST_NAME] or f"column {at}", taken)
        for at, cell in enumerate(rows[head][2], 1)
    ]
    columns = zip(*(cells for _, _, cells in body), strict=True)
    yield _Table(rows[head][0], header, body, [_is_numeric(column) for column in columns])


def _is_numeric(cells: Iterable[str]) -> bool:
    held = [_NUMBER.fullmatch(cell) for cell in cells if cell]
    return all(held) and len({match.group(2, 4) for match in held if match}) == 1


def unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, numbered if need be, and take it; case does not count."""
    free, number = name, 1
    while free.casefold() in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free.casefold())
    return free


def quote_name(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
