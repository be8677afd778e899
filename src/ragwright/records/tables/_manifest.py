"""Versions of the tables: one small JSON file each, naming the versions of the four Delta tables.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...core import (
    SchemaVersionError,
    SnapshotGoneError,
    StoreError,
    StoreFullError,
    canonical_json,
)
from ...ledger import file_error
from .._seams import TABLES, TableName

SCHEMA_VERSION = 2

MANIFESTS = "manifests"
_ASIDE = ".aside"

_NAME = re.compile(r"(\d{8,})\.json")


@dataclass(frozen=True, slots=True)
class TableState:
    """A table in one version.

    Attributes:
        delta: Version of its Delta table; -1 before the first commit.
        rows: Its rows.
        schema: Name -> Arrow type of its columns, in order. Columns that are null in every row
            have the type ``null``, and are not in the Delta table.
    """

    delta: int = -1
    rows: int = 0
    schema: Mapping[str, str] = field(default_factory=dict)


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
        """Number of rows of every table."""
        return {table: state.rows for table, state in self.tables.items()}


def versions(folder: Path) -> list[int]:
    """Numbers of the versions there are, ascending."""
    try:
        names = os.listdir(folder / MANIFESTS)  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def read_manifest(folder: Path, version: int, *, aside: bool = False) -> Manifest:
    """One version; ``aside``: one that was set aside.

    Raises:
        SnapshotGoneError: It is not kept, or never was.
        SchemaVersionError: Another version of ragwright wrote it.
        StoreError: Its file is damaged.
    """
    path = _path(folder, version, aside=aside)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise make_gone_error(folder, version) from None
    with _damage_named(path, version):
        content: dict[str, Any] = json.loads(text)
        schema = int(content["schema_version"])
    if schema != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the tables have schema version {schema}; this ragwright reads {SCHEMA_VERSION}",
            where=str(path),
            hint=f"move {folder} away, then run: ragwright records refresh",
        )
    with _damage_named(path, version):
        tables = {
            table: TableState(int(state["delta"]), int(state["rows"]), dict(state["schema"]))
            for table, state in content["tables"].items()
        }
        return Manifest(
            int(content["version"]),
            content["created"],
            content["note"],
            content["lineage"],
            {table: tables.get(table, TableState()) for table in TABLES},
        )


@contextmanager
def _damage_named(path: Path, version: int) -> Iterator[None]:
    try:
        yield
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
        stat = _path(folder, version).stat()
    except FileNotFoundError:
        raise make_gone_error(folder, version) from None
    return stat.st_mtime_ns, stat.st_size


def make_gone_error(folder: Path, version: int) -> SnapshotGoneError:
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


def set_aside(folder: Path, version: int) -> None:
    """Make a version one that is no longer kept; its files are still to be deleted."""
    with suppress(FileNotFoundError):
        _path(folder, version).rename(_path(folder, version, aside=True))


def set_aside_versions(folder: Path) -> list[int]:
    """Versions that are no longer kept, and whose files are still to be deleted."""
    return sorted(int(path.stem) for path in (folder / MANIFESTS).glob(f"*{_ASIDE}"))


def delete_manifest(folder: Path, version: int, *, aside: bool = False) -> None:
    """Delete the manifest of a version."""
    _path(folder, version, aside=aside).unlink(missing_ok=True)


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
def errors_named(folder: Path) -> Iterator[None]:
    """Turn a refusal of the file system into an error with its reason and place.

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


def _path(folder: Path, version: int, *, aside: bool = False) -> Path:
    return folder / MANIFESTS / f"{version:08d}{_ASIDE if aside else '.json'}"


def _text(manifest: Manifest) -> str:
    whole = {
        "schema_version": SCHEMA_VERSION,
        "version": manifest.version,
        "created": manifest.created,
        "note": manifest.note,
        "lineage": json.loads(canonical_json(manifest.lineage)),
        "tables": {table: asdict(state) for table, state in manifest.tables.items()},
    }
    return json.dumps(whole, ensure_ascii=False, indent=1)
