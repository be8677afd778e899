"""Outputs: what was served and drafted, and what people said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...core import RagwrightError
from ...drafting import OutputQuery, ScoreOrder, ServedScore
from ...measure import parse_measures
from ...monitoring import DriftReport, MeasureDrift, format_day, measure_options
from ...workbench import Workbench
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import VERDICTS, error_page, page, run_as_owner
from ._drift_plot import drift_plot

router = APIRouter()

_LISTED = 50
_PERIOD = 28
"""Days of the figures at the top."""
_MOVES = 20
"""Changes that are listed, the newest."""


@dataclass(frozen=True, slots=True)
class _OutputListing:
    """The texts to list, as the address of the page says."""

    verdict: str = ""
    day: str = ""
    worst: str = ""
    page: int = 1

    def href(self, **other: Any) -> str:
        """The address of the listing with something changed."""
        values = {key: value for key, value in asdict(replace(self, **other)).items() if value}
        if values.get("page") == 1:
            del values["page"]
        return f"/outputs?{urlencode(values)}#texts"

    def query(self) -> OutputQuery:
        """The query of the listing.

        Raises:
            ApiError: The day is none.
        """
        since = until = ""
        if self.day:
            try:
                since = date.fromisoformat(self.day).isoformat()
                until = (date.fromisoformat(since) + timedelta(days=1)).isoformat()
            except (ValueError, OverflowError):
                raise ApiError(400, f"{self.day!r} is not a day", "invalid_value") from None
        verdict = VERDICTS.get(self.verdict, "")
        return OutputQuery(kind="text", scope=None, verdict=verdict, since=since, until=until)


@router.get("/outputs", response_class=HTMLResponse)
async def outputs(
    request: Request,
    verdict: str = "",
    day: str = "",
    worst: str = "",
    at: int = Query(1, alias="page", ge=1, le=1_000_000),
) -> HTMLResponse:
    """List texts with their scores: newest first, or the worst by a measure."""
    service, caller = service_of(request), caller_of(request)
    listing = _OutputListing(verdict, day, worst, at)
    try:
        caller.require_owner()
        query = listing.query()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            figures = await service.for_page(_score_figures, bench)
            listing_values = await service.for_page(_listing_page, bench, listing, query)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return page(request, "outputs.html", {"title": "Outputs", **listing_values, **figures})


def _listing_page(bench: Workbench, listing: _OutputListing, query: OutputQuery) -> dict[str, Any]:
    """A page of the texts, and the ways to the pages beside it."""
    stored = bench.outputs
    order = None
    if listing.worst:
        measure = parse_measures(listing.worst)[0]
        order = ScoreOrder(str(measure), measure.definition.higher_is_better)
    skipped = (listing.page - 1) * _LISTED
    texts = stored.page(query, limit=_LISTED, offset=skipped, order=order)
    scores: dict[str, list[ServedScore]] = {}
    for score in stored.scores.of(*(text.id for text in texts)) if texts else ():
        scores.setdefault(score.output, []).append(score)
    total = stored.count(query)
    return {
        "outputs": texts,
        "scores": scores,
        "total": total,
        "first": skipped + 1,
        "listing": listing,
        "shown_day": format_day(listing.day) if listing.day else "",
        "previous": listing.href(page=listing.page - 1) if listing.page > 1 else "",
        "next": listing.href(page=listing.page + 1) if skipped + len(texts) < total else "",
    }


def _score_figures(bench: Workbench) -> dict[str, Any]:
    """Return what the scores of served answers say, of all tenants together: numbers, no texts."""
    options = measure_options(bench.project.settings)
    scores = bench.outputs.scores
    report = _drift_report(bench)
    moves = sorted(
        {move for drift in report.measures for move in drift.moves},
        key=lambda move: (move.day, move.part, move.before, move.after),
    )
    newest = moves[-_MOVES:]
    days = {day: number for number, day in enumerate(dict.fromkeys(m.day for m in newest), 1)}
    return {
        "options": options,
        "served": scores.served(_PERIOD),
        "period": _PERIOD,
        "today": scores.today(),
        "waiting": scores.count_waiting(),
        "report": report,
        "moves": [(days[move.day], format_day(move.day), move) for move in newest],
        "more_moves": len(moves) - len(newest),
        "answers_of": {drift.measure: _day_link(drift) for drift in report.measures},
        "plots": {
            drift.measure: drift_plot(
                drift, _days_of_measure(days, drift), options.window, _day_link(drift)
            )
            for drift in report.measures
            if drift.days
        },
    }


def _day_link(drift: MeasureDrift) -> Callable[[str], str]:
    """Return the address of the answers of a day, the worst by the measure first."""
    return lambda day: _OutputListing(day=day, worst=drift.measure).href()


_DRIFTS: WeakKeyDictionary[Workbench, tuple[object, DriftReport]] = WeakKeyDictionary()
"""The newest report of each configuration, and what it was made from."""


def _drift_report(bench: Workbench) -> DriftReport:
    """The drift, computed again only where a score, the day or a setting changed."""
    outputs = bench.outputs
    made_from = (
        outputs.scores.stamp(),
        outputs.now()[:10],
        measure_options(bench.project.settings),
    )
    stored = _DRIFTS.get(bench)
    if stored is None or stored[0] != made_from:
        stored = _DRIFTS[bench] = (made_from, bench.drift())
    return stored[1]


def _days_of_measure(days: Mapping[str, int], drift: MeasureDrift) -> dict[str, int]:
    """The days that belong in the plot of a measure: on them something of it changed."""
    own = {move.day for move in drift.moves}
    return {day: number for day, number in days.items() if day in own}


@router.get("/outputs/{name}", response_class=HTMLResponse)
async def output(request: Request, name: str) -> HTMLResponse:
    """Show a text with its passages, its prompt and its feedback history."""
    values = await run_as_owner(request, lambda bench: _output_values(bench.outputs, name))
    if isinstance(values, HTMLResponse):
        return values
    return page(request, "output.html", {"title": f"Output {name}", **values})


def _output_values(stored: Any, name: str) -> dict[str, Any]:
    output = stored.get(name)
    prompt = stored.get(output.prompt) if output.prompt else None
    return {
        "output": output,
        "hits": stored.used(name),
        "prompt": prompt,
        "feedback": stored.feedback(name),
        "scores": stored.scores.of(name),
    }


@router.post("/outputs/{name}")
async def respond(
    request: Request,
    name: str,
    verdict: str = Form(""),
    note: str = Form(""),
    correction: str = Form(""),
) -> Response:
    """Store what the reader says of a text."""
    by, response = caller_of(request).name or "pages", VERDICTS.get(verdict, "")
    failed = await run_as_owner(
        request,
        lambda bench: bench.outputs.respond(
            name, by=by, verdict=response, note=note[:10_000], correction=correction[:10_000]
        ),
    )
    if isinstance(failed, HTMLResponse):
        return failed
    return RedirectResponse(f"/outputs/{name}", 303)
