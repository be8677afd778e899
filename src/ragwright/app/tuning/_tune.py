"""`ragwright tune`."""

from __future__ import annotations

from typing import Annotated

import typer

from ...experiment import AdapterTuning, TunedAdapter, tune_adapter, tuned_json
from ...project import Session
from ...workbench import Workbench
from .._console import EXIT_FAILED, Console, reported, table
from .._options import HERE, Jobs, Json, MaxCost, Overrides, Project, Quiet
from .._show import show_progress

group = typer.Typer(
    help="Train parts of the search on a testset; kept only where they win on held-out questions.",
    no_args_is_help=True,
)


@group.callback()
def parts() -> None:
    """Train parts of the search on a testset; kept only where they win on held-out questions."""


@group.command("adapter")
@reported
def adapter(
    testset: Annotated[str, typer.Option("--testset", help="Questions with gold.")],
    file: Annotated[
        str, typer.Option("-o", "--output", help="File to write; by default in adapters/.")
    ] = "",
    measure: Annotated[
        str, typer.Option("--measure", help="Ranking measure that decides.")
    ] = "MRR@10",
    seed: Annotated[int, typer.Option("--seed", help="Seed of folds and intervals.")] = 0,
    project: Project = HERE,
    overrides: Overrides = None,
    as_json: Json = False,
    quiet: Quiet = False,
    jobs: Jobs = None,
    max_cost: MaxCost = None,
) -> int:
    """Fit a linear adapter of query vectors; no passage is embedded again.

    Fitted on the tune split, compared on the confirm split. Exit code 0 when it was written, 100
    when it is not proven better.
    """
    console = Console(quiet)
    session = Session(tuple(overrides or ()), jobs=jobs, max_cost=max_cost)
    with Workbench.open(project, session) as bench:
        with show_progress(console, bench):
            found = tune_adapter(bench.project, testset, AdapterTuning(file, measure, seed))
        root = bench.project.folder.root
    if as_json:
        console.json(tuned_json(found))
        return 0 if found.path else EXIT_FAILED
    console.result(found.headline)
    console.result(_table(found))
    for note in found.notes:
        console.remark(note)
    if found.path is None:
        return EXIT_FAILED
    console.remark(
        f"to use it, write in ragwright.yaml: retrieve: {{adapter: "
        f"{found.path.relative_to(root) if found.path.is_relative_to(root) else found.path}}}"
    )
    return 0


def _table(found: TunedAdapter) -> str:
    fit, one = found.fit, found.comparison
    rows = [
        ["questions", "n", "measure", "without", "with", "difference", "95 % interval"],
        [
            "training",
            str(fit.pairs),
            "MRR@10 dense",
            f"{fit.before:.3f}",
            f"{fit.after:.3f}",
            f"{fit.after - fit.before:+.3f}",
            "cross-validated",
        ],
    ]
    if one is not None:
        ends = "" if one.low is None else f"{one.low:+.3f} to {one.high:+.3f}"
        rows.append(
            [
                "held-out",
                str(one.n),
                one.measure,
                f"{one.mean_a:.3f}",
                f"{one.mean_b:.3f}",
                f"{one.difference:+.3f}",
                ends,
            ]
        )
    return table(rows, right=(1, 3, 4, 5))
