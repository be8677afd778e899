"""Tables as Delta tables in a folder, for other engines; each export writes what has changed.

The folder::

    versions.json    which versions of the Delta tables belong together, the newest last
    bronze/, silver/, gold/, left_out/    Delta tables: Parquet files and a ``_delta_log``
    lock             held by the one who writes

A file of our tables never changes, so the rows alive in it become one Parquet file of the Delta
table, whose name follows from the file, the list of its dead rows and the schema. An export
compares names: it writes the files that the Delta table lacks, and commits them together with the
removal of those that it should not have. Where all are there, it writes nothing. Whoever is killed
in between leaves files that no log names; the next export writes them again.

The log holds counts of rows and no values, so nothing of a row has to be deleted from it.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core import RecordsError, StoreError, replace_text, replacing, require, value_hash
from ...ledger import FileLock
from .._seams import HASH, KEY, TABLES, ArrowTable, TableName
from ._delta_types import delta_schema, for_delta
from ._manifest import TableFile, TableState, now, told
from ._parts import LivePart, joined_schema, keys_of
from ._tables import Tables

_VERSIONS = "versions.json"
_EXPORTS = "exports.json"
_OURS = re.compile(r"\d{8}-\d{5}-[0-9a-f]{8}-[0-9a-f]{12}\.parquet")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+:/")
_PURPOSE = "exporting Delta tables"

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
    """What an export did to one Delta table.

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
    """Bring the Delta tables in a folder to a version of the tables; what is there stays.

    Args:
        tables: What to export: bronze, silver, gold and left_out.
        folder: Where to; made where it is not there.
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
    require("deltalake", "delta", _PURPOSE)
    if _ELSEWHERE.match(str(folder)):
        raise RecordsError(
            "Delta tables are exported to folders of this machine only",
            where=str(folder),
            hint="export to a folder, then copy it to the object store",
        )
    number = tables.version if version is None else version
    manifest = tables.manifest(number)
    folder = Path(folder).absolute()
    _refuse_foreign(folder)
    with told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, wait):
            export = _claimed(tables, folder)
            made = {t: export.bring(tables, t, manifest.tables[t], number) for t in TABLES}
            owed = _known(tables)[export.identity].owed
            export.note(number, made, alone=owed)
            if owed:
                export.sweep()
                _register(tables, export.identity, _Known(folder))
    return made


def forget_exported(tables: Tables, keys: Sequence[str], wait: float = 600.0) -> int:
    """Delete the rows of some keys from the exports of these tables; how many copies there were.

    To be called after :meth:`Tables.forget`: an export that holds one of them is brought to the
    newest version, and every file that this version does not need is deleted. Earlier versions of
    that export can no longer be read.

    Raises:
        MissingExtraError: There are exports, and deltalake is not installed.
        StoreBusyError: Another export writes to a folder for longer than ``wait`` seconds.
        StoreError: An export cannot be written or is damaged.
    """
    found = 0
    for identity, known in _known(tables).items():
        folder = known.folder
        if _identity(folder) != identity:
            _register(tables, identity, replace(known, owed=True))
            continue
        require("deltalake", "delta", "forgetting in exported Delta tables")
        with told(folder), _locked(folder, wait):
            held = sum(_holds(path, keys) for table in TABLES for path in _files(folder / table))
            if held:
                export, newest = _Export(folder, identity), tables.manifest()
                made = {
                    table: export.bring(tables, table, newest.tables[table], newest.version)
                    for table in TABLES
                }
                export.note(newest.version, made, alone=True)
                export.sweep()
            found += held
    return found


def lost_exports(tables: Tables) -> tuple[Path, ...]:
    """Folders that these tables were exported to and that are not there, or are another's now."""
    return tuple(
        known.folder
        for identity, known in _known(tables).items()
        if _identity(known.folder) != identity
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What the tables know of an export.

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
            str(identity): _Known(Path(one["folder"]), bool(one["owed"]))
            for identity, one in listed.items()
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
            name: {"folder": str(one.folder), "owed": one.owed}
            for name, one in {**_known(tables), identity: known}.items()
        }
        replace_text(tables.folder / _EXPORTS, json.dumps(listed, indent=1), private=True)


class _Export:
    """A folder of Delta tables, while its lock is held."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder = folder
        self.identity = identity

    def bring(
        self, tables: Tables, table: TableName, state: TableState, version: int
    ) -> DeltaCounts:
        """Bring one table to a version."""
        folder = self._folder / table
        delta = self._opened(table)
        schema = _schema(tables, state, delta)
        shape = _shape(schema)
        wanted = {_name(part, shape): part for part in state.parts if part.dead < part.rows}
        there = _named(delta)
        foreign = [name for name in there if not _OURS.fullmatch(name)]
        if foreign:
            raise RecordsError(
                f"the Delta table {table} was changed by another program",
                where=str(folder / foreign[0]),
                hint="export to another folder, or delete this one and export again",
            )
        folder.mkdir(exist_ok=True)
        on_disk = {path.name for path in _files(folder)}
        missing = {name: part for name, part in wanted.items() if name not in on_disk & set(there)}
        _write(tables, version, table, missing, folder, schema)
        new = [name for name in wanted if name not in there]
        gone = [name for name in there if name not in wanted]
        if delta is None or new or gone:
            adds = {name: wanted[name] for name in new}
            self._commit(delta, table, schema, adds, gone, version)
            delta = self._opened(table)
        assert delta is not None
        return DeltaCounts(int(delta.version()), state.rows, len(missing), len(gone))

    def _opened(self, table: TableName) -> Any:
        """The Delta table as it is; None where there is none yet."""
        deltalake = require("deltalake", "delta", _PURPOSE)
        folder = self._folder / table
        with _explained(folder):
            if not deltalake.DeltaTable.is_deltatable(str(folder)):
                return None
            found = deltalake.DeltaTable(str(folder))
            if found.metadata().description == self.identity:
                return found
        raise RecordsError(
            "this Delta table was not written by this export",
            where=str(folder),
            hint="export to another folder, or delete this one and export again",
        )

    def _commit(
        self,
        delta: Any,
        table: TableName,
        schema: ArrowTable,
        adds: Mapping[str, TableFile],
        gone: Sequence[str],
        version: int,
    ) -> None:
        deltalake = require("deltalake", "delta", _PURPOSE)
        transaction = require("deltalake.transaction", "delta", _PURPOSE)
        folder = self._folder / table
        moment = time.time_ns() // 1_000_000
        made = [
            transaction.AddAction(
                path=name,
                size=(folder / name).stat().st_size,
                partition_values={},
                modification_time=moment,
                data_change=True,
                stats=json.dumps({"numRecords": part.rows - part.dead}),
            )
            for name, part in adds.items()
        ]
        with _explained(folder):
            said = deltalake.CommitProperties(custom_metadata={"ragwright": {"version": version}})
            shape = deltalake.Schema.from_arrow(schema)
            if delta is None or _shape(delta.schema().to_arrow()) != _shape(schema):
                # A new schema is in the name of every file, so that all of them are new.
                transaction.create_table_with_add_actions(
                    str(folder),
                    shape,
                    made,
                    mode="error" if delta is None else "overwrite",
                    name=table,
                    description=self.identity,
                    commit_properties=said,
                )
            else:
                made += [transaction.RemoveAction(name, True, moment) for name in gone]
                delta.create_write_transaction(made, "append", shape, commit_properties=said)

    def note(
        self, version: int, made: Mapping[TableName, DeltaCounts], *, alone: bool = False
    ) -> None:
        """Note which versions belong together; ``alone``: earlier ones can no longer be read."""
        listed = [] if alone else _read(self._folder)["exports"]
        entry = {"version": version, "tables": {t: counts.version for t, counts in made.items()}}
        if listed and {key: listed[-1].get(key) for key in entry} == entry:
            return
        _write_versions(self._folder, self.identity, [*listed, {**entry, "exported": now()}])

    def sweep(self) -> None:
        """Delete every file that the newest version of a table does not name."""
        for table in TABLES:
            named = set(_named(self._opened(table)))
            for path in _files(self._folder / table):
                if path.name not in named:
                    path.unlink()


def _schema(tables: Tables, state: TableState, delta: Any) -> ArrowTable:
    """The Arrow schema of a Delta table; that which it has, where the rows fit into it."""
    pa = require("pyarrow", "records", _PURPOSE)
    made = pa.schema([(KEY, pa.string()), (HASH, pa.string())])
    if state.parts:
        with told(tables.folder):
            made = delta_schema(joined_schema(tables.folder, state.parts)[0])
    if delta is not None:
        held = delta_schema(pa.schema(delta.schema().to_arrow()))
        kinds = dict(zip(held.names, held.types, strict=True))
        if all(kinds.get(field.name) == field.type for field in made):
            return held
    return made


def _shape(schema: ArrowTable) -> list[Any]:
    """Columns of a schema as Delta writes them, in order of their names."""
    deltalake = require("deltalake", "delta", _PURPOSE)
    fields = json.loads(deltalake.Schema.from_arrow(schema).to_json())["fields"]
    return sorted(fields, key=lambda field: str(field["name"]))


def _name(part: TableFile, shape: Sequence[Any]) -> str:
    """The name of a part's file: equal only where its content is."""
    return f"{Path(part.file).stem}-{value_hash([shape, part.dead_file])[:12]}.parquet"


def _write(
    tables: Tables,
    version: int,
    table: TableName,
    wanted: Mapping[str, TableFile],
    folder: Path,
    schema: ArrowTable,
) -> None:
    """Write the rows alive of some parts, a file each; a part in memory at a time."""
    parquet = require("pyarrow.parquet", "records", _PURPOSE)
    if not wanted:
        return
    files = {tables.folder / part.file for part in wanted.values()}
    parts = [
        part if part.path in files else _without_rows(part) for part in tables.live(table, version)
    ]
    batches = tables.read_live(table, parts, version)
    for name, rows in zip(wanted, batches, strict=True):
        with replacing(folder / name) as file:
            parquet.write_table(for_delta(rows, schema), file, compression="zstd")


def _without_rows(part: LivePart) -> LivePart:
    return replace(part, live=np.zeros(part.rows, np.bool_))


def _named(delta: Any) -> tuple[str, ...]:
    """Files of the newest version."""
    pa = require("pyarrow", "records", _PURPOSE)
    if delta is None:
        return ()
    return tuple(pa.table(delta.get_add_actions()).column("path").to_pylist())


def _files(folder: Path) -> list[Path]:
    """Files beside the log; also those that a killed export left half written."""
    return sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def _holds(path: Path, keys: Sequence[str]) -> int:
    """How many rows of a file have one of some keys; 1 for what cannot be read."""
    pa = require("pyarrow", "records", _PURPOSE)
    compute = require("pyarrow.compute", "records", _PURPOSE)
    try:
        found = keys_of(path).keys
    except (StoreError, RecordsError):
        return 1  # half of a file may hold the row: it has to go
    there = compute.is_in(found, value_set=pa.array(list(keys), pa.string()))
    return int(compute.sum(there).as_py() or 0)


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
        RecordsError: It holds files and is no export; nothing in it was touched.
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
            f"the folder holds other files ({others[0]}) and is no export of ragwright",
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
        found = json.loads((folder / _VERSIONS).read_text("utf-8"))
        return {"id": str(found["id"]), "exports": list(found["exports"])}
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"the list of exported versions is damaged: {error!r}",
            where=str(folder / _VERSIONS),
            hint="restore it from a backup, or delete the folder and export again",
        ) from error


def _write_versions(folder: Path, identity: str, listed: Sequence[Mapping[str, Any]]) -> None:
    text = {"schema_version": 1, "id": identity, "exports": list(listed)}
    replace_text(folder / _VERSIONS, json.dumps(text, indent=1) + "\n")


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn what delta-rs says into an error with a place."""
    errors = require("deltalake.exceptions", "delta", _PURPOSE)
    try:
        yield
    except errors.DeltaError as error:
        raise StoreError(
            f"the Delta table cannot be read or written: {error}",
            where=str(folder),
            hint="restore the folder from a backup, or delete it and export again",
        ) from error
