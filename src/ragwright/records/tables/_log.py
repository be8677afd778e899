"""Delta tables through delta-rs: the files of a version, and commits of files.

Our own steps write the files; delta-rs keeps the log. The log holds numbers of rows and no values,
so that nothing of a row has to be deleted from it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...core import RecordsError, StoreError, require
from .._seams import ArrowTable
from ._manifest import sync_folder
from ._types import delta_schema

OURS = re.compile(
    r"\.?(?P<place>\d{8}-\d{5})-(?P<writer>\d{8})-[0-9a-f]{8}\.parquet(\.[0-9a-f]{32}\.part)?"
)
"""Names of files that a writing gives, also while a file is not whole.

``place`` orders the files of a table; ``writer`` is the version that the writing makes.
"""

LOG = "_delta_log"

_ENTRY = re.compile(r"(\d{20})\.json")
_PURPOSE = "tables of records"


def place_of(name: str) -> str:
    """The place of a file of ours among the files of its table."""
    match = OURS.fullmatch(name)
    if match is None:
        raise StoreError("a file of another program is in the tables of records", where=name)
    return match["place"]


def newest_entry(folder: Path) -> int:
    """The newest version of a Delta table by the names in its log; -1 where there is none."""
    try:
        names = os.listdir(folder / LOG)  # noqa: PTH208 - only the names are needed
    except FileNotFoundError:
        return -1
    return max((int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))), default=-1)


def open_delta(folder: Path, version: int | None = None) -> Any:
    """The Delta table of a folder in one version, the newest where None.

    Raises:
        StoreError: Its log is damaged, or lacks the version.
    """
    deltalake = require("deltalake", "records", _PURPOSE)
    with log_errors(folder):
        return deltalake.DeltaTable(str(folder), version=version)


def files_of(delta: Any) -> dict[str, int]:
    """Files of a Delta table in order, each with its number of rows."""
    pa = require("pyarrow", "records", _PURPOSE)
    adds = pa.table(delta.get_add_actions())
    columns = (adds.column(name).to_pylist() for name in ("path", "num_records"))
    return dict(sorted(zip(*columns, strict=True)))


def schema_of(delta: Any) -> ArrowTable:
    """The Arrow schema of a Delta table."""
    pa = require("pyarrow", "records", _PURPOSE)
    return delta_schema(pa.schema(delta.schema().to_arrow()))


def has_schema(delta: Any, schema: ArrowTable) -> bool:
    """True where a Delta table has the columns of an Arrow schema, in any order."""
    return sorted(map(str, schema_of(delta))) == sorted(map(str, delta_schema(schema)))


def bring(
    folder: Path,
    files: Mapping[str, int],
    schema: ArrowTable,
    *,
    identity: str = "",
) -> int:
    """Make a Delta table consist of these files, which are in its folder; its version then.

    Compares with the newest version, whoever made it: a commit of a killed writer is undone by
    the next one. A table that is as it should be stays at its version.

    Args:
        folder: The folder of the table.
        files: Name -> number of rows.
        schema: The Arrow schema of the table. Files that the table has under another schema must
            not be among ``files``.
        identity: Description of a new table.

    Raises:
        RecordsError: Another program changed the table.
        StoreError: The log is damaged, or the commit failed.
    """
    (folder / LOG).mkdir(parents=True, exist_ok=True, mode=0o700)
    delta = None if newest_entry(folder) < 0 else open_delta(folder)
    held = {} if delta is None else files_of(delta)
    strangers = [name for name in held if name not in files and not OURS.fullmatch(name)]
    if strangers:
        raise RecordsError(
            f"the Delta table {folder.name} was changed by another program",
            where=str(folder / strangers[0]),
            hint=f"delete the commits of that program from {folder / LOG}, or restore the folder "
            "from a backup",
        )
    new = {name: rows for name, rows in files.items() if name not in held}
    with log_errors(folder):
        if delta is None or not has_schema(delta, schema):
            _create(folder, files, schema, identity)
        elif new or held.keys() - files.keys():
            _commit(delta, folder, new, held.keys() - files.keys())
        else:
            return int(delta.version())
    return _settled(folder)


def _create(folder: Path, files: Mapping[str, int], schema: ArrowTable, identity: str) -> None:
    """Make a new Delta table, or replace schema and files of the one there is."""
    deltalake = require("deltalake", "records", _PURPOSE)
    transaction = require("deltalake.transaction", "records", _PURPOSE)
    transaction.create_table_with_add_actions(
        str(folder),
        deltalake.Schema.from_arrow(delta_schema(schema)),
        _adds(folder, files),
        mode="overwrite" if newest_entry(folder) >= 0 else "error",
        name=folder.name,
        description=identity or None,
        post_commithook_properties=_hooks(),
    )


def _commit(delta: Any, folder: Path, new: Mapping[str, int], gone: Collection[str]) -> None:
    """Add some files to a Delta table, and remove others, with one commit."""
    transaction = require("deltalake.transaction", "records", _PURPOSE)
    moment = time.time_ns() // 1_000_000
    removes = [transaction.RemoveAction(name, True, moment) for name in sorted(gone)]
    delta.create_write_transaction(
        _adds(folder, new) + removes,
        "append",
        delta.schema(),
        post_commithook_properties=_hooks(),
    )


def _adds(folder: Path, files: Mapping[str, int]) -> list[Any]:
    transaction = require("deltalake.transaction", "records", _PURPOSE)
    moment = time.time_ns() // 1_000_000
    return [
        transaction.AddAction(
            path=name,
            size=(folder / name).stat().st_size,
            partition_values={},
            modification_time=moment,
            data_change=True,
            stats=json.dumps({"numRecords": rows}),
        )
        for name, rows in files.items()
    ]


def _hooks() -> Any:
    """A commit deletes no log entries: a version that is kept may be older than a month."""
    transaction = require("deltalake.transaction", "records", _PURPOSE)
    return transaction.PostCommitHookProperties(cleanup_expired_logs=False)


def _settled(folder: Path) -> int:
    """The newest version, once its log entry is on the disk; the log is for its owner alone."""
    version = newest_entry(folder)
    for path in (*(folder / LOG).glob(f"{version:020d}.*"), folder / LOG / "_last_checkpoint"):
        with suppress(FileNotFoundError):
            path.chmod(0o600)
            sync_folder(path)
    sync_folder(folder / LOG)
    return version


@contextmanager
def log_errors(folder: Path) -> Iterator[None]:
    """Turn an error of delta-rs into one with a place and advice."""
    errors = require("deltalake.exceptions", "records", _PURPOSE)
    try:
        yield
    except errors.DeltaError as error:
        raise StoreError(
            f"the Delta table cannot be read or written: {error}",
            where=str(folder),
            hint="restore the folder from a backup",
        ) from error
