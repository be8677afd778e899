"""`ragwright outputs measure` and `outputs drift`."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import Any

from typer import Option

from ..core import ConfigError, count_noun
from ..jobs import NoticeSent
from ..measure import AnytimeMean
from ..monitoring import (
    DriftReport,
    MeasureDrift,
    MeasureReport,
    MeasureServedOptions,
    measure_options,
)
from ._console import EXIT_ERROR, EXIT_FAILED, EXIT_UNTRUSTED, table
from ._flags import Flags, takes, tenant_name
from ._show import show_progress

_MOST_MOVES = 20


@takes("project overrides quiet as_json")
def measure_command(
    flags: Flags,
    retry_errors: bool = Option(
        False, "--retry-errors", help="Also score answers again whose scoring failed."
    ),
    limit: int | None = Option(None, min=1, help="Maximum number of answers to score."),
    background: bool = Option(
        False,
        "--background",
        help="Yield to served answers: one request at a time, none while an answer is written.",
    ),
) -> int:
    """Score a share of the served answers.

    `serve.measure` sets the share; `serve` does this by itself.
    """
    console = flags.console
    if background and hasattr(os, "nice"):
        os.nice(10)
    with flags.open(replace(flags.session, background=background)) as bench:
        with show_progress(console, bench):
            done = bench.measure_served(MeasureServedOptions(retry_errors, limit))
        sent = bench.send_alerts()
        budget = measure_options(bench.project.settings).daily_budget
    notices = {"daily_budget": budget, "notices": [asdict(notice) for notice in sent]}
    console.show(
        lambda: {**asdict(done), **notices}, lambda: "\n".join(_done_lines(done, budget, sent))
    )
    return EXIT_ERROR if done.stopped and done.reason and not done.scored else 0


def _done_lines(
    done: MeasureReport, budget: float | None, sent: tuple[NoticeSent, ...]
) -> list[str]:
    if done.busy:
        return ["another process measures served answers at the moment"]
    limit = "" if budget is None else f" of {budget:g}"
    lines = [
        f"{count_noun(done.drawn, 'answer')} drawn; {count_noun(done.scored, 'score')}, "
        f"{done.unscored} without a value, "
        f"{done.failed} failed; {count_noun(done.waiting, 'answer waits', 'answers wait')}",
        f"cost {done.cost:.6f}; today {done.spent_today:.6f}{limit}",
    ]
    if done.stopped:
        lines.append(f"stopped: {done.stopped}")
    elif done.reason:
        lines.append(f"last error: {done.reason}")
    return lines + [f"notice to {n.address}: {'sent' if n.sent else n.reason}" for n in sent]


@takes("project overrides as_json")
def drift_command(
    flags: Flags,
    scope: str | None = Option(
        None,
        help="Only outputs of this tenant; by default those without a tenant.",
        callback=tenant_name,
    ),
    every_scope: bool = Option(
        False, "--every-scope", help="Outputs of all tenants, and those without one."
    ),
) -> int:
    """Show how scores of served answers moved.

    Exit code: 0 not worse, 100 worse, 101 not trustworthy.
    """
    if scope and every_scope:
        raise ConfigError("--every-scope covers more than one tenant", where="--scope")
    with flags.open() as bench:
        report = bench.drift(None if every_scope else scope or "")
        share = measure_options(bench.project.settings).share
    console = flags.console
    console.show(lambda: _document(report), lambda: "\n".join(_lines(report)))
    if not share and not flags.as_json:
        console.remark("serve.measure.share is 0: no served answer is measured now")
    if not report.trusted:
        return EXIT_UNTRUSTED
    return EXIT_FAILED if report.worse else 0


def _document(report: DriftReport) -> dict[str, Any]:
    state = "worse" if report.worse else "passed"
    measures = [
        {"text": str(drift), "change": drift.change, "coverage": drift.coverage, **asdict(drift)}
        for drift in report.measures
    ]
    return {
        "state": state if report.trusted else "untrusted",
        **asdict(report),
        "measures": measures,
    }


def _lines(report: DriftReport) -> list[str]:
    lines = [str(drift) for drift in report.measures]
    rows = [["measure", "reference", "interval", "newest", "interval", "n", "coverage"]]
    rows += [_row(drift) for drift in report.measures]
    lines += ["", table(rows, right=(1, 3, 5, 6))]
    for drift in report.measures:
        if silent := drift.states.get("abstained", 0):
            lines.append(
                f"{drift.measure}: {count_noun(silent, 'answer')} abstained, outside n and coverage"
            )
    moves = list(dict.fromkeys(move for drift in report.measures for move in drift.moves))
    if moves:
        shown = sorted(moves, key=lambda move: move.day)[-_MOST_MOVES:]
        rows = [["day", "changed", "before", "after"]]
        lines += ["", table(rows + [[m.day, m.part, m.before, m.after] for m in shown])]
        if len(moves) > len(shown):
            lines.append(f"the newest {len(shown)} of {len(moves)} changes; --json has all")
    if not report.trusted:
        lines += ["", "not trustworthy: too few of the drawn answers have a score"]
    return [*lines, *(f"note: {note}" for note in report.notes)]


def _row(drift: MeasureDrift) -> list[str]:
    coverage = "" if drift.coverage is None else f"{drift.coverage:.1%}"
    sides = (*_watched(drift.reference), *_watched(drift.current))
    return [drift.measure, *sides, str(drift.current.n), coverage]


def _watched(watched: AnytimeMean) -> tuple[str, str]:
    if watched.mean is None or watched.low is None or watched.high is None:
        return "", ""
    interval = f"{watched.low:.4f} .. {watched.high:.4f}"
    return f"{watched.mean:.4f}", "moved within it" if watched.moved else interval
