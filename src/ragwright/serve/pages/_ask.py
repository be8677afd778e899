"""Ask: a question answered for several personas side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from ...answer import CitedSpan, Marks
from ...core import RagwrightError
from .._admission import Wanted, admitted
from .._answers import Delivered, answered, earlier_turns, for_caller, standalone
from .._api import caller_of, respond_to, service_of
from .._errors import ApiError, api_error
from .._links import closest_spans, source_url
from .._wire import FeedbackRequest
from ._base import VERDICTS, error_page, page

if TYPE_CHECKING:
    from ...flow import Message
    from .._admission import Caller

router = APIRouter()

_LONGEST = 10_000
_MOST = 6
"""Personas at once."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of an answer: text, and the span that it is a mark of."""

    text: str
    span: CitedSpan | None = None


@dataclass(frozen=True, slots=True)
class _QuestionForm:
    """The form's values."""

    question: str
    personas: tuple[str, ...]
    configuration: str
    after: str = ""


@router.get("/", response_class=HTMLResponse)
async def ask(
    request: Request,
    q: str = Query("", max_length=_LONGEST),
    persona: list[str] = Query(default_factory=list),  # noqa: B008
    configuration: str = "",
    after: str = Query("", max_length=200),
) -> HTMLResponse:
    """Show the page, with a question that a link may hold; only the form asks it."""
    return await _ask_page(request, _QuestionForm(q, tuple(persona), configuration, after))


@router.post("/", response_class=HTMLResponse)
async def answers(
    request: Request,
    q: str = Form("", max_length=_LONGEST),
    persona: list[str] = Form(default_factory=list),  # noqa: B008
    configuration: str = Form(""),
    after: str = Form("", max_length=200),
) -> HTMLResponse:
    """Ask a question, also one that follows an earlier answer.

    A script shows the answers as they are written, a form does without.
    """
    return await _ask_page(
        request, _QuestionForm(q, tuple(persona), configuration, after), answer=True
    )


async def _ask_page(request: Request, form: _QuestionForm, *, answer: bool = False) -> HTMLResponse:
    service, caller = service_of(request), caller_of(request)
    q, persona, configuration = form.question, form.personas, form.configuration
    after = form.after
    try:
        names = [usable.name for usable in service.configurations(caller.identity)]
        opened, _ = service.find(configuration, caller.identity)
        chosen = [name for name in persona if name in opened.personas][:_MOST]
        chosen = chosen or list(opened.personas[:1]) or [""]
        answers_shown: list[Delivered] = []
        turns: tuple[Message, ...] = ()
        if answer and q.strip():
            async with admitted(service, caller, Wanted(opened.name, request=request)) as work:
                turns = await earlier_turns(work, after) if after else ()
                answers_shown = await answered(work, q, chosen, work.asking(history=turns))
    except (RagwrightError, ApiError, TimeoutError) as error:
        return error_page(request, error)
    values = {
        "title": "Ask",
        "question": q,
        "configurations": names,
        "configuration": opened.name,
        "personas": [{"name": name, "chosen": name in chosen} for name in opened.personas],
        "answers": [
            _answer_card(opened_configuration, caller) for opened_configuration in answers_shown
        ],
        "asked_before": [turn.content for turn in turns if turn.role == "user"],
        "read_as": standalone(answers_shown[0].answer) if answers_shown else "",
        "after": answers_shown[0].id if answers_shown and service.options.keep_answers else "",
        "kept": service.options.keep_answers,
        "fault": opened.fault.what if opened.target is None and opened.fault else "",
        "hint": (opened.fault.hint or "") if opened.target is None and opened.fault else "",
    }
    return page(request, "ask.html", values)


def _answer_card(done: Delivered, caller: Caller) -> dict[str, Any]:
    answer = for_caller(done.answer, caller)
    return {
        "id": done.id,
        "persona": answer.persona,
        "parts": _answer_parts(done.marks),
        "spans": done.marks.spans,
        "figures": _different_figures(done),
        "closest": closest_spans(answer, done.marks.link),
        "abstained": answer.abstained,
        "model": answer.model,
        "notes": answer.notes,
        "promise": "" if answer.promise is None else answer.promise.line,
    }


def _different_figures(done: Delivered) -> list[Mapping[str, Any]]:
    """The figures of all citations, each once."""
    chunks = dict.fromkeys(span.citation.chunk_id for span in done.marks.spans)
    figures = (figure for chunk in chunks for figure in done.figures.get(chunk, ()))
    return list({figure["id"]: figure for figure in figures}.values())


def _answer_parts(marks: Marks) -> list[_Part]:
    """The text cut at its marks, so that each mark becomes a link and nothing else does."""
    parts, at = [], 0
    for mark in marks.marks:
        parts.append(_Part(marks.text[at : mark.start]))
        parts.append(_Part(marks.text[mark.start : mark.end], mark.span))
        at = mark.end
    return [*parts, _Part(marks.text[at:])]


@router.post("/ask/feedback", response_class=HTMLResponse)
async def say(
    request: Request,
    id: str = Form("", max_length=200),  # noqa: A002
    verdict: str = Form(""),
    note: str = Form("", max_length=_LONGEST),
    correction: str = Form("", max_length=_LONGEST),
    passages: list[int] = Form(default_factory=list),  # noqa: B008
) -> HTMLResponse:
    """Store what a reader says of an answer."""
    service, caller = service_of(request), caller_of(request)
    try:
        feedback = FeedbackRequest(
            id=id,
            verdict=VERDICTS.get(verdict, ""),
            note=note,
            correction=correction,
            passages=passages,
        )
        async with admitted(service, caller, Wanted(lane="searches")) as work:
            await asyncio.to_thread(respond_to, work, feedback)
    except ValidationError:
        return error_page(request, ApiError(400, "this form names no answer", "invalid_value"))
    except (RagwrightError, ApiError, TimeoutError) as error:
        return error_page(request, error)
    return page(request, "thanks.html", {"title": "Feedback"})


@router.get("/ask/why", response_class=HTMLResponse)
async def why(
    request: Request, q: str = Query(max_length=_LONGEST), configuration: str = ""
) -> HTMLResponse:
    """Show why the passages were found: words looked for, ranks and scores per channel."""
    service, caller = service_of(request), caller_of(request)
    try:
        wanted = Wanted(configuration, "searches", request=request)
        async with admitted(service, caller, wanted) as work:
            asking = work.asking()
            retrieval = await work.result(work.bench.aretrieve(q, None, asking))
            explaining = asyncio.to_thread(work.bench.explain, retrieval, scope=work.scope)
            explained = await work.result(explaining)
    except (RagwrightError, ApiError, TimeoutError) as error:
        return page(
            request,
            "why.html",
            {"message": api_error(error, caller).message, "hits": []},
        )
    hits = [
        {
            "hit": hit,
            "url": source_url(caller.base, hit.document_id, hit.start, hit.end, hit.text),
            "matched": explained.matched.get(hit.chunk_id, ()),
            "channels": sorted(hit.channels.items()),
        }
        for hit in retrieval.hits
    ]
    values = {"message": "", "hits": hits, "terms": explained.terms, "reason": explained.reason}
    return page(request, "why.html", values)
