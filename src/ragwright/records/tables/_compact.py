"""Compaction: files that are mostly dead, and many small ones, become one; order is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core import require
from ._manifest import TableFile
from ._parts import Flags, read_file, write_part

TARGET_ROWS = 16_384
"""Rows of a file that compaction writes, at most where it joins several."""

_SMALL_ROWS = TARGET_ROWS // 4
_MANY = 8
"""So many small files side by side are worth one."""

_MOST_ROWS = 16 * TARGET_ROWS
"""Rows that one commit rewrites in one table; what is left waits for the next."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A part as a commit finds it: which rows are dead, shape (rows,)."""

    part: TableFile
    dead: Flags

    @property
    def rows(self) -> int:
        """Rows alive."""
        return self.part.rows - int(np.count_nonzero(self.dead))

    @property
    def decayed(self) -> bool:
        """True where more than half of it is dead."""
        return 2 * self.rows < self.part.rows


def worth_rewriting(parts: Sequence[Standing]) -> list[tuple[int, int]]:
    """Ranges (from, to) of neighbours that are to become one file each, in order.

    Neighbours have the same columns, so that nothing is converted, and at most
    ``TARGET_ROWS`` rows alive together unless one alone has more.
    """
    found: list[tuple[int, int]] = []
    rows = 0
    for start, stop in _groups(parts):
        group = parts[start:stop]
        if len(group) < _MANY and not any(one.decayed for one in group):
            continue
        size = sum(one.rows for one in group)
        if found and rows + size > _MOST_ROWS:
            break
        rows += size
        found.append((start, stop))
    return found


def with_dead_rows(parts: Sequence[Standing]) -> list[tuple[int, int]]:
    """Ranges (from, to), of one part each, of those that hold a dead row."""
    return [(at, at + 1) for at, one in enumerate(parts) if one.dead.any()]


def _groups(parts: Sequence[Standing]) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours that are small or decayed and fit into one file."""
    start = rows = 0
    for at, one in enumerate(parts):
        poor = one.decayed or one.rows < _SMALL_ROWS
        fits = at > start and one.part.columns == parts[start].part.columns
        if at > start and not (poor and fits and rows + one.rows <= TARGET_ROWS):
            yield start, at
            start, rows = at, 0
        if poor:
            rows += one.rows
        else:
            start, rows = at + 1, 0
    if start < len(parts):
        yield start, len(parts)


def rewrite(folder: Path, group: Sequence[Standing], path: Path) -> TableFile:
    """Write the rows alive of some neighbours into one new file."""
    pa = require("pyarrow", "records", "writing records")
    rows = pa.concat_tables(
        read_file(folder / one.part.file).filter(pa.array(~one.dead)) for one in group
    )
    write_part(rows, path)
    return TableFile(path.relative_to(folder).as_posix(), rows.num_rows, group[0].part.columns)
