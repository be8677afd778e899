"""One write to the tables: files are added, rows deleted, and one commit makes it visible."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core import DuplicateKeyError, RecordsError, StoreError, canonical_json
from .._seams import HASH, KEY, TABLES, ArrowTable, TableName, UpsertCounts, pa
from ._files import (
    Flags,
    KeyIndex,
    LivePart,
    Versions,
    bring,
    has_schema,
    keys_of,
    place_of,
    read_file,
    read_parts,
    write_part,
)
from ._types import (
    Manifest,
    TableState,
    delta_rows,
    fit_rows,
    join_schemas,
    now,
    sync_folder,
    write_manifest,
)

TARGET_ROWS = 16_384
"""Rows of a file that joins small ones, at most."""

_SMALL_ROWS = TARGET_ROWS // 4
_MANY = 8
"""So many small neighbours become one file."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of a table while it is written.

    Attributes:
        name: Its name in the folder of the table.
        rows: Its rows, dead ones included.
        schema: Its Arrow schema.
    """

    name: str
    rows: int
    schema: ArrowTable


class _OpenTable:
    """A table while it is written: its parts, its rows one after the other, which are alive."""

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self.folder = folder
        self.parts: list[_Part] = []
        self.index = KeyIndex()
        for name in files:
            rows = keys_of(folder / name)
            self.parts.append(_Part(name, len(rows.keys), rows.schema))
            self.index.add(rows.keys, rows.hashes, np.ones(len(rows.keys), np.bool_))
        self.base = len(self.parts)
        self.base_rows = self.index.rows
        self.starts = [0, *itertools.accumulate(part.rows for part in self.parts)]

    def dead(self, at: int) -> Flags:
        """The mask of the dead rows of a part."""
        return self.index.dead(self.starts[at], self.starts[at + 1])

    @property
    def changed(self) -> bool:
        """True where an older row died or a new one is alive."""
        dead = int(np.count_nonzero(self.index.dead(0, self.base_rows)))
        return dead > 0 or len(self.index) > self.base_rows - dead

    def standing(self, first: int = 0) -> list[tuple[_Part, Flags]]:
        """Parts from the given one on that have a row alive, and which of their rows are."""
        masks = ((part, ~self.dead(at)) for at, part in enumerate(self.parts[first:], first))
        return [(part, live) for part, live in masks if live.any()]

    def live(self, first: int = 0) -> tuple[LivePart, ...]:
        """The same as files."""
        return tuple(
            LivePart(self.folder / part.name, part.rows, None if live.all() else live)
            for part, live in self.standing(first)
        )


class TableWriter:
    """The writer's hand on the tables; :meth:`Tables.writing` gives it.

    Nothing of it is seen by readers before :meth:`commit`, and nothing is left of it where that
    is not called. Not for several threads at once.
    """

    def __init__(self, versions: Versions, head: Manifest) -> None:
        self._versions = versions
        self._folder = versions.folder
        self._head = head
        self._open: dict[TableName, _OpenTable] = {}
        self._named: set[Path] = set()
        self._numbers = itertools.count(1)
        self.closed = False

    def known(self, table: TableName) -> KeyIndex:
        """The rows of a table, to compare others with; it follows what is adopted and removed."""
        return self._table(table).index

    def new_part(self, table: TableName) -> Path:
        """A name for a new Parquet file of a table; whoever writes it, :meth:`adopt` takes it in.

        The names of one writing differ from those of any other, so that a worker that outlives
        its driver spoils nothing.
        """
        self._check()
        place = f"{self._head.version + 1:08d}-{next(self._numbers):05d}"
        path = self._new_file(table, place)
        self._named.add(path)
        return path

    def adopt(self, table: TableName, path: Path) -> UpsertCounts:
        """Rows of a written file join a table; older rows of equal key die.

        A row whose key the table holds with the same hash is unchanged: the older one stays.

        Raises:
            DuplicateKeyError: Two rows of this writing have one key; the table is as it was.
            RecordsError: The file lacks ``record_key`` or ``record_hash``, or one is empty.
            StoreError: The file is no Parquet file, or not one that :meth:`new_part` named.
        """
        self._check()
        if path not in self._named:
            raise StoreError(
                "a file that does not belong to this write", where=str(path), hint="use new_part()"
            )
        if not path.exists():
            raise StoreError(
                "a file that a worker should have written is missing",
                where=str(path),
                hint="keep the project folder on a disk that all machines of the cluster share",
            )
        self._named.remove(path)
        open_table = self._table(table)
        rows = keys_of(path)
        keys = rows.keys.to_pylist()
        positions = open_table.index.find(keys)
        met = {keys[at] for at in np.flatnonzero(positions >= open_table.base_rows)}
        for key in keys:
            if key in met:
                raise DuplicateKeyError(
                    f"the key {key!r} occurs twice",
                    where=f"table {table}",
                    hint="use a unique key, or set on_duplicate: first or last",
                )
            met.add(key)
        new, changed = open_table.index.compare(keys, rows.hashes)
        same = ~new & ~changed
        counts = UpsertCounts(int(new.sum()), int(changed.sum()), int(same.sum()))
        if same.all():
            path.unlink()
            return counts
        path.chmod(0o600)
        open_table.index.kill(positions[changed])
        open_table.index.add(keys, rows.hashes, ~same)
        open_table.parts.append(_Part(path.name, len(keys), rows.schema))
        open_table.starts.append(open_table.index.rows)
        return counts

    def add(self, table: TableName, rows: ArrowTable) -> UpsertCounts:
        """Write rows to a new file and :meth:`adopt` it."""
        path = self.new_part(table)
        write_part(rows, path)
        return self.adopt(table, path)

    def remove(self, table: TableName, keys: ArrowTable | Sequence[str]) -> int:
        """Rows of these keys leave a table; how many did."""
        self._check()
        index = self._table(table).index
        positions = np.unique(index.find(keys))
        positions = positions[positions >= 0]
        index.kill(positions)
        return len(positions)

    def opened(self, table: TableName) -> bool:
        """True if the keys of a table were looked at, as every change of it does."""
        return table in self._open

    def live(self, table: TableName) -> tuple[LivePart, ...]:
        """Files of a table and their rows alive, as they are now."""
        if table not in self._open:  # its keys need not be known for that
            return self._versions.parts(table, self._state(table))
        return self._table(table).live()

    def adopted(self, table: TableName) -> tuple[LivePart, ...]:
        """Files that this writing adopted, and their rows alive."""
        if table not in self._open:
            return ()
        open_table = self._open[table]
        return open_table.live(open_table.base)

    def rows(self, table: TableName) -> int:
        """Rows alive, as they are now."""
        if table not in self._open:
            return self._state(table).rows
        return len(self._table(table).index)

    def columns(self, table: TableName) -> tuple[str, ...]:
        """Columns that a file of a table with a row alive has, each once."""
        if table not in self._open:
            return tuple(self._state(table).schema)
        return tuple(self._schema(table).names)

    def read(self, table: TableName, columns: Sequence[str] | None = None) -> Iterator[ArrowTable]:
        """Rows alive as they are now, a part at a time.

        Raises:
            RecordsError: No part has such a column.
        """
        live = self.live(table)
        if not live:
            return iter(())
        if table in self._open:
            return read_parts(live, self._schema(table), columns)
        return read_parts(live, self._versions.schema(table, self._state(table)), columns)

    def commit(self, lineage: Mapping[str, Any], note: str) -> int:
        """Make it the newest version of all tables, and say its number; ends the writing.

        Where neither a row nor the lineage changed nothing is written, and the number is that
        of the version there was.
        """
        self._check()
        lineage = json.loads(canonical_json(lineage))
        changed = {table for table, open_table in self._open.items() if open_table.changed}
        if changed or lineage != self._head.lineage or not self._head.version:
            states = {
                table: self._committed(table)
                if table in changed or self._head.tables[table].delta < 0
                else self._head.tables[table]
                for table in TABLES
            }
            self._write(Manifest(0, "", note, lineage, states))
        self.closed = True
        return self._head.version

    def _write(self, manifest: Manifest) -> None:
        manifest = replace(manifest, version=self._head.version + 1, created=now())
        write_manifest(self._folder, manifest)
        self._head = manifest

    def _committed(self, table: TableName) -> TableState:
        """A table's state with what this writing changed; its Delta table has a new version."""
        schema = self._schema(table)
        parts = self._kept(table, schema)
        sync_folder(self._folder / table)
        files = {part.name: part.rows for part in parts}
        delta = bring(self._folder / table, files, schema)
        kinds = {column.name: str(column.type) for column in schema}
        return TableState(delta, sum(part.rows for part in parts), kinds)

    def _schema(self, table: TableName) -> ArrowTable:
        """The Arrow schema of the parts of an open table that have a row alive."""
        empty = pa.schema([(KEY, pa.string()), (HASH, pa.string())])
        parts = [part for part, _ in self._table(table).standing()]
        # Many parts have one schema; comparing each is slower than joining the different ones.
        different = {str(part.schema): part.schema for part in parts}
        return join_schemas(different.values()) if parts else empty

    def _kept(self, table: TableName, schema: ArrowTable) -> list[_Part]:
        """Parts without dead rows and with the types of the table; small neighbours are joined."""
        state = self._head.tables[table]
        moved = state.delta >= 0 and not has_schema(self._versions.opened(table, state), schema)

        def kept(group: Sequence[tuple[_Part, Flags]]) -> _Part:
            part, live = group[0]
            whole = len(group) == 1 and live.all() and _fits(part.schema, schema)
            if whole and not (moved and part.name in held):
                return part
            path = self._new_file(table, place_of(part.name))
            if whole:  # a file has one schema: under another, the table needs another name for it
                _copy(self._folder / table / part.name, path)
                return replace(part, name=path.name)
            return self._rewritten(table, group, schema, path)

        open_table = self._table(table)
        held = self._versions.files(table, state)
        with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            parts = list(pool.map(kept, _groups(open_table.standing())))
        names = {part.name for part in parts}
        for part in open_table.parts[open_table.base :]:  # nobody but this writing knows them
            if part.name not in names:
                (self._folder / table / part.name).unlink(missing_ok=True)
        return parts

    def _rewritten(
        self,
        table: TableName,
        group: Sequence[tuple[_Part, Flags]],
        schema: ArrowTable,
        path: Path,
    ) -> _Part:
        """The rows alive of some neighbours as one new file."""
        names = {name for part, _ in group for name in part.schema.names}
        there = pa.schema([column for column in schema if column.name in names])
        rows = pa.concat_tables(
            fit_rows(
                delta_rows(read_file(self._folder / table / part.name).filter(pa.array(live))),
                there,
            )
            for part, live in group
        )
        write_part(rows, path)
        return _Part(path.name, rows.num_rows, there)

    def _table(self, table: TableName) -> _OpenTable:
        state = self._state(table)
        if table not in self._open:
            files = list(self._versions.files(table, state))
            self._open[table] = _OpenTable(self._folder / table, files)
        return self._open[table]

    def _state(self, table: TableName) -> TableState:
        """The table as it was when this writing began."""
        self._check()
        if table not in TABLES:
            raise RecordsError(f"unknown table {table!r}", hint=f"known: {', '.join(TABLES)}")
        return self._head.tables[table]

    def _new_file(self, table: TableName, place: str) -> Path:
        writer = f"{self._head.version + 1:08d}-{secrets.token_hex(4)}"
        return self._folder / table / f"{place}-{writer}.parquet"

    def _check(self) -> None:
        if self.closed:
            raise StoreError("this writing has ended", where=str(self._folder))


def _fits(part: ArrowTable, schema: ArrowTable) -> bool:
    """True where a part has the types of the table in all its columns."""
    return all(schema.field(column.name).type.equals(column.type) for column in part)


def _groups(standing: Sequence[tuple[_Part, Flags]]) -> Iterator[Sequence[tuple[_Part, Flags]]]:
    """Parts in order: alone, or with the small neighbours that they are joined with."""
    run: list[tuple[_Part, Flags]] = []
    rows = 0
    for part, live in standing:
        count = int(np.count_nonzero(live))
        if run and (count >= _SMALL_ROWS or rows + count > TARGET_ROWS):
            yield from _joined(run)
            run, rows = [], 0
        if count >= _SMALL_ROWS:
            yield [(part, live)]
        else:
            run.append((part, live))
            rows += count
    yield from _joined(run)


def _joined(
    run: Sequence[tuple[_Part, Flags]],
) -> Iterator[Sequence[tuple[_Part, Flags]]]:
    if len(run) >= _MANY:
        yield run
    else:
        yield from ([part] for part in run)


def _copy(path: Path, target: Path) -> None:
    """Copy a file, on the disk; it gets its name when it is whole."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(16)}.part")
    shutil.copyfile(path, draft)
    draft.chmod(0o600)
    sync_folder(draft)
    draft.replace(target)


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between two versions of a table.

    Attributes:
        rows: Rows of the newer one that the older one lacks, or has with another hash; once.
        gone: Keys of the older one that the newer one lacks.
    """

    rows: Iterator[ArrowTable]
    gone: tuple[str, ...]


def find_changed_parts(
    before: Sequence[LivePart], now: Sequence[LivePart]
) -> tuple[list[LivePart], tuple[str, ...]]:
    """The parts of now with only those rows alive that differ, and the keys that are gone."""
    left = _beyond(before, now)
    came = _beyond(now, before)
    lost = _index(left)
    there = _index(came)
    gone: list[str] = []
    for part in left:
        rows = keys_of(part.path)
        missing, _ = there.compare(rows.keys, rows.hashes)
        gone += rows.keys.filter(_mask(missing)).to_pylist()
    return [_differing(part, lost) for part in came], tuple(sorted(gone))


def _beyond(parts: Sequence[LivePart], others: Sequence[LivePart]) -> list[LivePart]:
    """Parts that the others lack."""
    paths = {part.path for part in others}
    return [part for part in parts if part.path not in paths]


def _index(parts: Sequence[LivePart]) -> KeyIndex:
    """The rows of some files."""
    index = KeyIndex()
    for part in parts:
        rows = keys_of(part.path)
        index.add(rows.keys, rows.hashes, np.ones(part.rows, np.bool_))
    return index


def _differing(part: LivePart, lost: KeyIndex) -> LivePart:
    """A part, alive the rows alone that the other version had not."""
    rows = keys_of(part.path)
    new, changed = lost.compare(rows.keys, rows.hashes)
    return replace(part, live=new | changed)


def _mask(rows: Any) -> ArrowTable:
    return pa.array(rows)
