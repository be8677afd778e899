"""`ragwright calibrate`."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ..core import ConfigError, MetaValue, Score, TestsetError
from ..experiment import (
    Evaluation,
    ReviewKey,
    check_labelled,
    labels_by_row,
    open_results,
    read_key,
    read_labels,
    record_calibration,
)
from ..measure import calibrate
from ..report import calibration_json, calibration_table
from ..testsets import iter_rows
from ._compare import RUN_HELP
from ._console import Console, reported
from ._options import HERE, Json, Output, Project, Seed


@reported
def command(
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    labels: Annotated[
        list[Path],
        typer.Option("--labels", help="A filled-in sheet from `review`, one per person; or rows."),
    ],
    key: Annotated[
        Path | None,
        typer.Option("--key", help="The key of the sheet; SHEET.key.json by default."),
    ] = None,
    system: Annotated[
        str,
        typer.Option("--system", help="The reviewed answers, if the run does not identify them."),
    ] = "",
    measure: Annotated[
        str, typer.Option("--measure", help="Measure of the run; optional where it has only one.")
    ] = "",
    column: Annotated[
        str, typer.Option("--column", help="Column of the labels, in rows instead of a sheet.")
    ] = "",
    record: Annotated[
        bool,
        typer.Option("--record/--no-record", help="Keep the outcome in calibrations/, for gates."),
    ] = True,
    project: Project = HERE,
    as_json: Json = False,
    output: Output = None,
    seed: Seed = 0,
) -> None:
    """Compare a judge's scores with people's: agreement, kappa, bias, and corrected mean."""
    console = Console(output=output)
    (evaluation,) = open_results(project, (run,), seed)
    name = measure or _only(evaluation)
    scale = next((s.scale for s in evaluation.summaries if s.measure == name), None)
    scores = _scores(evaluation, name)
    if column:
        given = _of_rows(labels, column, evaluation)
    else:
        known = read_key(key or _key_beside(labels))
        marks = [mark for path in labels for mark in read_labels(path, known, str(path))]
        system = system or _system(run, evaluation, known)
        rows = [result.row for result in evaluation.results if result.row is not None]
        check_labelled(marks, system, rows)
        given = labels_by_row(marks, system, name)
    found = calibrate(scores, given, seed=seed, scale=scale)
    if as_json:
        console.json({"run": evaluation.name, **calibration_json(found)})
    else:
        console.result(calibration_table(found, console.columns()))
    if record:
        path = record_calibration(project, evaluation, found, [str(path) for path in labels])
        console.remark(
            f"stored in {path}: put it under version control; `gate --calibrated` reads it"
            if path
            else "not stored: the file does not name the judge that scored it"
        )


def _scores(evaluation: Evaluation, name: str) -> dict[str, Score]:
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


def _only(evaluation: Evaluation) -> str:
    names = [summary.measure for summary in evaluation.summaries]
    if len(names) != 1:
        raise ConfigError(
            f"the run has {len(names)} measures",
            where="--measure",
            hint=f"choose one of: {', '.join(names)}",
        )
    return names[0]


def _key_beside(labels: list[Path]) -> Path:
    """The key of a sheet under its default name; else an error that lists the keys in the
    folder.
    """
    for path in labels:
        own = path.with_suffix(".key.json")
        if own.is_file():
            return own
    near = sorted({str(key) for path in labels for key in path.parent.glob("*.key.json")})
    hint = f"--key {' or '.join(near)}" if near else "--key SHEET.key.json, which `review` wrote"
    raise ConfigError(
        "the key of the sheet is missing: it maps answers to systems",
        where="--labels",
        hint=f"give {hint}; labels in a column of rows need no key: --column NAME",
    )


def _system(run: str, evaluation: Evaluation, key: ReviewKey) -> str:
    """The reviewed answers of a run: its own, or those it judged again."""
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


def _of_rows(
    paths: list[Path], column: str, evaluation: Evaluation
) -> dict[str, tuple[float, ...]]:
    """Row id -> numbers in a column of rows, one from each file.

    If there is an answer with a number, it must be the scored one.
    """
    said = {result.row_id: result.row.response for result in evaluation.results if result.row}
    found: dict[str, tuple[float, ...]] = {}
    for path in dict.fromkeys(paths):
        for row in iter_rows(path):
            value = row.metadata.get(column)
            if value is None or value == "":
                continue
            if row.response is not None and said.get(row.id, row.response) != row.response:
                raise TestsetError(
                    f"{column} of row {row.id!r} is about another answer than the one in the run",
                    where=str(path),
                    hint="score the rows that people labelled",
                )
            found[row.id] = (*found.get(row.id, ()), _number(value, column, row.id, path))
    if not found:
        raise TestsetError(
            f"no row has a number under {column!r}",
            where=", ".join(map(str, paths)),
            hint="check the name of the column",
        )
    return found


def _number(value: MetaValue, column: str, row: str, path: Path) -> float:
    with suppress(ValueError, OverflowError):
        number = float("nan") if isinstance(value, tuple) else float(value)
        if math.isfinite(number):
            return number
    shown = repr(value)
    raise TestsetError(
        f"{column} of row {row!r} is {shown[:40]}{'…' if shown[40:] else ''}, not a number",
        where=str(path),
    )
