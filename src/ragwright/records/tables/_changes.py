"""What tells one version of a table from another, without looking at what both have.

Files of tables never change, so a row that is alive in the same file in both versions is the same
row. Only the others are read, and compared by key and hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core import require
from .._seams import ArrowTable
from ._known import Flags, HashedKeys, KeyIndex, Known, Words, hashed_keys, packed_hashes
from ._parts import LivePart, keys_of


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between two versions of a table.

    Attributes:
        rows: Rows of the newer one that the older one lacks, or has with another hash; once.
        gone: Keys of the older one that the newer one lacks.
    """

    rows: Iterator[ArrowTable]
    gone: tuple[str, ...]


def changed_parts(
    before: Sequence[LivePart], now: Sequence[LivePart]
) -> tuple[list[LivePart], tuple[str, ...]]:
    """The parts of now with only those rows alive that differ, and the keys that are gone."""
    left = [part for part in _beyond(before, now) if _any(part)]
    came = _beyond(now, before)
    lost = Known(_index(left))
    found = [_differing(part, lost) if _any(part) else part for part in came]
    there = Known(_index(part for part in came if _any(part)))
    gone: list[str] = []
    for part in left:
        rows = keys_of(part.path)
        keys = rows.keys.filter(_mask(part.live))
        missing, _ = there.compare(keys, rows.hashes.filter(_mask(part.live)))
        gone += keys.filter(_mask(missing)).to_pylist()
    return found, tuple(sorted(gone))


def _beyond(parts: Sequence[LivePart], others: Sequence[LivePart]) -> list[LivePart]:
    """Parts, alive the rows alone that are not alive in the same file of the others."""
    alive = {part.path: _live(part) for part in others}
    return [
        replace(part, live=_live(part) & ~alive[part.path])
        if part.path in alive
        else replace(part, live=_live(part))
        for part in parts
    ]


def _live(part: LivePart) -> Flags:
    return np.ones(part.rows, np.bool_) if part.live is None else part.live


def _any(part: LivePart) -> bool:
    return bool(_live(part).any())


def _index(parts: Iterable[LivePart]) -> KeyIndex:
    def rows() -> Iterator[tuple[HashedKeys, Words, Flags]]:
        for part in parts:
            found, live = keys_of(part.path), _live(part)
            yield hashed_keys(found.keys).take(live), packed_hashes(found.hashes), live

    index = KeyIndex()
    index.fill(rows())
    return index


def _differing(part: LivePart, lost: Known) -> LivePart:
    """A part, alive the rows alone that the other version had not."""
    rows, live = keys_of(part.path), _live(part).copy()
    new, changed = lost.compare(rows.keys.filter(_mask(live)), rows.hashes.filter(_mask(live)))
    live[np.flatnonzero(live)] = new | changed
    return replace(part, live=live)


def _mask(rows: Any) -> ArrowTable:
    return require("pyarrow", "records", "reading records").array(rows)
