"""Experiments: sweeps, stored runs, and the report of each."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from ...experiment import KnownRun, run_means
from ...workbench import Workbench
from ._base import PRIVATE, page, router, run_as_owner

_LISTED = 200
_SCORED = 60
"""Runs whose scores are listed, the newest."""
_SWEEPS = 20
_BASELINES = 20


@router.get("/experiments")
async def experiments(request: Request) -> HTMLResponse:
    """List sweeps, baselines and runs, newest first."""
    return page(request, "experiments.html", await run_as_owner(request, _listed_runs))


def _listed_runs(bench: Workbench) -> dict[str, Any]:
    runs = bench.list_runs()
    by_testset: dict[str, list[KnownRun]] = {}
    for run in runs[:_LISTED]:
        by_testset.setdefault(run.testset, []).append(run)
    means = {run.id: run_means(bench.project.runs, run.id) for run in runs[:_SCORED]}
    return {
        "title": "Experiments",
        "groups": by_testset,
        "means": means,
        "abstained": any(entry.abstained for run in means.values() for entry in run.values()),
        "left_out": max(0, len(runs) - _LISTED),
        "sweeps": bench.list_sweeps()[:_SWEEPS],
        "baselines": bench.list_baselines(_BASELINES),
    }


@router.get("/compare")
@router.get("/experiments/{run}")
async def report(request: Request, run: str, baseline: str = "") -> HTMLResponse:
    """Show the report of a run, or of a run against a baseline that was chosen before."""
    names = [baseline, run] if baseline else [run]
    html = await run_as_owner(request, lambda bench: bench.report(*names).html())
    # The report states what its own scripts may do; nothing is loaded from elsewhere.
    return HTMLResponse(html, headers=dict(PRIVATE))
