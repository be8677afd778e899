"""``POST /v1/chat/completions``: an answer with citations, whole or as it is written."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from ..answer import CONVERSATION, Marks, PlacedMark
from ..core import Answer, Usage
from ..flow import Message
from ..workbench import AskOptions
from ._admission import Admission, Caller, RequestNeeds, admit
from ._answers import (
    answer_personas,
    answering,
    hide_addresses,
    make_answer_id,
    standalone,
    turns_of,
)
from ._auxiliary import AuxiliaryReply, Purpose, auxiliary_reply, purpose_of
from ._errors import ApiError
from ._links import citation_json, link_lines, promise_json, snippets_json
from ._service import Service
from ._streaming import DONE, AnswerEvents, EventStream, Streamed, sse_frame
from ._wire import ChatRequest


@dataclass(frozen=True, slots=True)
class Completion:
    """A chat request, read: by what it is answered, and about what."""

    body: ChatRequest
    work: Admission
    question: str
    asking: AskOptions
    id: str
    created: int

    @property
    def links(self) -> bool:
        """True where the answer ends with links to its sources."""
        return self.body.ragwright.links(self.work.service.options)

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
        wanted = RequestNeeds(body.model, "answers", "chat", request)
        work = await stack.enter_async_context(admit(service, caller, wanted))
        asking = work.asking(body.ragwright, history)
        completion = Completion(body, work, question, asking, make_answer_id(), int(time.time()))
        if purpose is not None:
            return await _auxiliary_response(completion, purpose)
        if not body.stream:
            return await _whole_completion(completion)
        streamed = Streamed(work, question, asking, completion.id, completion.links)
        stream = AnswerEvents(streamed, _ChatFrames(completion))
        stack.push_async_callback(stream.close)
        await stream.begin()
        return EventStream(stream.events(), work, stack.pop_all())


async def _whole_completion(completion: Completion) -> Response:
    work = completion.work
    [done] = await answer_personas(work, completion.question, [work.persona], completion.asking)
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
        ragwright=details_json(hide_addresses(answer, work.caller), marks),
    )
    return JSONResponse(frame | {"id": done.id})


@dataclass(frozen=True, slots=True)
class _ChatFrames:
    """Frames of a streamed completion."""

    completion: Completion

    def opening(self) -> Iterator[bytes]:
        """The first frame, which names the role."""
        yield self._frame({"role": "assistant", "content": ""})

    def text(self, text: str, marks: Sequence[PlacedMark]) -> Iterator[bytes]:
        """A piece of the text with the citations in it."""
        delta: dict[str, Any] = {"content": text}
        if marks:
            delta["annotations"] = [_url_citation(mark) for mark in marks]
        yield self._frame(delta)

    def closing(self, answer: Answer, marks: Marks) -> Iterator[bytes]:
        """The frames after the text: why it ended, citations in full, and usage if wanted."""
        yield self._frame({}, answer.finish, ragwright=details_json(answer, marks))
        options = self.completion.body.stream_options
        if options is not None and options.include_usage:
            usage = self.completion.frame(
                "chat.completion.chunk", {}, usage=usage_json(answer.usage)
            )
            yield sse_frame(usage | {"choices": []})
        yield DONE

    def failure(self, error: ApiError) -> bytes:
        """The frame of an error."""
        return sse_frame(error.body())

    def _frame(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"delta": delta, "finish_reason": finish, "logprobs": None}
        return sse_frame(self.completion.frame("chat.completion.chunk", choice, **more))


async def _auxiliary_response(completion: Completion, purpose: Purpose) -> Response:
    """A title, tags or follow-up questions: about the conversation, without any document."""
    work, asking = completion.work, completion.asking
    messages = (*asking.history, Message("user", completion.question))
    flow = auxiliary_reply(messages, purpose, answering(work.bench, work.persona))
    runner = work.bench.project.runner
    reply: AuxiliaryReply = await work.result(
        runner.arun(
            flow,
            scope=asking.scope,
            trace=asking.trace,
            sources=(*asking.sources, CONVERSATION),
        )
    )
    usage = usage_json(reply.usage)
    if not completion.body.stream:
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        choice = {"message": message, "finish_reason": "stop", "logprobs": None}
        return JSONResponse(completion.frame("chat.completion", choice, usage=usage))

    async def events() -> AsyncIterator[bytes]:
        kind = "chat.completion.chunk"
        delta = {"role": "assistant", "content": reply.text}
        yield sse_frame(completion.frame(kind, {"delta": delta, "finish_reason": None}))
        yield sse_frame(completion.frame(kind, {"delta": {}, "finish_reason": "stop"}))
        options = completion.body.stream_options
        if options is not None and options.include_usage:
            yield sse_frame(completion.frame(kind, {}, usage=usage) | {"choices": []})
        yield DONE

    return EventStream(events(), work)


def details_json(answer: Answer, marks: Marks) -> dict[str, Any]:
    """All that OpenAI's shape has no place for."""
    return {
        "persona": answer.persona,
        "abstained": answer.abstained,
        "citations": [citation_json(span) for span in marks.spans],
        "snippets": snippets_json(answer, marks.link),
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
