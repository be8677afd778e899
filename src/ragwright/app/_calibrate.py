"""`ragwright calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core import ConfigError, TestsetError
from ..experiment import Evaluation, agreed_labels, iter_rows, read_key, read_labels
from ..measure import calibrate
from ..report import calibration_json, calibration_table
from ..workbench import Session, Workbench
from ._console import Console, reported
from ._options import HERE, Json, Output, Project, Seed


@reported
def command(
    run: Annotated[str, typer.Argument(help="A run: its name, the beginning of it, or latest.")],
    labels: Annotated[
        list[Path],
        typer.Option("--labels", help="A filled sheet of `review`, one a person; or rows."),
    ],
    key: Annotated[Path | None, typer.Option("--key", help="The key of the sheet.")] = None,
    system: Annotated[
        str, typer.Option("--system", help="Name under which `review` was given the run.")
    ] = "",
    measure: Annotated[
        str, typer.Option("--measure", help="Measure of the run; its only one where empty.")
    ] = "",
    column: Annotated[
        str, typer.Option("--column", help="Column of the labels, in rows instead of a sheet.")
    ] = "",
    project: Project = HERE,
    as_json: Json = False,
    output: Output = None,
    seed: Seed = 0,
) -> None:
    """Hold a judge's scores against people: agreement, kappa, bias, and the corrected mean."""
    console = Console(output=output)
    with Workbench.open(project, Session(seed=seed)) as bench:
        evaluation = bench.results(run)
    name = measure or _only(evaluation)
    scores = {
        result.row_id: score
        for result in evaluation.results
        for score in result.scores
        if score.measure == name
    }
    if key is not None:
        known = read_key(key)
        marks = [mark for path in labels for mark in read_labels(path, known, path.stem)]
        given = agreed_labels(marks, system or run, name)
    else:
        given = _of_rows(labels, column)
    found = calibrate(scores, given, seed=seed)
    if as_json:
        console.json({"run": evaluation.name, **calibration_json(found)})
    else:
        console.result(calibration_table(found))


def _only(evaluation: Evaluation) -> str:
    names = [summary.measure for summary in evaluation.summaries]
    if len(names) != 1:
        raise ConfigError(
            f"the run has {len(names)} measures",
            where="--measure",
            hint=f"name one of: {', '.join(names)}",
        )
    return names[0]


def _of_rows(paths: list[Path], column: str) -> dict[str, float]:
    """Row id -> number in a column of rows."""
    if not column:
        raise ConfigError(
            "labels without a key are rows", where="--labels", hint="name their --column"
        )
    found: dict[str, float] = {}
    for path in paths:
        for row in iter_rows(path):
            value = row.metadata.get(column)
            if value is None or value == "":
                continue
            try:
                found[row.id] = float(value) if not isinstance(value, tuple) else float("nan")
            except ValueError:
                raise TestsetError(
                    f"{column} of row {row.id!r} is {value!r}, no number", where=str(path)
                ) from None
    return found
