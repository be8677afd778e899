"""Outputs: what was served and drafted, its scores over time, and what people say of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...drafting import OutputQuery, ScoreOrder, ServedScore
from ...experiment import KnownRun, run_means
from ...jobs import measure_options
from ...measure import parse_measures
from ...workbench import Workbench
from .._api import caller_of
from .._errors import ApiError
from ._base import PRIVATE, VERDICTS, page, router, run_as_owner

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
        return f"/outputs?{urlencode(values)}#texts"

    def query(self) -> OutputQuery:
        """The query of the listing.

        Raises:
            ApiError: The day is none.
        """
        since = until = ""
        try:
            if self.day:
                since = date.fromisoformat(self.day).isoformat()
                until = (date.fromisoformat(since) + timedelta(days=1)).isoformat()
        except (ValueError, OverflowError):
            raise ApiError(400, f"{self.day!r} is not a day", "invalid_value") from None
        verdict = VERDICTS.get(self.verdict, "")
        return OutputQuery(kind="text", scope=None, verdict=verdict, since=since, until=until)


@router.get("/outputs")
async def outputs(
    request: Request,
    verdict: str = "",
    day: str = "",
    worst: str = "",
    at: int = Query(1, alias="page", ge=1, le=1_000_000),
) -> HTMLResponse:
    """List texts with their scores: newest first, or the worst by a measure."""
    listing = _OutputListing(verdict, day, worst, at)
    values = await run_as_owner(
        request, lambda bench: _listing_page(bench, listing) | _score_figures(bench)
    )
    return page(request, "outputs.html", {"title": "Outputs", "listing": listing, **values})


def _listing_page(bench: Workbench, listing: _OutputListing) -> dict[str, Any]:
    """A page of the texts, and the ways to the pages beside it."""
    stored, query = bench.outputs, listing.query()
    order = None
    if listing.worst:
        measure = parse_measures(listing.worst)[0]
        order = ScoreOrder(str(measure), measure.definition.higher_is_better)
    skipped = (listing.page - 1) * _LISTED
    texts = list(stored.find(query, limit=_LISTED, offset=skipped, newest=True, order=order))
    scores: dict[str, list[ServedScore]] = {}
    for score in stored.scores.of(*(text.id for text in texts)) if texts else ():
        scores.setdefault(score.output, []).append(score)
    total = stored.count(query)
    return {
        "outputs": texts,
        "scores": scores,
        "total": total,
        "first": skipped + 1,
        "previous": listing.href(page=listing.page - 1) if listing.page > 1 else "",
        "next": listing.href(page=listing.page + 1) if skipped + len(texts) < total else "",
    }


def _score_figures(bench: Workbench) -> dict[str, Any]:
    """Return what the scores of served answers say, of all tenants together: numbers, no texts."""
    scores, report = bench.outputs.scores, bench.drift()
    moves = sorted(
        {move for drift in report.measures for move in drift.moves},
        key=lambda move: (move.day, move.part, move.before, move.after),
    )
    newest = moves[-_MOVES:]
    numbers = {day: number for number, day in enumerate(dict.fromkeys(m.day for m in newest), 1)}
    return {
        "options": measure_options(bench.project.settings),
        "served": scores.served(_PERIOD),
        "period": _PERIOD,
        "today": scores.today(),
        "waiting": scores.count_waiting(),
        "report": report,
        "moves": newest,
        "more_moves": len(moves) - len(newest),
        "numbers": numbers,
        "numbers_of": {
            drift.measure: {m.day: numbers[m.day] for m in drift.moves if m.day in numbers}
            for drift in report.measures
        },
    }


@router.get("/outputs/{name}")
async def output(request: Request, name: str) -> HTMLResponse:
    """Show a text with its passages, its prompt and its feedback history."""

    def values(bench: Workbench) -> dict[str, Any]:
        stored = bench.outputs
        output = stored.get(name)
        return {
            "title": f"Output {name}",
            "output": output,
            "hits": stored.used(name),
            "prompt": stored.get(output.prompt) if output.prompt else None,
            "feedback": stored.feedback(name),
            "scores": stored.scores.of(name),
        }

    return page(request, "output.html", await run_as_owner(request, values))


@router.post("/outputs/{name}")
async def respond(
    request: Request,
    name: str,
    verdict: str = Form(""),
    note: str = Form("", max_length=10_000),
    correction: str = Form("", max_length=10_000),
) -> Response:
    """Store what the reader says of a text."""
    by, response = caller_of(request).name or "pages", VERDICTS.get(verdict, "")
    await run_as_owner(
        request,
        lambda bench: bench.outputs.respond(
            name, by=by, verdict=response, note=note, correction=correction
        ),
    )
    return RedirectResponse(f"/outputs/{name}", 303)


_RUNS = 200
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
    for run in runs[:_RUNS]:
        by_testset.setdefault(run.testset, []).append(run)
    means = {run.id: run_means(bench.project.runs, run.id) for run in runs[:_SCORED]}
    return {
        "title": "Experiments",
        "groups": by_testset,
        "means": means,
        "abstained": any(entry.abstained for run in means.values() for entry in run.values()),
        "left_out": max(0, len(runs) - _RUNS),
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
