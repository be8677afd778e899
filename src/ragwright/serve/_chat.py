"""``POST /v1/chat/completions``: an answer with citations, whole or as it is written."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ..core import Answer, Usage
from ..flow import Message
from ._answers import (
    Caller,
    ClientGoneError,
    Delivered,
    admit,
    answering,
    charge,
    keep,
    narrowed,
    new_id,
    require_prices,
    turns_of,
    while_connected,
)
from ._auxiliary import AuxiliaryReply, Purpose, auxiliary_reply, purpose_of
from ._errors import api_error
from ._links import Marks, PlacedMark, citation_json, link_lines, marks_for_hits, marks_of_answer
from ._wire import ChatRequest

if TYPE_CHECKING:
    from ..workbench import Asking, Workbench
    from ._service import Opened, Service

_PING = 15.0
"""Seconds of silence after which a stream sends a comment, so that no proxy closes it."""

_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat request, read: for whom, by which configuration, about what."""

    body: ChatRequest
    caller: Caller
    opened: Opened
    persona: str
    question: str
    asking: Asking
    id: str
    created: int
    links: bool

    def frame(self, kind: str, choice: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """A reply, or a piece of one, in OpenAI's shape."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.body.model or self.opened.name,
            "system_fingerprint": self.opened.origin.configuration[:12],
            "choices": [{"index": 0, **choice}],
            **more,
        }


async def chat_completion(
    service: Service, request: Request, body: ChatRequest, caller: Caller
) -> Response:
    """Answer the last message of a conversation."""
    opened, persona = service.find(body.model, caller.key)
    question, history = turns_of(body.messages)
    admit(service, caller)
    purpose = purpose_of([*history, Message("user", question)])
    stack = AsyncExitStack()
    try:
        bench = await stack.enter_async_context(service.using(opened))
        await stack.enter_async_context(service.turns.turn())
        model = answering(bench, persona)
        trace = stack.enter_context(
            service.tracing.answering("chat", body.model or opened.name, request.headers)
        )
        require_prices(service, caller, opened, model)
        asking = opened.asking(caller.key)
        completion = Completion(
            body,
            caller,
            opened,
            persona,
            question,
            narrowed(replace(asking, history=history, trace=trace), body.ragwright),
            new_id(),
            int(time.time()),
            service.options.source_links
            if body.ragwright.source_links is None
            else body.ragwright.source_links,
        )
        if purpose is not None:
            return await _auxiliary(service, request, completion, (purpose, model))
        if not body.stream:
            return await _whole(service, request, completion, bench)
        stream = _Stream(service, completion, bench)
        stack.push_async_callback(stream.close)
        await stream.begin(request)
        return _Events(stream.events(), stack.pop_all())
    except ClientGoneError:
        return Response(status_code=499)
    finally:
        await stack.aclose()


class _Events(StreamingResponse):
    """Server-sent events; what they need is released at their end, however they end."""

    def __init__(self, events: AsyncIterator[bytes], stack: AsyncExitStack | None = None) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_STREAM_HEADERS)
        self._stack = stack or AsyncExitStack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them."""
        async with self._stack:
            await super().__call__(scope, receive, send)


async def _whole(
    service: Service, request: Request, completion: Completion, bench: Workbench
) -> Response:
    asked = bench.aask(completion.question, completion.persona, completion.asking)
    async with asyncio.timeout(service.options.timeout):
        answer = await while_connected(request, asked)
    marks = marks_of_answer(answer, completion.caller.base)
    await keep(
        service,
        completion.caller,
        completion.opened,
        Delivered(completion.id, answer, completion.asking, marks),
    )
    text = marks.text + (link_lines(marks.spans) if completion.links else "")
    message = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": [_annotation(mark) for mark in marks.marks],
    }
    return JSONResponse(
        completion.frame(
            "chat.completion",
            {"message": message, "finish_reason": answer.finish, "logprobs": None},
            usage=usage_json(answer.usage),
            ragwright=details_json(answer, marks),
        )
    )


class _Stream:
    """An answer as server-sent events."""

    def __init__(self, service: Service, completion: Completion, bench: Workbench) -> None:
        self._service = service
        self._completion = completion
        self._stream = bench.astream(completion.question, completion.persona, completion.asking)
        self._pieces: AsyncGenerator[str, None] = self._stream.__aiter__()
        self._next: asyncio.Future[str | None] = asyncio.ensure_future(anext(self._pieces, None))
        self._deadline = time.monotonic() + service.options.timeout

    async def begin(self, request: Request) -> None:
        """Wait for the first piece, but not for long: what fails before it has its HTTP status.

        Raises:
            Exception: What answering failed with.
            ClientGoneError: The client went away.
        """
        wait = min(_PING, self._service.options.timeout)
        await while_connected(request, asyncio.wait({self._next}, timeout=wait))
        if self._next.done():
            self._next.result()

    async def close(self) -> None:
        """End the call where its reader went away."""
        self._next.cancel()
        await asyncio.wait({self._next})
        await self._pieces.aclose()

    async def events(self) -> AsyncIterator[bytes]:
        """The frames, ``[DONE]`` or an error last."""
        completion = self._completion
        marks = marks_for_hits(lambda: self._stream.context or (), completion.caller.base)
        yield _event(self._chunk({"role": "assistant", "content": ""}))
        try:
            while True:
                async for comment in self._silence():
                    yield comment
                piece = self._next.result()
                if piece is None:
                    break
                answer = self._stream.answer
                begin = len(marks.marks)
                if answer is None:
                    said = marks.feed(piece)
                else:  # no model wrote it: the whole answer is one piece
                    marks = marks_of_answer(answer, completion.caller.base)
                    said = marks.text
                if said:
                    yield _event(self._delta(said, marks.marks[begin:]))
                self._next = asyncio.ensure_future(anext(self._pieces, None))
            async for event in self._end(marks):
                yield event
        except Exception as error:
            narrowed = completion.caller.narrowed
            yield _event(api_error(error, narrowed=narrowed).body())

    async def _silence(self) -> AsyncIterator[bytes]:
        """Comments until the next piece is there.

        Raises:
            TimeoutError: The time for an answer is up.
        """
        while not self._next.done():
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            done, _ = await asyncio.wait({self._next}, timeout=min(_PING, left))
            if not done:
                yield b": still at work\n\n"

    async def _end(self, marks: Marks) -> AsyncIterator[bytes]:
        completion, answer = self._completion, self._stream.answer
        assert answer is not None
        begin = len(marks.marks)
        rest = marks.feed("", last=True)
        if completion.links:
            rest += link_lines(marks.spans)
        if rest:
            yield _event(self._delta(rest, marks.marks[begin:]))
        await keep(
            self._service,
            completion.caller,
            completion.opened,
            Delivered(completion.id, answer, completion.asking, marks),
        )
        yield _event(self._chunk({}, answer.finish, ragwright=details_json(answer, marks)))
        options = completion.body.stream_options
        if options is not None and options.include_usage:
            usage = completion.frame("chat.completion.chunk", {}, usage=usage_json(answer.usage))
            yield _event(usage | {"choices": []})
        yield b"data: [DONE]\n\n"

    def _delta(self, text: str, marks: Sequence[PlacedMark]) -> dict[str, Any]:
        delta: dict[str, Any] = {"content": text}
        if marks:
            delta["annotations"] = [_annotation(mark) for mark in marks]
        return self._chunk(delta)

    def _chunk(
        self, delta: Mapping[str, Any], finish: str | None = None, **more: Any
    ) -> dict[str, Any]:
        choice = {"delta": delta, "finish_reason": finish, "logprobs": None}
        return self._completion.frame("chat.completion.chunk", choice, **more)


async def _auxiliary(
    service: Service, request: Request, completion: Completion, asked: tuple[Purpose, str]
) -> Response:
    """A title, tags or follow-up questions: about the conversation, without any document."""
    purpose, model = asked
    bench, asking = completion.opened.bench, completion.asking
    messages = (*asking.history, Message("user", completion.question))
    flow = auxiliary_reply(messages, purpose, model)
    async with asyncio.timeout(service.options.timeout):
        reply: AuxiliaryReply = await while_connected(
            request, bench.project.runner.arun(flow, scope=asking.scope)
        )
    charge(service, completion.caller, reply.usage)
    usage = usage_json(reply.usage)
    if not completion.body.stream:
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        choice = {"message": message, "finish_reason": "stop", "logprobs": None}
        return JSONResponse(completion.frame("chat.completion", choice, usage=usage))

    async def events() -> AsyncIterator[bytes]:
        kind = "chat.completion.chunk"
        delta = {"role": "assistant", "content": reply.text}
        yield _event(completion.frame(kind, {"delta": delta, "finish_reason": None}))
        yield _event(completion.frame(kind, {"delta": {}, "finish_reason": "stop"}))
        options = completion.body.stream_options
        if options is not None and options.include_usage:
            yield _event(completion.frame(kind, {}, usage=usage) | {"choices": []})
        yield b"data: [DONE]\n\n"

    return _Events(events())


def details_json(answer: Answer, marks: Marks) -> dict[str, Any]:
    """All that OpenAI's shape has no place for."""
    return {
        "persona": answer.persona,
        "abstained": answer.abstained,
        "citations": [citation_json(span) for span in marks.spans],
        "route": answer.route,
        "route_reason": answer.route_reason,
        "model": answer.model,
        "cached": answer.cached,
        "notes": list(answer.notes),
    }


def usage_json(usage: Usage) -> dict[str, int]:
    """Tokens of all calls that an answer took."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _annotation(mark: PlacedMark) -> dict[str, Any]:
    cited = mark.span.citation
    place = {
        "start_index": mark.start,
        "end_index": mark.end,
        "title": cited.title or cited.source,
        "url": mark.span.url,
    }
    return {"type": "url_citation", "url_citation": place}


def _event(body: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()
