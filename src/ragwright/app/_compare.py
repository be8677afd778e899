"""`ragwright compare`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated

import typer

from ..experiment import Evaluation, cluster_of, compare_evaluations
from ..report import comparison_json, comparison_table
from ..workbench import Session, Workbench
from ._console import Console, reported
from ._options import HERE, Json, Output, Project, Seed


@reported
def command(
    a: Annotated[str, typer.Argument(help="A run: its name, the beginning of it, or latest.")],
    b: Annotated[str, typer.Argument(help="The run that the verdicts are about.")],
    cluster: Annotated[
        str,
        typer.Option("--cluster", help="Rows that share it are not independent: document, …"),
    ] = "",
    project: Project = HERE,
    as_json: Json = False,
    output: Output = None,
    seed: Seed = 0,
) -> None:
    """Compare two runs row by row: difference, interval, test, and what it would take to know."""
    console = Console(output=output)
    with Workbench.open(project, Session(seed=seed)) as bench:
        first, second = bench.results(a), bench.results(b)
    clusters = clusters_of((first, second), cluster) if cluster else None
    found = compare_evaluations(first, second, seed=seed, clusters=clusters)
    if as_json:
        console.json({"a": first.name, "b": second.name, **comparison_json(found)})
    else:
        console.result(comparison_table(found, names=(first.name, second.name)))


def clusters_of(evaluations: tuple[Evaluation, ...], by: str) -> dict[str, Hashable]:
    """Row id -> cluster, over the rows of several evaluations."""
    return {
        result.row_id: ("row", result.row_id) if result.row is None else cluster_of(result.row, by)
        for evaluation in evaluations
        for result in evaluation.results
    }
