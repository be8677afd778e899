"""`ragwright gate`."""

from __future__ import annotations

from dataclasses import dataclass

from typer import Argument, BadParameter, Option

from ..core import ConfigError
from ..experiment import Evaluation, open_results, spreads_of
from ..jobs import PromotionGate, gate_evaluation
from ..measure import TYPICAL_SPREADS, GateOptions, GateOutcome, ScoreSpread
from ..report import (
    failing_json,
    failing_text,
    gate_json,
    gate_junit,
    gate_markdown,
    gate_table,
    plan_json,
    plan_table,
)
from ._console import EXIT_FAILED, EXIT_UNTRUSTED
from ._flags import CLUSTER_HELP, RUN_HELP, Flags, takes


@dataclass(frozen=True, slots=True)
class GateFlags:
    """The options of commands with gate rules."""

    baseline: str = Option("", help="Run or file to compare with.")
    floor: float = Option(
        0.95, min=0, max=1, help="Smallest share of rows with gold that must have a score."
    )
    sure: bool = Option(
        False, "--sure", help="Require the whole 95 % interval to meet each threshold."
    )
    calibrated: bool = Option(
        False,
        "--calibrated",
        help="Accept judged measures only if the judge agreed with people above chance.",
    )
    min_kappa: float | None = Option(
        None, min=0, max=1, help="Minimum agreement beyond chance of judges with people."
    )
    corrected: bool = Option(
        False, "--corrected", help="Apply thresholds to the mean minus the judge's bias."
    )
    least: int = Option(10, min=1, help="Minimum number of scored rows for a decision.")
    cluster: str = Option("", help=f"With --baseline. {CLUSTER_HELP}")

    def gating(self, seed: int) -> PromotionGate:
        """Options of the gate."""
        options = GateOptions(
            self.floor, self.sure, self.calibrated, self.min_kappa, self.corrected, self.least
        )
        return PromotionGate(options, self.cluster, seed)


@takes("project as_json output seed")
def command(
    flags: Flags,
    gate: GateFlags,
    run: str = Argument("", help=RUN_HELP, show_default=False),
    rules: list[str] = Option(
        [], "--rule", help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02 with --baseline; repeatable."
    ),
    plan: bool = Option(
        False, "--plan", help="Show the rows that a margin needs; with RUN, from its scores."
    ),
    markdown: bool = Option(
        False, "--markdown", help="Print the comment for a pull request instead of tables."
    ),
) -> int:
    """Check a run against rules, for CI.

    Exit code: 0 passed, 100 failed, 101 not trustworthy.
    """
    names = [name for name in (run, gate.baseline) if name]
    if plan and not names:
        return _show_plan(flags, None, None, "")
    if not run:
        raise BadParameter("give the run to check, or --plan", param_hint="RUN")
    if not (plan or rules):
        raise BadParameter("give a rule such as 'nDCG@10>=0.7', or --plan", param_hint="--rule")
    evaluation, *others = open_results(flags.project, names, flags.seed)
    against = others[0] if others else None
    if plan:
        return _show_plan(flags, evaluation, against, gate.cluster)
    outcome = gate_evaluation(flags.project, evaluation, rules, gate.gating(flags.seed), against)
    if markdown:
        flags.console.result(gate_markdown(evaluation, outcome))
    else:
        _show(flags, evaluation, outcome)
    return gate_code(outcome)


def _show_plan(
    flags: Flags, evaluation: Evaluation | None, other: Evaluation | None, cluster: str
) -> int:
    """Show the rows that margins need: by typical spreads, or by those of a run."""
    spreads: tuple[ScoreSpread, ...] = TYPICAL_SPREADS
    if evaluation is not None:
        spreads = tuple(spreads_of(evaluation, other, cluster))
        if not spreads:
            raise ConfigError(
                "no measure has two scored rows that differ",
                where=evaluation.name,
                hint="run gate --plan without RUN for typical scores",
            )
    console = flags.console
    console.show(lambda: plan_json(spreads), lambda: plan_table(spreads, console.columns()))
    return 0


def gate_code(outcome: GateOutcome) -> int:
    """The exit code of a gate's outcome."""
    return {"passed": 0, "failed": EXIT_FAILED}.get(outcome.state, EXIT_UNTRUSTED)


def _show(flags: Flags, evaluation: Evaluation, outcome: GateOutcome) -> None:
    console = flags.console
    if flags.output is not None and flags.output.suffix.lower() == ".xml":
        console.result(gate_junit(outcome).rstrip("\n"))
    elif flags.as_json:
        weak = failing_json(evaluation.results, outcome)
        console.json({"run": evaluation.name, **gate_json(outcome), "failing": weak})
    else:
        weak_table = failing_text(evaluation.results, outcome, console.columns())
        tables = (weak_table, gate_table(outcome, console.columns()))
        console.result("\n\n".join(text for text in tables if text))
