"""The differences between two versions of a table.

Files of tables never change, so only the files that one of them lacks are read, and their rows
compared by key and hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core import require
from .._seams import ArrowTable
from ._files import LivePart, keys_of
from ._known import KeyIndex


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
    return require("pyarrow", "records", "reading records").array(rows)
