"""One write to the Delta tables: rows are merged, and one manifest makes it visible."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ..core import RecordsError, StoreError, canonical_json, replace_text, suggest_name
from ..ledger import file_error
from ._seams import HASH, KEY, TABLES, ArrowTable, TableName, compute, delta_errors, deltalake, pa
from .sources import common_type, text_of

SCHEMA_VERSION = 3

_AGAIN = (
    "restore it from a backup, or move the folder of the tables away and run: "
    "ragwright records refresh"
)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table in one version.

    Attributes:
        delta: Version of its Delta table; -1 before the first commit.
        rows: Its rows.
        files: Names of its Parquet files.
    """

    delta: int = -1
    rows: int = 0
    files: tuple[str, ...] = ()


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

    @property
    def files(self) -> set[str]:
        """The Parquet files of all tables, below their folder."""
        return {f"{table}/{name}" for table, state in self.tables.items() for name in state.files}


_BATCH = 16_384


def read_delta(
    folder: Path,
    version: int,
    columns: Sequence[str] | None = None,
    keys: Iterable[str] | None = None,
) -> Iterator[ArrowTable]:
    """Rows of a version of a Delta table, some thousands at a time; -1 has none.

    Raises:
        RecordsError: The table has no such column.
        StoreError: A file is damaged or missing.
    """
    if version < 0:
        return
    with errors_named(folder):
        data = deltalake.DeltaTable(str(folder), version=version).to_pyarrow_dataset()
        names = data.schema.names if columns is None else list(columns)
        for name in names:
            if name not in data.schema.names:
                raise RecordsError(
                    f"the table has no column {name!r}", hint=suggest_name(name, data.schema.names)
                )
        only = None if keys is None else pa.array(list(keys), pa.string())
        read = list(dict.fromkeys([*names, KEY]))
        for batch in data.to_batches(columns=read, batch_size=_BATCH):
            rows = pa.Table.from_batches([batch])
            if only is not None:
                rows = rows.filter(compute.is_in(rows[KEY], only))
            if rows.num_rows:
                yield rows.select(names)


def read_hashes(rows: Iterable[ArrowTable]) -> dict[str, str]:
    """Hash by key of rows."""
    return {
        key: text
        for batch in rows
        for key, text in zip(batch[KEY].to_pylist(), batch[HASH].to_pylist(), strict=True)
    }


_MOST_WAITING = 250_000
"""Rows of a table that wait in memory to be merged."""


class TableWriter:
    """Writes to the tables; :meth:`RecordTables.writing` gives it.

    Nobody else sees anything of it before :meth:`commit`. Not for several threads at once.

    Attributes:
        notes: Tables that others had changed, for users.
    """

    def __init__(self, folder: Path, head: Manifest) -> None:
        self._folder = folder
        self._head = head
        self._deltas = {table: state.delta for table, state in head.tables.items()}
        self._known: dict[TableName, dict[str, str]] = {}
        self._waiting: dict[TableName, list[ArrowTable]] = {table: [] for table in TABLES}
        self._gone: dict[TableName, set[str]] = {table: set() for table in TABLES}
        self.notes: list[str] = []

    def hashes(self, table: TableName) -> dict[str, str]:
        """Hash by key of the rows that a table has now; not to be changed."""
        if table not in self._known:
            self._known[table] = read_hashes(self.read(table, [KEY, HASH]))
        return self._known[table]

    def read(
        self,
        table: TableName,
        columns: Sequence[str] | None = None,
        keys: Iterable[str] | None = None,
    ) -> Iterator[ArrowTable]:
        """Rows as they are now, in the order in which they came.

        Raises:
            RecordsError: The table has no such column.
        """
        self._merge(table)
        if not self.rows(table):
            return iter(())
        return read_delta(self._folder / table, self._deltas[table], columns, keys)

    def columns(self, table: TableName) -> Sequence[str]:
        """Columns that a row has a value for, as they are now."""
        self._merge(table)
        if self._deltas[table] < 0:
            return ()
        delta = deltalake.DeltaTable(str(self._folder / table), version=self._deltas[table])
        return [column.name for column in delta.schema().fields]

    def rows(self, table: TableName) -> int:
        """Number of rows as they are now."""
        if table in self._known:
            return len(self._known[table])
        return self._head.tables[table].rows

    def upsert(self, table: TableName, rows: ArrowTable) -> tuple[int, ArrowTable]:
        """Rows replace those of equal key and other hash; new ones are inserted.

        Returns:
            How many are new, and the rows that are new or differ.
        """
        known = self.hashes(table)
        keys, texts = rows[KEY].to_pylist(), rows[HASH].to_pylist()
        before = list(map(known.get, keys))
        differs = [old != text for old, text in zip(before, texts, strict=True)]
        rows = rows.filter(pa.array(differs, pa.bool_()))
        if rows.num_rows:
            known.update(zip(keys, texts, strict=True))
            self._gone[table].difference_update(keys)
            self._waiting[table].append(rows)
            if sum(part.num_rows for part in self._waiting[table]) > _MOST_WAITING:
                self._merge(table)
        return before.count(None), rows

    def remove(self, table: TableName, keys: Iterable[str]) -> int:
        """Rows of these keys leave a table; how many did."""
        known = self.hashes(table)
        gone = {key for key in keys if known.pop(key, None) is not None}
        self._gone[table] |= gone
        return len(gone)

    def _merge(self, table: TableName) -> None:
        """Write the Delta table with what waits; of each key the last row stays."""
        if not self._waiting[table] and not self._gone[table]:
            return
        delta = self._own_delta(table)
        before = [] if delta is None else [delta.to_pyarrow_table()]
        parts = [*before, _no_rows(), *map(storable, self._waiting[table])]
        rows = join_rows(parts)
        last = {key: at for at, key in enumerate(rows[KEY].to_pylist())}
        stay = sorted(at for key, at in last.items() if key not in self._gone[table])
        folder = str(self._folder / table)
        deltalake.write_deltalake(
            folder,
            rows.take(pa.array(stay, pa.int64())),
            mode="overwrite",
            schema_mode="overwrite",
            name=table,
            # the log says nothing about values
            configuration={"delta.dataSkippingNumIndexedCols": "0"},
            writer_properties=deltalake.WriterProperties(compression="ZSTD"),
            post_commithook_properties=_keep_logs(),
        )
        self._waiting[table], self._gone[table] = [], set()
        self._deltas[table] = deltalake.DeltaTable(folder).version()

    def _own_delta(self, table: TableName) -> Any:
        """The Delta table as this writing left it, None before the first commit.

        Later versions, of a killed writer or of another program, are taken back.
        """
        folder, mine = self._folder / table, self._deltas[table]
        if not deltalake.DeltaTable.is_deltatable(str(folder)):
            return None
        delta = deltalake.DeltaTable(str(folder))
        if delta.version() == mine:
            return delta
        self.notes.append(
            f"{table}: what another program, or a killed refresh, wrote after version "
            f"{self._head.version} was taken back"
        )
        if mine < 0:
            shutil.rmtree(folder)
            return None
        delta.restore(mine, post_commithook_properties=_keep_logs())
        return delta

    def commit(self, lineage: Mapping[str, Any], note: str) -> int:
        """Make it the newest version of all tables, and say its number.

        If neither a row nor the lineage changed nothing is written, and the number is that of the
        version there was.
        """
        lineage = json.loads(canonical_json(lineage))
        head = self._head
        for table in TABLES:
            if self._deltas[table] < 0:
                self._waiting[table].append(_no_rows())
            with errors_named(self._folder / table):
                self._merge(table)
        deltas = {table: state.delta for table, state in head.tables.items()}
        if head.version and deltas == self._deltas and lineage == head.lineage:
            return head.version
        states = {
            table: head.tables[table]
            if self._deltas[table] == deltas[table]
            else TableState(self._deltas[table], self.rows(table), self._files(table))
            for table in TABLES
        }
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        manifest = Manifest(head.version + 1, created, note, lineage, states)
        path = self._folder / "manifests" / f"{manifest.version:08d}.json"
        content = {"schema_version": SCHEMA_VERSION, **asdict(manifest)}
        replace_text(path, json.dumps(content, ensure_ascii=False, indent=1), private=True)
        self._head = manifest
        return manifest.version

    def _files(self, table: TableName) -> tuple[str, ...]:
        """Names of a table's files, once they and the log are on the disk and their owner's."""
        folder = self._folder / table
        for path in (folder, folder / "_delta_log", *folder.rglob("*")):
            if path.stat().st_mode & 0o077:
                path.chmod(0o700 if path.is_dir() else 0o600)
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        delta = deltalake.DeltaTable(str(folder), version=self._deltas[table])
        return tuple(sorted(Path(uri).name for uri in delta.file_uris()))

    def undo(self) -> None:
        """Take back what was not committed."""
        for table, state in self._head.tables.items():
            if self._deltas[table] != state.delta:
                self._deltas[table] = state.delta
                self._own_delta(table)


def _no_rows() -> ArrowTable:
    return pa.schema([(KEY, pa.string()), (HASH, pa.string())]).empty_table()


def _keep_logs() -> Any:
    """Every commit keeps all log entries, however old: a version that is kept may need them."""
    return deltalake.PostCommitHookProperties(cleanup_expired_logs=False)


_NUMBER = re.compile(r"\(os error (\d+)\)")


@contextmanager
def errors_named(folder: Path) -> Iterator[None]:
    """Turn an error of delta-rs, Arrow or the file system into one with a place and advice.

    Raises:
        StoreFullError: No space is left.
        StoreError: The folder, or something in it, cannot be read or written.
    """
    try:
        yield
    except (delta_errors.DeltaError, pa.ArrowInvalid, OSError) as error:
        number = _NUMBER.search(str(error))
        system = OSError(int(number[1]), os.strerror(int(number[1]))) if number else error
        if isinstance(system, OSError) and system.errno:
            raise file_error(system, folder) from error
        raise StoreError(
            f"a file of the tables cannot be read: {error}", where=str(folder), hint=_AGAIN
        ) from error


def storable(rows: ArrowTable) -> ArrowTable:
    """Rows with types that Delta has, without columns that are null throughout.

    Integers without a sign widen; durations, times of day and other types become text.
    """
    kinds = {
        column.name: _delta_type(column.type)
        for column in rows.schema
        if not pa.types.is_null(column.type)
    }
    return fit_rows(rows, pa.schema(list(kinds.items())))


def _delta_type(kind: Any) -> Any:
    types = pa.types
    if types.is_dictionary(kind):
        return _delta_type(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _delta_type(kind.value_type)
        return pa.list_(inner) if _castable(kind.value_type, inner) else pa.string()
    if types.is_struct(kind):
        inside = [(field.name, field.type, _delta_type(field.type)) for field in kind]
        castable = all(_castable(old, new) for _, old, new in inside)
        return pa.struct([(name, new) for name, _, new in inside]) if castable else pa.string()
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_unsigned_integer(kind):
        return pa.decimal128(20, 0) if types.is_uint64(kind) else pa.int64()
    if types.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_float16(kind):
        return pa.float32()
    if types.is_date(kind):
        return pa.date32()
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return kind if plain else pa.string()


def _castable(old: Any, new: Any) -> bool:
    """True if Arrow converts values within a list or a record to the type without loss."""
    return not pa.types.is_string(new) or _is_text(old)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def join_rows(parts: Sequence[ArrowTable]) -> ArrowTable:
    """Rows of several tables as one; columns without a common type become text."""
    kinds: dict[str, Any] = {}
    for column in chain.from_iterable(part.schema for part in parts):
        before = kinds.setdefault(column.name, column.type)
        if before != column.type:
            kinds[column.name] = _delta_type(common_type(before, column.type))
    schema = pa.schema(list(kinds.items()))
    return pa.concat_tables([fit_rows(part, schema) for part in parts] or [_no_rows()])


def fit_rows(rows: ArrowTable, schema: ArrowTable) -> ArrowTable:
    """Rows with exactly the columns of a schema; those that they lack are null."""
    columns = []
    for column in schema:
        if column.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, column.type))
            continue
        values = rows[column.name]
        if pa.types.is_string(column.type) and not _is_text(values.type):
            if pa.types.is_duration(values.type):
                values = values.cast(pa.duration("us"), safe=False)
            values = pa.array(map(text_of, values.to_pylist()), pa.string())
        try:  # whole numbers of more than 53 bits are no fractions; times lose nanoseconds
            timed = any(word in str(values.type) for word in ("date", "timestamp"))
            columns.append(values.cast(column.type, safe=not timed))
        except pa.ArrowInvalid as error:
            raise RecordsError(
                f"values of the column {column.name!r} have no common type without loss: {error}",
                hint="convert it to text in the source",
            ) from error
    return pa.Table.from_arrays(columns, schema=schema)
