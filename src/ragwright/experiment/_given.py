"""Rows with answers or scores, from a file, memory or a stored run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import MeasureError, Row, TestsetError, count_noun, make_plain
from ..flow import Runs
from ..measure import Measure, MeasureScale, parse_measure, set_scale
from ..models import drop_thought
from ..project import Project, ProjectFolder, Session
from ..testsets import Testset, iter_rows, objects_of, open_bytes, rows_of
from ._clusters import clusters_of_results
from ._results import Evaluation, RowResult, evaluation_of, read_plain
from ._stored_runs import (
    GivenRows,
    KnownRun,
    ReadAgain,
    add_row_notes,
    find_run,
    list_evaluations,
    load_evaluation,
    load_results,
    rebuild_lost_row,
)

_HEAD = "ragwright_results"


@dataclass(frozen=True, slots=True)
class _Head:
    """The first line of a file of results; measures are given with their scales."""

    name: str
    measures: Mapping[str, MeasureScale | None]
    notes: tuple[str, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)


def results_jsonl(evaluation: Evaluation) -> str:
    """Return a complete evaluation as JSONL, for :func:`read_results`.

    The first line has its name, its measures with scales, and its settings; every further line is a
    row with its answer and scores.
    """
    scales = {summary.measure: summary.scale for summary in evaluation.summaries}
    head = _Head(evaluation.name, scales, evaluation.notes, dict(evaluation.manifest))
    lines = [{_HEAD: 1, **make_plain(head)}, *map(make_plain, evaluation.results)]
    return "".join(json.dumps(line, ensure_ascii=False, default=list) + "\n" for line in lines)


def read_results(path: str | Path, *, seed: int = 0) -> Evaluation:
    """Read the evaluation in a file of :func:`results_jsonl` (``score -o results.jsonl``).

    Raises:
        TestsetError: It is another file, or was changed by hand; with file and line.
    """
    source = Path(path)
    if not is_results_file(source):
        raise TestsetError(
            "the file holds rows, not results",
            where=str(source),
            hint=f"score it first: ragwright score {path} -o results.jsonl; a column of numbers is "
            "the measure Column(NAME)",
        )
    lines = _lines_of(source)
    head, _ = next(lines)
    results = [result for _, result in lines if result is not None]
    try:
        measures = [set_scale(parse_measure(text), scale) for text, scale in head.measures.items()]
    except MeasureError as error:
        raise TestsetError(error.what, where=str(source), hint=error.hint) from error
    groups = clusters_of_results(results).values() or None
    evaluation = evaluation_of(results, measures, name=str(source), seed=seed, clusters=groups)
    return replace(evaluation, notes=head.notes, manifest=head.manifest)


def is_results_file(source: Path) -> bool:
    """True for a file of :func:`results_jsonl`, recognised by its first line."""
    with open_bytes(source) as file:
        line = file.readline(1 << 20)
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and _HEAD in head


def _lines_of(path: Path) -> Iterator[tuple[_Head, RowResult | None]]:
    """Return the head of a file of results with None, then with each result."""
    where, head = f"{path}:1", None
    try:
        for place, record in objects_of(path):
            where = place
            json.dumps(record, allow_nan=False)
            if head is None:
                head = read_plain(_Head, record)
                yield head, None
            else:
                yield head, read_plain(RowResult, record)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        fault = str(error).partition("\n")[0]
        raise TestsetError(
            f"the file was changed since it was written: {type(error).__name__}: {fault}",
            where=where,
            hint="write it again with -o results.jsonl",
        ) from error


def read_given_rows(rows: str | Path | Testset | Iterable[Row | Mapping[str, Any]]) -> GivenRows:
    """Return the rows of a file, of a test set, or of memory: a list, a data frame, a data set.

    The thought of a reasoning model is left out of a response, with a note.
    """
    if isinstance(rows, Testset):
        name, notes, read = rows.name, rows.notes, rows.rows.__iter__
    elif isinstance(rows, str | Path):
        name, notes, read = str(rows), (), partial(_rows_of_file, Path(rows))
    else:
        name, notes, read = "rows", (), tuple(rows_of(rows)).__iter__
    given_set = GivenRows(name, ReadAgain(lambda: map(_drop_thought_of, read())), notes)
    if thinking := sum(_drop_thought_of(row) is not row for row in read()):
        note = f"left out: the model's thought in the response of {count_noun(thinking, 'row')}"
        return add_row_notes(given_set, note)
    return given_set


def read_stored_or_given(runs: Runs, name: str) -> GivenRows:
    """Return the rows of a file, or else of a stored run with that name.

    Raises:
        TestsetError: The run stored no answers.
        StoreError: The run does not exist.
    """
    if Path(name).is_file():
        return read_given_rows(name)
    run = name if runs.holds(name) else find_run(runs, name)
    missing = [result.row is None for result in load_results(runs, run)]
    if all(missing):
        raise TestsetError(
            f"the run {run} has rankings, but no answers",
            hint="run `ragwright eval` without --retrieval-only, or give a file of rows",
        )
    given_set = GivenRows(
        f"run {run}", ReadAgain(lambda: map(_read_stored_row, load_results(runs, run)))
    )
    if not any(missing):
        return given_set
    lost = count_noun(sum(missing), "row")
    return add_row_notes(given_set, f"without an answer, and so without a score: {lost}")


def pair_given_answers(given_set: GivenRows, measures: Iterable[Measure]) -> GivenRows:
    """Turn pairs of questions and answers into rows that ``QADistance`` can score.

    If it is the only measure and no row has a response, the reference becomes the answer and its
    passages the retrieved ones: a baseline of given pairs. Otherwise rows stay as they are.
    """
    if (
        {str(measure) for measure in measures} != {"QADistance"}
        or any(row.response is not None for row in given_set.rows)
        or not any(row.reference.strip() for row in given_set.rows)
    ):
        return given_set
    note = "no row has a response: the distances are those of the reference answers"
    rows = ReadAgain(lambda: map(make_given_row, given_set.rows))
    return GivenRows(given_set.name, rows, (*given_set.notes, note))


def _drop_thought_of(row: Row) -> Row:
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


def _rows_of_file(path: Path) -> Iterator[Row]:
    """Read the rows of a file; a file of ``-o rows.jsonl`` yields the rows that were scored."""
    empty = True
    rows = iter_rows(path)
    if is_results_file(path):
        rows = (_read_stored_row(result) for _, result in _lines_of(path) if result is not None)
    for row in rows:
        empty = False
        yield row
    if empty:
        raise TestsetError("the file holds no rows", where=str(path))


def _read_stored_row(result: RowResult) -> Row:
    return result.row or rebuild_lost_row(result)


def open_results(folder: str | Path, names: Sequence[str], seed: int = 0) -> list[Evaluation]:
    """Open evaluations by name: a file of scores if it exists, else a run of the project.

    The project is opened only if a name is not a file.

    Raises:
        TestsetError: A file holds no scores.
        ConfigError: A name is not a file, and no project is open that could have a run of it.
        StoreError: A name is neither a file nor a run; the newest runs are listed.
    """
    if all(Path(name).is_file() for name in names):
        return [read_results(name, seed=seed) for name in names]
    with Project.open(folder, Session(seed=seed)) as project:
        return evaluations_by_name(project, names)


def evaluations_by_name(project: Project, names: Sequence[str]) -> list[Evaluation]:
    """Like :func:`open_results`, for an opened project."""
    seed = project.session.seed
    return [
        read_results(name, seed=seed)
        if Path(name).is_file()
        else load_evaluation(project.runs, name, seed)
        for name in names
    ]


def list_runs(folder: str | Path) -> tuple[KnownRun, ...]:
    """Return every stored evaluation of a project, newest first."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return list_evaluations(project.runs)
