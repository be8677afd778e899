"""`ragwright promote`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ...core import ConfigError
from ...jobs import Promoted, Promoting
from ...project import Change, ProjectFolder, Served, Session
from ...report import gate_json, gate_table
from ...workbench import Workbench
from .._compare import RUN_HELP
from .._console import Console, reported, table
from .._flags import with_flags
from .._gate import GateFlags, gate_code
from .._options import DryRun


@reported
@with_flags
def command(
    flags: GateFlags,
    run: Annotated[str, typer.Argument(help=RUN_HELP, show_default=False)] = "",
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            help="nDCG@10>=0.7, or nDCG@10>=baseline-0.02; repeatable. Without a baseline rule, "
            "no measure may be worse than the served configuration.",
        ),
    ] = None,
    rules_alone: Annotated[
        bool,
        typer.Option(
            "--rules-alone",
            help="Check the rules only; do not compare with the served configuration.",
        ),
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", help="Reason for the history; required with --back.")
    ] = "",
    history: Annotated[bool, typer.Option("--history", help="List every change.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the served configuration.")] = False,
    back: Annotated[
        bool, typer.Option("--back", help="Serve the previous configuration again.")
    ] = False,
    dry_run: DryRun = False,
) -> int:
    """Serve the settings of a run if it passes the gate; the exit codes are the gate's."""
    if sum((bool(run), history, show, back)) != 1:
        raise ConfigError(
            "give a run, or one of --history, --show, --back", where="ragwright promote"
        )
    console = Console(output=flags.output)
    folder = ProjectFolder(flags.project).require()
    if history:
        _show_history(console, Served(folder).history(), flags.as_json)
        return 0
    if show:
        _show_served(console, Served(folder), flags.as_json)
        return 0
    with Workbench.open(flags.project, Session(seed=flags.seed)) as bench:
        if back:
            change = bench.promote_back(reason)
            _show_change(console, change, flags.as_json)
            return 0
        how = Promoting(flags.gating, flags.baseline, rules_alone, reason=reason, dry_run=dry_run)
        found = bench.promote(run, rules or (), how)
    _show_promoted(console, found, flags.as_json)
    return gate_code(found.outcome)


def _show_promoted(console: Console, found: Promoted, as_json: bool) -> None:
    if as_json:
        told: dict[str, Any] = {"run": found.run, **gate_json(found.outcome)}
        served = None if found.served is None else asdict(found.served)
        told |= {"promoted": found.changed, "baseline": found.baseline, "notes": found.notes}
        console.json({**told, "served": served})
        return
    lines = [gate_table(found.outcome, console.columns()), *found.notes]
    number = "nothing" if found.served is None else f"number {found.served.number}"
    said = f"now served: {number}" if found.changed else f"not promoted; served: {number}"
    console.result("\n".join([*lines, said]))


def _show_change(console: Console, change: Change, as_json: bool) -> None:
    if as_json:
        console.json(asdict(change))
    else:
        console.result(
            f"now served: number {change.number}, in place of {change.replaced} (run {change.run})"
        )


def _show_history(console: Console, changes: Sequence[Change], as_json: bool) -> None:
    if as_json:
        console.json({"changes": [asdict(change) for change in changes]})
    elif not changes:
        console.result("no configuration has been served yet: run `ragwright promote RUN`")
    else:
        rows = [["at", "by", "action", "number", "run", "baseline", "gate", "reason"]]
        rows += [_line(change) for change in changes]
        console.result(table(rows, right=(3,)))


def _line(change: Change) -> list[str]:
    gate = str(change.gate.get("outcome", ""))
    facts = [change.at, change.by, change.action, str(change.number), change.run]
    return [*facts, change.baseline, gate, change.reason]


def _show_served(console: Console, served: Served, as_json: bool) -> None:
    change = served.current()
    if change is None:
        raise ConfigError(
            "no configuration is served yet",
            where=str(served.folder),
            hint="run `ragwright promote RUN`",
        )
    if as_json:
        configuration, _ = served.snapshot(change.number)
        console.json({**asdict(change), **configuration.body()})
        return
    head = f"# number {change.number}, since {change.at}, by {change.by}, run {change.run}"
    console.result(f"{head}\n{served.text(change.number).rstrip()}")
