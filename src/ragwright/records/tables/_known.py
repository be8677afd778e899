"""The keys of a table and the hashes of their rows, in memory while the table is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core import require
from .._seams import HASH, KEY, ArrowTable

Positions = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
        pa = require("pyarrow", "records", "reading records")
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
