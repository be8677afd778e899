"""Experiments: sweeps, stored runs, and the report of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...core import RagwrightError
from ...experiment import KnownRun, RunMean, run_means
from ...report import Board, ScoredRun, Subject, value_text
from ...workbench import Workbench
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import PRIVATE, error_page, page, run_as_owner
from ._baselines import SHOWN, baseline_lines
from ._plots import PlotPoint, scatter, span_of, strip

router = APIRouter()

_LISTED = 200
_SCORED = 60
"""Runs whose scores are listed, the newest."""
_SWEEPS = 20
_RANKED = 60
"""Trials of a leaderboard on a page; the report has all."""

_FACTS = {"context_tokens": "tokens", "cost": "cost", "seconds": "seconds"}


@router.get("/experiments", response_class=HTMLResponse)
async def experiments(request: Request) -> HTMLResponse:
    """List sweeps and runs, newest first."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            runs = await service.for_page(bench.list_runs)
            sweeps = await service.for_page(bench.list_sweeps)
            baselines = await service.for_page(bench.list_baselines, SHOWN)
            means = await service.for_page(_means_of_runs, bench, runs[:_SCORED])
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    by_testset: dict[str, list[Any]] = {}
    for run in runs[:_LISTED]:
        by_testset.setdefault(run.testset, []).append(run)
    values = {
        "title": "Experiments",
        "groups": by_testset,
        "means": means,
        "abstained": any(entry.abstained for run in means.values() for entry in run.values()),
        "left_out": max(0, len(runs) - _LISTED),
        "sweeps": sweeps[:_SWEEPS],
        "baselines": baseline_lines(baselines),
    }
    return page(request, "experiments.html", values)


_MEANS: WeakKeyDictionary[Workbench, dict[str, dict[str, RunMean]]] = WeakKeyDictionary()
"""Means of complete runs, which do not change."""


def _means_of_runs(bench: Workbench, runs: Sequence[KnownRun]) -> dict[str, dict[str, RunMean]]:
    """Run -> measure -> its means."""
    stored = _MEANS.setdefault(bench, {})
    means_of = {}
    for run in runs:
        means = stored.get(run.id)
        if means is None:
            means = run_means(bench.project.runs, run.id)
            if run.state == "complete":
                stored[run.id] = means
        means_of[run.id] = means
    return means_of


@router.get("/experiments/{run}", response_class=HTMLResponse)
async def experiment(request: Request, run: str) -> Response:
    """Show a sweep or a run: verdict, table, plot; or the report of another kind of run."""
    values = await run_as_owner(request, lambda bench: _experiment_values(bench, run))
    if isinstance(values, HTMLResponse):
        return values
    if values is None:
        return RedirectResponse(f"/experiments/{run}/report", 303)
    return page(request, values.pop("template"), values)


def _experiment_values(bench: Workbench, name: str) -> dict[str, Any] | None:
    report = bench.report(name)
    subject = report.subject
    sweep = next((s for s in bench.list_sweeps() if s.id == subject.facts.get("run")), None)
    if subject.kind == "study" and sweep is not None:
        return {
            "template": "sweep.html",
            "title": f"Sweep {sweep.name or sweep.id}",
            "run": sweep.id,
            "state": sweep.state,
            "headline": report.headline if subject.boards and sweep.state != "open" else None,
            "boards": [_board_values(subject, board, sweep.id) for board in subject.boards],
            "plot": _tradeoff_plot(subject, sweep.id),
            "without": _trials_without_result(subject),
            "facts": subject.facts,
            "notes": subject.notes,
        }
    if (
        subject.kind != "run"
        or subject.diagnosis
        or subject.ablation
        or subject.curves
        or subject.baselines
    ):
        return None
    [entry] = subject.entries
    earlier = [
        other_run
        for other_run in bench.list_runs()
        if other_run.testset == subject.facts.get("testset")
    ]
    return {
        "template": "run.html",
        "title": entry.label or name,
        "run": name,
        "headline": report.headline,
        "facts": subject.facts,
        "measures": entry.summaries,
        "notes": subject.notes,
        "others": [other_run for other_run in earlier if other_run.id != entry.run][:20],
    }


def _board_values(subject: Subject, board: Board, run: str) -> dict[str, Any]:
    known = {entry.id: entry for entry in subject.entries}
    entries = [known[name] for name in board.entries if name in known]
    goals = [goal.name for goal in subject.goals if goal.name in subject.measures]
    measures = list(dict.fromkeys([*goals, *subject.measures]))
    first = [entry.summary(measures[0]) for entry in entries]
    span = span_of(end for summary in first if summary for end in summary.deciding)
    keys = subject.keys
    lines: list[dict[str, Any]] = []
    for place, entry in enumerate(entries, 1):
        if place > _RANKED and entry.id != subject.incumbent:
            continue
        current = entry.id == subject.incumbent
        lead = entry.summary(measures[0])
        lines.append(
            {
                "place": place,
                "entry": entry,
                "current": current,
                "front": entry.id in board.front and len(subject.goals) > 1,
                "lead": lead,
                "strip": strip(*lead.deciding, span) if lead else "",
                "values": [
                    value_text(entry.shown[key]) if key in entry.shown else "" for key in keys
                ],
                "measures": [entry.summary(name) for name in measures[1:]],
                "facts": [_fact_text(entry, name) for name in _FACTS],
                "compare": ""
                if current or not subject.incumbent
                else f"/compare?baseline={run}:{subject.incumbent}&run={run}:{entry.id}",
            }
        )
    facts = [any(line["facts"][at] != "" for line in lines) for at in range(len(_FACTS))]
    return {
        "judge": board.judge,
        "lines": lines,
        "hidden": len(entries) - len(lines),
        "keys": _short_keys(keys),
        "lead": measures[0] if measures else "",
        "measures": measures[1:],
        "facts": [
            name for name, has_value in zip(_FACTS.values(), facts, strict=True) if has_value
        ],
        "held": facts,
    }


def _short_keys(keys: Sequence[str]) -> list[tuple[str, str]]:
    """Each key with its last parts, two at least, that no other one ends with."""
    short = []
    for key in keys:
        parts = key.split(".")
        tails = [".".join(parts[-length:]) for length in range(2, len(parts) + 1)]
        alone = (t for t in tails if sum(k == t or k.endswith(f".{t}") for k in keys) == 1)
        short.append((key, next(alone, key)))
    return short


def _fact_text(entry: ScoredRun, name: str) -> str:
    value = entry.facts.get(name)
    if not value:
        return ""
    return f"{value:,.0f}" if name == "context_tokens" else f"{value:.4g}"


def _tradeoff_plot(subject: Subject, run: str) -> dict[str, Any] | None:
    """The first objective over what an answer takes: the further objective, cost, or context."""
    if not subject.boards or not subject.goals:
        return None
    goal = subject.goals[0].name
    among = [goal.name for goal in subject.goals[1:]] + ["cost", "context_tokens"]
    board = subject.boards[0]
    entries = [entry for entry in subject.entries if entry.id in set(board.entries)]
    kinds = {board.entries[0]: "best", subject.incumbent: "current"}
    for other in among:
        points = [
            PlotPoint(
                x,
                y,
                entry.label or entry.id,
                summary.low if (summary := entry.summary(goal)) else None,
                summary.high if summary else None,
                kinds.get(entry.id, ""),
                entry.id in board.front,
                f"/experiments/{run}:{entry.id}",
            )
            for entry in entries
            if (x := entry.value(other)) is not None and (y := entry.value(goal)) is not None
        ]
        if span_of(point.x for point in points) is not None:
            name = "tokens of context" if other == "context_tokens" else other
            return {"svg": scatter(points, name, goal), "x": name, "y": goal}
    return None


def _trials_without_result(subject: Subject) -> list[str]:
    """Trials without a result, by reason."""
    groups: dict[str, list[str]] = {}
    for entry in subject.entries:
        if entry.state != "done":
            reason = f"{entry.state}: {entry.reason}" if entry.reason else entry.state
            groups.setdefault(reason, []).append(entry.id)
    return [
        f"{len(names)} {reason} ({', '.join(names[:5])}{', …' if names[5:] else ''})"
        for reason, names in groups.items()
    ]


@router.get("/experiments/{run}/report", response_class=HTMLResponse)
async def report(request: Request, run: str, baseline: str = "") -> HTMLResponse:
    """Show the report of a run, or of a run against a baseline that was chosen before."""
    names = [baseline, run] if baseline else [run]
    html = await run_as_owner(request, lambda bench: bench.report(*names).html())
    if isinstance(html, HTMLResponse):
        return html
    # The report states what its own scripts may do; nothing is loaded from elsewhere.
    return HTMLResponse(html, headers=dict(PRIVATE))
