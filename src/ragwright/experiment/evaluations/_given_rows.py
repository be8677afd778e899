"""Rows with answers, from a file, memory or a stored run; can be read several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...core import Row, TestsetError, count_noun
from ...flow import Runs
from ...measure import Measure
from ...models import drop_thought
from ...testsets import Testset, iter_rows, rows_of
from ._evaluating import load_results, rebuild_lost_row
from ._names import find_run
from ._result_files import results_in
from ._results import RowResult


@dataclass(slots=True)
class ReadRows:
    """Rows in order, read again by each loop, one in memory at a time.

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
        """Number of rows; the first call reads all rows and raises their faults."""
        if self._count is None:
            for _ in self:
                pass
        return self._count or 0


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows to score as they are, with their name and notes."""

    name: str
    rows: ReadRows
    notes: tuple[str, ...] = ()


def read_given_rows(rows: str | Path | Testset | Iterable[Row | Mapping[str, Any]]) -> GivenRows:
    """Return the rows of a file, of a test set, or of memory: a list, a data frame, a data set."""
    if isinstance(rows, Testset):
        return rows_of_testset(rows)
    if isinstance(rows, str | Path):
        return GivenRows(str(rows), ReadRows(partial(_rows_of_file, Path(rows))))
    rows_in_memory = tuple(rows_of(rows))
    return GivenRows("rows", ReadRows(lambda: iter(rows_in_memory)))


def read_stored_or_given(runs: Runs, name: str) -> GivenRows:
    """Return the rows of a file, or else of a stored run with that name.

    Raises:
        TestsetError: The run stored no answers.
        StoreError: There is no such run.
    """
    if Path(name).is_file():
        return read_given_rows(name)
    run = name if runs.holds(name) else find_run(runs, name)
    without_answer = total = 0
    for result in load_results(runs, run):
        total, without_answer = total + 1, without_answer + (result.row is None)
    if without_answer == total:
        raise TestsetError(
            f"the run {run} has rankings, but no answers",
            hint="run `ragwright eval` without --retrieval-only, or give a file of rows",
        )
    notes = (
        (f"without an answer, and so without a score: {count_noun(without_answer, 'row')}",)
        if without_answer
        else ()
    )
    rows = ReadRows(lambda: map(_stored_row, load_results(runs, run)))
    return GivenRows(f"run {run}", rows, notes)


def pair_given_answers(given_set: GivenRows, measures: Iterable[Measure]) -> GivenRows:
    """Turn pairs of questions and answers into rows that ``QADistance`` can score.

    If it is the only measure and no row has a response, the reference becomes the answer and its
    passages the retrieved ones: a baseline of given pairs. Otherwise rows stay as they are. Of
    every response the thought of a reasoning model is left out, with a note.
    """
    given_set = _without_thoughts(given_set)
    if {str(measure) for measure in measures} != {"QADistance"}:
        return given_set
    pairs = False
    for row in given_set.rows:
        if row.response is not None:
            return given_set
        pairs = pairs or bool(row.reference.strip())
    if not pairs:
        return given_set
    note = "no row has a response: the distances are those of the reference answers"
    rows = ReadRows(lambda: map(make_given_row, given_set.rows))
    return GivenRows(given_set.name, rows, (*given_set.notes, note))


def _without_thoughts(given_set: GivenRows) -> GivenRows:
    thinking = sum(_spoken(row) is not row for row in given_set.rows)
    if not thinking:
        return given_set
    note = f"left out: the model's thought in the response of {count_noun(thinking, 'row')}"
    rows = ReadRows(lambda: map(_spoken, given_set.rows))
    return GivenRows(given_set.name, rows, (*given_set.notes, note))


def _spoken(row: Row) -> Row:
    spoken = drop_thought(row.response or "")
    return row if spoken == (row.response or "") else replace(row, response=spoken)


def make_given_row(row: Row) -> Row:
    """Return a pair as a row whose response is the reference answer, with the gold passages."""
    if not row.reference.strip():
        return row
    return replace(row, response=row.reference, retrieved_contexts=gold_texts(row))


def gold_texts(row: Row) -> tuple[str, ...]:
    """Return the gold passages of a row, as texts."""
    return tuple(span.text for span in row.reference_spans) or row.reference_contexts


def rows_of_testset(testset: Testset) -> GivenRows:
    """Return the rows of a testset, which is in memory."""
    return GivenRows(testset.name, ReadRows(lambda: iter(testset.rows)), testset.notes)


def _rows_of_file(path: Path) -> Iterator[Row]:
    """Read the rows of a file; a file of ``-o rows.jsonl`` yields the rows that were scored."""
    empty = True
    results = results_in(path)
    for row in iter_rows(path) if results is None else map(_stored_row, results):
        empty = False
        yield row
    if empty:
        raise TestsetError("the file holds no rows", where=str(path))


def _stored_row(result: RowResult) -> Row:
    return result.row or rebuild_lost_row(result)
