"""Drafts: a request for texts from records, what was found, and what people keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from ...core import ConfigError, RagwrightError, RecordsError, StoreError
from ...drafting import (
    DraftRequest,
    FeedbackVerdict,
    OutputQuery,
    Outputs,
    ScoreOrder,
    ServedScore,
)
from ...jobs import DriftReport, MeasureDrift, format_day, measure_options
from ...measure import parse_measures
from ...models import NO_MODEL
from ...workbench import Workbench
from .._admission import RequestNeeds, admit
from .._answers import deliver_drafts, drafting
from .._api import caller_of, service_of
from .._errors import ApiError, ClientGoneError, api_error
from ._base import VERDICTS, error_page, page, router, run_as_owner
from ._plots import drift_plot

_VERDICTS: Mapping[str, FeedbackVerdict] = {"keep": "accepted", "discard": "rejected"}
_FIELDS = ("client", "ask_type", "topic", "tone")
_OFFERED = 300
"""Values of a field that are offered, the most frequent first."""

_SCANNED = 100_000
"""Records whose values are looked through."""

_RECENT = 200
"""Newest texts that are looked through for batches."""

_LONGEST = 4_000
_Several = Annotated[list[str], Field(max_length=50)]


class DraftForm(BaseModel):
    """A request as it comes from the form."""

    client: Annotated[str, Field(max_length=_LONGEST)] = ""
    ask_type: Annotated[str, Field(max_length=_LONGEST)] = ""
    topics: _Several = []
    tones: _Several = []
    length: Annotated[str, Field(max_length=100)] = "short"
    count: Annotated[int, Field(ge=1, le=50)] = 3
    headlines: Annotated[str, Field(max_length=_LONGEST)] = ""
    bio: bool = False
    models: _Several = []
    action: str = "draft"

    def request(self) -> DraftRequest:
        """The request; lines of ``headlines`` are one each."""
        return DraftRequest(
            self.client.strip(),
            self.ask_type.strip(),
            tuple(filter(None, map(str.strip, self.topics))),
            tuple(filter(None, map(str.strip, self.tones))),
            self.length,
            self.count,
            tuple(filter(None, map(str.strip, self.headlines.splitlines()))),
            self.bio,
        )


@router.get("/drafts", response_class=HTMLResponse)
async def drafts(request: Request) -> HTMLResponse:
    """Show the form and the newest drafts."""
    return await _drafts_page(request, DraftForm(), {})


@router.post("/drafts", response_class=HTMLResponse)
async def draft(request: Request, form: Annotated[DraftForm, Form()]) -> Response:
    """Write texts, show the prompts, or say what it would cost."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        wanted = RequestNeeds("", "drafts", "drafts", request)
        async with admit(service, caller, wanted) as work:
            preview = form.action == "preview"
            known = _chat_model_names(work.opened.bench)
            models = tuple(name for name in form.models if name in known)
            options = drafting(work, models, preview=preview)
            bench, draft_request = work.bench, form.request()
            if form.action == "price":
                forecast = await service.aside(lambda: bench.forecast_draft(draft_request, options))
                return await _drafts_page(request, form, {"forecast": forecast})
            batch = await deliver_drafts(work, draft_request, options)
    except (RagwrightError, ApiError, TimeoutError, ClientGoneError) as error:
        reply = api_error(error, caller)
        return await _drafts_page(request, form, {"fault": reply.message}, status=reply.status)
    if form.action == "preview":
        shown = {
            "prompts": [
                {
                    "model": prompt.model or "no model configured",
                    "turns": prompt.messages or (("prompt", prompt.text),),
                }
                for prompt in batch.prompts
            ],
            "hits": [
                {
                    "id": hit.document_id,
                    "text": hit.text,
                    "weight": hit.rung.weight if hit.rung else None,
                    "met": [str(condition) for condition in hit.rung.met] if hit.rung else [],
                    "missed": [str(condition) for condition in hit.rung.missed] if hit.rung else [],
                }
                for hit in batch.hits
            ],
            "notes": batch.notes,
        }
        return await _drafts_page(request, form, {"preview": shown})
    return RedirectResponse(f"/drafts/{batch.number}", 303)


def _chat_model_names(bench: Workbench) -> list[str]:
    """Chat models that the project names; without one nothing can be written."""
    settings = bench.project.settings
    written = [name for name in (settings.answer.model,) if name != NO_MODEL]
    return list(dict.fromkeys([*settings.answer.draft.models, *written, *settings.models]))


async def _drafts_page(
    request: Request, form: DraftForm, more: dict[str, Any], *, status: int = 200
) -> HTMLResponse:
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            values = await service.aside(lambda: _form_values(bench))
        spent = await service.charges.spent()
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    budget = {"spent": spent, "most": service.options.daily_budget}
    defaults = {"fault": "", "preview": None, "forecast": None, **more}
    return page(
        request,
        "drafts.html",
        {"title": "Drafts", "form": form, "budget": budget, **values, **defaults},
        status=status,
    )


def _form_values(bench: Workbench) -> dict[str, Any]:
    """Return what can be chosen: values that records have, groups of lengths, models."""
    records = ""
    offered: dict[str, list[tuple[str, int]]] = {name: [] for name in _FIELDS}
    groups = ["short", "medium", "long"]
    try:
        groups = [group.name for group in bench.records.spec().rules.length_groups]
        offered = _offered_values(bench)
    except (ConfigError, RecordsError, StoreError) as error:
        records = error.what
    return {
        "offered": offered,
        "groups": groups,
        "models": _chat_model_names(bench),
        "records": records,
        "recent": _recent_batches(bench.outputs),
    }


def _offered_values(bench: Workbench) -> dict[str, list[tuple[str, int]]]:
    """Values of the fields that soft filters may ask for, and how many records have each."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in _FIELDS}
    for row in bench.records.rows("gold", _SCANNED):
        for name in _FIELDS:
            value = row.get(name)
            counts[name].update(value if isinstance(value, list) else [value] if value else [])
    return {name: counted.most_common(_OFFERED) for name, counted in counts.items()}


def _recent_batches(outputs: Outputs) -> list[dict[str, Any]]:
    """The newest batches of drafts."""
    query = OutputQuery(kind="text", scope=None)
    batches: dict[int, dict[str, Any]] = {}
    for text in outputs.find(query, limit=_RECENT, newest=True):
        if "ask_type" not in text.request:
            continue  # an answer
        batch = batches.setdefault(
            text.batch, {"number": text.batch, "at": text.at, "texts": 0, "kept": 0, "discarded": 0}
        )
        batch["asked"] = _request_text(text.request)
        batch["texts"] += 1
        batch["kept"] += text.verdict == "accepted"
        batch["discarded"] += text.verdict == "rejected"
    return [*batches.values()][:20]


def _request_text(request: Mapping[str, Any]) -> str:
    parts = [request.get("client"), request.get("ask_type"), request.get("length")]
    parts += [*request.get("topics", ()), *request.get("tones", ())]
    return ", ".join(str(part) for part in parts if part)


@router.get("/drafts/{number}", response_class=HTMLResponse)
async def batch(request: Request, number: int) -> HTMLResponse:
    """Show the texts of a draft with their marks, and the records they were made from."""
    values = await run_as_owner(request, lambda bench: _batch_values(bench.outputs, number))
    if isinstance(values, HTMLResponse):
        return values
    return page(request, "draft.html", values)


def _batch_values(outputs: Outputs, number: int) -> dict[str, Any]:
    batch = outputs.batch(number)
    if batch.kind == "answer":
        raise ApiError(404, f"batch {number} is an answer, not a draft", "not_found")
    texts = [output for output in batch.outputs if output.kind == "text"]
    return {
        "title": f"Draft {number}",
        "batch": batch,
        "asked": _request_text(batch.request),
        "texts": texts,
        "prompts": [output for output in batch.outputs if output.kind == "prompt"],
        "notes": batch.details.get("notes", ()),
        "left": sum(not output.verdict for output in texts),
    }


@router.post("/drafts/{number}/{text}")
async def judge(
    request: Request, number: int, text: int, verdict: str = Form(""), note: str = Form("")
) -> Response:
    """Keep or discard a text, as ``ragwright outputs`` does."""
    by = caller_of(request).name or "pages"

    def respond(bench: Workbench) -> None:
        if verdict not in _VERDICTS:
            raise ApiError(400, f"unknown verdict {verdict!r}", "invalid_value")
        response, comment = _VERDICTS[verdict], note[:_LONGEST]
        bench.outputs.respond(f"{number}.{text}", by=by, verdict=response, note=comment)

    failed = await run_as_owner(request, respond)
    if isinstance(failed, HTMLResponse):
        return failed
    return RedirectResponse(f"/drafts/{number}#text-{text}", 303)


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
                drift,
                {move.day: days[move.day] for move in drift.moves if move.day in days},
                options.window,
                _day_link(drift),
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


@router.get("/outputs/{name}", response_class=HTMLResponse)
async def output(request: Request, name: str) -> HTMLResponse:
    """Show a text with its passages, its prompt and its feedback history."""
    values = await run_as_owner(request, lambda bench: _output_values(bench.outputs, name))
    if isinstance(values, HTMLResponse):
        return values
    return page(request, "output.html", {"title": f"Output {name}", **values})


def _output_values(stored: Any, name: str) -> dict[str, Any]:
    output = stored.get(name)
    return {
        "output": output,
        "hits": stored.used(name),
        "prompt": stored.get(output.prompt) if output.prompt else None,
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
