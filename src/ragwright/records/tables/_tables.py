"""Versioned tables of records: four Delta tables, and one small manifest for each version.

The folder, which any program that reads Delta tables can read::

    manifests/00000012.json   version 12 of all tables: a version of each Delta table
    bronze/                   rows as they came            (see _seams for the columns)
    silver/                   cleaned and tagged
    gold/                     assembled
    left_out/                 rows that went no further, and why
    lock                      held by the one who writes
    README.md                 how to read all this without ragwright

Delta commits one table at a time. So a writer commits to the Delta tables and then gives a new
manifest its name: that rename is the commit for all tables at once. Whoever is killed before it
leaves commits and files that no manifest names; the next writer takes them back. The newest
``keep`` versions can be read and gone back to; older manifests, and files that only they need, are
deleted after a commit.

Folders have the mode 0700, files 0600.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from ...core import RecordsError, StoreError, csv_cell, csv_formula, replace_text, replacing
from ...ledger import FileLock
from .._seams import TABLES, ArrowTable, TableName, compute, csv_files, pa, parquet
from ._files import AFRESH, OURS, LivePart, Versions, count_keys, read_parts
from ._types import (
    MANIFESTS,
    Manifest,
    TableState,
    cast_text,
    delete_manifest,
    errors_named,
    iso_text,
    make_gone_error,
    owner_only,
    read_manifest,
    readable,
    versions,
)
from ._writing import Changes, TableWriter, find_changed_parts

_BUSY = "the tables of records are being written"

_README = """\
# Tables of records

Written by ragwright. `bronze`, `silver`, `gold` and `left_out` are Delta tables:

    deltalake.DeltaTable("gold").to_pandas()      # at an earlier version: ("gold", version=3)
    polars.read_delta("gold")
    duckdb: SELECT * FROM delta_scan('gold')
    spark.read.format("delta").load("gold")

`manifests/NNNNNNNN.json` names the versions of the four tables that belong together
(`tables.gold.delta`); the highest number is the newest. While a refresh writes, or after one was
killed, a Delta table may be ahead of the newest manifest.

Do not write here: add or change rows with `ragwright records refresh`. A table that another program
changed, also by OPTIMIZE or VACUUM, is refused.
"""


class RecordTables:
    """The tables bronze, silver, gold and left_out of a project, in versions.

    Args:
        folder: Where they are; made by the first writing.
        keep: Versions that can be read and gone back to, the newest included.
    """

    def __init__(self, folder: Path, keep: int = 20) -> None:
        self._folder = Path(folder).absolute()
        self._keep = max(1, keep)
        self._versions = Versions(self._folder)

    @property
    def folder(self) -> Path:
        """The folder of the tables."""
        return self._folder

    @property
    def version(self) -> int:
        """Number of the newest version; 0 where there is none yet."""
        numbers = versions(self._folder)
        return numbers[-1] if numbers else 0

    def manifest(self, version: int | None = None) -> Manifest:
        """A version of the tables, the newest where none is named.

        Raises:
            SnapshotGoneError: It is not kept.
            SchemaVersionError: Another version of ragwright wrote it.
            StoreError: Its file is damaged.
        """
        version = self.version if version is None else version
        if not version and not versions(self._folder):
            return Manifest()
        return read_manifest(self._folder, version)

    def history(self) -> tuple[Manifest, ...]:
        """Versions that are kept, the newest first."""
        return tuple(
            read_manifest(self._folder, version) for version in reversed(versions(self._folder))
        )

    def rows(self, table: TableName, version: int | None = None) -> int:
        """Rows of a table."""
        return self._state(table, version).rows

    def read(
        self,
        table: TableName,
        columns: Sequence[str] | None = None,
        version: int | None = None,
    ) -> Iterator[ArrowTable]:
        """Rows of a table, a file at a time, always in the same order and with one schema.

        Args:
            table: Which.
            columns: Which columns, in this order; all where None.
            version: Which version; the newest where None.

        Raises:
            RecordsError: The column does not exist.
            SnapshotGoneError: The version is not kept, or went while it was read.
        """
        number = self.version if version is None else version
        self._state(table, number)  # an unknown table or version is an error of this call
        return self._rows(table, number, columns)

    def _rows(
        self,
        table: TableName,
        version: int,
        columns: Sequence[str] | None = None,
        parts: Iterable[LivePart] | None = None,
    ) -> Iterator[ArrowTable]:
        state = self._state(table, version)
        with self._there(version):
            if parts is None:
                parts = self._versions.parts(table, state)
            if state.rows:
                yield from read_parts(parts, self._versions.schema(table, state), columns)

    def changes(self, table: TableName, since: int, version: int | None = None) -> Changes:
        """The differences between two versions of a table; reads files that only one of them has.

        Args:
            table: Which.
            since: The earlier version.
            version: The later one, the newest where None.

        Raises:
            SnapshotGoneError: One of them is not kept.
        """
        number = self.version if version is None else version
        with self._there(since):
            before, now = self.live(table, since), self.live(table, number)
            parts, gone_keys = find_changed_parts(before, now)
        return Changes(self._rows(table, number, parts=parts), gone_keys)

    def live(self, table: TableName, version: int | None = None) -> tuple[LivePart, ...]:
        """Files of a table in order."""
        number = self.version if version is None else version
        state = self._state(table, number)
        with self._there(number):
            return self._versions.parts(table, state)

    def schema(self, table: TableName, version: int | None = None) -> ArrowTable:
        """The Arrow schema of a table."""
        return self._versions.schema(table, self._state(table, version))

    def files(self, version: int) -> set[str]:
        """The Parquet files of a version, below the folder."""
        return {
            f"{table}/{name}"
            for table, state in self.manifest(version).tables.items()
            for name in self._versions.files(table, state)
        }

    @contextmanager
    def writing(self, holder: str, wait: float = 600.0) -> Iterator[TableWriter]:
        """Write: one writer at a time, and nothing counts before its commit.

        Args:
            holder: What is being done, for messages to waiting processes.
            wait: Seconds to wait for another writer.

        Raises:
            StoreBusyError: Another writer holds the tables for longer; the message names it.
            StoreFullError: The disk is full; what was committed before is intact.
            StoreError: The folder cannot be written.
        """
        with errors_named(self._folder):
            self._make()
            with FileLock(self._folder / "lock", holder, wait=wait, busy=_BUSY):
                head = self.manifest()
                self._take_back(head)
                writing = TableWriter(self._versions, head)
                try:
                    yield writing
                finally:
                    writing.closed = True
                    # what cannot be deleted now is the next writer's to delete
                    with suppress(OSError, StoreError):
                        self._take_back(self.manifest())
                        self._delete_unneeded()

    def forget(self, keys: Sequence[str], *, holder: str = "forget", wait: float = 600.0) -> int:
        """Delete the rows of some keys from every table and every version; how many there were.

        No earlier version can be gone back to afterwards: all of them are deleted, since they
        may hold the rows. The next refresh makes gold anew, so that a row that was left out as
        the duplicate of one of them gets its place. Where a key is nowhere nothing is touched.

        Raises:
            StoreBusyError: Another writer holds the tables for longer than ``wait`` seconds.
        """
        if not self.version:
            return 0
        with self.writing(holder, wait) as writing:
            rows = sum(count_keys(path, keys) for path in self._files_on_disk())
            if not rows:
                return 0
            for table in TABLES:
                writing.remove(table, keys)
            lineage = {**self.manifest().lineage, "gold": "", "left_out": None}
            writing.commit(lineage, "forget")
            for version in versions(self._folder)[:-1]:
                delete_manifest(self._folder, version)
            self._delete_unneeded()
        return rows

    def _state(self, table: TableName, version: int | None) -> TableState:
        if table not in TABLES:
            raise RecordsError(f"unknown table {table!r}", hint=f"known: {', '.join(TABLES)}")
        return self.manifest(version).tables[table]

    @contextmanager
    def _there(self, version: int) -> Iterator[None]:
        """The error for a missing file, deleted with its version or by another program."""
        try:
            yield
        except FileNotFoundError as error:
            if version not in versions(self._folder):
                raise make_gone_error(self._folder, version) from error
            raise StoreError(
                f"a file of version {version} is missing",
                where=str(error.filename or self._folder),
                hint=AFRESH,
            ) from error

    def _make(self) -> None:
        for folder in (self._folder, *(self._folder / name for name in (*TABLES, MANIFESTS))):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        readme = self._folder / "README.md"
        if not readme.exists():
            with suppress(FileExistsError), open(readme, "x", opener=owner_only) as file:
                file.write(_README)

    def _files_on_disk(self) -> list[Path]:
        """Files that some writing made, whether or not a version needs them."""
        folders = (self._folder / table for table in TABLES)
        return sorted(p for each in folders for p in each.iterdir() if OURS.fullmatch(p.name))

    def _take_back(self, head: Manifest) -> None:
        """Undo what writings that were never finished have done after a version."""
        for table, state in head.tables.items():
            self._versions.heal(table, state)
        for draft in (self._folder / MANIFESTS).glob("*.draft"):
            draft.unlink(missing_ok=True)
        for path in self._files_on_disk():
            match = OURS.fullmatch(path.name)
            if path.suffix == ".part" or (match and int(match["writer"]) > head.version):
                path.unlink(missing_ok=True)

    def _delete_unneeded(self) -> None:
        """Delete versions beyond those kept, then every file that no kept version needs.

        Whoever is killed here leaves files, which the next writer deletes. With a damaged manifest
        no file is deleted: it may be mended.
        """
        for number in versions(self._folder)[: -self._keep]:
            delete_manifest(self._folder, number)
        needed = set[str]().union(*map(self.files, versions(self._folder)))
        for path in self._files_on_disk():
            if f"{path.parent.name}/{path.name}" not in needed:
                path.unlink(missing_ok=True)


_FILE = "source.json"


class SourceState:
    """Stamp and watermark of the last reading, valid for one version of the tables.

    Lost or old, it costs a reading of the whole source and nothing else.
    """

    def __init__(self, version: int = 0, stamp: str = "", watermark: str = "") -> None:
        self._version = version
        self._stamp = stamp
        self.watermark = watermark

    @classmethod
    def load(cls, tables: RecordTables) -> SourceState:
        """The stored state of the source; empty if the tables changed since."""
        try:
            stored = json.loads(_path(tables).read_text("utf-8"))
            state = cls(int(stored["version"]), str(stored["stamp"]), str(stored["watermark"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls()
        return state if state._version == tables.version else cls()

    def seen(self, stamp: str) -> bool:
        """True if the source is unchanged since it was last read."""
        return bool(stamp) and stamp == self._stamp

    def read(self, stamp: str, watermark: str) -> None:
        """The source was read up to here."""
        self._stamp, self.watermark = stamp, watermark

    def save(self, tables: RecordTables) -> None:
        """Keep it for the version that the tables have now."""
        path = _path(tables)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"version": tables.version, "stamp": self._stamp, "watermark": self.watermark}
        replace_text(path, json.dumps(kept), private=True)


def _path(tables: RecordTables) -> Path:
    return tables.folder / _FILE


_Write: TypeAlias = Callable[[Iterable[ArrowTable], IO[bytes]], int]


def export_table(
    tables: RecordTables,
    table: TableName,
    path: Path,
    columns: Sequence[str] | None = None,
    version: int | None = None,
) -> int:
    """Write the rows of a table to one file, a part in memory at a time; how many there were.

    The suffix says the format: ``.parquet``; ``.csv`` (UTF-8, lists as JSON); ``.jsonl`` (dates
    as ISO 8601, numbers that are none as null). Outside of Parquet bytes are hexadecimal digits,
    and durations are as ISO 8601 has them. The file gets its name only when it is complete.

    Raises:
        RecordsError: No such suffix or column.
        StoreFullError: The disk is full; a file that was there before is as it was.
        StoreError: The file cannot be written.
        SnapshotGoneError: The version is not kept.
    """
    write = _FORMATS.get(path.suffix.lower())
    if write is None:
        raise RecordsError(
            f"no format for the suffix {path.suffix!r}",
            where=str(path),
            hint=f"known: {', '.join(_FORMATS)}",
        )
    with _replaced_file(path) as file:
        return write(tables.read(table, columns, version), file)


def export_chats(
    tables: RecordTables,
    path: Path,
    request: Callable[[Mapping[str, Any]], str],
    system: str = "",
    version: int | None = None,
) -> int:
    """Write gold rows as chats, one a line: ``{"messages": [user turn, assistant turn]}``.

    Args:
        tables: Whose table gold.
        path: File to write, JSON lines.
        request: Makes the user turn from a row; the assistant's is the row's ``text``.
        system: Put before both as a system turn, unless empty.
        version: Which version; the newest where None.

    Raises:
        StoreError: The file cannot be written; as of :func:`export_table`.
    """
    first = [{"role": "system", "content": system}] if system else []

    def lines(rows: Iterable[ArrowTable]) -> Iterator[bytes]:
        for batch in rows:
            for row in batch.to_pylist():
                turns = [
                    *first,
                    {"role": "user", "content": request(row)},
                    {"role": "assistant", "content": row["text"]},
                ]
                yield json.dumps({"messages": turns}, ensure_ascii=False).encode() + b"\n"

    count = 0
    with _replaced_file(path) as file:
        for line in lines(tables.read("gold", None, version)):
            file.write(line)
            count += 1
    return count


@contextmanager
def _replaced_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of another only when all of it is on the disk."""
    path = path.absolute()
    if not path.parent.is_dir() or path.is_dir():
        raise StoreError(
            "the file cannot be written", where=str(path), hint="give a file in an existing folder"
        )
    with errors_named(path.parent), replacing(path) as file:
        yield file


def _parquet(rows: Iterable[ArrowTable], file: IO[bytes]) -> int:
    count = 0
    writer = None
    try:
        for batch in rows:
            if writer is None:
                writer = parquet.ParquetWriter(file, batch.schema, compression="zstd")
            writer.write_table(batch)
            count += batch.num_rows
        if writer is None:
            parquet.write_table(pa.table({}), file)
    finally:
        if writer is not None:
            writer.close()
    return count


def _csv(rows: Iterable[ArrowTable], file: IO[bytes]) -> int:
    count = 0
    writer = None
    try:
        for batch in rows:
            flat = _flat(batch)
            if writer is None:
                writer = csv_files.CSVWriter(file, flat.schema)
            writer.write_table(flat)
            count += flat.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count


def _flat(rows: ArrowTable) -> ArrowTable:
    """Rows with columns that a CSV file can hold; what it cannot is text."""
    rows = readable(_guarded(rows))
    for at, column in enumerate(rows.schema):
        kind = column.type
        plain = pa.types.is_primitive(kind) or pa.types.is_string(kind)
        if pa.types.is_nested(kind):
            values = (_nested(value) for value in rows.column(at).to_pylist())
            rows = rows.set_column(at, column.name, pa.array(values, pa.large_string()))
        elif not plain and not pa.types.is_large_string(kind):
            rows = rows.set_column(at, column.name, cast_text(rows.column(at)))
    return rows


def _guarded(rows: ArrowTable) -> ArrowTable:
    """Rows whose texts and names no spreadsheet runs as formulas."""
    for at, column in enumerate(rows.schema):
        values = rows.column(at)
        if pa.types.is_dictionary(column.type):
            values = values.cast(column.type.value_type)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            # Few columns hold such a text: those that do pass through Python.
            first_formula = compute.index(
                compute.match_substring_regex(values, csv_formula()), True
            )
            if first_formula.as_py() >= 0:
                texts = [None if text is None else csv_cell(text) for text in values.to_pylist()]
                rows = rows.set_column(at, column.name, pa.array(texts, values.type))
    return rows.rename_columns([csv_cell(name) for name in rows.column_names])


def _nested(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=iso_text)


def _jsonl(rows: Iterable[ArrowTable], file: IO[bytes]) -> int:
    count = 0
    for batch in rows:
        for row in readable(batch).to_pylist():
            file.write(_line(row))
            count += 1
    return count


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=iso_text)
    except ValueError:  # not a number, or infinite: JSON has no word for it
        text = json.dumps(_finite(row), ensure_ascii=False, default=iso_text)
    return text.encode("utf-8", "replace") + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return value


_FORMATS: dict[str, _Write] = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}
