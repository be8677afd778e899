"""`ragwright gate`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..experiment import compare_evaluations
from ..measure import GateOptions, gate
from ..report import gate_json, gate_junit, gate_table
from ..workbench import Session, Workbench
from ._console import EXIT_UNTRUSTED, Console, reported
from ._options import HERE, Json, Output, Project, Seed

EXIT_FAILED = 100


@reported
def command(
    run: Annotated[str, typer.Argument(help="A run: its name, the beginning of it, or latest.")],
    rules: Annotated[
        list[str],
        typer.Option(
            "--rule", help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02 with --baseline; repeatable."
        ),
    ],
    baseline: Annotated[str, typer.Option("--baseline", help="The run to be not worse than.")] = "",
    floor: Annotated[
        float, typer.Option("--floor", min=0, max=1, help="Least share of rows with a score.")
    ] = 0.95,
    sure: Annotated[
        bool, typer.Option("--sure", help="The whole 95 % interval must clear a threshold.")
    ] = False,
    project: Project = HERE,
    as_json: Json = False,
    output: Output = None,
    seed: Seed = 0,
) -> int:
    """Say whether a run may go out: exit code 0 passed, 100 failed, 101 cannot be trusted."""
    console = Console(output=output)
    with Workbench.open(project, Session(seed=seed)) as bench:
        evaluation = bench.results(run)
        other = bench.results(baseline) if baseline else None
    against = None if other is None else compare_evaluations(other, evaluation, seed=seed)
    outcome = gate(evaluation.summaries, rules, GateOptions(floor, sure), against=against)
    if output is not None and output.suffix.lower() == ".xml":
        console.result(gate_junit(outcome).rstrip("\n"))
    elif as_json:
        console.json({"run": evaluation.name, **gate_json(outcome)})
    else:
        console.result(gate_table(outcome))
    return {"passed": 0, "failed": EXIT_FAILED}.get(outcome.state, EXIT_UNTRUSTED)
