"""``POST /v1/chat/completions``: an answer with citations, whole or as it is written."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ..answer import CONVERSATION, Marks, PlacedMark, marks_for_hits, marks_of_answer
from ..core import Answer, Usage
from ..flow import Message
from ._admission import LOOK, Admitted, Wanted, admitted
from ._answers import (
    answered,
    answering,
    delivered,
    for_caller,
    new_id,
    standalone,
    turns_of,
)
from ._auxiliary import AuxiliaryReply, Purpose, auxiliary_reply, purpose_of
from ._errors import api_error
from ._figures import ChunkFigures
from ._links import citation_json, closest_spans, link_lines, linked, promise_json
from ._wire import ChatRequest

if TYPE_CHECKING:
    from ..workbench import Asking
    from ._admission import Caller
    from ._service import Service

_PING = 15.0
"""Seconds of silence after which a stream sends a comment, so that no proxy closes it."""

_GRACE = 5.0
"""Seconds after the time of a request in which its last frames may still be read."""

_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat request, read: by what it is answered, and about what."""

    body: ChatRequest
    work: Admitted
    question: str
    asking: Asking
    id: str
    created: int

    @property
    def links(self) -> bool:
        """True where the answer ends with links to its sources."""
        wish = self.body.ragwright.source_links
        return self.work.service.options.source_links if wish is None else wish

    def frame(self, kind: str, choice: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """A reply, or a piece of one, in OpenAI's shape."""
        opened = self.work.opened
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.body.model or opened.name,
            "system_fingerprint": opened.origin.configuration[:12],
            "choices": [{"index": 0, **choice}],
            **more,
        }


async def chat_completion(
    service: Service, request: Request, body: ChatRequest, caller: Caller
) -> Response:
    """Answer the last message of a conversation."""
    question, history = turns_of(body.messages)
    purpose = purpose_of([*history, Message("user", question)])
    async with AsyncExitStack() as stack:
        wanted = Wanted(body.model, "answers", "chat", request)
        work = await stack.enter_async_context(admitted(service, caller, wanted))
        asking = work.asking(body.ragwright, history)
        completion = Completion(body, work, question, asking, new_id(), int(time.time()))
        if purpose is not None:
            return await _auxiliary_response(completion, purpose)
        if not body.stream:
            return await _whole_completion(completion)
        stream = _Stream(completion)
        stack.push_async_callback(stream.close)
        await stream.begin()
        return _Events(stream.events(), work, stack.pop_all())


class _Events(StreamingResponse):
    """Server-sent events; what they need is released at their end, however they end.

    A client that reads so slowly that its time is up is cut off.
    """

    def __init__(
        self, events: AsyncIterator[bytes], work: Admitted, stack: AsyncExitStack | None = None
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


async def _whole_completion(completion: Completion) -> Response:
    work = completion.work
    [done] = await answered(work, completion.question, [work.persona], completion.asking)
    marks, answer = done.marks, done.answer
    text = marks.text + (link_lines(marks.spans) if completion.links else "")
    message = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": [_url_citation(mark) for mark in marks.marks],
    }
    frame = completion.frame(
        "chat.completion",
        {"message": message, "finish_reason": answer.finish, "logprobs": None},
        usage=usage_json(answer.usage),
        ragwright=details_json(for_caller(answer, work.caller), marks, done.figures),
    )
    return JSONResponse(frame | {"id": done.id})


class _Stream:
    """An answer as server-sent events."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._work = work = completion.work
        self._stream = work.bench.astream(completion.question, work.persona, completion.asking)
        self._pieces: AsyncGenerator[str, None] = self._stream.__aiter__()
        self._next: asyncio.Future[str | None] = asyncio.ensure_future(anext(self._pieces, None))

    async def begin(self) -> None:
        """Wait for the first piece, but not for long: what fails before it has its HTTP status.

        Raises:
            Exception: What answering failed with.
            ClientGoneError: The client went away.
        """
        wait = min(_PING, self._work.left)
        await self._work.while_wanted(asyncio.wait({self._next}, timeout=wait))
        if self._next.done():
            self._next.result()

    async def close(self) -> None:
        """End the call where its reader went away."""
        self._next.cancel()
        await asyncio.wait({self._next})
        await self._pieces.aclose()

    async def events(self) -> AsyncIterator[bytes]:
        """The frames, ``[DONE]`` or an error last."""
        link = linked(self._work.caller.base)
        marks = marks_for_hits(lambda: self._stream.context or (), link)
        yield _sse_frame(self._chunk_frame({"role": "assistant", "content": ""}))
        try:
            while True:
                async for comment in self._pings_until_next():
                    yield comment
                piece = self._next.result()
                if piece is None:
                    break
                answer = self._stream.answer
                begin = len(marks.marks)
                if answer is None:
                    text = marks.feed(piece)
                else:  # no model wrote it: the whole answer is one piece
                    marks = marks_of_answer(answer, link)
                    text = marks.text
                self._work.refuse_erased(self._completion.asking, self._stream.context or ())
                if text:
                    yield _sse_frame(self._text_chunk(text, marks.marks[begin:]))
                self._next = asyncio.ensure_future(anext(self._pieces, None))
            async for event in self._last_events(marks):
                yield event
        except Exception as error:
            yield _sse_frame(api_error(error, self._work.caller).body())

    async def _pings_until_next(self) -> AsyncIterator[bytes]:
        """Comments until the next piece is there.

        Raises:
            TimeoutError: The time for an answer is up.
            ApiError: 503; something was erased meanwhile.
        """
        silent = time.monotonic()
        while not self._next.done():
            left = self._work.left
            if not left:
                raise TimeoutError
            await asyncio.wait({self._next}, timeout=min(LOOK, left))
            self._refuse_erased()
            if time.monotonic() - silent >= _PING:
                silent = time.monotonic()
                yield b": still at work\n\n"

    def _refuse_erased(self) -> None:
        """As :meth:`Admitted.refuse_erased`; while the passages are not known, it may go on."""
        self._work.give_way()
        if self._stream.context:
            self._work.refuse_erased(self._completion.asking, self._stream.context)

    async def _last_events(self, marks: Marks) -> AsyncIterator[bytes]:
        completion, answer = self._completion, self._stream.answer
        assert answer is not None
        self._work.refuse_erased(completion.asking, answer.hits)
        begin = len(marks.marks)
        rest = marks.feed("", last=True)
        if completion.links:
            rest += link_lines(marks.spans)
        if rest:
            yield _sse_frame(self._text_chunk(rest, marks.marks[begin:]))
        done = await delivered(
            self._work, answer, completion.asking, name=completion.id, marks=marks
        )
        details = details_json(for_caller(answer, self._work.caller), marks, done.figures)
        yield _sse_frame(self._chunk_frame({}, answer.finish, ragwright=details))
        options = completion.body.stream_options
        if options is not None and options.include_usage:
            usage = completion.frame("chat.completion.chunk", {}, usage=usage_json(answer.usage))
            yield _sse_frame(usage | {"choices": []})
        yield b"data: [DONE]\n\n"

    def _text_chunk(self, text: str, marks: Sequence[PlacedMark]) -> dict[str, Any]:
        delta: dict[str, Any] = {"content": text}
        if marks:
            delta["annotations"] = [_url_citation(mark) for mark in marks]
        return self._chunk_frame(delta)

    def _chunk_frame(
        self, delta: Mapping[str, Any], finish: str | None = None, **more: Any
    ) -> dict[str, Any]:
        choice = {"delta": delta, "finish_reason": finish, "logprobs": None}
        return self._completion.frame("chat.completion.chunk", choice, **more)


async def _auxiliary_response(completion: Completion, purpose: Purpose) -> Response:
    """A title, tags or follow-up questions: about the conversation, without any document."""
    work, asking = completion.work, completion.asking
    messages = (*asking.history, Message("user", completion.question))
    flow = auxiliary_reply(messages, purpose, answering(work.bench, work.persona))
    runner = work.bench.project.runner
    reply: AuxiliaryReply = await work.result(
        runner.arun(flow, scope=asking.scope, trace=asking.trace, sources=(CONVERSATION,))
    )
    usage = usage_json(reply.usage)
    if not completion.body.stream:
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        choice = {"message": message, "finish_reason": "stop", "logprobs": None}
        return JSONResponse(completion.frame("chat.completion", choice, usage=usage))

    async def events() -> AsyncIterator[bytes]:
        kind = "chat.completion.chunk"
        delta = {"role": "assistant", "content": reply.text}
        yield _sse_frame(completion.frame(kind, {"delta": delta, "finish_reason": None}))
        yield _sse_frame(completion.frame(kind, {"delta": {}, "finish_reason": "stop"}))
        options = completion.body.stream_options
        if options is not None and options.include_usage:
            yield _sse_frame(completion.frame(kind, {}, usage=usage) | {"choices": []})
        yield b"data: [DONE]\n\n"

    return _Events(events(), work)


def details_json(answer: Answer, marks: Marks, figures: ChunkFigures) -> dict[str, Any]:
    """All that OpenAI's shape has no place for."""
    return {
        "persona": answer.persona,
        "abstained": answer.abstained,
        "citations": [
            citation_json(span) | {"figures": list(figures.get(span.citation.chunk_id, ()))}
            for span in marks.spans
        ],
        "closest": [citation_json(span) for span in closest_spans(answer, marks.link)],
        "read_as": standalone(answer),
        "route": answer.route,
        "route_reason": answer.route_reason,
        "model": answer.model,
        "cached": answer.cached,
        "notes": list(answer.notes),
        **promise_json(answer),
    }


def usage_json(usage: Usage) -> dict[str, int]:
    """Tokens of all calls that an answer took."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _url_citation(mark: PlacedMark) -> dict[str, Any]:
    cited = mark.span.citation
    place = {
        "start_index": mark.start,
        "end_index": mark.end,
        "title": cited.title or cited.source,
        "url": mark.span.url,
    }
    return {"type": "url_citation", "url_citation": place}


def _sse_frame(body: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
