"""Rows that carry their answers: of a file, of memory, of a stored run; read as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...core import Row, TestsetError
from ...flow import Runs
from ...testsets import Testset, iter_rows, rows_of
from ._evaluating import lost_row, stored_results
from ._names import find_run


@dataclass(slots=True)
class ReadRows:
    """Rows in order, read anew by each loop, one in memory at a time.

    Args:
        read: Reads them from the first to the last.
    """

    read: Callable[[], Iterator[Row]]
    _count: int | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[Row]:
        count = 0
        for row in self.read():
            count += 1
            yield row
        self._count = count

    def __len__(self) -> int:
        """Number of rows; the first time they are read for it, and every fault in them is told."""
        if self._count is None:
            for _ in self:
                pass
        return self._count or 0


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows to score as they are, the name they go by, and what to know of them."""

    name: str
    rows: ReadRows
    notes: tuple[str, ...] = ()


def given_rows(rows: str | Path | Iterable[Row | Mapping[str, Any]]) -> GivenRows:
    """Rows of a file, which stay there, or of memory, where they stay too."""
    if isinstance(rows, str | Path):
        return GivenRows(str(rows), ReadRows(partial(_of_file, Path(rows))))
    held = tuple(rows_of(rows))
    return GivenRows("rows", ReadRows(lambda: iter(held)))


def stored_or_given(runs: Runs, name: str) -> GivenRows:
    """Rows of a file, or where there is none of that name, those of a stored run.

    Raises:
        TestsetError: The run kept no answers.
        StoreError: There is no such run.
    """
    if Path(name).is_file():
        return given_rows(name)
    run = name if runs.holds(name) else find_run(runs, name)
    lost = total = 0
    for result in stored_results(runs, run):
        total, lost = total + 1, lost + (result.row is None)
    if lost == total:
        raise TestsetError(
            f"the run {run} holds rankings, no answers",
            hint="run `ragwright eval` without --retrieval-only, or name a file of rows",
        )
    notes = (f"{lost} rows of the run have no answer and stay without a score",) if lost else ()
    read = partial(_of_run, runs, run)
    return GivenRows(f"run {run}", ReadRows(read), notes)


def of_testset(testset: Testset) -> GivenRows:
    """The rows of a testset, which is in memory."""
    return GivenRows(testset.name, ReadRows(lambda: iter(testset.rows)), testset.notes)


def _of_file(path: Path) -> Iterator[Row]:
    empty = True
    for row in iter_rows(path):
        empty = False
        yield row
    if empty:
        raise TestsetError("the file holds no rows", where=str(path))


def _of_run(runs: Runs, run: str) -> Iterator[Row]:
    return (result.row or lost_row(result) for result in stored_results(runs, run))
