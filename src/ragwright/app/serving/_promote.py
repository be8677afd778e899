"""`ragwright promote`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from typer import Argument, Option

from ...core import ConfigError
from ...jobs import PromotionOptions, PromotionResult
from ...project import Change, ProjectFolder, Served
from ...report import gate_json, gate_table
from .._console import Console, table
from .._flags import RUN_HELP, Flags, takes
from .._gate import GateFlags, gate_code


@takes("project as_json output seed dry_run")
def command(
    flags: Flags,
    gate: GateFlags,
    run: str = Argument("", help=RUN_HELP, show_default=False),
    rules: list[str] | None = Option(
        None,
        "--gate",
        help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02; repeatable. Without a baseline rule, "
        "no measure may be worse than the served configuration.",
    ),
    rules_alone: bool = Option(
        False,
        "--rules-alone",
        help="Check the rules only; do not compare with the served configuration.",
    ),
    reason: str = Option("", help="Reason for the history; required with --back."),
    history: bool = Option(False, "--history", help="List every change."),
    show: bool = Option(False, "--show", help="Print the served configuration."),
    back: bool = Option(False, "--back", help="Serve the previous configuration again."),
) -> int:
    """Serve a run's settings if it passes the gate.

    The exit codes are those of `ragwright gate`.
    """
    if sum((bool(run), history, show, back)) != 1:
        raise ConfigError(
            "give a run, or one of --history, --show, --back", where="ragwright promote"
        )
    console = flags.console
    served = Served(ProjectFolder(flags.project).require())
    if history or show:
        if history:
            _show_history(console, served.history())
        else:
            _show_served(console, served)
        return 0
    with flags.open() as bench:
        if back:
            change = bench.promote_back(reason)
            console.show(
                lambda: asdict(change),
                lambda: (
                    f"now served: number {change.number}, in place of {change.replaced} "
                    f"(run {change.run})"
                ),
            )
            return 0
        options = PromotionOptions(
            gate.gating(flags.seed),
            gate.baseline,
            rules_alone,
            reason=reason,
            dry_run=flags.dry_run,
        )
        promoted = bench.promote(run, rules or (), options)
    console.show(lambda: _document(promoted), lambda: _text(promoted, console.columns()))
    return gate_code(promoted.outcome)


def _document(promoted: PromotionResult) -> dict[str, Any]:
    return {
        "run": promoted.run,
        **gate_json(promoted.outcome),
        "promoted": promoted.changed,
        "baseline": promoted.baseline,
        "notes": promoted.notes,
        "served": None if promoted.served is None else asdict(promoted.served),
    }


def _text(promoted: PromotionResult, columns: int) -> str:
    number = "nothing" if promoted.served is None else f"number {promoted.served.number}"
    ending = f"now served: {number}" if promoted.changed else f"not promoted; served: {number}"
    return "\n".join([gate_table(promoted.outcome, columns), *promoted.notes, ending])


def _show_history(console: Console, changes: Sequence[Change]) -> None:
    rows = [["at", "by", "action", "number", "run", "baseline", "gate", "reason"]]
    rows += [_line(change) for change in changes]
    console.show(
        lambda: {"changes": [asdict(change) for change in changes]},
        lambda: (
            table(rows, right=(3,))
            if changes
            else "no configuration has been served yet: run `ragwright promote RUN`"
        ),
    )


def _line(change: Change) -> list[str]:
    gate = str(change.gate.get("outcome", ""))
    facts = [change.at, change.by, change.action, str(change.number), change.run]
    return [*facts, change.baseline, gate, change.reason]


def _show_served(console: Console, served: Served) -> None:
    change = served.current()
    if change is None:
        raise ConfigError(
            "no configuration is served yet",
            where=str(served.folder),
            hint="run `ragwright promote RUN`",
        )
    head = f"# number {change.number}, since {change.at}, by {change.by}, run {change.run}"
    console.show(
        lambda: {**asdict(change), **served.snapshot(change.number)[0].body()},
        lambda: f"{head}\n{served.text(change.number).rstrip()}",
    )
