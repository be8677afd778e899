"""`ragwright gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..experiment import Evaluation, clusters_of_results, compare_evaluations
from ..measure import GateOptions, GateOutcome, gate
from ..report import gate_json, gate_junit, gate_table
from ..workbench import judge_checks, open_results
from ._compare import CLUSTER_HELP, RUN_HELP
from ._console import EXIT_UNTRUSTED, Console, reported
from ._options import HERE, Json, Output, Project, Seed

EXIT_FAILED = 100


@reported
def command(
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    rules: Annotated[
        list[str],
        typer.Option(
            "--rule", help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02 with --baseline; repeatable."
        ),
    ],
    baseline: Annotated[
        str, typer.Option("--baseline", help="The run, or the file, to be not worse than.")
    ] = "",
    floor: Annotated[
        float,
        typer.Option(
            "--floor", min=0, max=1, help="Least share of rows with gold that has a score."
        ),
    ] = 0.95,
    sure: Annotated[
        bool, typer.Option("--sure", help="The whole 95 % interval must clear a threshold.")
    ] = False,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated", help="Judged measures count only if people checked the judge."
        ),
    ] = False,
    min_kappa: Annotated[
        float | None,
        typer.Option(
            "--min-kappa", min=0, max=1, help="And agreed with it so far beyond chance (0.6)."
        ),
    ] = None,
    corrected: Annotated[
        bool,
        typer.Option("--corrected", help="Thresholds are for the mean less the judge's bias."),
    ] = False,
    least: Annotated[
        int, typer.Option("--least", min=1, help="Fewest scored rows that say anything.")
    ] = 10,
    cluster: Annotated[
        str, typer.Option("--cluster", help=f"With --baseline. {CLUSTER_HELP}")
    ] = "",
    project: Project = HERE,
    as_json: Json = False,
    output: Output = None,
    seed: Seed = 0,
) -> int:
    """Say whether a run may go out: exit code 0 passed, 100 failed, 101 cannot be trusted."""
    options = GateOptions(floor, sure, calibrated, min_kappa, corrected, least)
    evaluation, *others = open_results(project, [run, *([baseline] if baseline else [])], seed)
    against = None
    if others:
        clusters = clusters_of_results([*others[0].results, *evaluation.results], cluster)
        against = compare_evaluations(others[0], evaluation, seed=seed, clusters=clusters)
    checked = None
    if options.needs_people:
        checked = judge_checks(project, evaluation, _measures(evaluation))
    outcome = gate(evaluation.summaries, rules, options, against=against, checked=checked)
    _show(Console(output=output), output, evaluation.name, outcome, as_json)
    return {"passed": 0, "failed": EXIT_FAILED}.get(outcome.state, EXIT_UNTRUSTED)


def _measures(evaluation: Evaluation) -> list[str]:
    return [summary.measure for summary in evaluation.summaries]


def _show(
    console: Console, output: Path | None, run: str, outcome: GateOutcome, as_json: bool
) -> None:
    if output is not None and output.suffix.lower() == ".xml":
        console.result(gate_junit(outcome).rstrip("\n"))
    elif as_json:
        console.json({"run": run, **gate_json(outcome)})
    else:
        console.result(gate_table(outcome))
