"""Versioned tables of records: four Delta tables, and one small manifest for each version.

The folder, which any program that reads Delta tables can read::

    manifests/00000012.json   version 12 of all tables: a version of each Delta table
    bronze/                   rows as they came            (see _seams for the columns)
    silver/                   cleaned and tagged
    gold/                     assembled
    left_out/                 rows that went no further, and why
    lock                      held by the one who writes
    README.md                 how to read all this without ragwright

Delta commits one table at a time. So a writer merges into the Delta tables and then gives a new
manifest its name: that rename is the commit for all tables at once. Whoever is killed before it
leaves commits that no manifest names; the next writer restores the versions that the newest
manifest names. The newest ``keep`` versions can be read; older manifests, and files that only they
need, are deleted after a commit.

Folders have the mode 0700, files 0600.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

from pydantic_core import to_json

from ..core import (
    RecordsError,
    SchemaVersionError,
    SnapshotGoneError,
    StoreError,
    csv_lines,
    replace_text,
    replacing,
)
from ..ledger import FileLock
from ._delta import (
    SCHEMA_VERSION,
    Manifest,
    TableState,
    TableWriter,
    errors_named,
    read_delta,
    read_hashes,
)
from ._seams import HASH, KEY, TABLES, ArrowTable, TableName, compute, pa, parquet
from .sources import text_of

_MANIFEST = re.compile(r"(\d{8,})\.json")
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

Do not write here: add or change rows with `ragwright records refresh`, which takes back what
another program changed. Do not run VACUUM: it deletes files of versions that are kept.
"""


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between two versions of a table.

    Attributes:
        rows: Rows of the newer one that the older one lacks, or has with another hash; once.
        gone: Keys of the older one that the newer one lacks.
    """

    rows: Iterator[ArrowTable]
    gone: tuple[str, ...]


class RecordTables:
    """The tables bronze, silver, gold and left_out of a project, in versions.

    Args:
        folder: Where they are; made by the first writing.
        keep: Versions that can be read, the newest included.
    """

    def __init__(self, folder: Path, keep: int = 20) -> None:
        self.folder = Path(folder).absolute()
        self._keep = max(1, keep)

    @property
    def version(self) -> int:
        """Number of the newest version; 0 where there is none yet."""
        return max(self._versions(), default=0)

    def _versions(self) -> list[int]:
        """Numbers of the versions there are, ascending."""
        matches = (_MANIFEST.fullmatch(p.name) for p in self.folder.glob("manifests/*.json"))
        return sorted(int(match[1]) for match in matches if match)

    def manifest(self, version: int | None = None) -> Manifest:
        """A version of the tables, the newest where none is named.

        Raises:
            SnapshotGoneError: It is not kept.
            SchemaVersionError: Another version of ragwright wrote it.
            StoreError: Its file is damaged.
        """
        from pydantic import TypeAdapter

        number = self.version if version is None else version
        if not number and not self._versions():
            return Manifest()
        path = self._manifest_file(number)
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["schema_version"] != SCHEMA_VERSION:
                raise SchemaVersionError(
                    f"the tables have schema version {content['schema_version']}; this ragwright "
                    f"reads {SCHEMA_VERSION}",
                    where=str(path),
                    hint=f"move {self.folder} away, then run: ragwright records refresh",
                )
            return TypeAdapter(Manifest).validate_python(
                {name: content[name] for name in Manifest.__dataclass_fields__}
            )
        except FileNotFoundError:
            raise self._gone(number) from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"the manifest of version {number} is damaged: {error!r}",
                where=str(path),
                hint="restore it from a backup, or delete it to return to the version before it",
            ) from error

    def _manifest_file(self, version: int) -> Path:
        return self.folder / "manifests" / f"{version:08d}.json"

    def _gone(self, version: int) -> SnapshotGoneError:
        """The error for a missing version."""
        kept = self._versions()
        return SnapshotGoneError(
            f"version {version} of the tables of records does not exist",
            where=str(self.folder),
            hint=f"available versions: {kept[0]} to {kept[-1]}"
            if kept
            else "no version is stored yet",
        )

    def history(self) -> tuple[Manifest, ...]:
        """Versions that are kept, the newest first."""
        return tuple(map(self.manifest, reversed(self._versions())))

    def rows(self, table: TableName, version: int | None = None) -> int:
        """Rows of a table."""
        return self._state(table, version).rows

    def read(
        self,
        table: TableName,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        keys: Iterable[str] | None = None,
    ) -> Iterator[ArrowTable]:
        """Rows of a table in the order in which they came, some thousands at a time.

        Raises:
            RecordsError: The column does not exist.
            SnapshotGoneError: The version is not kept, or went before it was read.
        """
        number = self.version if version is None else version
        state = self._state(table, number)
        if not state.rows:
            return
        try:
            yield from read_delta(self.folder / table, state.delta, columns, keys)
        except StoreError as error:
            raise error if number in (0, *self._versions()) else self._gone(number) from error

    def changes(self, table: TableName, since: int, version: int | None = None) -> Changes:
        """The differences between two versions of a table, the later one the newest where None.

        Raises:
            SnapshotGoneError: One of them is not kept.
        """
        number = self.version if version is None else version
        before, now = (read_hashes(self.read(table, [KEY, HASH], one)) for one in (since, number))
        differing = [key for key, text in now.items() if before.get(key) != text]
        rows = self.read(table, None, number, differing)
        return Changes(rows, tuple(sorted(before.keys() - now.keys())))

    @contextmanager
    def writing(self, holder: str, wait: float = 600.0) -> Iterator[TableWriter]:
        """Write: one writer at a time, and nothing counts before its commit.

        Raises:
            StoreBusyError: Another writer holds the tables for longer; the message names it.
            StoreFullError: The disk is full; what was committed before is intact.
            StoreError: The folder cannot be written.
        """
        with errors_named(self.folder):
            for name in ("", "manifests", *TABLES):
                (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            if not (self.folder / "README.md").exists():
                replace_text(self.folder / "README.md", _README, private=True)
        busy = "the tables of records are being written"
        with FileLock(self.folder / "lock", holder, wait=wait, busy=busy):
            writer = TableWriter(self.folder, self.manifest())
            try:
                yield writer
            finally:
                # what cannot be deleted now is the next writer's to delete
                with suppress(OSError, StoreError):
                    writer.undo()
                    self._delete_unneeded(self._versions()[: -self._keep])

    def forget(self, keys: Sequence[str], *, holder: str = "forget", wait: float = 600.0) -> int:
        """Delete the rows of some keys from every table and every version; how many there were.

        No earlier version can be read afterwards: all of them are deleted, since they may hold the
        rows. The next refresh makes gold anew, so that a row that was left out as the duplicate of
        one of them gets its place. Where a key is nowhere nothing is touched.

        Raises:
            StoreBusyError: Another writer holds the tables for longer than ``wait`` seconds.
        """
        if not self.version:
            return 0
        with self.writing(holder, wait) as writer:
            self._delete_unneeded(())
            wanted = pa.array(keys, pa.string())
            parts = (path for table in TABLES for path in (self.folder / table).glob("part-*"))
            count = sum(
                compute.sum(compute.is_in(_keys_of(path), wanted)).as_py() or 0 for path in parts
            )
            if count:
                for table in TABLES:
                    writer.remove(table, keys)
                lineage = {**self.manifest().lineage, "gold": ""}
                writer.commit(lineage, "forget")
                self._delete_unneeded(self._versions()[:-1])
        return count

    def _state(self, table: TableName, version: int | None) -> TableState:
        if table not in TABLES:
            raise RecordsError(f"unknown table {table!r}", hint=f"known: {', '.join(TABLES)}")
        return self.manifest(version).tables[table]

    def _delete_unneeded(self, versions: Iterable[int]) -> None:
        """Delete versions, then every file that no version needs.

        Whoever is killed here leaves files, which the next writer deletes. With a damaged manifest
        no file is deleted: it may be mended.
        """
        for number in versions:
            self._manifest_file(number).unlink(missing_ok=True)
        needed = set[str]().union(*(manifest.files for manifest in self.history()))
        for path in chain.from_iterable((self.folder / table).glob("part-*") for table in TABLES):
            if f"{path.parent.name}/{path.name}" not in needed:
                path.unlink(missing_ok=True)


def export_table(
    tables: RecordTables,
    table: TableName,
    path: Path,
    columns: Sequence[str] | None = None,
    version: int | None = None,
) -> int:
    """Write the rows of a table to one file; how many there were.

    The suffix says the format: ``.parquet``; ``.csv`` (UTF-8, lists as JSON); ``.jsonl`` (dates
    as ISO 8601, numbers that are none as null). Outside of Parquet bytes are hexadecimal digits.
    The file gets its name only when it is complete.

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
    version: int | None = None,
) -> int:
    """Write gold rows as chats, one a line: ``{"messages": [user turn, assistant turn]}``.

    Raises:
        StoreError: The file cannot be written; as of :func:`export_table`.
    """
    count = 0
    with _replaced_file(path) as file:
        for row in _plain_rows(tables.read("gold", None, version)):
            turns = [
                {"role": "user", "content": request(row)},
                {"role": "assistant", "content": row["text"]},
            ]
            file.write(json.dumps({"messages": turns}, ensure_ascii=False).encode() + b"\n")
            count += 1
    return count


def _keys_of(path: Path) -> ArrowTable:
    return parquet.read_table(path, columns=[KEY])[KEY].cast(pa.string())


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


def _plain_rows(batches: Iterable[ArrowTable]) -> Iterator[dict[str, Any]]:
    return chain.from_iterable(batch.to_pylist() for batch in batches)


def _parquet(batches: Iterable[ArrowTable], file: IO[bytes]) -> int:
    batches = list(batches)
    rows = pa.concat_tables(batches) if batches else pa.table({})
    parquet.write_table(rows, file, compression="zstd")
    return int(rows.num_rows)


def _csv(batches: Iterable[ArrowTable], file: IO[bytes]) -> int:
    count = 0
    for count, row in enumerate(_plain_rows(batches), 1):
        if count == 1:
            file.writelines(line.encode() for line in csv_lines([list(row)]))
        file.writelines(line.encode() for line in csv_lines([[_cell(v) for v in row.values()]]))
    return count


def _cell(value: Any) -> Any:
    """A value of a CSV file; lists and records as JSON, bytes as digits."""
    return text_of(value) if isinstance(value, bool | list | dict | bytes) else value


def _jsonl(batches: Iterable[ArrowTable], file: IO[bytes]) -> int:
    count = 0
    for row in _plain_rows(batches):
        file.write(to_json(row, bytes_mode="hex", inf_nan_mode="null") + b"\n")
        count += 1
    return count


_Write: TypeAlias = Callable[[Iterable[ArrowTable], IO[bytes]], int]
_FORMATS: dict[str, _Write] = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}
