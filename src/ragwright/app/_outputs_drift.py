"""`ragwright outputs measure` and `outputs drift`."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core import ConfigError, counted
from ..monitoring import Measuring, measure_options
from ..project import Session
from ..workbench import Workbench
from ._console import EXIT_ERROR, EXIT_FAILED, EXIT_UNTRUSTED, Console, reported, table
from ._options import HERE, Json, Overrides, Project, Quiet, tenant_name
from ._show import show_progress

if TYPE_CHECKING:
    from ..jobs import NoticeSent
    from ..measure import Watched
    from ..monitoring import DriftReport, Measured, MeasureDrift

_MOST_MOVES = 20


@reported
def measure_command(
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Also score again what ended in an error, now.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Most answers to score.")
    ] = None,
    background: Annotated[
        bool,
        typer.Option(
            "--background",
            help="Give way to served answers: one request at a time, none while one is written.",
        ),
    ] = False,
    overrides: Overrides = None,
    project: Project = HERE,
    quiet: Quiet = False,
    as_json: Json = False,
) -> int:
    """Score the share of served answers that `serve.measure` sets; `serve` does it by itself."""
    console = Console(quiet)
    if background and hasattr(os, "nice"):
        os.nice(10)
    with Workbench.open(project, Session(tuple(overrides or ()), background=background)) as bench:
        with show_progress(console, bench):
            done = bench.measure_served(Measuring(retry_errors, limit))
        sent = bench.send_alerts()
        budget = measure_options(bench.project.settings).daily_budget
    if as_json:
        notices = [asdict(one) for one in sent]
        console.json({**asdict(done), "daily_budget": budget, "notices": notices})
    else:
        console.result("\n".join(_done_lines(done, budget, sent)))
    return EXIT_ERROR if done.stopped and done.reason and not done.scored else 0


def _done_lines(done: Measured, budget: float | None, sent: tuple[NoticeSent, ...]) -> list[str]:
    if done.busy:
        return ["another process measures served answers at the moment"]
    limit = "" if budget is None else f" of {budget:g}"
    lines = [
        f"{counted(done.drawn, 'answer')} drawn; {counted(done.scored, 'score')}, "
        f"{done.unscored} without a value, "
        f"{done.failed} failed; {counted(done.waiting, 'answer waits', 'answers wait')}",
        f"cost {done.cost:.6f}; today {done.spent_today:.6f}{limit}",
    ]
    if done.stopped:
        lines.append(f"stopped: {done.stopped}")
    elif done.reason:
        lines.append(f"last error: {done.reason}")
    for one in sent:
        lines.append(f"notice to {one.address}: {'sent' if one.sent else one.reason}")
    return lines


@reported
def drift_command(
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope",
            help="Of this tenant; by default those without a tenant.",
            callback=tenant_name,
        ),
    ] = None,
    every_scope: Annotated[
        bool, typer.Option("--every-scope", help="Of all tenants, and those without one.")
    ] = False,
    overrides: Overrides = None,
    project: Project = HERE,
    as_json: Json = False,
) -> int:
    """Show how scores of served answers moved: exit code 0, 100 worse, 101 not trustworthy."""
    if scope and every_scope:
        raise ConfigError("--every-scope covers more than one tenant", where="--scope")
    with Workbench.open(project, Session(tuple(overrides or ()))) as bench:
        report = bench.drift(None if every_scope else scope or "")
        share = measure_options(bench.project.settings).share
    console = Console()
    if as_json:
        console.json(_document(report))
    else:
        console.result("\n".join(_lines(report)))
        if not share:
            console.remark("serve.measure.share is 0: no served answer is measured now")
    if not report.trusted:
        return EXIT_UNTRUSTED
    return EXIT_FAILED if report.worse else 0


def _state(report: DriftReport) -> str:
    if not report.trusted:
        return "untrusted"
    return "worse" if report.worse else "passed"


def _document(report: DriftReport) -> dict[str, Any]:
    measures = [
        {"text": str(one), "change": one.change, "coverage": one.coverage, **asdict(one)}
        for one in report.measures
    ]
    return {"state": _state(report), **asdict(report), "measures": measures}


def _lines(report: DriftReport) -> list[str]:
    lines = [str(one) for one in report.measures]
    rows = [["measure", "reference", "interval", "newest", "interval", "n", "coverage"]]
    rows += [_row(one) for one in report.measures]
    lines += ["", table(rows, right=(1, 3, 5, 6))]
    for one in report.measures:
        if silent := one.states.get("abstained", 0):
            lines.append(
                f"{one.measure}: {counted(silent, 'answer')} abstained, outside n and coverage"
            )
    moves = list(dict.fromkeys(move for one in report.measures for move in one.moves))
    if moves:
        shown = sorted(moves, key=lambda move: move.day)[-_MOST_MOVES:]
        rows = [["day", "changed", "before", "after"]]
        lines += ["", table(rows + [[m.day, m.part, m.before, m.after] for m in shown])]
        if len(moves) > len(shown):
            lines.append(f"the newest {len(shown)} of {len(moves)} changes; --json has all")
    if not report.trusted:
        lines += ["", "not trustworthy: too few of the drawn answers have a score"]
    return [*lines, *(f"note: {note}" for note in report.notes)]


def _row(one: MeasureDrift) -> list[str]:
    coverage = "" if one.coverage is None else f"{one.coverage:.1%}"
    return [
        one.measure,
        *_watched(one.reference),
        *_watched(one.current),
        str(one.current.n),
        coverage,
    ]


def _watched(watched: Watched) -> tuple[str, str]:
    if watched.mean is None or watched.low is None or watched.high is None:
        return "", ""
    interval = f"{watched.low:.4f} .. {watched.high:.4f}"
    return f"{watched.mean:.4f}", "moved within it" if watched.moved else interval
