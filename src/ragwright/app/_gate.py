"""`ragwright gate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..experiment import open_results
from ..jobs import Gating, gate_evaluation
from ..measure import GateOptions, GateOutcome
from ..report import gate_json, gate_junit, gate_table
from ._compare import CLUSTER_HELP, RUN_HELP
from ._console import EXIT_UNTRUSTED, Console, reported
from ._flags import with_flags
from ._options import HERE, Json, Output, Project, Seed

EXIT_FAILED = 100


@dataclass(frozen=True, slots=True)
class GateFlags:
    """The flags of every command that holds a run to rules; each is an option of its own."""

    baseline: Annotated[
        str, typer.Option("--baseline", help="The run, or the file, to be not worse than.")
    ] = ""
    floor: Annotated[
        float,
        typer.Option(
            "--floor", min=0, max=1, help="Least share of rows with gold that has a score."
        ),
    ] = 0.95
    sure: Annotated[
        bool, typer.Option("--sure", help="The whole 95 % interval must clear a threshold.")
    ] = False
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated", help="Judged measures count only if people checked the judge."
        ),
    ] = False
    min_kappa: Annotated[
        float | None,
        typer.Option(
            "--min-kappa", min=0, max=1, help="And agreed with it so far beyond chance (0.6)."
        ),
    ] = None
    corrected: Annotated[
        bool,
        typer.Option("--corrected", help="Thresholds are for the mean less the judge's bias."),
    ] = False
    least: Annotated[
        int, typer.Option("--least", min=1, help="Fewest scored rows that say anything.")
    ] = 10
    cluster: Annotated[str, typer.Option("--cluster", help=f"With --baseline. {CLUSTER_HELP}")] = ""
    project: Project = HERE
    as_json: Json = False
    output: Output = None
    seed: Seed = 0

    @property
    def gating(self) -> Gating:
        """How the gate reads a run."""
        options = GateOptions(
            self.floor, self.sure, self.calibrated, self.min_kappa, self.corrected, self.least
        )
        return Gating(options, self.cluster, self.seed)


@reported
@with_flags
def command(
    flags: GateFlags,
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    rules: Annotated[
        list[str],
        typer.Option(
            "--rule", help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02 with --baseline; repeatable."
        ),
    ],
) -> int:
    """Say whether a run may go out: exit code 0 passed, 100 failed, 101 cannot be trusted."""
    names = [run, *([flags.baseline] if flags.baseline else [])]
    evaluation, *others = open_results(flags.project, names, flags.seed)
    against = others[0] if others else None
    outcome = gate_evaluation(flags.project, evaluation, rules, flags.gating, against)
    _show(Console(output=flags.output), flags.output, evaluation.name, outcome, flags.as_json)
    return gate_code(outcome)


def gate_code(outcome: GateOutcome) -> int:
    """The exit code that says what became of a gate."""
    return {"passed": 0, "failed": EXIT_FAILED}.get(outcome.state, EXIT_UNTRUSTED)


def _show(
    console: Console, output: Path | None, run: str, outcome: GateOutcome, as_json: bool
) -> None:
    if output is not None and output.suffix.lower() == ".xml":
        console.result(gate_junit(outcome).rstrip("\n"))
    elif as_json:
        console.json({"run": run, **gate_json(outcome)})
    else:
        console.result(gate_table(outcome, console.columns()))
