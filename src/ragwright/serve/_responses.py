"""``POST /retrieval``: passages for an external knowledge base of Dify."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field, StrictBool, ValidationInfo, field_validator

from ..answer import Marks, PlacedMark
from ..core import Answer, Filter, Hit, prefix_filter
from ._admission import Admission, Body, Caller, ChatMessage, Extras, RequestNeeds, Text, admit
from ._answers import (
    AnswerEvents,
    Frames,
    answer_personas,
    hide_addresses,
    hits_for,
    link_lines,
    make_answer_id,
    source_url,
    sse_frame,
    standalone,
    turns_of,
)
from ._chat import Calls, Serves, details_json, router
from ._errors import KNOWLEDGE, ApiError, KnowledgeError, describe_errors

knowledge_router = APIRouter()

Value: TypeAlias = str | int | float | bool

_OPERATORS = {
    "is": "=", "=": "=", "is not": "!=", "≠": "!=", "!=": "!=", "start with": "^",
    ">": ">", "after": ">", "≥": ">=", ">=": ">=", "<": "<", "before": "<", "≤": "<=", "<=": "<=",
}  # fmt: skip
"""Ours for Dify's operators; the others, such as ``contains``, are refused."""


class DifyCondition(Body):
    """A condition on a field of metadata."""

    name: Annotated[list[str], Field(min_length=1, max_length=1)]
    comparison_operator: str
    value: Value | None = None


class DifyConditions(Body):
    """The conditions that passages must meet."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: list[DifyCondition] = Field(default_factory=list, max_length=32)


class RetrievalSetting(Body):
    """How many passages, and the least score."""

    top_k: Annotated[int, Field(ge=1, le=1000, strict=True)] = 5
    score_threshold: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0


class KnowledgeRequest(Body):
    """A search of a knowledge base, whose id is the name of a configuration."""

    knowledge_id: str
    query: Text
    retrieval_setting: RetrievalSetting = Field(default_factory=RetrievalSetting)
    metadata_condition: DifyConditions | None = None


@knowledge_router.post(
    KNOWLEDGE, responses=describe_errors(404, 429, 501, 502, 503, 504, model=KnowledgeError)
)
async def knowledge(
    request: Request, body: KnowledgeRequest, service: Serves, caller: Calls
) -> Response:
    """Find passages as an external knowledge base of Dify."""
    wanted = RequestNeeds(body.knowledge_id, "searches", "retrieval", request)
    setting = body.retrieval_setting
    async with admit(service, caller, wanted) as work:
        asking = work.asking()
        asking = replace(asking, filters=(*asking.filters, *_filters(body.metadata_condition)))
        retrieval = await work.retrieved(body.query, setting.top_k, asking)
    records = [
        {
            "content": hit.text,
            "score": score,
            "title": hit.title or hit.source,
            "metadata": {"path": hit.source, **_attributes(hit, caller)},
        }
        for hit, score in zip(retrieval.hits, _unit_scores(retrieval.hits), strict=True)
        if score >= setting.score_threshold
    ]
    return JSONResponse({"records": records})


def _filters(wanted: DifyConditions | None) -> tuple[Filter, ...]:
    if wanted is None or not wanted.conditions:
        return ()
    if wanted.logical_operator == "or" and len(wanted.conditions) > 1:
        fault = "conditions joined by `or` are not supported; use `and`"
        raise _dify_refusal(fault, "logical_operator")
    filters: list[Filter] = []
    for number, condition in enumerate(wanted.conditions):
        operator = _OPERATORS.get(condition.comparison_operator)
        place = f"conditions.{number}"
        if operator is None:
            raise _dify_refusal(
                f"the operator {condition.comparison_operator!r} is not supported; use one of "
                f"{', '.join(_OPERATORS)}",
                f"{place}.comparison_operator",
            )
        value = condition.value
        if value is None:
            fault = f"`{condition.comparison_operator}` needs a value"
            raise _dify_refusal(fault, f"{place}.value")
        if isinstance(value, bool) and operator not in ("=", "!="):
            raise _dify_refusal("compare with a number or a text", f"{place}.value")
        filters += _compared(condition.name[0], operator, value)
    return tuple(filters)


def _dify_refusal(fault: str, place: str) -> ApiError:
    return ApiError(400, fault, "invalid_filter", param=f"metadata_condition.{place}")


def _compared(name: str, operator: str, value: Value) -> tuple[Filter, ...]:
    """The hard filters of a comparison; ``^`` asks for values that begin so."""
    if operator in ("=", "!="):
        return (Filter(name, (value,), exclude=operator == "!="),)
    if operator == "^":
        return (prefix_filter(name, str(value)),)
    low, high = (value, None) if operator.startswith(">") else (None, value)
    within = Filter(name, (), low, high)
    # Bounds of ours are inclusive.
    return (within,) if operator.endswith("=") else (within, Filter(name, (value,), exclude=True))


def _unit_scores(hits: Sequence[Hit]) -> list[float]:
    """Scores between 0 and 1 in the same order.

    Those of keyword search have no upper end: then each score s becomes s / (1 + s).
    """
    scores = [max(0.0, hit.score) for hit in hits]
    if all(score <= 1 for score in scores):
        return scores
    return [score / (1 + score) for score in scores]


def _attributes(hit: Hit, caller: Caller) -> dict[str, str | float | bool]:
    """Metadata, place and address of a passage: texts, numbers and booleans."""
    [shown] = hits_for([hit], caller)
    place: dict[str, Any] = {
        **shown.metadata,
        "title": hit.title,
        "document_id": hit.document_id,
        "chunk_id": hit.chunk_id,
        "start": hit.start,
        "end": hit.end,
        "page": hit.page,
        "url": source_url(caller.base, hit.document_id, hit.start, hit.end, hit.text),
    }
    return {
        name: value
        if isinstance(value, str | int | float)
        else ", ".join(map(str, value))
        if isinstance(value, tuple | list)
        else str(value)
        for name, value in place.items()
        if value is not None
    }


Metadata: TypeAlias = dict[
    Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]
]
"""Texts of a client's own, within OpenAI's bounds."""


_KEPT = "no conversation is kept here; send the earlier turns in `input`"
_REFUSED = {
    "previous_response_id": _KEPT,
    "conversation": _KEPT,
    "background": "answers are sent at once; leave background out",
}
"""Fields that are refused, and why."""


class InputItem(Body):
    """An item of an input: a message, or an item of an earlier output, which is left out."""

    type: str = "message"
    role: str = ""
    content: Any = None

    def message(self) -> ChatMessage | None:
        """The message; None for other items.

        Raises:
            ValueError: Its role or its content cannot be read.
        """
        if self.type != "message":
            return None
        return ChatMessage.model_validate({"role": self.role, "content": self.content})


class ResponsesRequest(Body):
    """A request for a response; sampling parameters are those of the configuration."""

    model: str = ""
    input: Text | Annotated[list[InputItem], Field(min_length=1, max_length=1000)]
    stream: StrictBool = False
    tools: list[dict[str, Any]] | None = None
    metadata: Annotated[Metadata, Field(max_length=16)] | None = None
    text: dict[str, Any] | None = None
    previous_response_id: object = None
    conversation: object = None
    background: object = None
    ragwright: Extras = Field(default_factory=Extras)

    @field_validator(*_REFUSED)
    @classmethod
    def _require_absent(cls, value: object, info: ValidationInfo) -> None:
        if value:
            raise ValueError(_REFUSED[str(info.field_name)])

    @field_validator("tools")
    @classmethod
    def _require_no_filters(cls, tools: list[dict[str, Any]] | None) -> None:
        if any(tool.get("type") == "file_search" and tool.get("filters") for tool in tools or ()):
            raise ValueError("a file search takes no filters here; send `ragwright.filters`")

    @field_validator("text")
    @classmethod
    def _require_text_form(cls, options: dict[str, Any] | None) -> None:
        form = (options or {}).get("format")
        if form is not None and (not isinstance(form, dict) or form.get("type", "text") != "text"):
            raise ValueError("answers are text with citations; leave text.format out")

    @field_validator("input")
    @classmethod
    def _require_readable_messages(cls, items: str | list[InputItem]) -> str | list[InputItem]:
        for item in items if isinstance(items, list) else ():
            item.message()
        return items

    def messages(self) -> list[ChatMessage]:
        """The messages of the input, oldest first."""
        if isinstance(self.input, str):
            return [ChatMessage(role="user", content=self.input)]
        return [message for item in self.input if (message := item.message()) is not None]


@router.post("/v1/responses", responses={200: {"content": {"text/event-stream": {}}}})
async def responses(
    request: Request, body: ResponsesRequest, service: Serves, caller: Calls
) -> Response:
    """Answer an input in OpenAI's newer shape: a file search, then a message with citations."""
    question, history = turns_of(body.messages(), "input")
    async with AsyncExitStack() as stack:
        wanted = RequestNeeds(body.model, "answers", "responses", request)
        work = await stack.enter_async_context(admit(service, caller, wanted))
        asking = work.asking(body.ragwright, history)
        links = body.ragwright.links(service.options)
        reply = _ResponseReply(body, work, question)
        if body.stream:
            events = AnswerEvents(work, question, asking, reply, reply.id, links)
            return await events.respond(stack)
        [done] = await answer_personas(work, question, [work.persona], asking, reply.id)
        text = done.marks.text + (link_lines(done.marks.spans) if links else "")
        notes = [note for mark in done.marks.marks for note in _annotations(mark)]
        items = (reply.search_item(done.answer), reply.message(text, notes))
        return JSONResponse(reply.completed(hide_addresses(done.answer, caller), done.marks, items))


class _ResponseReply(Frames):
    """A response: the JSON of its parts, and its numbered events where it is streamed."""

    def __init__(self, body: ResponsesRequest, work: Admission, question: str) -> None:
        self.id = make_answer_id("resp_")
        self._message_id = self.id.replace("resp_", "msg_", 1)
        self._question, self._created = question, int(time.time())
        self._metadata = body.metadata or {}
        self._model = body.model or work.opened.name
        self._number = -1
        self._text = ""
        self._annotations: list[dict[str, Any]] = []

    def _response(self, status: str, output: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """The response in a state, with the items of its output."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": self._metadata,
            "model": self._model,
            "output": list(output),
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
        }

    def completed(
        self, answer: Answer, marks: Marks, items: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The whole response; ``incomplete`` where the model's text was cut."""
        cut = answer.finish == "length"
        usage = answer.usage
        return self._response("incomplete" if cut else "completed", items) | {
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "usage": {
                "input_tokens": usage.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": usage.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            },
            "ragwright": details_json(answer, marks),
        }

    def search_item(self, answer: Answer | None = None) -> dict[str, Any]:
        """The file search; without an answer it is under way."""
        return {
            "id": self.id.replace("resp_", "fs_", 1),
            "type": "file_search_call",
            "status": "in_progress" if answer is None else "completed",
            "queries": [self._question if answer is None else standalone(answer)],
            "results": None,
        }

    def message(
        self, text: str | None = None, annotations: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """The message; without a text it is under way."""
        return {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "status": "in_progress" if text is None else "completed",
            "content": [] if text is None else [_text_part(text, annotations)],
        }

    def opening(self) -> Iterator[bytes]:
        """The response, the search and the message, all under way."""
        search = self.search_item()
        for state in ("created", "in_progress"):
            yield self._event(state, response=self._response("in_progress"))
        yield self._event("output_item.added", output_index=0, item=search)
        for state in ("in_progress", "searching"):
            yield self._event(f"file_search_call.{state}", output_index=0, item_id=search["id"])
        yield self._event("output_item.added", output_index=1, item=self.message())
        yield self._part_event("content_part.added", part=_text_part("", ()))

    def text(self, text: str, marks: Sequence[PlacedMark]) -> Iterator[bytes]:
        """A piece of the text, then the citations in it."""
        self._text += text
        yield self._part_event("output_text.delta", delta=text, logprobs=[])
        for annotation in (note for mark in marks for note in _annotations(mark)):
            yield self._part_event(
                "output_text.annotation.added",
                annotation_index=len(self._annotations),
                annotation=annotation,
            )
            self._annotations.append(annotation)

    def closing(self, answer: Answer, marks: Marks) -> Iterator[bytes]:
        """The ends of the search, the message and the response."""
        search = self.search_item(answer)
        yield self._event("file_search_call.completed", output_index=0, item_id=search["id"])
        yield self._event("output_item.done", output_index=0, item=search)
        yield self._part_event("output_text.done", text=self._text, logprobs=[])
        yield self._part_event("content_part.done", part=_text_part(self._text, self._annotations))
        message = self.message(self._text, self._annotations)
        yield self._event("output_item.done", output_index=1, item=message)
        whole = self.completed(answer, marks, (search, message))
        yield self._event(whole["status"], response=whole)

    def failure(self, error: ApiError) -> bytes:
        """The error, as the client of the API raises it."""
        details = error.body()["error"]
        told = {name: details[name] for name in ("code", "message", "param")}
        return self._event("error", "", **told)

    def _part_event(self, kind: str, **more: Any) -> bytes:
        return self._event(kind, item_id=self._message_id, output_index=1, content_index=0, **more)

    def _event(self, kind: str, prefix: str = "response.", **more: Any) -> bytes:
        self._number += 1
        name = f"{prefix}{kind}"
        return sse_frame({"type": name, "sequence_number": self._number, **more}, name)


def _text_part(text: str, annotations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def _annotations(mark: PlacedMark) -> tuple[dict[str, Any], dict[str, Any]]:
    """A citation twice: the file as a file search names it, and the address of the passage."""
    cited = mark.span.citation
    return (
        {
            "type": "file_citation",
            "file_id": cited.document_id,
            "filename": cited.source,
            "index": mark.end,
        },
        {
            "type": "url_citation",
            "start_index": mark.start,
            "end_index": mark.end,
            "title": cited.title or cited.source,
            "url": mark.span.url,
        },
    )
