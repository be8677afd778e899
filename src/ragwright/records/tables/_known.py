"""Keys of a table and the hashes of their rows, small enough to hold millions in memory.

A key is held as two 64-bit hashes (128 bits: no two keys of a table share both), a row's hash as
its 16 bytes. Keys stand in sorted runs that double in size, as in a log-structured merge tree, so
that rows join quickly and are found by bisection. About 41 bytes a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import RecordsError, require
from .._daft import daft_module
from .._seams import HASH, KEY, ArrowTable

Positions = NDArray[np.int64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]

_SEEDS = (0, 0x1E3779B9)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_WIDTH = 32
"""Digits of a row's hash."""

_VALUES = np.full(256, 255, np.uint8)
_VALUES[_DIGITS] = np.arange(16, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class HashedKeys:
    """Keys as two 64-bit hashes each; both of shape (keys,)."""

    first: Words
    second: Words

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.first)

    def take(self, at: NDArray[Any]) -> HashedKeys:
        """Those at some places, or where a mask is true."""
        return HashedKeys(self.first[at], self.second[at])

    def repeated(self) -> int | None:
        """Place of the first key that stood before it already; None where all differ."""
        order = np.argsort(self.first)
        if not (np.diff(self.first[order]) == 0).any():
            return None
        order = np.lexsort((self.second, self.first))  # stable: the later of two stands behind
        first, second = self.first[order], self.second[order]
        same = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
        return int(order[1:][same].min()) if same.any() else None


def hash_keys(keys: ArrowTable | Sequence[str]) -> HashedKeys:
    """Keys (an Arrow array of strings, or a list of them) as hashes."""
    pa = require("pyarrow", "records", "reading records")
    daft = daft_module()
    record_batch = require("daft.recordbatch", "records", "reading records").RecordBatch
    functions = require("daft.functions", "records", "reading records")
    texts = strings(keys)
    if not len(texts):
        nothing = np.empty(0, np.uint64)
        return HashedKeys(nothing, nothing)
    halves = (
        record_batch.from_arrow_table(pa.table({KEY: texts}))
        .eval_expression_list(
            [functions.hash(daft.col(KEY), seed=seed).alias(f"h{seed}") for seed in _SEEDS]
        )
        .to_arrow_table()
    )
    first, second = (column.to_numpy() for column in halves.columns)
    return HashedKeys(first, second)


def strings(values: ArrowTable | Sequence[str]) -> ArrowTable:
    """Values as one Arrow array of large strings."""
    pa = require("pyarrow", "records", "reading records")
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        return pa.array(list(values), pa.large_string())
    return values.cast(pa.large_string())


def pack_hashes(hashes: ArrowTable | Sequence[str]) -> Words:
    """Hashes of rows as numbers of shape (rows, 2).

    Raises:
        RecordsError: One of them is not 32 hexadecimal digits in lower case.
    """
    texts = strings(hashes)
    rows = len(texts)
    if not rows:
        return np.empty((0, 2), np.uint64)
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + rows + 1]
    if texts.null_count or (np.diff(bounds) != _WIDTH).any():
        raise _not_a_hash(texts)
    values = _VALUES[np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]]
    if (values == 255).any():
        raise _not_a_hash(texts)
    pairs = values.reshape(rows, _WIDTH // 2, 2)
    return ((pairs[:, :, 0] << 4) | pairs[:, :, 1]).view(np.uint64)


def write_hashes(packed: Words) -> ArrowTable:
    """Packed hashes as an Arrow array of 32 hexadecimal digits each."""
    pa = require("pyarrow", "records", "reading records")
    rows = len(packed)
    if not rows:
        return pa.array([], pa.string())
    values = np.ascontiguousarray(packed).view(np.uint8)
    digits = np.empty((rows, _WIDTH // 2, 2), np.uint8)
    digits[:, :, 0] = _DIGITS[values >> 4]
    digits[:, :, 1] = _DIGITS[values & 15]
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(_WIDTH)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(digits))


def _not_a_hash(texts: ArrowTable) -> RecordsError:
    row, value = next(
        (row, value)
        for row, value in enumerate(texts.to_pylist())
        if value is None or len(value) != _WIDTH or set(value) - set("0123456789abcdef")
    )
    return RecordsError(f"{HASH} is not 32 hexadecimal digits: {value!r}", where=f"row {row + 1}")


@dataclass(slots=True)
class _Run:
    """Keys in the order of their first hash, and the positions of their rows."""

    first: Words
    second: Words
    position: Positions

    def __len__(self) -> int:
        return len(self.first)


def _sorted_run(keys: HashedKeys, position: Positions) -> _Run:
    order = np.argsort(keys.first, kind="stable")
    return _Run(keys.first[order], keys.second[order], position[order])


class KeyIndex:
    """The position of the live row of each key, and its hash.

    A row has a position: its number in the table's files, one after the other, dead rows
    counted too. At most one row of a key is alive.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._hashes = np.empty((0, 2), np.uint64)
        self._dead = np.empty(0, np.bool_)
        self.rows = 0
        self.alive = 0

    @property
    def bytes(self) -> int:
        """Memory held."""
        runs = sum(a.nbytes for run in self._runs for a in (run.first, run.second, run.position))
        return runs + self._hashes.nbytes + self._dead.nbytes

    def fill(self, parts: Iterable[tuple[HashedKeys, Words, Flags]]) -> None:
        """Take the rows of many files into an empty index; arguments as of :meth:`add`."""
        first, second, hashes, dead = [], [], [], []
        for keys, packed, live in parts:
            first.append(keys.first)
            second.append(keys.second)
            hashes.append(packed)
            dead.append(~live)
        if not dead:
            return
        # One column after the other, so that memory holds one of them twice at most.
        self._hashes = _joined(hashes)
        self._dead = _joined(dead)
        self.rows = len(self._dead)
        position = np.flatnonzero(~self._dead)
        self.alive = len(position)
        if self.alive:
            self._runs.append(_sorted_run(HashedKeys(_joined(first), _joined(second)), position))

    def add(self, keys: HashedKeys, hashes: Words, live: Flags) -> None:
        """Rows join at the end.

        Args:
            keys: Keys of the rows that are alive, each of which no live row has.
            hashes: Packed hashes of all rows.
            live: Which rows are alive, shape (rows,).
        """
        start = self.rows
        self.rows += len(live)
        self._hashes = _grown(self._hashes, self.rows)
        self._dead = _grown(self._dead, self.rows)
        self._hashes[start : self.rows] = hashes
        self._dead[start : self.rows] = ~live
        self.alive += len(keys)
        if len(keys):
            self._runs.append(_sorted_run(keys, start + np.flatnonzero(live)))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._merge()

    def _merge(self) -> None:
        """The last two runs as one; rows that died are left out."""
        newer, older = self._runs.pop(), self._runs.pop()
        position = np.concatenate([older.position, newer.position])
        wanted = ~self._dead[position]
        position = position[wanted]
        first = np.concatenate([older.first, newer.first])[wanted]
        second = np.concatenate([older.second, newer.second])[wanted]
        self._runs.append(_sorted_run(HashedKeys(first, second), position))

    def find(self, keys: HashedKeys) -> Positions:
        """Position of the live row of each key, -1 where there is none."""
        positions = np.full(len(keys), -1, np.int64)
        order = np.argsort(keys.first)  # bisection in order stays within the processor's caches
        sorted_keys = keys.first[order]
        for run in self._runs:
            if not len(run):
                continue
            at = np.empty(len(keys), np.int64)
            at[order] = np.searchsorted(run.first, sorted_keys)
            ask = np.flatnonzero(at < len(run))
            while len(ask):  # a second turn only where two keys share their first hash
                place = at[ask]
                near = run.first[place] == keys.first[ask]
                ask, place = ask[near], place[near]
                hit = run.second[place] == keys.second[ask]
                position = run.position[place[hit]]
                alive = ~self._dead[position]
                positions[ask[hit][alive]] = position[alive]
                ask = ask[~hit]
                at[ask] += 1
                ask = ask[at[ask] < len(run)]
        return positions

    def hashes(self, positions: Positions) -> Words:
        """Packed hashes of rows, shape (positions, 2)."""
        return self._hashes[positions]

    def kill(self, positions: Positions) -> None:
        """Live rows die."""
        self._dead[positions] = True
        self.alive -= len(positions)

    def dead(self, start: int, stop: int) -> Flags:
        """The mask of the dead rows of a range; a view, not a copy."""
        return self._dead[start:stop]


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays as one; the list is emptied, so that they are let go of."""
    whole = np.concatenate(arrays)
    arrays.clear()
    return whole


def _grown(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array, or a larger copy with room to spare."""
    if rows <= len(array):
        return array
    room = rows if not len(array) else max(rows, len(array) + len(array) // 2)
    larger = np.zeros((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class KnownRows:
    """The rows of a table, to compare others with: it follows what its writing adopts."""

    def __init__(self, index: KeyIndex) -> None:
        self._index = index

    def __len__(self) -> int:
        """Rows alive."""
        return self._index.alive

    def compare(
        self, keys: ArrowTable | Sequence[str], hashes: ArrowTable | Sequence[str]
    ) -> tuple[Flags, Flags]:
        """Return masks of the rows that the table lacks, and of those it has with another hash.

        Args:
            keys: ``record_key`` of each row, an Arrow array or a list.
            hashes: ``record_hash`` of each row.

        Returns:
            (new, changed), both of shape (rows,).

        Raises:
            RecordsError: A hash is not 32 hexadecimal digits.
        """
        positions = self._index.find(hash_keys(keys))
        new = positions < 0
        differs = (
            (self._index.hashes(np.maximum(positions, 0)) != pack_hashes(hashes)).any(axis=1)
            if self._index.rows
            else new
        )
        return new, ~new & differs

    def slice(self, keys: ArrowTable | Sequence[str]) -> ArrowTable:
        """The rows that the table has of these keys: ``record_key`` and ``record_hash``."""
        pa = require("pyarrow", "records", "reading records")
        texts = strings(keys)
        positions = self._index.find(hash_keys(texts))
        held = positions >= 0
        return pa.table(
            {
                KEY: texts.filter(pa.array(held)),
                HASH: write_hashes(self._index.hashes(positions[held])),
            }
        )
