"""Parquet files of the tables: read, written whole, their keys and hashes."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, StoreError, suggest_name
from .._seams import (
    HASH,
    KEY,
    ArrowTable,
    TableName,
    compute,
    delta_errors,
    deltalake,
    pa,
    parquet,
    transaction,
)
from ._types import TableState, delta_rows, delta_schema, fit_rows, owner_only, sync_folder

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LivePart:
    """A file of a table, and which of its rows count.

    Attributes:
        path: The Parquet file.
        rows: Its rows, also those that do not count.
        live: Which of them count, bool of shape (rows,); None where all do.
    """

    path: Path
    rows: int
    live: Flags | None = None


def read_file(path: Path, columns: Sequence[str] | None = None) -> ArrowTable:
    """Rows of a file, some columns or all.

    Raises:
        StoreError: It is not a complete Parquet file.
    """
    try:
        with parquet.ParquetFile(path) as file:
            return file.read(columns=None if columns is None else list(columns), use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None):  # the file system's word, not the format's
            raise
        raise damage_error(path, error) from error


AFRESH = (
    "restore it from a backup, or move the folder of the tables away and run: "
    "ragwright records refresh"
)


def damage_error(path: Path, error: Exception) -> StoreError:
    """The error for a file that is not a complete Parquet file."""
    return StoreError(
        f"a file of the tables cannot be read: {error}",
        where=str(path),
        hint=AFRESH,
    )


@dataclass(frozen=True, slots=True)
class FileKeys:
    """Keys and hashes of a file's rows (Arrow arrays), and the file's Arrow schema."""

    keys: ArrowTable
    hashes: ArrowTable
    schema: ArrowTable


def keys_of(path: Path) -> FileKeys:
    """Read what a table has to know of a file.

    Raises:
        RecordsError: It lacks one of the columns, or a row has no key or no hash.
        StoreError: It is not a Parquet file.
    """
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            for column in (KEY, HASH):
                if schema.names.count(column) != 1:
                    raise RecordsError(f"rows without the column {column}", where=str(path))
            rows = file.read(columns=[KEY, HASH], use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None):  # a refusal of the file system
            raise
        raise damage_error(path, error) from error
    for column, noun in ((KEY, "key"), (HASH, "hash")):
        if rows.column(column).null_count:
            row = rows.column(column).is_null().to_pylist().index(True)
            raise RecordsError(f"a row has no {noun}", where=f"{path}, row {row + 1}")
    return FileKeys(rows.column(KEY), rows.column(HASH), schema)


def count_keys(path: Path, keys: Sequence[str]) -> int:
    """Count the rows of a file that have one of some keys.

    Raises:
        StoreError: It is not a Parquet file.
    """
    held = compute.is_in(keys_of(path).keys, value_set=pa.array(list(keys), pa.string()))
    return int(compute.sum(held).as_py() or 0)


def write_part(rows: ArrowTable, target: Path) -> None:
    """Write one Parquet file with types that Delta has; it gets its name when all is on the disk.

    The name until then is nobody else's, so that a task begun twice (a worker that was thought
    dead) does not write into its twin's file. For its owner alone, like all of the tables.
    """
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb", opener=owner_only) as file:
            # Statistics cost a sixth of the time, and a file is read as a whole.
            parquet.write_table(delta_rows(rows), file, compression="zstd", write_statistics=False)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


Positions = NDArray[np.int64]


class KeyIndex:
    """The position of the live row of each key, and its hash.

    A row has a position: its number in the table's files, one after the other, dead rows
    counted too. At most one row of a key is alive. Keys and hashes are texts, as Arrow arrays or
    lists.
    """

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._hashes: list[str] = []
        self._dead = np.empty(0, np.bool_)

    def __len__(self) -> int:
        """Rows alive."""
        return self.rows - int(np.count_nonzero(self._dead))

    @property
    def rows(self) -> int:
        """Rows, dead ones included."""
        return len(self._hashes)

    def add(
        self, keys: ArrowTable | Sequence[str], hashes: ArrowTable | Sequence[str], live: Flags
    ) -> None:
        """Add rows at the end.

        Args:
            keys: Their keys; no live row may have the key of one that is alive.
            hashes: Their hashes.
            live: Which of them are alive, shape (rows,).
        """
        start = self.rows
        self._hashes += _texts(hashes)
        self._dead = np.append(self._dead, ~live)
        names = _texts(keys)
        self._positions |= {names[at]: start + at for at in np.flatnonzero(live).tolist()}

    def find(self, keys: ArrowTable | Sequence[str]) -> Positions:
        """Find the position of the live row of each key, -1 if there is none."""
        names = _texts(keys)
        positions = np.fromiter((self._positions.get(key, -1) for key in names), np.int64)
        held = np.flatnonzero(positions >= 0)
        positions[held[self._dead[positions[held]]]] = -1
        return positions

    def kill(self, positions: Positions) -> None:
        """Mark live rows as dead."""
        self._dead[positions] = True

    def dead(self, start: int, stop: int) -> Flags:
        """Return the mask of the dead rows of a range."""
        return self._dead[start:stop]

    def compare(
        self, keys: ArrowTable | Sequence[str], hashes: ArrowTable | Sequence[str]
    ) -> tuple[Flags, Flags]:
        """Return masks of the rows that the table lacks, and of those it has with another hash.

        Args:
            keys: ``record_key`` of each row.
            hashes: ``record_hash`` of each row.

        Returns:
            (new, changed), both of shape (rows,).
        """
        positions = self.find(keys)
        same = [
            at >= 0 and self._hashes[at] == text
            for at, text in zip(positions.tolist(), _texts(hashes), strict=True)
        ]
        new = positions < 0
        return new, ~new & ~np.array(same, np.bool_)

    def slice(self, keys: ArrowTable | Sequence[str]) -> ArrowTable:
        """Return the rows that the table has of these keys: ``record_key``, ``record_hash``."""
        held = {
            key: self._hashes[at]
            for key, at in zip(_texts(keys), self.find(keys).tolist(), strict=True)
            if at >= 0
        }
        keys_there = pa.array(list(held), pa.large_string())
        return pa.table({KEY: keys_there, HASH: pa.array(list(held.values()), pa.large_string())})


def _texts(values: ArrowTable | Sequence[str]) -> Sequence[str]:
    """Return texts as a list; an Arrow array has a method for it."""
    return values.to_pylist() if hasattr(values, "to_pylist") else values


OURS = re.compile(
    r"\.?(?P<place>\d{8}-\d{5})-(?P<writer>\d{8})-[0-9a-f]{8}\.parquet(\.[0-9a-f]{32}\.part)?"
)
"""Names of files that a writing gives, also while a file is not whole.

``place`` orders the files of a table; ``writer`` is the version that the writing makes.
"""

LOG = "_delta_log"

_ENTRY = re.compile(r"(\d{20})\.json")


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
    with log_errors(folder):
        return deltalake.DeltaTable(str(folder), version=version)


def files_of(delta: Any) -> dict[str, int]:
    """Files of a Delta table in order, each with its number of rows."""
    adds = pa.table(delta.get_add_actions())
    columns = (adds.column(name).to_pylist() for name in ("path", "num_records"))
    return dict(sorted(zip(*columns, strict=True)))


def schema_of(delta: Any) -> ArrowTable:
    """The Arrow schema of a Delta table."""
    return delta_schema(pa.schema(delta.schema().to_arrow()))


def has_schema(delta: Any, schema: ArrowTable) -> bool:
    """True where a Delta table has the columns of an Arrow schema, in any order."""
    return sorted(map(str, schema_of(delta))) == sorted(map(str, delta_schema(schema)))


def bring(
    folder: Path,
    files: Mapping[str, int],
    schema: ArrowTable,
) -> int:
    """Make a Delta table consist of these files, which are in its folder; its version then.

    Compares with the newest version, whoever made it: a commit of a killed writer is undone by
    the next one. A table that is as it should be stays at its version.

    Args:
        folder: The folder of the table.
        files: Name -> number of rows.
        schema: The Arrow schema of the table. Files that the table has under another schema must
            not be among ``files``.

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
            transaction.create_table_with_add_actions(
                str(folder),
                deltalake.Schema.from_arrow(delta_schema(schema)),
                _adds(folder, files),
                mode="overwrite" if newest_entry(folder) >= 0 else "error",
                name=folder.name,
                post_commithook_properties=_hooks(),
            )
        elif new or held.keys() - files.keys():
            _commit(delta, folder, new, held.keys() - files.keys())
        else:
            return int(delta.version())
    return _settled(folder)


def _commit(delta: Any, folder: Path, new: Mapping[str, int], gone: Collection[str]) -> None:
    """Add some files to a Delta table, and remove others, with one commit."""
    moment = time.time_ns() // 1_000_000
    removes = [transaction.RemoveAction(name, True, moment) for name in sorted(gone)]
    delta.create_write_transaction(
        _adds(folder, new) + removes,
        "append",
        delta.schema(),
        post_commithook_properties=_hooks(),
    )


def _adds(folder: Path, files: Mapping[str, int]) -> list[Any]:
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
    try:
        yield
    except delta_errors.DeltaError as error:
        raise StoreError(
            f"the Delta table cannot be read or written: {error}",
            where=str(folder),
            hint="restore the folder from a backup",
        ) from error


_MOST_OPEN = 64
"""Delta tables kept in memory."""


class Versions:
    """Delta tables of a folder, each version of them read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[tuple[TableName, int], Any] = {}
        self._files: dict[tuple[TableName, int], dict[str, int]] = {}

    def opened(self, table: TableName, state: TableState) -> Any:
        """The Delta table of a state, which has one."""
        place = table, state.delta
        if place not in self._opened:
            if len(self._opened) >= _MOST_OPEN:
                self._opened.clear()
                self._files.clear()
            self._opened[place] = open_delta(self.folder / table, state.delta)
        return self._opened[place]

    def files(self, table: TableName, state: TableState) -> dict[str, int]:
        """Names of a table's files in order, each with its number of rows."""
        if state.delta < 0:
            return {}
        place = table, state.delta
        if place not in self._files:
            files = files_of(self.opened(table, state))
            self._files[place] = files
        return self._files[place]

    def parts(self, table: TableName, state: TableState) -> tuple[LivePart, ...]:
        """Files of a table in order."""
        if not state.rows:
            return ()
        files = self.files(table, state)
        return tuple(LivePart(self.folder / table / name, rows) for name, rows in files.items())

    def schema(self, table: TableName, state: TableState) -> ArrowTable:
        """The Arrow schema of a table, with the columns that are null in every row."""
        if state.delta < 0:
            return pa.schema([(KEY, pa.string()), (HASH, pa.string())])
        schema = schema_of(self.opened(table, state))
        kinds = dict(zip(schema.names, schema.types, strict=True))
        return pa.schema([(name, kinds.get(name, pa.null())) for name in state.schema])

    def heal(self, table: TableName, state: TableState) -> None:
        """Take a commit that was never finished out of a Delta table.

        What another program committed stays, for the next commit to refuse.
        """
        newest = newest_entry(self.folder / table)
        if newest not in (-1, state.delta):
            files, schema = self.files(table, state), self.schema(table, state)
            with suppress(RecordsError):
                bring(self.folder / table, files, schema)


def read_parts(
    parts: Iterable[LivePart], schema: ArrowTable, columns: Sequence[str] | None
) -> Iterator[ArrowTable]:
    """Rows of parts that count, a part at a time, all with the same schema.

    Raises:
        RecordsError: The table has no such column.
        StoreError: A file is damaged.
    """
    chosen = schema if columns is None else None
    for part in parts:
        if chosen is None:
            chosen = _chosen(schema, columns or ())
        if part.live is not None and not part.live.any():
            continue
        rows = read_file(part.path, chosen.names)
        if not rows.num_columns:
            rows = pa.table({"": pa.nulls(part.rows)})
        if part.live is not None:
            rows = rows.filter(pa.array(part.live))
        if rows.num_rows:
            yield fit_rows(rows, chosen)


def _chosen(schema: ArrowTable, columns: Sequence[str]) -> ArrowTable:
    for name in columns:
        if name not in schema.names:
            raise RecordsError(
                f"the table has no column {name!r}", hint=suggest_name(name, schema.names)
            )
    return pa.schema([schema.field(name) for name in columns])
