"""Outputs: what was served and drafted, and what people said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...core import RagwrightError
from ...drafting import FeedbackVerdict, OutputQuery
from ...monitoring import shown_day
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import as_owner, error_page, page
from ._drift_plot import drift_plot

if TYPE_CHECKING:
    from ...monitoring import DriftReport, MeasureDrift, Moved
    from ...workbench import Workbench

router = APIRouter()

_LISTED = 50
_PERIOD = 28
"""Days of the figures at the top."""
_MOVES = 20
"""Changes that are listed, the newest."""
_VERDICTS: dict[str, FeedbackVerdict] = {"accepted": "accepted", "rejected": "rejected", "": ""}


@router.get("/outputs", response_class=HTMLResponse)
async def outputs(request: Request, verdict: str = "") -> HTMLResponse:
    """List texts, newest first."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        query = OutputQuery(kind="text", scope=None, verdict=_VERDICTS.get(verdict, ""))
        async with service.using(opened) as bench:
            found = await service.for_page(
                lambda: list(bench.outputs.find(query, limit=_LISTED, newest=True))
            )
            total = await service.for_page(bench.outputs.count, query)
            measured = await service.for_page(_measured, bench)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    values = {"title": "Outputs", "outputs": found, "total": total, "verdict": verdict}
    return page(request, "outputs.html", {**values, **measured})


def _measured(bench: Workbench) -> dict[str, Any]:
    """What the scores of served answers say, of all tenants together: numbers, no texts."""
    options = bench.project.settings.serve.measure
    scores = bench.outputs.scores
    report = _drift(bench)
    moves = sorted({move for one in report.measures for move in one.moves}, key=_order)
    shown = moves[-_MOVES:]
    days = {day: number for number, day in enumerate(dict.fromkeys(m.day for m in shown), 1)}
    return {
        "options": options,
        "served": scores.served(_PERIOD),
        "period": _PERIOD,
        "today": scores.today(),
        "waiting": scores.count_waiting(),
        "report": report,
        "moves": [(days[move.day], shown_day(move.day), move) for move in shown],
        "more_moves": len(moves) - len(shown),
        "plots": {
            one.measure: drift_plot(one, _drawn(days, one), options.window)
            for one in report.measures
            if one.days
        },
    }


_DRIFTS: WeakKeyDictionary[Workbench, tuple[object, DriftReport]] = WeakKeyDictionary()
"""The newest report of each configuration, and what it was made from."""


def _drift(bench: Workbench) -> DriftReport:
    """The drift, computed again only where a score, the day or a setting changed."""
    outputs = bench.outputs
    made_from = (outputs.scores.stamp(), outputs.now()[:10], bench.project.settings.serve.measure)
    known = _DRIFTS.get(bench)
    if known is None or known[0] != made_from:
        known = _DRIFTS[bench] = (made_from, bench.drift())
    return known[1]


def _drawn(days: Mapping[str, int], one: MeasureDrift) -> dict[str, int]:
    """The days that belong in the plot of a measure: on them something of it changed."""
    own = {move.day for move in one.moves}
    return {day: number for day, number in days.items() if day in own}


def _order(move: Moved) -> tuple[str, str, str, str]:
    return move.day, move.part, move.before, move.after


@router.get("/outputs/{name}", response_class=HTMLResponse)
async def output(request: Request, name: str) -> HTMLResponse:
    """Show a text with its passages, its prompt and its feedback history."""
    shown = await as_owner(request, lambda bench: _read(bench.outputs, name))
    if isinstance(shown, HTMLResponse):
        return shown
    return page(request, "output.html", {"title": f"Output {name}", **shown})


def _read(stored: Any, name: str) -> dict[str, Any]:
    found = stored.get(name)
    prompt = stored.get(found.prompt) if found.prompt else None
    return {
        "output": found,
        "hits": stored.used(name),
        "prompt": prompt,
        "feedback": stored.feedback(name),
        "scores": stored.scores.of(name),
    }


@router.post("/outputs/{name}")
async def respond(
    request: Request, name: str, verdict: str = Form(""), note: str = Form("")
) -> Response:
    """Store what the reader says of a text."""
    by, said = caller_of(request).name or "pages", _VERDICTS.get(verdict, "")
    failed = await as_owner(
        request,
        lambda bench: bench.outputs.respond(name, by=by, verdict=said, note=note[:10_000]),
    )
    if isinstance(failed, HTMLResponse):
        return failed
    return RedirectResponse(f"/outputs/{name}", 303)
