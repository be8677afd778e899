"""`ragwright gate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..experiment import Evaluation, open_results
from ..jobs import Gating, gate_evaluation
from ..measure import GateOptions, GateOutcome
from ..report import failing_json, failing_text, gate_json, gate_junit, gate_table
from ._compare import CLUSTER_HELP, RUN_HELP
from ._console import EXIT_FAILED, EXIT_UNTRUSTED, Console, reported
from ._flags import with_flags
from ._options import HERE, Json, Output, Project, Seed


@dataclass(frozen=True, slots=True)
class GateFlags:
    """The flags of every command with gate rules; each is a separate option."""

    baseline: Annotated[str, typer.Option("--baseline", help="Run or file to compare with.")] = ""
    floor: Annotated[
        float,
        typer.Option(
            "--floor", min=0, max=1, help="Smallest share of rows with gold that must have a score."
        ),
    ] = 0.95
    sure: Annotated[
        bool, typer.Option("--sure", help="Require the whole 95 % interval to meet each threshold.")
    ] = False
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated",
            help="Accept judged measures only if the judge agreed with people above chance.",
        ),
    ] = False
    min_kappa: Annotated[
        float | None,
        typer.Option("--min-kappa", min=0, max=1, help="Least kappa of a calibration (0.6)."),
    ] = None
    corrected: Annotated[
        bool,
        typer.Option(
            "--corrected", help="Apply thresholds to the mean corrected for the judge's bias."
        ),
    ] = False
    least: Annotated[
        int, typer.Option("--least", min=1, help="Fewest scored rows for a decision.")
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
    """Check a run against rules: exit code 0 passed, 100 failed, 101 not trustworthy."""
    names = [run, *([flags.baseline] if flags.baseline else [])]
    evaluation, *others = open_results(flags.project, names, flags.seed)
    against = others[0] if others else None
    outcome = gate_evaluation(flags.project, evaluation, rules, flags.gating, against)
    _show(Console(output=flags.output), flags.output, evaluation, outcome, flags.as_json)
    return gate_code(outcome)


def gate_code(outcome: GateOutcome) -> int:
    """The exit code of a gate's outcome."""
    return {"passed": 0, "failed": EXIT_FAILED}.get(outcome.state, EXIT_UNTRUSTED)


def _show(
    console: Console,
    output: Path | None,
    evaluation: Evaluation,
    outcome: GateOutcome,
    as_json: bool,
) -> None:
    if output is not None and output.suffix.lower() == ".xml":
        console.result(gate_junit(outcome).rstrip("\n"))
    elif as_json:
        weak = failing_json(evaluation.results, outcome)
        console.json({"run": evaluation.name, **gate_json(outcome), "failing": weak})
    else:
        weak_table = failing_text(evaluation.results, outcome, console.columns())
        tables = (weak_table, gate_table(outcome, console.columns()))
        console.result("\n\n".join(text for text in tables if text))
