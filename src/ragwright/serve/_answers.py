"""Citations of a served answer as links and as JSON."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import urlencode

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..answer import (
    CitedSpan,
    Link,
    Marks,
    PlacedMark,
    find_quoted_text,
    marks_for_hits,
    marks_of_answer,
)
from ..core import GROUPS, Answer, Citation, Hit, RagwrightError, Usage, make_plain, text_hash
from ..drafting import NewBatch, Output
from ..flow import Message
from ..index import Store
from ..jobs import brief_model
from ..report import snippet_json
from ..workbench import AskOptions, Workbench
from ._admission import LOOK, Admission, Caller, ChatMessage
from ._errors import ApiError, api_error, log

SpanTexts: TypeAlias = Mapping[tuple[str, int, int], str]
"""Document, first and last character -> the text there."""

_STAMP = 12
"""Digits of the hash by which a link knows whether the passage is still there."""


def source_url(base: str, document_id: str, start: int, end: int, quote: str) -> str:
    """The address of a span: it opens the document and marks the passage while it is there."""
    query = {"id": document_id, "start": start, "end": end, "v": text_hash(quote)[:_STAMP]}
    return f"{base}/source?{urlencode(query)}#passage"


def make_link(base: str, texts: SpanTexts) -> Link:
    """Return how a server at this address links the citations of an answer.

    Args:
        base: The address.
        texts: As :func:`texts_of_spans`, of its passages.
    """

    def link(cited: Citation, quote: str) -> str:
        span = (cited.document_id, cited.start, cited.end)
        return source_url(base, *span, texts.get(span, quote))

    return link


async def texts_of_spans(bench: Workbench, hits: Iterable[Hit]) -> SpanTexts:
    """What the documents say where the text of a passage is another: rows of a table, excerpts.

    A link is stamped with it, because the page of a source compares the stamp with the document.
    """
    others = [hit for hit in hits if len(hit.text) != hit.end - hit.start]
    return await asyncio.to_thread(_read_spans, bench.project.store, others) if others else {}


def _read_spans(store: Store, hits: Iterable[Hit]) -> SpanTexts:
    texts = {}
    for hit in hits:
        document = store.document(hit.document_id)
        if document is not None:
            texts[hit.document_id, hit.start, hit.end] = document.text[hit.start : hit.end]
    return texts


def move_url(url: str, base: str) -> str:
    """The link of a citation on the server at another address, or on this one (``""``)."""
    return base + url[url.rindex("/source?") :]


def is_same_text(stamp: str, text: str) -> bool:
    """True where a link with this stamp was made for this text."""
    return text_hash(text)[:_STAMP] == stamp


def citation_json(span: CitedSpan) -> dict[str, Any]:
    """A cited span for programs."""
    cited = span.citation
    return {
        "number": span.number,
        "url": span.url,
        "title": cited.title,
        "source": cited.source,
        "document_id": cited.document_id,
        "chunk_id": cited.chunk_id,
        "page": cited.page,
        "start": cited.start,
        "end": cited.end,
        "ocr": cited.ocr,
        "quote": span.quote,
    }


def link_lines(spans: Sequence[CitedSpan]) -> str:
    """A list of sources as Markdown links, one a line; empty without any."""
    lines = []
    for span in spans:
        title = span.citation.title or span.citation.source
        shown = re.sub(r"[\[\]()<>\s]+", " ", title).strip()  # it cannot end its link
        lines.append(f"[{span.number}]: [{shown}]({span.url})")
    return "\n\n" + "  \n".join(lines) if lines else ""


def snippets_json(answer: Answer, link: Link) -> list[dict[str, Any]]:
    """The snippets of an answer without a chat model, each with its number and link."""
    return [
        {
            "number": cited.marker,
            "url": link(cited, find_quoted_text(answer.hits, cited)),
            **snippet_json(snippet),
        }
        for snippet, cited in zip(answer.snippets, answer.citations, strict=False)
    ]


def promise_json(answer: Answer) -> dict[str, Any]:
    """What a certified risk says about an answer, below ``promise``; empty without one."""
    return {} if answer.promise is None else {"promise": make_plain(answer.promise)}


def turns_of(
    messages: Sequence[ChatMessage], param: str = "messages"
) -> tuple[str, tuple[Message, ...]]:
    """The question and the turns before it. System messages are left out: the persona is ours.

    Of earlier turns the text alone is read: an image in one does not lock the conversation.

    Raises:
        ApiError: There is no question, or it holds something else than text.
    """
    turns: list[Message] = []
    last = max((n for n, message in enumerate(messages) if message.role == "user"), default=-1)
    for number, message in enumerate(messages):
        try:
            text = message.plain_text(strict=number == last)
        except ValueError as error:
            raise ApiError(
                400, str(error), "unsupported_content", param=f"{param}.{number}.content"
            ) from None
        if message.role in ("user", "assistant") and text.strip():
            turns.append(Message(message.role, text))
    if not turns or turns[-1].role != "user":
        raise ApiError(
            400,
            "the last message must be a question with the role `user`",
            "invalid_value",
            param=param,
        )
    return turns[-1].content, tuple(turns[:-1])


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """An answer as it goes to a client: under an id, marks rewritten."""

    id: str
    answer: Answer
    marks: Marks


def make_answer_id(kind: str = "chatcmpl-") -> str:
    """A new id of an answer, which cannot be guessed; ``kind`` is how it begins."""
    return f"{kind}{secrets.token_urlsafe(18)}"


async def answer_personas(
    work: Admission, question: str, personas: Sequence[str], asking: AskOptions, name: str = ""
) -> list[ServedAnswer]:
    """A question answered for each persona, from one search; ``name`` is the id of a single answer.

    Raises:
        RagwrightError: What answering failed with.
        TimeoutError: The time of the request is up.
        ClientGoneError: Its client went away.
    """
    work.noted(question)
    answers = await work.result(work.bench.aask_all(question, personas, asking))
    return [await deliver_answer(work, answer, asking, name=name) for answer in answers]


async def deliver_answer(
    work: Admission,
    answer: Answer,
    asking: AskOptions,
    *,
    name: str = "",
    marks: Marks | None = None,
) -> ServedAnswer:
    """Count an answer and store it among the outputs, under a new id where it has no name yet.

    What cannot be stored is logged and does not fail the request: the answer is there.

    Raises:
        ApiError: 503; a document that it was made from was erased meanwhile.
    """
    work.refuse_erased(asking, answer.hits)
    work.noted(answer.question, answer.hits)
    if marks is None:
        texts = await texts_of_spans(work.bench, answer.hits)
        marks = marks_of_answer(answer, make_link(work.caller.base, texts))
    done = ServedAnswer(name or make_answer_id(), answer, marks)
    work.service.metrics.answered(answer.abstained)
    if work.service.options.keep_answers:
        try:
            work.caller.note.subject = await asyncio.to_thread(_store_answer, work, done, asking)
        except (RagwrightError, OSError) as error:
            log.error("an answer could not be stored: %s", error)
    return done


def _store_answer(work: Admission, done: ServedAnswer, asking: AskOptions) -> str:
    snapshot = "" if asking.target is None else asking.target.snapshot
    origin = replace(work.opened.origin, snapshot=snapshot, scope=asking.scope)
    outputs = work.bench.outputs
    batch = _answer_batch(done, asking, work.caller.name, work.opened.name)
    batch = replace(batch, earlier=_earlier_passages(work, asking))
    with work.bench.project.work.working("serve", brief=True):
        work.refuse_erased(asking, done.answer.hits)  # nobody can erase while it is stored
        number = outputs.add(batch, origin)
        outputs.give_name(f"{number}.1", done.id, work.caller.name)
    return f"{number}.1"


def _earlier_passages(work: Admission, asking: AskOptions) -> tuple[tuple[str, str], ...] | None:
    """Document and chunk of the passages of the answers before this one.

    None without any, or where nobody knows.
    """
    if not asking.quotes_answers:
        return None
    answers = [turn.content for turn in asking.history if turn.role == "assistant"]
    return work.bench.outputs.sources_of_texts(work.caller.name, answers)


def _answer_batch(done: ServedAnswer, asking: AskOptions, client: str, name: str) -> NewBatch:
    answer = done.answer
    uses = tuple(hit.chunk_id for hit in answer.hits)
    turns = [{"role": role, "content": content} for role, content in answer.prompt]
    paid = Usage() if answer.cached else answer.usage
    outputs = (
        Output(
            "prompt",
            json.dumps(turns, ensure_ascii=False),
            answer.model,
            uses=uses,
            usage=paid,
            details={"cached": answer.cached},
        ),
        Output(
            "text",
            done.marks.text,
            answer.model,
            prompt="p1",
            uses=uses,
            details={"abstained": answer.abstained, "name": name, **promise_json(answer)},
        ),
    )
    request: dict[str, Any] = {"question": answer.question, "persona": answer.persona}
    # Answers of earlier turns are outputs of their own: here they would outlive what they quote.
    questions = [turn.content for turn in asking.history if turn.role == "user"]
    if questions:
        request["asked_before"] = questions
    details = {
        "id": done.id,
        "route": answer.route,
        "abstained": answer.abstained,
        "citations": [citation_json(span) for span in done.marks.spans],
        "notes": list(answer.notes),
        "cached": answer.cached,
    }
    text, links = done.marks.text, link_lines(done.marks.spans)
    sent = (text, text + links) if links else (text,)
    return NewBatch(
        "answer", request, outputs, answer.hits, client, paid, details=details, sent=sent
    )


_ADDRESS = re.compile(r"\bhttps?://[^\s#]+#")


def hide_addresses(answer: Answer, caller: Caller) -> Answer:
    """An answer as a caller may see it: readers learn no address or folder of a model."""
    if caller.owner:
        return answer
    return replace(
        answer,
        model=brief_model(answer.model),
        route_reason=_ADDRESS.sub("", answer.route_reason),
        notes=tuple(_ADDRESS.sub("", note) for note in answer.notes),
    )


def hits_for(hits: Sequence[Hit], caller: Caller) -> list[Hit]:
    """Hits as a caller may see them: readers do not learn which other groups may read them."""
    if caller.owner:
        return list(hits)
    return [
        replace(hit, metadata={k: v for k, v in hit.metadata.items() if k != GROUPS})
        if GROUPS in hit.metadata
        else hit
        for hit in hits
    ]


_READ_AS = re.compile(r"read as: (.*) \([^()]*\)", re.DOTALL)


def standalone(answer: Answer) -> str:
    """The question as it was looked up, which differs where it follows earlier turns."""
    read_as = next((m for note in answer.notes if (m := _READ_AS.fullmatch(note))), None)
    return read_as[1] if read_as else answer.question


_PING = 15.0
"""Seconds of silence after which a stream sends a comment, so that no proxy closes it."""

_GRACE = 5.0
"""Seconds after the time of a request in which its last frames may still be read."""

_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}

DONE = b"data: [DONE]\n\n"
"""The last frame of a stream of chat completions."""


_as_json = json.JSONEncoder(ensure_ascii=False).encode
"""As ``json.dumps`` with this option, which makes an encoder for each call."""


def sse_frame(body: Mapping[str, Any], event: str = "") -> bytes:
    """A server-sent event with a JSON body; ``event`` names its type."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {_as_json(body)}\n\n".encode()


class EventStream(StreamingResponse):
    """Server-sent events; what they need is released at their end, however they end.

    A client that reads so slowly that its time is up is cut off.
    """

    def __init__(
        self, events: AsyncIterator[bytes], work: Admission, stack: AsyncExitStack | None = None
    ) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_STREAM_HEADERS)
        self._until = work.deadline + _GRACE
        self._stack = stack or AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        async with self._stack:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._until):
                    await super().__call__(scope, receive, send)


class Frames(ABC):
    """How an interface words the events of an answer."""

    def opening(self) -> Iterable[bytes]:
        """Frames before the text."""
        return ()

    @abstractmethod
    def text(self, text: str, marks: Sequence[PlacedMark]) -> Iterable[bytes]:
        """Frames of a piece of text and the citations in it."""

    @abstractmethod
    def closing(self, answer: Answer, marks: Marks) -> Iterable[bytes]:
        """Frames after the text; the answer is as its caller may see it."""

    def failure(self, error: ApiError) -> bytes:
        """The frame of an error."""
        return sse_frame(error.body())


class AnswerEvents:
    """The events of one answer while it is written.

    Args:
        work: The admitted request.
        question: The question.
        asking: Its filters, history and scope.
        frames: How its events are worded.
        name: Id under which the answer is stored.
        links: True where the text ends with links to its sources.
    """

    def __init__(
        self,
        work: Admission,
        question: str,
        asking: AskOptions,
        frames: Frames,
        name: str,
        links: bool = False,
    ) -> None:
        self._work, self._question, self._asking = work, question, asking
        self._frames, self._name, self._links = frames, name, links
        work.noted(question)
        self._stream = work.bench.astream(question, work.persona, asking)
        self._pieces: AsyncGenerator[str, None] = self._stream.__aiter__()
        self._next: asyncio.Future[str | None] = asyncio.ensure_future(anext(self._pieces, None))

    async def respond(self, stack: AsyncExitStack) -> EventStream:
        """The stream, which releases what the stack holds at its end.

        It waits for the first piece, but not for long: what fails before it has its HTTP status.

        Raises:
            Exception: What answering failed with.
            ClientGoneError: The client went away.
        """
        stack.push_async_callback(self._close)
        wait = min(_PING, self._work.left)
        await self._work.while_wanted(asyncio.wait({self._next}, timeout=wait))
        if self._next.done():
            self._next.result()
        return EventStream(self._events(), self._work, stack.pop_all())

    async def _close(self) -> None:
        self._next.cancel()
        await asyncio.wait({self._next})
        await self._pieces.aclose()

    async def _events(self) -> AsyncIterator[bytes]:
        """The frames, the last ones or an error at the end."""
        texts: dict[tuple[str, int, int], str] = {}
        link = make_link(self._work.caller.base, texts)
        marks = marks_for_hits(lambda: self._stream.context or (), link)
        noted: Sequence[Hit] = ()
        try:
            # Frames that are ready together are sent together: each sending passes every layer.
            if opening := b"".join(self._frames.opening()):
                yield opening
            while True:
                async for comment in self._pings_until_next():
                    yield comment
                piece = self._next.result()
                if piece is None:
                    break
                answer = self._stream.answer
                context = self._stream.context or ()
                if answer is not None:
                    texts |= await texts_of_spans(self._work.bench, answer.hits)
                elif context is not noted:
                    texts |= await texts_of_spans(self._work.bench, context)
                # After the last wait: what was erased meanwhile is not shown.
                self._work.refuse_erased(self._asking, context)
                if context is not noted:
                    self._work.noted(self._question, context)
                    noted = context
                begin = len(marks.marks)
                if answer is None:
                    text = marks.feed(piece)
                else:  # no model wrote it: the whole answer is one piece
                    marks = marks_of_answer(answer, link)
                    text = marks.text
                if text:
                    yield b"".join(self._frames.text(text, marks.marks[begin:]))
                self._next = asyncio.ensure_future(anext(self._pieces, None))
            async for event in self._last_events(marks):
                yield event
        except Exception as error:
            yield self._frames.failure(api_error(error, self._work.caller))

    async def _pings_until_next(self) -> AsyncIterator[bytes]:
        """Comments until the next piece is there."""
        silent = time.monotonic()
        while not self._next.done():
            left = self._work.left
            if not left:
                raise TimeoutError
            await asyncio.wait({self._next}, timeout=min(LOOK, left))
            if self._next.done():  # what the piece was made from is checked before it is shown
                self._work.give_way()
                return
            self._work.give_way()
            if self._stream.context:  # while the passages are not known, it may go on
                self._work.refuse_erased(self._asking, self._stream.context)
            if time.monotonic() - silent >= _PING:
                silent = time.monotonic()
                yield b": still at work\n\n"

    async def _last_events(self, marks: Marks) -> AsyncIterator[bytes]:
        answer = self._stream.answer
        assert answer is not None
        self._work.refuse_erased(self._asking, answer.hits)
        begin = len(marks.marks)
        rest = marks.feed("", last=True)
        if self._links:
            rest += link_lines(marks.spans)
        if rest:
            yield b"".join(self._frames.text(rest, marks.marks[begin:]))
        await deliver_answer(self._work, answer, self._asking, name=self._name, marks=marks)
        yield b"".join(self._frames.closing(hide_addresses(answer, self._work.caller), marks))
