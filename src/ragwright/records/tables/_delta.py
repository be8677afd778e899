"""Copies of the Delta tables in a folder, for other programs; each export copies what has changed.

The folder::

    versions.json    which versions of the Delta tables belong together, the newest last
    bronze/, silver/, gold/, left_out/    Delta tables
    lock             held by the one who writes

A file of our tables never changes, so an export compares names: it copies the files that the folder
lacks, and commits them together with the removal of those that it should not have. Where all are
there, it writes nothing. Whoever is killed in between leaves files that no log names; the next
export copies them again.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core import RecordsError, StoreError, replace_text, replacing, require
from ...ledger import FileLock
from .._seams import TABLES, TableName
from ._files import count_keys
from ._log import OURS, bring, files_of, newest_entry, open_delta
from ._manifest import errors_named, now
from ._tables import Tables

_VERSIONS = "versions.json"
_EXPORTS = "exports.json"
"""Files of an export made before our tables were Delta tables."""

_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+:/")

_README = """\
# Delta tables, written by ragwright

Each folder here is a Delta table. `versions.json` lists which versions of the four tables belong
together. Read them, and write nothing here: an export refuses a table that others changed.

    deltalake.DeltaTable("gold").to_pandas()      # at an earlier version: ("gold", version=3)
    polars.read_delta("gold")
    duckdb: SELECT * FROM delta_scan('gold')
    spark.read.format("delta").load("gold")
"""


@dataclass(frozen=True, slots=True)
class DeltaCounts:
    """The changes of an export to one Delta table.

    Attributes:
        version: Its version now.
        rows: Its rows now.
        written: Files that were written.
        removed: Files that the version no longer names.
    """

    version: int
    rows: int
    written: int
    removed: int


def export_delta(
    tables: Tables, folder: Path, version: int | None = None, wait: float = 600.0
) -> Mapping[TableName, DeltaCounts]:
    """Bring the copies of the Delta tables in a folder to a version; what is there stays.

    Args:
        tables: What to export: bronze, silver, gold and left_out.
        folder: Where to; made where it is not there. For the folder of ``tables`` itself the
            versions are named, and nothing is written.
        version: Which version of ``tables``; the newest where None.
        wait: Seconds to wait for another export to this folder.

    Raises:
        MissingExtraError: deltalake is not installed.
        RecordsError: The folder holds something else, or an export of another project.
        SnapshotGoneError: The version is not kept.
        StoreBusyError: Another export writes to the folder for longer.
        StoreFullError: The disk is full; what was exported before can be read as it was.
        StoreError: The folder cannot be written, or a Delta table is damaged.
    """
    if _ELSEWHERE.match(str(folder)):
        raise RecordsError(
            "Delta tables are exported to folders of this machine only",
            where=str(folder),
            hint="export to a folder, then copy it to the object store",
        )
    number = tables.version if version is None else version
    tables.manifest(number)  # refuse a version that is not kept before anything is written
    folder = Path(folder).absolute()
    require("deltalake", "records", "exporting Delta tables")
    if folder == tables.folder:
        states = tables.manifest(number).tables
        return {t: DeltaCounts(state.delta, state.rows, 0, 0) for t, state in states.items()}
    _refuse_foreign(folder)
    with errors_named(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, wait):
            export = _claimed(tables, folder)
            counts = {table: export.bring(tables, table, number) for table in TABLES}
            owed = _known(tables)[export.identity].owed
            export.note(number, counts, alone=owed)
            if owed:
                export.sweep()
                _register(tables, export.identity, _Known(folder))
    return counts


def forget_exported(tables: Tables, keys: Sequence[str], wait: float = 600.0) -> int:
    """Delete the rows of some keys from the exports of these tables; how many copies there were.

    To be called after :meth:`Tables.forget`: an export that holds one of them is brought to the
    newest version, and every file that this version does not need is deleted. Earlier versions of
    that export can no longer be read.

    Raises:
        StoreBusyError: Another export writes to a folder for longer than ``wait`` seconds.
        StoreError: An export cannot be written or is damaged.
    """
    copies = 0
    for identity, known in _known(tables).items():
        folder = known.folder
        if _identity(folder) != identity:
            _register(tables, identity, replace(known, owed=True))
            continue
        with errors_named(folder), _locked(folder, wait):
            held = sum(_holds(path, keys) for table in TABLES for path in _files(folder / table))
            if held:
                export, newest = _Export(folder, identity), tables.version
                counts = {table: export.bring(tables, table, newest) for table in TABLES}
                export.note(newest, counts, alone=True)
                export.sweep()
            copies += held
    return copies


def lost_exports(tables: Tables) -> tuple[Path, ...]:
    """Folders that these tables were exported to and that are not there, or are another's now."""
    return tuple(
        known.folder
        for identity, known in _known(tables).items()
        if _identity(known.folder) != identity
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of an export as the tables know it.

    Attributes:
        folder: Where it was last.
        owed: True where rows were forgotten while it was elsewhere: the next export deletes its
            earlier versions.
    """

    folder: Path
    owed: bool = False


def _known(tables: Tables) -> dict[str, _Known]:
    """Exports of these tables, by their identity."""
    try:
        listed = json.loads((tables.folder / _EXPORTS).read_text("utf-8"))
        return {
            str(identity): _Known(Path(entry["folder"]), bool(entry["owed"]))
            for identity, entry in listed.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise StoreError(
            f"the list of exports is damaged: {error!r}",
            where=str(tables.folder / _EXPORTS),
            hint="delete it and export again, to folders that are empty",
        ) from error


def _register(tables: Tables, identity: str, known: _Known) -> None:
    """Note what is known of an export."""
    tables.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(tables.folder / "exports.lock", "records export --delta", wait=60.0):
        listed = {
            name: {"folder": str(export.folder), "owed": export.owed}
            for name, export in {**_known(tables), identity: known}.items()
        }
        replace_text(tables.folder / _EXPORTS, json.dumps(listed, indent=1), private=True)


class _Export:
    """A folder of Delta tables, while its lock is held."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder = folder
        self.identity = identity

    def bring(self, tables: Tables, table: TableName, version: int) -> DeltaCounts:
        """Bring one table to a version."""
        folder = self._folder / table
        folder.mkdir(exist_ok=True)
        held = self._held(table)
        files = {part.path.name: part.rows for part in tables.live(table, version)}
        missing = [name for name in files if name not in held or not (folder / name).exists()]
        for name in missing:
            with (
                (tables.folder / table / name).open("rb") as file,
                replacing(folder / name) as copy,
            ):
                shutil.copyfileobj(file, copy)
        schema = tables.schema(table, version)
        number = bring(folder, files, schema, identity=self.identity, foreign=True)
        removed = sum(name not in files for name in held)
        return DeltaCounts(number, sum(files.values()), len(missing), removed)

    def _held(self, table: TableName) -> Mapping[str, int]:
        """Files of the exported table.

        Raises:
            RecordsError: It is of another export, or was changed by another program.
        """
        folder = self._folder / table
        if newest_entry(folder) < 0:
            return {}
        delta = open_delta(folder)
        files = files_of(delta)
        strangers = [n for n in files if not OURS.fullmatch(n)]
        if delta.metadata().description == self.identity and not strangers:
            return files
        raise RecordsError(
            f"the Delta table {table} was changed by another program"
            if strangers
            else "this Delta table was not written by this export",
            where=str(folder / strangers[0] if strangers else folder),
            hint="export to another folder, or delete this one and export again",
        )

    def note(
        self, version: int, counts: Mapping[TableName, DeltaCounts], *, alone: bool = False
    ) -> None:
        """Note which versions belong together; ``alone``: earlier ones can no longer be read."""
        listed = [] if alone else _read(self._folder)["exports"]
        entry = {
            "version": version,
            "tables": {table: count.version for table, count in counts.items()},
        }
        if listed and {key: listed[-1].get(key) for key in entry} == entry:
            return
        _write_versions(self._folder, self.identity, [*listed, {**entry, "exported": now()}])

    def sweep(self) -> None:
        """Delete every file that the newest version of a table does not name."""
        for table in TABLES:
            needed = self._held(table)
            for path in _files(self._folder / table):
                if path.name not in needed:
                    path.unlink()


def _files(folder: Path) -> list[Path]:
    """Files beside the log; also those that a killed export left half written."""
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def _holds(path: Path, keys: Sequence[str]) -> int:
    """Count the rows of a file with one of some keys; 1 for what cannot be read."""
    try:
        return count_keys(path, keys)
    except (StoreError, RecordsError):
        return 1  # half of a file may hold the row: it has to go


def _locked(folder: Path, wait: float) -> FileLock:
    busy = "the Delta tables are being written"
    return FileLock(folder / "lock", "records export --delta", wait=wait, busy=busy)


def _claimed(tables: Tables, folder: Path) -> _Export:
    """The export in a folder, which is new or one of these tables; known before it has rows."""
    _refuse_foreign(folder)
    identity = _identity(folder)
    known = _known(tables)
    if identity and identity not in known:
        raise RecordsError(
            "the folder holds Delta tables that another project exported",
            where=str(folder),
            hint="export to another folder, or delete this one and export again",
        )
    identity = identity or secrets.token_hex(8)
    before = known.get(identity, _Known(folder))
    if identity not in known or before.folder != folder:
        _register(tables, identity, replace(before, folder=folder))
    if not (folder / _VERSIONS).exists():
        _write_versions(folder, identity, [])
        replace_text(folder / "README.md", _README)
    return _Export(folder, identity)


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder with files of somebody else.

    Raises:
        RecordsError: It holds files and is not an export; nothing in it was touched.
    """
    if folder.exists() and not folder.is_dir():
        raise RecordsError(
            "Delta tables are exported to a folder, and this is a file", where=str(folder)
        )
    if (folder / _VERSIONS).exists() or not folder.is_dir():
        return
    others = sorted({path.name for path in folder.iterdir()} - {"lock"})
    if others:
        raise RecordsError(
            f"the folder holds other files ({others[0]}) and is not an export of ragwright",
            where=str(folder),
            hint="name a folder that is empty or not there yet",
        )


def _identity(folder: Path) -> str:
    """The identity of the export in a folder; empty where there is none."""
    if not (folder / _VERSIONS).exists():
        return ""
    return str(_read(folder)["id"])


def _read(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / _VERSIONS).read_text("utf-8"))
        return {"id": str(content["id"]), "exports": list(content["exports"])}
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"the list of exported versions is damaged: {error!r}",
            where=str(folder / _VERSIONS),
            hint="restore it from a backup, or delete the folder and export again",
        ) from error


def _write_versions(folder: Path, identity: str, listed: Sequence[Mapping[str, Any]]) -> None:
    text = {"schema_version": 1, "id": identity, "exports": list(listed)}
    replace_text(folder / _VERSIONS, json.dumps(text, indent=1) + "\n")
