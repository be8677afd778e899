"""Ask: a conversation, its answers shown as they are written, their sources beside them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ...answer import Marks, PlacedMark
from ...core import Answer, RagwrightError
from ...flow import Message
from .._admission import Wanted, admitted
from .._answers import Delivered, answered, new_id
from .._api import caller_of, respond_to, service_of
from .._errors import ApiError
from .._links import moved_url
from .._streaming import AnswerEvents, EventStream, Streamed, sse_frame
from .._wire import FeedbackRequest
from ._base import VERDICTS, error_page, fragment, page
from ._cards import cards_of, delivered_answer
from ._history import recent_conversations
from ._threads import (
    ShownTurn,
    Thread,
    conversation_of,
    new_thread,
    read_thread,
    thread_to_ask,
    turn_values,
    usable_configuration,
)

if TYPE_CHECKING:
    from ...workbench import Asking
    from .._admission import Admitted
    from .._opened import Opened

router = APIRouter()

_LONGEST = 10_000
_MOST = 6
"""Personas at once."""

_ALL = "*"
"""Choice of every persona, side by side."""


class Asked(BaseModel):
    """A question of the form.

    Attributes:
        q: The question.
        persona: Name of a persona, ``*`` for all of them, or empty for the first one.
        configuration: Name of a configuration.
        conversation: Id of the conversation; empty for a new one.
        turn: Number of the turn; answers to it, and later turns, are replaced.
        asking: Random text, the same for the answers that belong side by side.
        earlier: The turns before it, as JSON, where answers are not kept.
    """

    q: Annotated[str, Field(max_length=_LONGEST)] = ""
    persona: Annotated[str, Field(max_length=200)] = ""
    configuration: Annotated[str, Field(max_length=200)] = ""
    conversation: Annotated[str, Field(max_length=64)] = ""
    turn: Annotated[int, Field(ge=1, le=10_000)] = 1
    asking: Annotated[str, Field(max_length=64)] = ""
    earlier: Annotated[str, Field(max_length=1_000_000)] = "[]"

    def personas(self, opened: Opened) -> list[str]:
        """The personas that answer."""
        if self.persona == _ALL:
            return list(opened.personas[:_MOST]) or [""]
        wanted = [self.persona] if self.persona in opened.personas else opened.personas[:1]
        return list(wanted) or [""]


@router.get("/", response_class=HTMLResponse)
async def ask(
    request: Request,
    q: str = Query("", max_length=_LONGEST),
    persona: str = Query("", max_length=200),
    configuration: str = "",
) -> HTMLResponse:
    """Show a new conversation, with a question that a link may hold; only the form asks it."""
    service, caller = service_of(request), caller_of(request)
    try:
        opened, _ = service.find(configuration, caller.identity)
        form = Asked(q=q, persona=persona)
        thread = new_thread(caller, opened.name)
        return await _ask_page(request, opened, thread, form, [])
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)


@router.get("/c/{name}", response_class=HTMLResponse)
async def conversation(request: Request, name: str) -> HTMLResponse:
    """Show a conversation, as its caller may see it now."""
    service, caller = service_of(request), caller_of(request)
    try:
        known = await conversation_of(service, caller, name)
        opened = usable_configuration(service, caller, known.configuration)
        async with service.using(opened) as bench:
            asking = opened.asking(caller.identity)
            thread = await read_thread(service, caller, bench, asking, known)
            turns = await turn_values(bench, caller, thread)
        last = turns[-1]["persona"] if turns else ""
        return await _ask_page(request, opened, thread, Asked(persona=last), turns)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)


@router.post("/", response_class=HTMLResponse)
async def answers(request: Request, form: Annotated[Asked, Form()]) -> HTMLResponse:
    """Answer a question of the form, for browsers without our script."""
    service, caller = service_of(request), caller_of(request)
    try:
        opened, _ = service.find(form.configuration, caller.identity)
        form.conversation = form.conversation or new_thread(caller, opened.name).conversation.id
        if not form.q.strip():
            return await _ask_page(request, opened, new_thread(caller, opened.name), form, [])
        async with admitted(service, caller, Wanted(opened.name, request=request)) as work:
            thread = await _thread_before(work, form)
            personas = form.personas(opened)
            asking = _asking(work, thread, form, personas[0])
            done = await answered(work, form.q, personas, asking)
            kept = [await _keep_turn(work, thread, form, answer) for answer in done]
            shown = tuple(map(delivered_answer, done))
            thread = replace(thread, turns=(*thread.turns, ShownTurn(form.turn, shown)))
            turns = await turn_values(work.bench, caller, thread)
            if not all(kept):
                turns[-1]["unkept"] = True
        form.q = ""
        return await _ask_page(request, opened, thread, form, turns)
    except (RagwrightError, ApiError, TimeoutError) as error:
        return error_page(request, error)


@router.post("/ask/stream")
async def stream(request: Request, form: Annotated[Asked, Form()]) -> Response:
    """Answer a question of the form for one persona, as it is written."""
    service, caller = service_of(request), caller_of(request)
    async with AsyncExitStack() as stack:
        model = "/".join(filter(None, (form.configuration, form.persona)))
        wanted = Wanted(model, "answers", "chat", request)
        work = await stack.enter_async_context(admitted(service, caller, wanted))
        thread = await _thread_before(work, form)
        asking = _asking(work, thread, form, form.persona)
        frames = _PageFrames(new_id())
        events = AnswerEvents(Streamed(work, form.q, asking, frames.id), frames)
        stack.push_async_callback(events.close)
        await events.begin()
        written = _written(events, frames, work, thread, form)
        return EventStream(written, work, stack.pop_all())


class _PageFrames:
    """Frames of an answer for our script: pieces of text. Its card follows, once it is kept.

    Attributes:
        id: Id of the answer.
        done: The answer, once it is whole.
    """

    def __init__(self, name: str) -> None:
        self.id = name
        self.done: Delivered | None = None

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
                "url": moved_url(mark.span.url, ""),
            }
            for mark in marks
        ]
        yield sse_frame({"text": text, "marks": places})

    def closing(self, answer: Answer, marks: Marks) -> Iterator[bytes]:
        """Nothing: the card is drawn once the turn is stored."""
        self.done = Delivered(self.id, answer, marks)
        yield from ()

    def failure(self, error: ApiError) -> bytes:
        """The frame of an error."""
        return sse_frame(error.body())


async def _written(
    events: AnswerEvents, frames: _PageFrames, work: Admitted, thread: Thread, form: Asked
) -> AsyncIterator[bytes]:
    """The frames of an answer; the last one has its card and the address of the conversation."""
    async for frame in events.events():
        yield frame
    done = frames.done
    if done is None:
        return
    try:
        kept = await _keep_turn(work, thread, form, done)
    except ApiError as error:
        yield frames.failure(error)
        return
    [card] = await cards_of(work.bench, work.caller, [delivered_answer(done)])
    html = fragment(work.service, "card.html", {"answer": card, "kept": kept, "open": True})
    place = f"/c/{thread.conversation.id}" if kept else ""
    yield sse_frame({"card": html, "place": place, "text": done.marks.text})


async def _thread_before(work: Admitted, form: Asked) -> Thread:
    """The conversation up to the turn that is asked."""
    service = work.service
    if not service.options.keep_answers:
        return new_thread(work.caller, work.opened.name)
    thread = await thread_to_ask(service, work.caller, work.bench, work.asking(), form.conversation)
    answers = replace(thread.conversation, configuration=work.opened.name)
    return replace(thread.before(form.turn), conversation=answers)


def _asking(work: Admitted, thread: Thread, form: Asked, persona: str) -> Asking:
    """How a question of the form is asked: after the turns before it."""
    asking = work.asking(history=_history(thread, form, persona))
    return replace(asking, earlier=thread.passages if thread.turns else None)


def _history(thread: Thread, form: Asked, persona: str) -> tuple[Message, ...]:
    """The turns before a question; where nothing is kept, those that the page holds."""
    if thread.turns or form.earlier == "[]":
        return thread.messages(persona)
    try:
        pairs = _EARLIER.validate_json(form.earlier)
    except ValidationError:
        raise ApiError(400, "the earlier turns cannot be read", "invalid_value") from None
    roles = ("user", "assistant")
    return tuple(
        Message(role, text) for pair in pairs for role, text in zip(roles, pair, strict=True)
    )


_EARLIER: TypeAdapter[list[tuple[str, str]]] = TypeAdapter(list[tuple[str, str]])
"""Pairs of question and answer."""


async def _keep_turn(work: Admitted, thread: Thread, form: Asked, done: Delivered) -> bool:
    """Keep an answer as a turn, where it is stored; False where it is not.

    Raises:
        ApiError: The conversation has changed meanwhile.
    """
    if not work.service.options.keep_answers:
        return False
    known = await asyncio.to_thread(work.bench.outputs.named, done.id)
    if known is None:  # it could not be stored, which was logged
        return False
    asking = form.asking or secrets.token_urlsafe(9)
    form.asking = asking
    conversations = work.service.conversations
    await asyncio.to_thread(conversations.add, thread.conversation, form.turn, asking, done.id)
    return True


async def _ask_page(
    request: Request, opened: Opened, thread: Thread, form: Asked, turns: list[dict[str, Any]]
) -> HTMLResponse:
    service, caller = service_of(request), caller_of(request)
    kept = service.options.keep_answers
    fault = opened.fault if opened.target is None else None
    values = {
        "title": turns[0]["question"][:80] if turns and turns[0]["question"] else "Ask",
        "question": form.q,
        "conversation": thread.conversation,
        "mine": thread.mine,
        "hidden": thread.hidden,
        "turn_number": thread.next,
        "turns": turns,
        "configurations": [usable.name for usable in service.configurations(caller.identity)],
        "configuration": opened.name,
        "personas": opened.personas,
        "persona": form.persona if form.persona == _ALL else form.personas(opened)[0],
        "several": _MOST >= len(opened.personas) > 1,
        "kept": kept,
        "history": await recent_conversations(service, caller, opened) if kept else [],
        "share_url": f"{caller.base}/c/{thread.conversation.id}",
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
        async with admitted(service, caller, Wanted(lane="searches")) as work:
            await asyncio.to_thread(respond_to, work, feedback)
    except ValidationError:
        return error_page(request, ApiError(400, "this form names no answer", "invalid_value"))
    except (RagwrightError, ApiError, TimeoutError) as error:
        return error_page(request, error)
    return page(request, "thanks.html", {"title": "Feedback"})
