"""Outputs: what was served and drafted, and what people said of it."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ...core import RagwrightError, StoreError
from ...drafting import FeedbackVerdict, OutputQuery
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import error_page, page

router = APIRouter()

_LISTED = 100
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
            found = await asyncio.to_thread(
                lambda: list(bench.outputs.find(query, limit=_LISTED, newest=True))
            )
            total = await asyncio.to_thread(bench.outputs.count, query)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    values = {"title": "Outputs", "outputs": found, "total": total, "verdict": verdict}
    return page(request, "outputs.html", values)


@router.get("/outputs/{name}", response_class=HTMLResponse)
async def output(request: Request, name: str) -> HTMLResponse:
    """Show a text with its passages, its prompt and its feedback history."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            shown = await asyncio.to_thread(_read, bench.outputs, name)
    except StoreError as error:
        return error_page(request, ApiError(404, error.what, "not_found"))
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return page(request, "output.html", {"title": f"Output {name}", **shown})


def _read(stored: Any, name: str) -> dict[str, Any]:
    found = stored.get(name)
    prompt = stored.get(found.prompt) if found.prompt else None
    return {
        "output": found,
        "hits": stored.used(name),
        "prompt": prompt,
        "feedback": stored.feedback(name),
    }


@router.post("/outputs/{name}")
async def respond(
    request: Request, name: str, verdict: str = Form(""), note: str = Form("")
) -> Response:
    """Store what the reader says of a text."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        opened, _ = service.find("", None)
        async with service.using(opened) as bench:
            await asyncio.to_thread(
                lambda: bench.outputs.respond(
                    name,
                    by=caller.name or "pages",
                    verdict=_VERDICTS.get(verdict, ""),
                    note=note[:10_000],
                )
            )
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return RedirectResponse(f"/outputs/{name}", 303)
