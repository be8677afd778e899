"""Answers as cards."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ...answer import NO_MODEL_LINE, CitedSpan, Marks, PlacedMark, citation
from ...core import Answer, TestsetError
from ...flow import Message
from ...project import read_last_ingest
from ...testsets import is_feedback, iter_rows, review_status
from .._admission import Admission, FeedbackRequest, RequestNeeds, admit
from .._answers import (
    AnswerEvents,
    Frames,
    ServedAnswer,
    answer_personas,
    citation_json,
    hide_addresses,
    is_same_text,
    make_answer_id,
    move_url,
    snippets_json,
    source_url,
    sse_frame,
    standalone,
)
from .._chat import caller_of, respond_to, service_of
from .._configurations import ListedSource, OpenConfiguration, visible_source
from .._errors import ApiError
from ._base import PAGE_HEADERS, fragment, page, router, testset_files


def explain_answer(answer: Answer, marks: Marks) -> dict[str, Any]:
    """Return what an answer rests on.

    That is the question as it was looked up, where it follows earlier turns, each passage that was
    read with the numbers that quote it, and whether a search by words found nothing.
    """
    numbers: dict[str, list[int]] = {}
    for span in marks.spans:
        numbers.setdefault(span.citation.chunk_id, []).append(span.number)
    read_as = standalone(answer)
    return {
        "read_as": "" if read_as == answer.question else read_as,
        "read": [
            {
                "title": hit.title or hit.source,
                "page": hit.page,
                "url": move_url(marks.link(citation(hit.rank, hit), hit.text), ""),
                "text": hit.text,
                "rank": hit.rank,
                "numbers": numbers.get(hit.chunk_id, ()),
            }
            for hit in answer.hits
        ],
        "unfound": any(note.startswith("no keyword hits") for note in answer.notes),
    }


_IN_WORDS = ("read as: ", "no keyword hits: ", "nothing was retrieved")
"""Beginnings of notes that the page says in other words."""


def card_values(work: Admission, done: ServedAnswer) -> dict[str, Any]:
    """The values of an answer's card for the template."""
    answer, marks = hide_addresses(done.answer, work.caller), done.marks
    spans = {span.number: _place(span) for span in marks.spans}
    return {
        "id": done.id,
        "persona": answer.persona,
        "parts": _parts(marks, spans),
        "spans": list(spans.values()),
        "line": NO_MODEL_LINE,
        "snippets": [_marked_snippet(snippet) for snippet in snippets_json(answer, marks.link)],
        "model": answer.model,
        "notes": [note for note in answer.notes if not note.startswith(_IN_WORDS)],
        "promise": "" if answer.promise is None else answer.promise.line,
        "why": explain_answer(answer, marks),
    }


def _place(span: CitedSpan) -> dict[str, Any]:
    """A cited span with its address on this server, whatever name it was reached by."""
    place = citation_json(span)
    return {**place, "url": move_url(span.url, ""), "title": place["title"] or place["document_id"]}


def _marked_snippet(snippet: Mapping[str, Any]) -> dict[str, Any]:
    """A snippet with its text in three parts: before, in and after its best sentence."""
    text, (start, end) = snippet["text"], snippet["marked"]
    return {
        **snippet,
        "url": move_url(snippet["url"], ""),
        "parts": (text[:start], text[start:end], text[end:]),
    }


def _parts(
    marks: Marks, spans: Mapping[int, Mapping[str, Any]]
) -> Sequence[tuple[str, Mapping[str, Any] | None]]:
    """The text cut at its marks, so that each mark becomes a link and nothing else does."""
    parts: list[tuple[str, Mapping[str, Any] | None]] = []
    at = 0
    for mark in marks.marks:
        parts.append((marks.text[at : mark.start], None))
        parts.append((marks.text[mark.start : mark.end], spans.get(mark.span.number)))
        at = mark.end
    return [*parts, (marks.text[at:], None)]


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
        return tuple(
            message
            for question, answer in self.turns()[-_HISTORY:]
            for message in (Message("user", question), Message("assistant", answer))
        )


@router.get("/")
async def ask(
    request: Request,
    q: str = Query("", max_length=_LONGEST),
    persona: str = Query("", max_length=200),
    configuration: str = "",
) -> HTMLResponse:
    """Show the form, with a question that a link may hold; only the form asks it."""
    service, caller = service_of(request), caller_of(request)
    opened, _ = service.find(configuration, caller.identity)
    starters: Sequence[str] = ()
    if opened.target is not None and not q:
        async with service.using(opened) as bench:
            starters = await service.catalogues.questions(bench, opened.asking(caller.identity))
        if caller.reviewer and not caller.restricted:
            asked = await service.for_page(_testset_questions, service.folder.testsets)
            starters = asked if len(asked) >= _STARTERS else [*asked, *starters]
    return _ask_page(request, opened, AskForm(q=q, persona=persona), starters=_some(starters))


_STARTERS = 4
_READ = 200
"""Rows at the beginning of a testset that may give a question to begin with."""


def _some(questions: Sequence[str]) -> list[str]:
    """A few of the questions, from all parts of the list."""
    few = min(len(questions), _STARTERS)
    return [questions[at * len(questions) // few] for at in range(few)]


def _testset_questions(folder: Path) -> list[str]:
    """Whole questions of the testsets of a project that its documents should answer.

    Rows held out for a last test, and readers' feedback, are not among them.
    """
    questions: dict[str, None] = {}
    for path in testset_files(folder):
        with suppress(TestsetError):
            for row in islice(iter_rows(path), _READ):
                kind = row.metadata.get("kind")
                text = row.user_input
                if kind == "heading":  # "Title: Heading"
                    text = text.rpartition(": ")[2]
                apart = is_feedback(row) or review_status(row) == "rejected" or kind == "cloze"
                held = row.metadata.get("split") == "confirm"
                known = row.metadata.get("answerable") is not False and not row.history
                if known and not apart and not held and _WHOLE.fullmatch(text):
                    questions[text] = None
    return list(questions)


_WHOLE = re.compile(r"(?=(?:\S+ +){2})[^\n]{8,120}\?")
"""A question of three words or more, on one line."""


@router.post("/")
async def answers(request: Request, form: Annotated[AskForm, Form()]) -> HTMLResponse:
    """Answer a question of the form, for browsers without our script."""
    service, caller = service_of(request), caller_of(request)
    opened, _ = service.find(form.configuration, caller.identity)
    if not form.q.strip():
        return _ask_page(request, opened, form)
    async with admit(service, caller, RequestNeeds(opened.name, request=request)) as work:
        asking = work.asking(history=form.history())
        done = await answer_personas(work, form.q, form.personas(opened), asking)
        return _ask_page(request, opened, form, work, done)


@router.post("/ask/stream", response_class=JSONResponse)
async def stream(request: Request, form: Annotated[AskForm, Form()]) -> Response:
    """Answer a question of the form for one persona, as it is written."""
    service, caller = service_of(request), caller_of(request)
    async with AsyncExitStack() as stack:
        model = "/".join(filter(None, (form.configuration, form.persona)))
        wanted = RequestNeeds(model, "answers", "chat", request)
        work = await stack.enter_async_context(admit(service, caller, wanted))
        asking = work.asking(history=form.history())
        name = make_answer_id()
        events = AnswerEvents(work, form.q, asking, _PageFrames(work, name), name)
        return await events.respond(stack)


@dataclass(frozen=True, slots=True)
class _PageFrames(Frames):
    """Frames of an answer for our script: pieces of text, then its card."""

    work: Admission
    id: str

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
        service = self.work.service
        card = card_values(self.work, ServedAnswer(self.id, answer, marks))
        values = {"answer": card, "kept": service.options.keep_answers}
        html = fragment(service, "card.html", values)
        yield sse_frame({"card": html, "text": marks.text})


def _ask_page(
    request: Request,
    opened: OpenConfiguration,
    form: AskForm,
    work: Admission | None = None,
    done: Sequence[ServedAnswer] = (),
    starters: Sequence[str] = (),
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
        "starters": starters,
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


@router.post("/ask/feedback")
async def say(request: Request, form: Annotated[FeedbackRequest, Form()]) -> HTMLResponse:
    """Store what a reader says of an answer."""
    wanted = RequestNeeds(lane="searches")
    async with admit(service_of(request), caller_of(request), wanted) as work:
        await asyncio.to_thread(respond_to, work, form)
    return page(request, "thanks.html", {"title": "Feedback"})


_LISTED = 100
"""Documents on one page."""

_SHOWN = 200_000
"""Most characters of a document on one page, around the passage."""


_AROUND = 1_500
"""Characters before and after a passage that is shown beside an answer."""

_CHANGED = "The document has changed since it was cited: the passage cannot be marked."
_PART = "This is a part of the document, around the passage."
_NARROWED = "Only the parts of the document that you may see are shown."


@router.get("/sources")
async def sources(
    request: Request,
    find: str = Query("", max_length=2_000),
    at: int = Query(1, alias="page", ge=1, le=1_000_000),
) -> HTMLResponse:
    """List the documents, or those with a text in their name or title."""
    service, caller = service_of(request), caller_of(request)
    opened, _ = service.find("", caller.identity)
    known: tuple[ListedSource, ...] = ()
    if opened.target is not None:
        async with service.using(opened) as bench:
            known = await service.catalogues.of(bench, opened.asking(caller.identity))
    find = find.strip()
    matching = [s for s in known if find.casefold() in f"{s.id}\n{s.title}".casefold()]
    skipped = (at - 1) * _LISTED
    # Names of sources that failed are for those who may see all sources.
    ingest = None
    if caller.owner and not caller.narrowed and at == 1 and not find:
        ingest = await service.for_page(read_last_ingest, service.folder)
    values = {
        "ingest": ingest,
        "title": "Sources",
        "sources": matching[skipped : skipped + _LISTED],
        "matching": len(matching),
        "total": len(known),
        "grouped": any(source.groups for source in known),
        "ungrouped": "everyone" if opened.ungrouped else "owners",
        "whole": caller.owner,
        "find": find,
        "first": skipped + 1,
        "previous": f"/sources?{urlencode({'find': find, 'page': at - 1})}" if at > 1 else "",
        "next": f"/sources?{urlencode({'find': find, 'page': at + 1})}"
        if skipped + _LISTED < len(matching)
        else "",
    }
    return page(request, "sources.html", values)


@router.get("/source")
async def source(
    request: Request,
    id: str = "",  # noqa: A002
    start: int = 0,
    end: int = 0,
    v: str = "",
) -> HTMLResponse:
    """Show a document of the index, the passage of a citation marked."""
    return page(request, "source.html", await _source_values(request, id, start, end, v))


@router.get("/source/beside", response_class=JSONResponse)
async def show_passage(
    request: Request,
    id: str = "",  # noqa: A002
    start: int = 0,
    end: int = 0,
    v: str = "",
) -> HTMLResponse:
    """Show the passage of a citation with the text around it, for a place beside the answer."""
    values = await _source_values(request, id, start, end, v)
    before, after = values["before"], values["after"]
    shown = before[-_AROUND:]
    if len(before) > _AROUND:  # whole lines, and code as code
        shown = shown.partition("\n")[2]
        inside = before[: len(before) - len(shown)].count("\n```") % 2
        shown = "\n```\n" + shown if inside else shown
    cut = {
        "before": shown,
        "after": after[:_AROUND],
        "cut_before": len(before) > _AROUND,
        "cut_after": len(after) > _AROUND,
        "whole": source_url("", id, start, end, values["marked"]),
    }
    html = fragment(service_of(request), "beside.html", {**values, **cut})
    return HTMLResponse(html, headers=PAGE_HEADERS)


async def _source_values(
    request: Request, name: str, start: int, end: int, stamp: str
) -> dict[str, Any]:
    """A document in the first configuration that shows it, cut before and behind a passage."""
    service, caller = service_of(request), caller_of(request)
    caller.note.used([name])
    visible = None
    for opened in service.configurations(caller.identity):
        if visible is None and opened.target is not None:
            async with service.using(opened) as bench:
                visible = await visible_source(bench, opened.asking(caller.identity), name)
    if visible is None:
        raise ApiError(404, "source not found", "not_found")
    document = visible.document
    is_span = 0 <= start < end <= len(document.text)
    passage = document.text[start:end] if is_span and visible.shows(start, end) else ""
    marked = passage if passage and is_same_text(stamp, passage) else ""
    low, high = 0, len(document.text)
    notes = [_CHANGED] if stamp and not marked else []
    if not visible.complete:
        notes.append(_NARROWED)
    if high > _SHOWN:
        low = max(0, (start if marked else 0) - _SHOWN // 2)
        high = min(high, low + _SHOWN)
        notes.append(_PART)
    middle = (start, end) if marked else (high, high)
    address = document.source
    pages = (page.number for page in document.pages if page.span.start <= start < page.span.end)
    return {
        "title": document.title or document.id,
        "source": address,
        "link": address if address.startswith(("http://", "https://")) else "",
        "page": next(pages, None) if marked else None,
        "note": " ".join(notes),
        "before": visible.text(low, middle[0]),
        "marked": marked,
        "after": visible.text(middle[1], high),
    }
