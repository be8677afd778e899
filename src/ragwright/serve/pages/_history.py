"""The conversations of a person: listed, searched, shared, exported, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)

from ...core import RagwrightError, counted, shortened
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import PRIVATE, error_page, page
from ._cards import ShownAnswer, linked_place, stored_answer, visible_answers
from ._threads import GONE, Thread, conversation_of, read_thread, usable_configuration

if TYPE_CHECKING:
    from ...drafting import Exchange
    from ...workbench import Workbench
    from .._admission import Caller
    from .._conversations import Conversation
    from .._opened import Opened
    from .._service import Service

router = APIRouter()

_RECENT = 30
"""Conversations beside the present one."""

_LISTED = 50
"""Conversations on a page."""

_SEARCHED = 2_000
"""Conversations that are searched, the last changed first."""

_ALL = 10_000_000
"""More conversations than a person has."""

_TITLE = 80


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """A conversation in a list: its first question, and its time of change (UTC)."""

    id: str
    title: str
    changed: str
    shared: bool


@dataclass(frozen=True, slots=True)
class _Texts:
    """The names of a conversation's answers in the order of its turns."""

    conversation: Conversation
    answers: tuple[str, ...]


async def recent_conversations(
    service: Service, caller: Caller, opened: Opened
) -> list[ListedConversation]:
    """The conversations of a caller that changed last."""
    async with service.using(opened) as bench:
        return await service.for_page(_listed, service, bench, caller.name, _RECENT)


def _listed(
    service: Service, bench: Workbench, person: str, most: int, before: str = ""
) -> list[ListedConversation]:
    entries = _with_answers(service, service.conversations.of_person(person, most, before))
    exchanges = bench.outputs.exchanges([entry.answers[0] for entry in entries if entry.answers])
    return [_listed_entry(entry, exchanges) for entry in entries]


def _with_answers(service: Service, conversations: Sequence[Conversation]) -> list[_Texts]:
    turns = service.conversations.turns(*(known.id for known in conversations))
    return [
        _Texts(known, tuple(name for turn in turns.get(known.id, ()) for name in turn.answers))
        for known in conversations
    ]


def _listed_entry(entry: _Texts, exchanges: Mapping[str, Exchange]) -> ListedConversation:
    first = next((exchanges[name] for name in entry.answers if name in exchanges), None)
    title = shortened(first.question, _TITLE) if first else "Its answers were deleted"
    known = entry.conversation
    return ListedConversation(known.id, title, known.changed, known.shared)


@router.get("/history", response_class=HTMLResponse)
async def history(
    request: Request, find: str = Query("", max_length=500), before: str = Query("", max_length=40)
) -> HTMLResponse:
    """List the conversations of a caller, or those that hold a text."""
    service, caller = service_of(request), caller_of(request)
    wanted = find.strip()
    try:
        opened, _ = service.find("", caller.identity)
        async with service.using(opened) as bench:
            if wanted:
                listed = await _search(service, caller, opened, bench, wanted)
            else:
                listed = await service.for_page(
                    _listed, service, bench, caller.name, _LISTED, before
                )
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    more = not wanted and len(listed) == _LISTED
    values = {
        "title": "Conversations",
        "listed": listed,
        "find": wanted,
        "before": before,
        "next": listed[-1].changed if more else "",
        "kept": service.options.keep_answers,
    }
    return page(request, "history.html", values)


async def _search(
    service: Service, caller: Caller, opened: Opened, bench: Workbench, wanted: str
) -> list[ListedConversation]:
    """The conversations with a question or an answer that holds a text, ignoring case.

    Answers count where their reader may see them now.
    """
    known = await asyncio.to_thread(service.conversations.of_person, caller.name, _SEARCHED)
    entries = await asyncio.to_thread(_with_answers, service, known)
    names = [name for entry in entries for name in entry.answers]
    exchanges = await service.for_page(bench.outputs.exchanges, names)
    asking = opened.asking(caller.identity) if opened.target is not None else None
    sought = wanted.casefold()
    listed = []
    for entry in entries:
        texts = [(name, exchanges[name]) for name in entry.answers if name in exchanges]
        matches = any(sought in text.question.casefold() for _, text in texts)
        if not matches and asking is not None:
            held = [name for name, text in texts if sought in text.text.casefold()]
            answers = await service.for_page(_stored_answers, bench, held)
            matches = bool(await visible_answers(bench, asking, answers, mine=True))
        if matches:
            listed.append(_listed_entry(entry, exchanges))
    return listed[: 2 * _LISTED]


def _stored_answers(bench: Workbench, names: Sequence[str]) -> list[ShownAnswer]:
    read = (stored_answer(bench.outputs, name) for name in names)
    return [answer for answer in read if answer is not None]


@router.get("/history/export")
async def export_all(request: Request) -> Response:
    """Every conversation of a caller, as JSON."""
    service, caller = service_of(request), caller_of(request)
    known = await asyncio.to_thread(service.conversations.of_person, caller.name, _ALL)
    try:
        threads = [await _thread(service, caller, conversation) for conversation in known]
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    body = {"conversations": [_thread_json(thread, caller.base) for thread in threads]}
    return _download(JSONResponse(body), "conversations.json")


@router.get("/c/{name}/export")
async def export(request: Request, name: str, form: str = "markdown") -> Response:
    """A conversation as Markdown or JSON."""
    service, caller = service_of(request), caller_of(request)
    try:
        thread = await _thread(service, caller, await conversation_of(service, caller, name))
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    if form == "json":
        return _download(JSONResponse(_thread_json(thread, caller.base)), "conversation.json")
    text = _markdown(thread)
    return _download(PlainTextResponse(text, media_type="text/markdown"), "conversation.md")


async def _thread(service: Service, caller: Caller, known: Conversation) -> Thread:
    opened = usable_configuration(service, caller, known.configuration)
    async with service.using(opened) as bench:
        return await read_thread(service, caller, bench, opened.asking(caller.identity), known)


def _thread_json(thread: Thread, base: str) -> dict[str, Any]:
    known = thread.conversation
    return {
        "id": known.id,
        "began": known.began,
        "changed": known.changed,
        "configuration": known.configuration,
        "turns": [
            {
                "question": answer.question,
                "persona": answer.persona,
                "answer": answer.text,
                "citations": [linked_place(c, base) for c in answer.details["citations"]],
            }
            for turn in thread.turns
            for answer in turn.answers
        ],
    }


def _markdown(thread: Thread) -> str:
    parts = []
    for turn in thread.turns:
        for answer in turn.answers:
            who = f" ({answer.persona})" if answer.persona else ""
            parts.append(f"## {_one_line(answer.question)}{who}\n\n{answer.text}\n")
            parts += _sources(answer.details["citations"])
    return "\n".join(parts)


def _sources(citations: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = []
    for cited in citations:
        page_text = f", page {cited['page']}" if cited["page"] else ""
        lines.append(f"- [{cited['number']}] {_one_line(cited['title'])}{page_text}")
    return [*lines, ""]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _download(reply: Response, name: str) -> Response:
    reply.headers["content-disposition"] = f'attachment; filename="{name}"'
    reply.headers.update(PRIVATE)
    return reply


@router.post("/c/{name}/share")
async def share(request: Request, name: str, shared: bool = Form(False)) -> Response:
    """Let the link of a conversation open for others, or no longer."""
    service, caller = service_of(request), caller_of(request)
    try:
        await _mine(service, caller, name)
        change = service.conversations.share
        await asyncio.to_thread(change, name, shared=shared)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return RedirectResponse(f"/c/{name}", 303)


@router.post("/c/{name}/delete")
async def delete(request: Request, name: str) -> Response:
    """Delete a conversation, and its answers from the outputs."""
    service, caller = service_of(request), caller_of(request)
    try:
        known = await _mine(service, caller, name)
        opened = usable_configuration(service, caller, known.configuration)
        async with service.using(opened) as bench:
            await service.for_page(_remove, service, bench, name)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return RedirectResponse("/history", 303)


@router.post("/history/delete")
async def delete_all(request: Request, sure: bool = Form(False)) -> Response:
    """Delete every conversation of a caller, and their answers from the outputs."""
    service, caller = service_of(request), caller_of(request)
    try:
        if not sure:
            raise ApiError(400, "tick the box to delete all your conversations", "invalid_value")
        opened, _ = service.find("", caller.identity)
        async with service.using(opened) as bench:
            known = await asyncio.to_thread(service.conversations.of_person, caller.name, _ALL)
            caller.note.subject = counted(len(known), "conversation")
            await service.for_page(
                _remove, service, bench, *(conversation.id for conversation in known)
            )
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    return RedirectResponse("/history", 303)


async def _mine(service: Service, caller: Caller, name: str) -> Conversation:
    """A conversation of the caller.

    Raises:
        ApiError: 404, there is none.
    """
    known = await conversation_of(service, caller, name)
    if known.person != caller.name:
        raise ApiError(404, GONE, "not_found")
    return known


def _remove(service: Service, bench: Workbench, *names: str) -> None:
    answers = [answer for name in names for answer in service.conversations.answers(name)]
    bench.outputs.remove(answers)
    service.conversations.remove(*names)
