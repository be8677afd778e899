"""Experiments: stored runs, the report of one, and two compared row by row."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ...core import RagwrightError, StoreError
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import PRIVATE, error_page, page

router = APIRouter()

_LISTED = 200


@router.get("/experiments", response_class=HTMLResponse)
async def experiments(request: Request) -> HTMLResponse:
    """List stored runs, newest first; a run under way shows how far it is."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            runs = await asyncio.to_thread(bench.list_runs)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    by_testset: dict[str, list[Any]] = {}
    for run in runs[:_LISTED]:
        by_testset.setdefault(run.testset, []).append(run)
    values = {
        "title": "Experiments",
        "groups": by_testset,
        "left_out": max(0, len(runs) - _LISTED),
        "open": any(run.state == "open" for run in runs[:_LISTED]),
    }
    return page(request, "experiments.html", values)


@router.get("/experiments/{run}", response_class=HTMLResponse)
async def experiment(request: Request, run: str, baseline: str = "") -> HTMLResponse:
    """The report of a run, or of a run against a baseline that was chosen before."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        names = [baseline, run] if baseline else [run]
        async with service.using(opened) as bench:
            made = await asyncio.to_thread(lambda: bench.report(*names).html())
    except StoreError as error:
        return error_page(request, ApiError(404, error.what, "not_found"))
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    # The report states what its own scripts may do; nothing is loaded from elsewhere.
    return HTMLResponse(made, headers=dict(PRIVATE))
