"""Versioned tables of records: immutable Parquet files, and one manifest per version.

The folder, which any tool that reads Parquet can read::

    manifests/00000012.json   version 12 of all tables; the highest number is the newest
    bronze/*.parquet          rows as they came            (see _seams for the columns)
    silver/*.parquet          cleaned and tagged
    gold/*.parquet            assembled
    left_out/*.parquet        rows that went no further, and why
    dead/*.parquet            rows of those files that no longer count (columns part, row)
    lock                      held by the one who writes
    README.md                 how to read all this without ragwright

No file but the lock is ever changed. A version names the files of every table (``parts``, in the
order in which they are read), and for each the file below ``dead`` that lists its dead rows. A
writer adds files that nobody knows yet and then gives a new manifest its name: that rename is
the commit, for all tables at once. Whoever is killed before it leaves files that no manifest
names; the next writer deletes those. The newest ``keep`` versions can be read and gone back to;
older manifests, and files that only they name, are deleted after a commit.

Folders have the mode 0700, files 0600.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ...core import RecordsError, StoreError, require
from ...ledger import FileLock
from .._seams import TABLES, ArrowTable, TableName
from ._changes import Changes, changed_parts
from ._manifest import (
    DEAD,
    MANIFESTS,
    Manifest,
    TableFile,
    TableState,
    delete_manifest,
    gone,
    manifest_stamp,
    owner_only,
    read_manifest,
    told,
    versions,
)
from ._parts import LivePart as LivePart, keys_of, live_parts, read_parts
from ._writing import Writing

_OURS = re.compile(r"\.?\d{8}-\d{5}-[0-9a-f]{8}\b")
"""Names that a writing gives, also while a file is not whole; nothing else is ever deleted."""

_BUSY = "the tables of records are being written"

_MANIFESTS_HELD = 3
"""Manifests kept in memory: those of large tables are large."""

_README = """\
# Tables of records

Written by ragwright; every file is Parquet or JSON and can be read without it.

- `manifests/NNNNNNNN.json`: one version of all tables each; the highest number is the newest.
- In it, `tables.gold.parts` lists the files of the table gold in order (likewise bronze, silver,
  left_out). `rows` of a file count the dead ones too; `dead` says how many are dead, and
  `dead_file` names the file that lists them: columns `part` (the file) and `row` (from 0).
- Columns that a file lacks are null; those named in `as_text` differ in type between files and
  are to be read as text.

With pandas:

    import json, pathlib
    import pandas as pd

    folder = pathlib.Path(".")
    manifest = json.loads(max((folder / "manifests").glob("*.json")).read_text())
    frames = []
    for part in manifest["tables"]["gold"]["parts"]:
        frame = pd.read_parquet(folder / part["file"])
        if part["dead_file"]:
            dead = pd.read_parquet(folder / part["dead_file"])
            frame = frame.drop(index=dead.loc[dead["part"] == part["file"], "row"])
        frames.append(frame)
    gold = pd.concat(frames, ignore_index=True)

With DuckDB, given from the manifest the paths of a table's files (`parts`) and those of the
`dead_file`s that they name (`dead_files`; leave the condition out where there is none):

    SELECT t.* FROM read_parquet($parts, filename = true, file_row_number = true,
                                 union_by_name = true) t
    WHERE NOT EXISTS (SELECT 1 FROM read_parquet($dead_files) d
                      WHERE t.filename LIKE '%' || d.part AND t.file_row_number = d.row)

Daft and Spark read the files the same way: `daft.read_parquet([...])`.

Do not write here: add or change rows with `ragwright records refresh`.
"""


class Tables:
    """The tables bronze, silver, gold and left_out of a project, in versions.

    Args:
        folder: Where they are; made by the first writing.
        keep: Versions that can be read and gone back to, the newest included.
    """

    def __init__(self, folder: Path, keep: int = 20) -> None:
        self._folder = Path(folder).absolute()
        self._keep = max(1, keep)
        self._read: dict[int, tuple[object, Manifest]] = {}
        self._named: dict[int, tuple[object, set[str]]] = {}

    @property
    def folder(self) -> Path:
        """Where the tables are."""
        return self._folder

    @property
    def version(self) -> int:
        """Number of the newest version; 0 where there is none yet."""
        found = versions(self._folder)
        return found[-1] if found else 0

    def manifest(self, version: int | None = None) -> Manifest:
        """A version of the tables, the newest where none is named.

        Raises:
            SnapshotGoneError: It is not kept.
            SchemaVersionError: A newer ragwright wrote it.
            StoreError: Its file is damaged.
        """
        version = self.version if version is None else version
        if not version and not versions(self._folder):
            return Manifest()
        return self._once(version)

    def _once(self, version: int) -> Manifest:
        """A version, read once as long as its file stays the same."""
        stamp = manifest_stamp(self._folder, version)
        found = self._read.get(version)
        if found is None or found[0] != stamp:
            if len(self._read) >= _MANIFESTS_HELD:
                self._read.clear()
            found = self._read[version] = (stamp, read_manifest(self._folder, version))
        return found[1]

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
        return self._rows(number, self._state(table, number), columns)

    def read_live(
        self, table: TableName, live: Sequence[LivePart], version: int
    ) -> Iterator[ArrowTable]:
        """Rows of a version as of :meth:`read`; of each part those that ``live`` says, if any."""
        return self._rows(version, self._state(table, version), None, live)

    def _rows(
        self,
        version: int,
        state: TableState,
        columns: Sequence[str] | None,
        live: Sequence[LivePart] | None = None,
    ) -> Iterator[ArrowTable]:
        with self._there(version):
            if live is None:
                live = live_parts(self._folder, state.parts)
            yield from read_parts(self._folder, state.parts, live, columns)

    def changes(self, table: TableName, since: int, version: int | None = None) -> Changes:
        """The differences between two versions of a table; reads nothing else.

        Args:
            table: Which.
            since: The earlier version.
            version: The later one, the newest where None.

        Raises:
            SnapshotGoneError: One of them is not kept.
        """
        number = self.version if version is None else version
        state = self._state(table, number)
        with self._there(since):
            before = live_parts(self._folder, self._state(table, since).parts)
            now = live_parts(self._folder, state.parts)
            parts, gone = changed_parts(before, now)
        return Changes(self._rows(number, state, None, parts), gone)

    def live(self, table: TableName, version: int | None = None) -> tuple[LivePart, ...]:
        """Files of a table in order, and which of their rows are alive."""
        number = self.version if version is None else version
        state = self._state(table, number)
        with self._there(number):
            return live_parts(self._folder, state.parts)

    @contextmanager
    def writing(self, holder: str, wait: float = 600.0) -> Iterator[Writing]:
        """Write: one writer at a time, and nothing counts before its commit.

        Args:
            holder: What is being done, for messages to waiting processes.
            wait: Seconds to wait for another writer.

        Raises:
            StoreBusyError: Another writer holds the tables for longer; the message names it.
            StoreFullError: The disk is full; what was committed before is intact.
            StoreError: The folder cannot be written.
        """
        with told(self._folder):
            self._make()
            with FileLock(self._folder / "lock", holder, wait=wait, busy=_BUSY):
                writing = Writing(self._folder, self.manifest())
                self._sweep()
                try:
                    yield writing
                finally:
                    writing.closed = True
                    with suppress(OSError):  # what stays is the next writer's to delete
                        self._sweep()

    def restore(self, version: int, *, holder: str = "restore", wait: float = 600.0) -> int:
        """Go back: a new version equal to an old one; its number.

        Raises:
            SnapshotGoneError: The version is not kept.
            StoreBusyError: Another writer holds the tables for longer than ``wait`` seconds.
        """
        with self.writing(holder, wait) as writing:
            return writing.restore(read_manifest(self._folder, version))

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
            files = {part.file for part in self._parts_of_all_versions()}
            found = sum(_holds(self._folder / file, keys) for file in sorted(files))
            if not found:
                return 0
            writing.purge(keys)
            lineage = {**self.manifest().lineage, "gold": ""}
            newest = writing.commit(lineage, "forget")
            for version in versions(self._folder):
                if version != newest:
                    delete_manifest(self._folder, version)
        return found

    def _parts_of_all_versions(self) -> Iterator[TableFile]:
        for version in versions(self._folder):
            for state in self.manifest(version).tables.values():
                yield from state.parts

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
                raise gone(self._folder, version) from error
            raise StoreError(
                f"a file of version {version} is missing",
                where=str(error.filename or self._folder),
                hint="restore it from a backup, or restore an older version",
            ) from error

    def _make(self) -> None:
        for folder in (self._folder, *(self._folder / n for n in (*TABLES, DEAD, MANIFESTS))):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        readme = self._folder / "README.md"
        if not readme.exists():
            with suppress(FileExistsError), open(readme, "x", opener=owner_only) as file:
                file.write(_README)

    def _sweep(self) -> None:
        """Delete versions no longer kept, and files that no kept version names."""
        there = versions(self._folder)
        for version in there[: -self._keep]:
            delete_manifest(self._folder, version)
        for draft in (self._folder / MANIFESTS).glob("*.draft"):
            draft.unlink(missing_ok=True)
        try:
            named = self._needed(there[-self._keep :])
        except StoreError:  # a damaged manifest may be mended: what it names is not known
            return
        for name in (*TABLES, DEAD):
            for path in (self._folder / name).iterdir():
                if f"{name}/{path.name}" not in named and _OURS.match(path.name):
                    with suppress(OSError):
                        path.unlink()

    def _needed(self, kept: Sequence[int]) -> set[str]:
        """Files of some versions."""
        found: dict[int, tuple[object, set[str]]] = {}
        for version in kept:
            stamp = manifest_stamp(self._folder, version)
            known = self._named.get(version)
            if known is None or known[0] != stamp:
                known = (stamp, read_manifest(self._folder, version).files())
            found[version] = known
        self._named = found
        return set[str]().union(*(files for _, files in found.values()))


def _holds(path: Path, keys: Sequence[str]) -> int:
    """How many rows of a file have one of some keys, dead ones included."""
    pa = require("pyarrow", "records", "reading records")
    compute = require("pyarrow.compute", "records", "reading records")
    there = compute.is_in(keys_of(path).keys, value_set=pa.array(list(keys), pa.string()))
    return int(compute.sum(there).as_py() or 0)
