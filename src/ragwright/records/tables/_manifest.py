"""Versions of the tables: one JSON file each, listing the parts of all tables.

A version exists once its file has its name; the newest has the highest number. So all tables change
at once, with one rename, or not at all.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ...core import (
    SchemaVersionError,
    SnapshotGoneError,
    StoreError,
    StoreFullError,
    canonical_json,
)
from ...ledger import file_error
from .._seams import TABLES, TableName

SCHEMA_VERSION = 1
MANIFESTS = "manifests"
DEAD = "dead"

_NAME = re.compile(r"(\d{8,})\.json")

ColumnTypes: TypeAlias = tuple[tuple[str, str], ...]
"""Names and types of columns, in order; types in Arrow's spelling."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """One Parquet file of a table.

    Attributes:
        file: Its path below the folder of the tables.
        rows: Rows of the file, dead ones included.
        columns: Names and types of its columns.
        dead: How many of its rows are dead.
        dead_file: Parquet file below the folder that lists them; empty where none is dead.
    """

    file: str
    rows: int
    columns: ColumnTypes
    dead: int = 0
    dead_file: str = ""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table in one version.

    Attributes:
        parts: Its files, in the order in which they are read.
        schema: Name -> type of the table's columns, those of its parts together.
        as_text: Columns whose types differ between parts and that are read as text for it.
    """

    parts: tuple[TableFile, ...] = ()
    schema: Mapping[str, str] = field(default_factory=dict)
    as_text: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows alive."""
        return sum(part.rows - part.dead for part in self.parts)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of all tables.

    Attributes:
        version: Its number; 0 stands for no tables yet.
        created: When it was made, ISO 8601 in UTC.
        note: Note for users.
        lineage: What it was made from: fingerprints and facts of the refresh.
        tables: Every table, also those without rows.
    """

    version: int = 0
    created: str = ""
    note: str = ""
    lineage: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[TableName, TableState] = field(
        default_factory=lambda: {table: TableState() for table in TABLES}
    )

    @property
    def rows(self) -> dict[TableName, int]:
        """Rows alive of every table."""
        return {table: state.rows for table, state in self.tables.items()}

    def files(self) -> set[str]:
        """Every file it needs, below the folder."""
        parts = [part for state in self.tables.values() for part in state.parts]
        return {part.file for part in parts} | {part.dead_file for part in parts} - {""}


def versions(folder: Path) -> list[int]:
    """Numbers of the versions there are, ascending."""
    try:
        names = os.listdir(folder / MANIFESTS)  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def read_manifest(folder: Path, version: int) -> Manifest:
    """One version.

    Raises:
        SnapshotGoneError: It is not kept, or never was.
        SchemaVersionError: A newer ragwright wrote it.
        StoreError: Its file is damaged.
    """
    path = _path(folder, version)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise gone(folder, version) from None
    try:
        found = json.loads(text)
        schema = int(found["schema_version"])
        if schema > SCHEMA_VERSION:
            raise SchemaVersionError(
                f"the tables have schema version {schema}; this ragwright reads {SCHEMA_VERSION}",
                where=str(path),
                hint="upgrade ragwright: pip install -U ragwright",
            )
        return _manifest(found)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StoreError(
            f"the manifest of version {version} is damaged: {error!r}",
            where=str(path),
            hint="restore it from a backup, or delete it to return to the version before it",
        ) from error


def manifest_stamp(folder: Path, version: int) -> tuple[int, int]:
    """Equal as long as the file of a version is unchanged.

    Raises:
        SnapshotGoneError: It is not kept, or never was.
    """
    try:
        found = _path(folder, version).stat()
    except FileNotFoundError:
        raise gone(folder, version) from None
    return found.st_mtime_ns, found.st_size


def gone(folder: Path, version: int) -> SnapshotGoneError:
    """The error for a missing version."""
    there = versions(folder)
    kept = f"available versions: {there[0]} to {there[-1]}" if there else "no version is stored yet"
    return SnapshotGoneError(
        f"version {version} of the tables of records does not exist",
        where=str(folder),
        hint=kept,
    )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a version and give it its name: from then on it is the newest."""
    path = _path(folder, manifest.version)
    draft = path.with_suffix(".draft")
    with open(draft, "xb", opener=owner_only) as file:
        file.write(_text(manifest).encode())
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    with suppress(OSError):  # it is committed: only the power failing now could undo it
        sync_folder(path.parent)


def delete_manifest(folder: Path, version: int) -> None:
    """A version is no longer kept."""
    with suppress(FileNotFoundError):
        _path(folder, version).unlink()


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def owner_only(path: str, flags: int) -> int:
    """Opener of files that only their owner reads."""
    return os.open(path, flags, 0o600)


def now() -> str:
    """The time, ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Turn what the file system refuses into an error that says so.

    Raises:
        StoreFullError: No space is left.
        StoreError: The folder, or something in it, cannot be written.
    """
    try:
        yield
    except OSError as error:
        explained = file_error(error, folder)
        if isinstance(explained, StoreFullError):
            raise explained from error
        place = Path(str(error.filename or ""))
        # Errors while reading rows from the source are not handled here.
        if error.errno in _REFUSED and (
            place in folder.parents or folder in (place, *place.parents)
        ):
            raise StoreError(
                f"the tables of records cannot be written: {error.strerror}",
                where=str(place),
                hint="give this user the right to write in the folder",
            ) from error
        raise


def _path(folder: Path, version: int) -> Path:
    return folder / MANIFESTS / f"{version:08d}.json"


def _text(manifest: Manifest) -> str:
    tables = {}
    for table, state in manifest.tables.items():
        kinds = list(dict.fromkeys(part.columns for part in state.parts))
        tables[table] = {
            "rows": state.rows,
            "schema": dict(state.schema),
            "as_text": list(state.as_text),
            "part_schemas": [dict(columns) for columns in kinds],
            "parts": [
                {
                    "file": part.file,
                    "rows": part.rows,
                    "dead": part.dead,
                    "dead_file": part.dead_file,
                    "part_schema": kinds.index(part.columns),
                }
                for part in state.parts
            ],
        }
    whole = {
        "schema_version": SCHEMA_VERSION,
        "version": manifest.version,
        "created": manifest.created,
        "note": manifest.note,
        "lineage": json.loads(canonical_json(manifest.lineage)),
        "tables": tables,
    }
    return json.dumps(whole, ensure_ascii=False, indent=1)


def _manifest(found: Any) -> Manifest:
    tables: dict[TableName, TableState] = {table: TableState() for table in TABLES}
    for table in TABLES:
        state = found["tables"].get(table)
        if state is None:
            continue
        kinds = [tuple(columns.items()) for columns in state["part_schemas"]]
        parts = (
            TableFile(
                part["file"],
                int(part["rows"]),
                kinds[part["part_schema"]],
                int(part["dead"]),
                part["dead_file"],
            )
            for part in state["parts"]
        )
        tables[table] = TableState(tuple(parts), state["schema"], tuple(state["as_text"]))
    return Manifest(
        int(found["version"]), found["created"], found["note"], found["lineage"], tables
    )
