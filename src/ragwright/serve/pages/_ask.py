"""Ask: answers shown as they are written, their sources beside them.

The server keeps nothing of a conversation: the page sends the turns before a question along, and
our script keeps its threads in the storage of the browser.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ...answer import Marks, PlacedMark
from ...core import Answer, RagwrightError
from ...flow import Message
from .._admission import Admission, RequestNeeds, admit
from .._answers import ServedAnswer, answer_personas, make_answer_id
from .._api import caller_of, respond_to, service_of
from .._errors import ApiError
from .._links import move_url
from .._opened import OpenConfiguration
from .._streaming import AnswerEvents, EventStream, Streamed, sse_frame
from .._wire import FeedbackRequest
from ._base import VERDICTS, error_page, fragment, page
from ._cards import card_values

router = APIRouter()

_LONGEST = 10_000
_MOST = 6
"""Personas at once."""

_ALL = "*"
"""Choice of every persona, side by side."""

_HISTORY = 20
"""Turns before a question that the model gets."""

_EARLIER: TypeAdapter[list[tuple[str, str]]] = TypeAdapter(list[tuple[str, str]])
"""Pairs of question and answer."""


class AskForm(BaseModel):
    """A question of the form.

    Attributes:
        q: The question.
        persona: Name of a persona, ``*`` for all of them, or empty for the first one.
        configuration: Name of a configuration.
        earlier: The turns before it, as JSON.
    """

    q: Annotated[str, Field(max_length=_LONGEST)] = ""
    persona: Annotated[str, Field(max_length=200)] = ""
    configuration: Annotated[str, Field(max_length=200)] = ""
    earlier: Annotated[str, Field(max_length=1_000_000)] = "[]"

    def personas(self, opened: OpenConfiguration) -> list[str]:
        """The personas that answer."""
        if self.persona == _ALL:
            return list(opened.personas[:_MOST]) or [""]
        wanted = [self.persona] if self.persona in opened.personas else opened.personas[:1]
        return list(wanted) or [""]

    def turns(self) -> list[tuple[str, str]]:
        """Question and answer of each earlier turn.

        Raises:
            ApiError: 400; they cannot be read.
        """
        try:
            return _EARLIER.validate_json(self.earlier)
        except ValidationError:
            raise ApiError(400, "the earlier turns cannot be read", "invalid_value") from None

    def history(self) -> tuple[Message, ...]:
        """The earlier turns for the model."""
        recent = self.turns()[-_HISTORY:]
        return tuple(
            message
            for question, answer in recent
            for message in (Message("user", question), Message("assistant", answer))
        )


@router.get("/", response_class=HTMLResponse)
async def ask(
    request: Request,
    q: str = Query("", max_length=_LONGEST),
    persona: str = Query("", max_length=200),
    configuration: str = "",
) -> HTMLResponse:
    """Show the form, with a question that a link may hold; only the form asks it."""
    service, caller = service_of(request), caller_of(request)
    try:
        opened, _ = service.find(configuration, caller.identity)
        return _ask_page(request, opened, AskForm(q=q, persona=persona))
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)


@router.post("/", response_class=HTMLResponse)
async def answers(request: Request, form: Annotated[AskForm, Form()]) -> HTMLResponse:
    """Answer a question of the form, for browsers without our script."""
    service, caller = service_of(request), caller_of(request)
    try:
        opened, _ = service.find(form.configuration, caller.identity)
        if not form.q.strip():
            return _ask_page(request, opened, form)
        async with admit(service, caller, RequestNeeds(opened.name, request=request)) as work:
            asking = work.asking(history=form.history())
            done = await answer_personas(work, form.q, form.personas(opened), asking)
            return _ask_page(request, opened, form, work, done)
    except (RagwrightError, ApiError, TimeoutError) as error:
        return error_page(request, error)


@router.post("/ask/stream")
async def stream(request: Request, form: Annotated[AskForm, Form()]) -> Response:
    """Answer a question of the form for one persona, as it is written."""
    service, caller = service_of(request), caller_of(request)
    async with AsyncExitStack() as stack:
        model = "/".join(filter(None, (form.configuration, form.persona)))
        wanted = RequestNeeds(model, "answers", "chat", request)
        work = await stack.enter_async_context(admit(service, caller, wanted))
        frames = _PageFrames(work)
        asking = work.asking(history=form.history())
        events = AnswerEvents(Streamed(work, form.q, asking, frames.id), frames)
        stack.push_async_callback(events.close)
        await events.begin()
        return EventStream(events.events(), work, stack.pop_all())


class _PageFrames:
    """Frames of an answer for our script: pieces of text, then its card.

    Attributes:
        id: Id of the answer.
    """

    def __init__(self, work: Admission) -> None:
        self.id = make_answer_id()
        self._work = work

    def opening(self) -> Iterator[bytes]:
        """Nothing before the text."""
        yield from ()

    def text(self, text: str, marks: Sequence[PlacedMark]) -> Iterator[bytes]:
        """A piece of the text with the marks in it."""
        places = [
            {
                "start": mark.start,
                "end": mark.end,
                "title": mark.span.citation.title or mark.span.citation.source,
                "url": move_url(mark.span.url, ""),
            }
            for mark in marks
        ]
        yield sse_frame({"text": text, "marks": places})

    def closing(self, answer: Answer, marks: Marks) -> Iterator[bytes]:
        """The card, with the whole text."""
        work = self._work
        card = card_values(work, ServedAnswer(self.id, answer, marks))
        kept = work.service.options.keep_answers
        html = fragment(work.service, "card.html", {"answer": card, "kept": kept})
        yield sse_frame({"card": html, "text": marks.text})

    def failure(self, error: ApiError) -> bytes:
        """The frame of an error."""
        return sse_frame(error.body())


def _ask_page(
    request: Request,
    opened: OpenConfiguration,
    form: AskForm,
    work: Admission | None = None,
    done: Sequence[ServedAnswer] = (),
) -> HTMLResponse:
    service, caller = service_of(request), caller_of(request)
    turns = form.turns()
    cards = [] if work is None else [card_values(work, answer) for answer in done]
    earlier = [*turns, *((form.q, answer.marks.text) for answer in done[:1])]
    fault = opened.fault if opened.target is None else None
    values = {
        "title": "Ask",
        "asked": form.q if done else "",
        "question": "" if done else form.q,
        "turns": turns,
        "cards": cards,
        "earlier": json.dumps(earlier, ensure_ascii=False),
        "configurations": [usable.name for usable in service.configurations(caller.identity)],
        "configuration": opened.name,
        "personas": opened.personas,
        "persona": form.persona if form.persona == _ALL else form.personas(opened)[0],
        "several": _MOST >= len(opened.personas) > 1,
        "kept": service.options.keep_answers,
        "fault": fault.what if fault else "",
        "hint": (fault.hint or "") if fault else "",
    }
    return page(request, "ask.html", values)


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
        async with admit(service, caller, RequestNeeds(lane="searches")) as work:
            await asyncio.to_thread(respond_to, work, feedback)
    except ValidationError:
        return error_page(request, ApiError(400, "this form names no answer", "invalid_value"))
    except (RagwrightError, ApiError, TimeoutError) as error:
        return error_page(request, error)
    return page(request, "thanks.html", {"title": "Feedback"})
