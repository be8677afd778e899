"""The SQLite file that holds the tables of all spreadsheets of an index."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from ...core import Document, StoreError, groups_in, text_hash
from .._store import IndexSpec, Store
from ._columns import folded, singular
from ._grid import SheetTable, tables_of

_VERSION = 4
"""Since 4 with values that are alike, or stand beside others in one cell."""
_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".csv", ".tsv")
_MOST_COLUMNS = 500
_MOST_VALUES = 50_000
"""Different values of a column that are listed; a column with more is not searched by value."""
_LONGEST_VALUE = 80
_SCHEMA = """
CREATE TABLE _documents (id TEXT PRIMARY KEY, hash TEXT NOT NULL, groups TEXT NOT NULL);
CREATE TABLE _tables (
    name TEXT PRIMARY KEY, document TEXT NOT NULL, source TEXT NOT NULL, title TEXT NOT NULL,
    sheet TEXT NOT NULL, notes TEXT NOT NULL, page INTEGER, header INTEGER NOT NULL,
    rows INTEGER NOT NULL, totals TEXT NOT NULL, columns TEXT NOT NULL, doubt TEXT NOT NULL);
CREATE TABLE _values (
    "table" TEXT NOT NULL, "column" TEXT NOT NULL, value TEXT NOT NULL,
    folded TEXT NOT NULL, singular TEXT NOT NULL);
CREATE INDEX values_folded ON _values (folded);
CREATE INDEX values_singular ON _values (singular);
"""
"""`_tables` describes the other tables, `_values` lists the values by which questions name rows."""


def keep_sheets(store: Store, pair: IndexSpec, file: Path) -> int:
    """Bring the file up to the documents of an index; return the number of its tables.

    Only documents that changed are read. Without a spreadsheet there is no file.

    Args:
        store: The store.
        pair: The index whose documents count.
        file: The SQLite file; made where there are tables.

    Raises:
        StoreError: The file cannot be written.
    """
    wanted = {
        name: content
        for name, content in store.content_hashes(pair).items()
        if name.casefold().endswith(_SUFFIXES)
    }
    if not wanted:
        file.unlink(missing_ok=True)
        return 0
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    try:
        try:
            return _updated(store, pair, wanted, file)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            file.unlink()  # damaged, or made by another version: it follows from the documents
            file.touch(mode=0o600)
            return _updated(store, pair, wanted, file)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"the tables of spreadsheets cannot be written: {error}",
            where=str(file),
            hint="make room on the disk or delete the file, then run ragwright ingest",
        ) from error


def forget_sheets(file: Path, documents: Sequence[str]) -> None:
    """Remove the tables of documents; a file that cannot be read is deleted.

    Raises:
        StoreError: The file cannot be written.
    """
    if not file.is_file():
        return
    try:
        with closing(sqlite3.connect(file, timeout=60.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            for name in documents:
                _drop(connection, name)
            (left,) = connection.execute("SELECT count(*) FROM _tables").fetchone()
            connection.execute("COMMIT")
        if not left:
            file.unlink()
    except sqlite3.DatabaseError as error:
        try:
            file.unlink()  # the next ingest writes it again from the documents
        except OSError:
            raise StoreError(
                f"the tables of spreadsheets cannot be written: {error}",
                where=str(file),
                hint="delete the file, then run ragwright ingest",
            ) from error


def _updated(store: Store, pair: IndexSpec, wanted: dict[str, str], file: Path) -> int:
    with closing(sqlite3.connect(file, timeout=60.0, isolation_level=None)) as connection:
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
                # an index of another parser holds another version
                document = next((d for d in store.documents(pair) if d.id == name), None)
            for table in tables_of(document) if document is not None else ():
                _write(connection, document, table)
            groups = groups_in(document) if document is not None else ()
            connection.execute(
                "INSERT INTO _documents VALUES (?, ?, ?)", (name, content, json.dumps(groups))
            )
        (tables,) = connection.execute("SELECT count(*) FROM _tables").fetchone()
        connection.execute("COMMIT")
        return int(tables)


def _drop(connection: sqlite3.Connection, document: str) -> None:
    query = "SELECT name FROM _tables WHERE document = ?"
    for (name,) in connection.execute(query, (document,)).fetchall():
        connection.execute(f"DROP TABLE {quoted(name)}")
        connection.execute('DELETE FROM _values WHERE "table" = ?', (name,))
    connection.execute("DELETE FROM _tables WHERE document = ?", (document,))
    connection.execute("DELETE FROM _documents WHERE id = ?", (document,))


def _write(connection: sqlite3.Connection, document: Document | None, table: SheetTable) -> None:
    if document is None or len(table.columns) > _MOST_COLUMNS:
        return
    name = _free_name(connection, _table_name(document, table))
    kinds = {"number": "NUMERIC", "date": "TEXT", "text": "TEXT"}
    columns = ", ".join(f"{quoted(c.name)} {kinds[c.type]}" for c in table.columns)
    connection.execute(
        f"CREATE TABLE {quoted(name)} (_row INTEGER, _start INTEGER, _end INTEGER, {columns})"
    )
    marks = ", ".join("?" * (3 + len(table.columns)))
    rows = (
        (row.number, row.start, row.end, *cells)
        for row, cells in zip(table.rows, zip(*table.values, strict=True), strict=True)
    )
    connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)  # noqa: S608
    described = []
    for column, values in zip(table.columns, table.values, strict=True):
        entry = asdict(column)
        if column.type == "text":
            different = {str(value) for value in values if value is not None}
            entry["searched"] = len(different) <= _MOST_VALUES
            if entry["searched"]:
                listed = _listed_values(different)
                connection.executemany(
                    "INSERT INTO _values VALUES (?, ?, ?, ?, ?)",
                    ((name, column.name, *forms) for forms in listed),
                )
        described.append(entry)
    connection.execute(
        "INSERT INTO _tables VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name, document.id, document.source, document.title, table.sheet, table.title,
            table.page, table.header, len(table.rows), json.dumps(table.totals),
            json.dumps(described, ensure_ascii=False), table.doubt,
        ),
    )  # fmt: skip


def _listed_values(values: set[str]) -> Iterator[tuple[str, str, str]]:
    for value in sorted(values):
        form = folded(value)
        if form and len(form) <= _LONGEST_VALUE:
            yield value, form, singular(form)


def _table_name(document: Document, table: SheetTable) -> str:
    stem = PurePosixPath(document.source.rpartition("#")[2] or document.source).stem
    name = stem if table.sheet == stem or table.page is None else f"{stem}_{table.sheet}"
    plain = re.sub(r"\W+", "_", name).strip("_").casefold()[:60] or "table"
    # a number behind it would tell of a table that its reader may not see
    return f"{plain}_{text_hash(document.id)[:8]}" if groups_in(document) else plain


def _free_name(connection: sqlite3.Connection, name: str) -> str:
    name = f"t_{name}" if name.startswith(("sqlite_", "_")) else name
    query = "SELECT name FROM sqlite_master WHERE name = ? COLLATE NOCASE"
    free, number = name, 1
    while connection.execute(query, (free,)).fetchone():
        number += 1
        free = f"{name}_{number}"
    return free


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
