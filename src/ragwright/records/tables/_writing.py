"""One write to the tables: files are added, rows deleted, and one commit makes it visible."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import DuplicateKeyError, RecordsError, StoreError, canonical_json
from .._seams import TABLES, ArrowTable, TableName, UpsertCounts
from ._compact import Standing, rewrite, with_dead_rows, worth_rewriting
from ._known import HashedKeys, KeyIndex, Known, Words, hashed_keys, packed_hashes
from ._manifest import DEAD, Manifest, TableFile, TableState, now, sync_folder, write_manifest
from ._parts import (
    Flags,
    LivePart,
    dead_rows,
    keys_of,
    live_mask,
    live_parts,
    read_parts,
    table_state,
    write_dead_rows,
)


class _OpenTable:
    """A table while it is written: its parts, its rows one after the other, which are alive."""

    def __init__(self, folder: Path, parts: Sequence[TableFile]) -> None:
        self.parts = list(parts)
        self.base = len(parts)
        self.index = KeyIndex()
        self.starts = [0]
        for part in parts:
            self.starts.append(self.starts[-1] + part.rows)
        self.index.fill(_rows_of(folder, parts))
        self.base_rows = self.index.rows

    def dead(self, at: int) -> Flags:
        """Which rows of a part are dead."""
        return self.index.dead(self.starts[at], self.starts[at + 1])

    @property
    def changed(self) -> bool:
        """True where an older row died or a new one is alive."""
        dead = int(np.count_nonzero(self.index.dead(0, self.base_rows)))
        new = self.index.alive - (self.base_rows - dead)
        return new > 0 or dead != sum(part.dead for part in self.parts[: self.base])

    def live(self, folder: Path, first: int = 0) -> tuple[LivePart, ...]:
        """Parts from the given one on that have a row alive."""
        found = []
        for at, part in enumerate(self.parts[first:], first):
            dead = self.dead(at)
            if not dead.all():
                live = ~dead if dead.any() else None
                found.append(LivePart(folder / part.file, part.rows, live))
        return tuple(found)


def _rows_of(folder: Path, parts: Sequence[TableFile]) -> Iterator[tuple[HashedKeys, Words, Flags]]:
    dead = dead_rows(folder, parts)
    for part in parts:
        found = keys_of(folder / part.file)
        mask = live_mask(part.rows, dead.get(part.file))
        live = np.ones(part.rows, np.bool_) if mask is None else mask
        yield hashed_keys(found.keys).take(live), packed_hashes(found.hashes), live


class Writing:
    """The writer's hand on the tables; :meth:`Tables.writing` gives it.

    Nothing of it is seen by readers before :meth:`commit`, and nothing is left of it where that
    is not called. Not for several threads at once.
    """

    def __init__(self, folder: Path, head: Manifest) -> None:
        self._folder = folder
        self._head = head
        self._open: dict[TableName, _OpenTable] = {}
        self._named: set[Path] = set()
        self._numbers = itertools.count(1)
        self._purging = False
        self.closed = False

    def known(self, table: TableName) -> Known:
        """What a table holds, to compare rows with; it follows what is adopted and removed."""
        return Known(self._table(table).index)

    def new_part(self, table: TableName) -> Path:
        """A name for a new Parquet file of a table; whoever writes it, :meth:`adopt` takes it in.

        The names of one writing differ from those of any other, so that a worker that outlives
        its driver spoils nothing.
        """
        self._check()
        path = self._new(table, ".parquet")
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
        hashed, packed = hashed_keys(rows.keys), packed_hashes(rows.hashes)
        found = open_table.index.find(hashed)
        double = np.flatnonzero(found >= open_table.base_rows)
        again = int(double[0]) if len(double) else hashed.repeated()
        if again is not None:
            raise DuplicateKeyError(
                f"the key {rows.keys[again].as_py()!r} occurs twice",
                where=f"table {table}",
                hint="use a unique key, or set on_duplicate: first or last",
            )
        if not len(hashed):
            path.unlink()
            return UpsertCounts()
        held = found >= 0
        same = np.zeros(len(hashed), np.bool_)
        same[held] = (open_table.index.hashes(found[held]) == packed[held]).all(axis=1)
        counts = UpsertCounts(int((~held).sum()), int((held & ~same).sum()), int(same.sum()))
        if same.all():
            path.unlink()
            return counts
        path.chmod(0o600)
        part = TableFile(path.relative_to(self._folder).as_posix(), len(hashed), rows.columns)
        open_table.index.kill(found[held & ~same])
        open_table.index.add(hashed.take(~same), packed, ~same)
        open_table.parts.append(part)
        open_table.starts.append(open_table.index.rows)
        return counts

    def remove(self, table: TableName, keys: ArrowTable | Sequence[str]) -> int:
        """Rows of these keys leave a table; how many did."""
        self._check()
        index = self._table(table).index
        found = np.unique(index.find(hashed_keys(keys)))
        found = found[found >= 0]
        index.kill(found)
        return len(found)

    def purge(self, keys: ArrowTable | Sequence[str]) -> int:
        """Rows of these keys leave every table; how many did.

        The files of the version that :meth:`commit` makes hold no dead row at all, of these keys
        or of others. Versions before it keep theirs for as long as they are kept.
        """
        self._purging = True
        return sum(self.remove(table, keys) for table in TABLES)

    def live(self, table: TableName) -> tuple[LivePart, ...]:
        """Files of a table and their rows alive, as they are now."""
        if table not in self._open:  # its keys need not be known for that
            return live_parts(self._folder, self._state(table).parts)
        return self._table(table).live(self._folder)

    def adopted(self, table: TableName) -> tuple[LivePart, ...]:
        """Files that this writing adopted, and their rows alive."""
        if table not in self._open:
            return ()
        open_table = self._open[table]
        return open_table.live(self._folder, open_table.base)

    def rows(self, table: TableName) -> int:
        """Rows alive, as they are now."""
        if table not in self._open:
            return self._state(table).rows
        return self._table(table).index.alive

    def columns(self, table: TableName) -> tuple[str, ...]:
        """Columns that a file of a table with a row alive has, each once."""
        parts = {self._folder / part.file: part for part in self._parts(table)}
        named = dict.fromkeys(parts[one.path].columns for one in self.live(table))
        return tuple(dict.fromkeys(name for columns in named for name, _ in columns))

    def read(self, table: TableName, columns: Sequence[str] | None = None) -> Iterator[ArrowTable]:
        """Rows alive as they are now, a part at a time.

        Raises:
            RecordsError: No part has such a column.
        """
        live = self.live(table)
        parts = {self._folder / part.file: part for part in self._parts(table)}
        return read_parts(self._folder, [parts[one.path] for one in live], live, columns)

    def commit(self, lineage: Mapping[str, Any], note: str) -> int:
        """Make it the newest version of all tables, and say its number; ends the writing.

        Where neither a row nor the lineage changed nothing is written, and the number is that
        of the version there was.
        """
        self._check()
        lineage = json.loads(canonical_json(lineage))
        tables = {table: self._head.tables[table] for table in TABLES}
        changed = False
        for table, open_table in self._open.items():
            if open_table.changed or self._purging:
                parts = self._kept(table, open_table)
                tables[table] = table_state(self._folder, parts)
                changed = True
        if changed or lineage != self._head.lineage or not self._head.version:
            self._head = self._written(Manifest(0, "", note, lineage, tables))
        self.closed = True
        return self._head.version

    def restore(self, old: Manifest) -> int:
        """Make an old version the newest again, under a new number."""
        self._check()
        note = f"as version {old.version}" + (f": {old.note}" if old.note else "")
        self._head = self._written(replace(old, note=note))
        self.closed = True
        return self._head.version

    def _written(self, manifest: Manifest) -> Manifest:
        for name in (*TABLES, DEAD):
            sync_folder(self._folder / name)
        manifest = replace(manifest, version=self._head.version + 1, created=now())
        write_manifest(self._folder, manifest)
        return manifest

    def _kept(self, table: TableName, open_table: _OpenTable) -> list[TableFile]:
        """Parts with a row alive, compacted; what died in them is on the disk."""
        standing = [
            Standing(part, dead)
            for at, part in enumerate(open_table.parts)
            if not (dead := open_table.dead(at)).all()
        ]
        parts: list[TableFile] = []
        dying: dict[str, NDArray[np.int64]] = {}
        done = 0
        ranges = with_dead_rows(standing) if self._purging else worth_rewriting(standing)
        for start, stop in (*ranges, (len(standing), len(standing))):
            parts += (self._with_dead(one, dying) for one in standing[done:start])
            if stop > start:
                path = self.new_part(table)
                parts.append(rewrite(self._folder, standing[start:stop], path))
            done = stop
        if dying:
            path = self._new(DEAD, f"-{table}.parquet")
            write_dead_rows(path, dying)
            name = path.relative_to(self._folder).as_posix()
            parts = [replace(p, dead_file=name) if p.file in dying else p for p in parts]
        return parts

    def _with_dead(self, one: Standing, dying: dict[str, NDArray[np.int64]]) -> TableFile:
        """The part with the number of its dead, which are noted where there are more now."""
        dead = np.flatnonzero(one.dead)
        if len(dead) == one.part.dead:
            return one.part
        dying[one.part.file] = dead
        return replace(one.part, dead=len(dead))

    def _parts(self, table: TableName) -> Sequence[TableFile]:
        return self._open[table].parts if table in self._open else self._state(table).parts

    def _table(self, table: TableName) -> _OpenTable:
        state = self._state(table)
        if table not in self._open:
            self._open[table] = _OpenTable(self._folder, state.parts)
        return self._open[table]

    def _state(self, table: TableName) -> TableState:
        """The table as it was when this writing began."""
        self._check()
        if table not in TABLES:
            raise RecordsError(f"unknown table {table!r}", hint=f"known: {', '.join(TABLES)}")
        return self._head.tables[table]

    def _new(self, folder: str, suffix: str) -> Path:
        number = f"{self._head.version + 1:08d}-{next(self._numbers):05d}"
        return self._folder / folder / f"{number}-{secrets.token_hex(4)}{suffix}"

    def _check(self) -> None:
        if self.closed:
            raise StoreError("this writing has ended", where=str(self._folder))
