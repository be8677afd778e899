"""Calibration of a judge: its scores against people's labels of the same answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ...core import ConfigError, MetaValue, Row, Score, TestsetError, counted
from ...measure import Calibration, calibrate
from ...testsets import iter_rows
from ._calibrations import record_calibration
from ._comparing import clusters_of_results
from ._grades import record_grades
from ._results import Evaluation
from ._review import (
    Label,
    ReviewKey,
    answer_hash,
    check_labelled,
    labels_by_row,
    read_key,
    read_labels,
)


@dataclass(frozen=True, slots=True)
class Calibrating:
    """Options of a calibration.

    Attributes:
        measure: Measure of the run; may be empty if the run has only one.
        key: The key of the sheet; by default the one beside the labels.
        system: The reviewed answers; may be empty if the run identifies them.
        column: Column of the labels, in rows instead of a sheet.
        record: Store the outcome in `calibrations/`, for gates, and people's grades, for
            leaderboards.
        seed: Seed of the intervals.
        cluster: What dependent rows have in common (``clusters_of_results``); empty where rows are
            independent.
    """

    measure: str = ""
    key: Path | None = None
    system: str = ""
    column: str = ""
    record: bool = True
    seed: int = 0
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A judge's scores compared with people's.

    Attributes:
        run: Name of the scored run.
        calibration: Agreement, kappa, bias and corrected mean.
        path: File of the outcome; None if it was not stored, or the run does not name its judge.
        grades: File of people's grades, with those of this call; None if none were stored.
    """

    run: str
    calibration: Calibration
    path: Path | None = None
    grades: Path | None = None


def calibrate_run(
    root: Path,
    evaluation: Evaluation,
    labels: Sequence[Path],
    options: Calibrating | None = None,
    *,
    run: str = "",
) -> Calibrated:
    """Compare the judge's scores of a run with people's labels, and store the outcome.

    Args:
        root: Folder of the project.
        evaluation: The run.
        labels: Filled-in sheets, one per person; or files of rows.
        options: Options.
        run: The run as the caller named it; may be the name of the reviewed answers.

    Raises:
        ConfigError: The measure, the key or the reviewed answers are not clear.
        TestsetError: Labels cannot be read, or are about other answers than those of the run.
    """
    options = options or Calibrating()
    name = options.measure or _only_measure(evaluation)
    scale = next((s.scale for s in evaluation.summaries if s.measure == name), None)
    scores = _scores_of(evaluation, name)
    rows = [result.row for result in evaluation.results if result.row is not None]
    system = evaluation.name
    if options.column:
        marks = _labels_in_rows(labels, options.column, evaluation, name)
        labels_by_id: dict[str, tuple[float, ...]] = {}
        for mark in marks:
            labels_by_id[mark.row_id] = (*labels_by_id.get(mark.row_id, ()), mark.value)
    else:
        review_key = read_key(options.key or _key_beside(labels))
        marks = [mark for path in labels for mark in read_labels(path, review_key, str(path))]
        system = options.system or _reviewed_system(run, evaluation, review_key)
        check_labelled(marks, system, rows)
        labels_by_id = labels_by_row(marks, system, name)
    clusters = clusters_of_results(evaluation.results, options.cluster) if options.cluster else None
    calibration = calibrate(
        scores, labels_by_id, seed=options.seed, scale=scale, clusters=clusters or None
    )
    path = grades = None
    if options.record:
        path = record_calibration(root, evaluation, calibration, [str(path) for path in labels])
        grades = record_grades(root, _labels_with_hashes(root, marks, system, rows))
    return Calibrated(evaluation.name, calibration, path, grades)


def _labels_with_hashes(
    root: Path, marks: Iterable[Label], system: str, rows: Iterable[Row]
) -> list[Label]:
    """Add the hash of their answer to labels, and name people alike from every folder.

    A person without a name is identified by the path of their sheet, relative to the project if it
    is inside.
    """
    hashes = {row.id: answer_hash(row) for row in rows}
    home = root.resolve()
    labelled = []
    for mark in marks:
        hash_of_answer = mark.shown or (
            hashes.get(mark.row_id, "") if mark.system == system else ""
        )
        path, rater = Path(mark.rater), mark.rater
        if path.is_file():
            path = path.resolve()
            rater = (path.relative_to(home) if path.is_relative_to(home) else path).as_posix()
        labelled.append(replace(mark, shown=hash_of_answer, rater=rater))
    return labelled


def _scores_of(evaluation: Evaluation, name: str) -> dict[str, Score]:
    """Row id -> score of one measure."""
    scores = {
        result.row_id: score
        for result in evaluation.results
        for score in result.scores
        if score.measure == name
    }
    if not scores:
        raise ConfigError(
            f"the run did not measure {name}",
            where="--measure",
            hint=f"choose one of: {', '.join(s.measure for s in evaluation.summaries)}",
        )
    return scores


def _only_measure(evaluation: Evaluation) -> str:
    names = [summary.measure for summary in evaluation.summaries]
    if len(names) != 1:
        raise ConfigError(
            f"the run has {counted(len(names), 'measure')}",
            where="--measure",
            hint=f"choose one of: {', '.join(names)}",
        )
    return names[0]


def _key_beside(labels: Sequence[Path]) -> Path:
    """Return the key of a sheet under its default name, or raise an error that lists the folder's
    keys.
    """
    for path in labels:
        key = path.with_suffix(".key.json")
        if key.is_file():
            return key
    nearby = sorted({str(key) for path in labels for key in path.parent.glob("*.key.json")})
    hint = (
        f"--key {' or '.join(nearby)}" if nearby else "--key SHEET.key.json, which `review` wrote"
    )
    raise ConfigError(
        "the key of the sheet is missing: it maps answers to systems",
        where="--labels",
        hint=f"give {hint}; labels in a column of rows need no key: --column NAME",
    )


def _reviewed_system(run: str, evaluation: Evaluation, key: ReviewKey) -> str:
    """Return the reviewed answers of a run: its own, or those that it judged again."""
    known = list(dict.fromkeys(system for system, _ in key.answers.values()))
    testset = str(evaluation.manifest.get("testset", ""))
    for name in (evaluation.name, testset.removeprefix("run "), run):
        if name in known:
            return name
    raise ConfigError(
        f"the sheet has answers of {', '.join(known)}, but not of {evaluation.name}",
        where="--system",
        hint=f"choose one of: {', '.join(known)}",
    )


def _labels_in_rows(
    paths: Sequence[Path], column: str, evaluation: Evaluation, measure: str
) -> list[Label]:
    """Read numbers in a column of rows, one from each file, as labels by a measure.

    An answer beside a number must be the scored one.
    """
    responses = {result.row_id: result.row.response for result in evaluation.results if result.row}
    labels = []
    for path in dict.fromkeys(paths):
        for row in iter_rows(path):
            value = row.metadata.get(column)
            if value is None or value == "":
                continue
            if row.response is not None and responses.get(row.id, row.response) != row.response:
                raise TestsetError(
                    f"{column} of row {row.id!r} is about another answer than the one in the run",
                    where=str(path),
                    hint="score the rows that people labelled",
                )
            number = _finite_number(value, column, row.id, path)
            labels.append(Label(evaluation.name, row.id, measure, number, str(path)))
    if not labels:
        raise TestsetError(
            f"no row has a number under {column!r}",
            where=", ".join(map(str, paths)),
            hint="check the name of the column",
        )
    return labels


def _finite_number(value: MetaValue, column: str, row: str, path: Path) -> float:
    with suppress(ValueError, OverflowError):
        number = float("nan") if isinstance(value, tuple) else float(value)
        if math.isfinite(number):
            return number
    text = repr(value)
    raise TestsetError(
        f"{column} of row {row!r} is {text[:40]}{'…' if text[40:] else ''}, not a number",
        where=str(path),
    )
