"""Calls that chat programs make beside the conversation: titles, tags, follow-ups, completions.

They ask about the conversation itself, so nothing is retrieved and nothing is stored for them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import TypeAdapter, ValidationError

from .. import flow
from ..answer import CONVERSATION, Marks, PlacedMark
from ..core import Answer, Usage, make_plain, person_source, suggest_name
from ..drafting import Drafting, DraftRequest, Feedback
from ..flow import Flow, Message, embed
from ..jobs import brief_model
from ..models import NO_MODEL
from ..report import batch_json
from ..workbench import AskOptions
from ._admission import (
    Admission,
    Caller,
    ChatRequest,
    DraftsRequest,
    EmbeddingsRequest,
    Extras,
    FeedbackRequest,
    RequestNeeds,
    RetrieveRequest,
    admit,
)
from ._answers import (
    DONE,
    AnswerEvents,
    EventStream,
    Frames,
    answer_personas,
    citation_json,
    hide_addresses,
    hits_for,
    link_lines,
    make_answer_id,
    promise_json,
    snippets_json,
    source_url,
    sse_frame,
    standalone,
    turns_of,
)
from ._configurations import OpenConfiguration
from ._errors import ApiError, describe_errors
from ._service import Service

Purpose: TypeAlias = Literal["title", "tags", "follow_ups", "query", "completion", "other"]

_PURPOSES: Sequence[tuple[Purpose, re.Pattern[str]]] = (
    ("title", re.compile(r"\btitle\b", re.IGNORECASE)),
    ("tags", re.compile(r"\btags\b", re.IGNORECASE)),
    ("follow_ups", re.compile(r"\bfollow[- ]?up", re.IGNORECASE)),
    ("query", re.compile(r"\bquer(?:y|ies)\b", re.IGNORECASE)),
)
_COMPLETES = re.compile(r"\bauto-?complet(?:e|es|ion)\b", re.IGNORECASE)
_BEGUN = re.compile(r"<text>.*</text>", re.DOTALL)
_TITLE = re.compile(
    r"\s*(?:please )?(?:provide|generate|write|create|give me|suggest)\b[^\n]{0,200}\btitle\b",
    re.IGNORECASE,
)
_ASKED = re.compile(r"^[ \t]*(?:user|human):[ \t]*(.*)", re.IGNORECASE | re.MULTILINE)
_REPLIED = re.compile(r"^[ \t]*(?:ai|assistant|model):", re.IGNORECASE | re.MULTILINE)
_TASK = "### Task:"
_TASK_LENGTH = 300
_TITLE_WORDS = 6
_MAX_TOKENS = 200


def purpose_of(messages: Sequence[Message]) -> Purpose | None:
    """Return the purpose of a call beside the conversation; None for a question like any other.

    Known are the prompts of Open WebUI and LibreChat. They hold a transcript of the conversation,
    or the beginning of a text to complete; what holds neither is a question, also where it speaks
    of titles.
    """
    text = messages[-1].content.lstrip()
    if text.startswith(_TASK) and _COMPLETES.search(text[:_TASK_LENGTH]) and _BEGUN.search(text):
        return "completion"
    if text.startswith(_TASK) and "<chat_history>" in text and "</chat_history>" in text:
        task = text[len(_TASK) :][:_TASK_LENGTH]
        return next((name for name, known in _PURPOSES if known.search(task)), "other")
    question = _TITLE.match(text) and _ASKED.search(text)
    return "title" if question and _REPLIED.search(text, question.end()) else None


_RULES: Mapping[Purpose, Mapping[str, Any]] = {
    "completion": {"text": ""},
    "tags": {"tags": []},
    "follow_ups": {"follow_ups": []},
    "query": {"queries": []},
}
"""What is replied without a chat model; a title is the beginning of the question."""


def auxiliary_reply(
    messages: Sequence[Message], purpose: Purpose, model: str
) -> Flow[tuple[str, Usage]]:
    """The reply of the chat model to the messages as they are; by rule where there is none."""
    if model == NO_MODEL:
        title = {"title": _conversation_title(messages)} if purpose == "title" else {}
        return json.dumps(title or _RULES.get(purpose, {}), ensure_ascii=False), Usage()
    reply = yield from flow.chat(model, messages, {"max_tokens": _MAX_TOKENS})
    return reply.text, reply.usage


def _conversation_title(messages: Sequence[Message]) -> str:
    """The first words of the first question."""
    question = _ASKED.search(messages[-1].content)
    first = (
        question[1]
        if question
        else next((m.content for m in messages[:-1] if m.role == "user"), "")
    )
    words = first.split()
    return " ".join(words[:_TITLE_WORDS]) + (" …" if len(words) > _TITLE_WORDS else "")


class Completion(Frames):
    """The completion of a chat request, and its frames where it is streamed."""

    def __init__(self, body: ChatRequest, work: Admission) -> None:
        options = body.stream_options
        self.id = make_answer_id()
        self._usage = options is not None and options.include_usage
        opened = work.opened
        self._head = {
            "id": self.id,
            "created": int(time.time()),
            "model": body.model or opened.name,
            "system_fingerprint": opened.origin.configuration[:12],
        }

    def response(
        self, text: str, usage: Usage, finish: str = "stop", marks: Marks | None = None, **more: Any
    ) -> Response:
        """The completion in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if marks is not None:
            message["annotations"] = [_url_citation(mark) for mark in marks.marks]
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        frame = {**self._head, "object": "chat.completion", "choices": [choice]}
        return JSONResponse({**frame, "usage": usage_json(usage), **more})

    def opening(self) -> Iterator[bytes]:
        """The first frame, which names the role."""
        yield self._frame({"role": "assistant", "content": ""})

    def text(self, text: str, marks: Sequence[PlacedMark]) -> Iterator[bytes]:
        """A piece of the text with the citations in it."""
        cited = {"annotations": [_url_citation(mark) for mark in marks]} if marks else {}
        yield self._frame({"content": text, **cited})

    def closing(self, answer: Answer, marks: Marks) -> Iterator[bytes]:
        """The frames after the text: why it ended, citations in full, and usage if wanted."""
        yield from self.end(answer.finish, answer.usage, ragwright=details_json(answer, marks))

    def end(self, finish: str, usage: Usage, **more: Any) -> Iterator[bytes]:
        """The last frames."""
        yield self._frame({}, finish, **more)
        if self._usage:
            yield self._frame(None, usage=usage_json(usage))
        yield DONE

    def _frame(
        self, delta: Mapping[str, Any] | None, finish: str | None = None, **more: Any
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        choices = [choice] if delta is not None else []
        return sse_frame(
            {**self._head, "object": "chat.completion.chunk", "choices": choices, **more}
        )


async def _auxiliary_response(
    completion: Completion, work: Admission, asking: AskOptions, purpose: Purpose, stream: bool
) -> Response:
    """A title, tags or follow-up questions: about the conversation, without any document."""
    project = work.bench.project
    model = project.persona(work.persona).model or project.settings.answer.model
    text, usage = await work.result(
        project.runner.arun(
            auxiliary_reply(asking.history, purpose, model),
            scope=asking.scope,
            trace=asking.trace,
            sources=(*asking.sources, CONVERSATION),
        )
    )
    if not stream:
        return completion.response(text, usage)

    async def events() -> AsyncIterator[bytes]:
        frames = (completion.opening(), completion.text(text, ()), completion.end("stop", usage))
        for frame in chain.from_iterable(frames):
            yield frame

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


router = APIRouter(responses=describe_errors(404, 429, 501, 502, 503, 504))


def service_of(request: Request) -> Service:
    """The service behind an app."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Caller:
    """Return the sender of a request; its key was checked before."""
    caller: Caller = request.state.caller
    return caller


async def _service(request: Request) -> Service:
    return service_of(request)


async def _caller(request: Request) -> Caller:
    return caller_of(request)


# FastAPI runs dependencies that are not async on a thread each, and waits for it.
Serves = Annotated[Any, Depends(_service)]
Calls = Annotated[Caller, Depends(_caller)]


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """Say that the process runs."""
    return "ok"


@router.get("/readyz", response_class=PlainTextResponse)
async def readyz(service: Serves) -> Response:
    """Say whether every configuration can answer: index, disk, shared database and models."""
    faults = await service.readiness.faults()
    if not faults:
        return PlainTextResponse("ready")
    return PlainTextResponse(f"not ready: {', '.join(sorted(faults))}", 503)


@router.get("/v1/models")
async def models(service: Serves, caller: Calls) -> dict[str, Any]:
    """List ids of models: each configuration, and each with every persona."""
    entries = [
        {"id": name, "object": "model", "created": service.started, "owned_by": "ragwright"}
        for name in service.models(caller.identity)
    ]
    return {"object": "list", "data": entries}


@router.get("/v1/models/{name:path}")
async def model(name: str, service: Serves, caller: Calls) -> dict[str, Any]:
    """Show one model."""
    service.find(name, caller.identity)
    return {"id": name, "object": "model", "created": service.started, "owned_by": "ragwright"}


@router.post("/v1/chat/completions")
async def chat(request: Request, body: ChatRequest, service: Serves, caller: Calls) -> Response:
    """Answer the last message of a conversation, with citations."""
    question, history = turns_of(body.messages)
    turns = (*history, Message("user", question))
    purpose = purpose_of(turns)
    async with AsyncExitStack() as stack:
        wanted = RequestNeeds(body.model, "answers", "chat", request)
        work = await stack.enter_async_context(admit(service, caller, wanted))
        completion = Completion(body, work)
        asking = work.asking(body.ragwright, history)
        if purpose is not None:
            told = replace(asking, history=turns)
            return await _auxiliary_response(completion, work, told, purpose, body.stream)
        links = body.ragwright.links(service.options)
        if body.stream:
            events = AnswerEvents(work, question, asking, completion, completion.id, links)
            return await events.respond(stack)
        [done] = await answer_personas(work, question, [work.persona], asking, completion.id)
        answer, marks = hide_addresses(done.answer, caller), done.marks
        text = marks.text + (link_lines(marks.spans) if links else "")
        details = details_json(answer, marks)
        return completion.response(text, answer.usage, answer.finish, marks, ragwright=details)


@router.post("/v1/retrieve")
async def retrieve(
    request: Request, body: RetrieveRequest, service: Serves, caller: Calls
) -> Response:
    """Find the passages that answer a query best."""
    wanted = RequestNeeds(body.model, "searches", "retrieval", request)
    async with admit(service, caller, wanted) as work:
        asking = work.asking(Extras(filters=body.filters, soft=body.soft))
        retrieval = await work.retrieved(body.query, body.top_k, asking)
    hits = [
        make_plain(hit)
        | {"url": source_url(caller.base, hit.document_id, hit.start, hit.end, hit.text)}
        for hit in hits_for(retrieval.hits, caller)
    ]
    return JSONResponse({"hits": hits, "notes": list(retrieval.notes)})


@router.post("/v1/embeddings")
async def embeddings(
    request: Request, body: EmbeddingsRequest, service: Serves, caller: Calls
) -> Response:
    """Embed texts with the model of a configuration."""
    wanted = RequestNeeds(body.model, "searches", "embeddings", request)
    async with admit(service, caller, wanted) as work:
        project = work.bench.project
        model = project.settings.embed.model
        if not model:
            raise ApiError(
                400,
                "no embedding model is configured (embed.model), so there is nothing to embed with",
                "model_not_configured",
                param="model",
            )
        texts = [body.input] if isinstance(body.input, str) else body.input
        flow = embed(model, texts, body.input_type)
        sources = (person_source(caller.name),) if caller.name else ()
        vectors = await work.result(
            project.runner.arun(flow, scope=work.scope, trace=work.trace, sources=sources)
        )
        tokens = sum(await asyncio.to_thread(lambda: list(map(project.count, texts))))
    length = int(vectors.shape[1])
    if body.dimensions not in (None, length):
        raise ApiError(400, f"vectors of {model} have {length} dimensions", param="dimensions")
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": base64.b64encode(vector.tobytes()).decode()
            if body.encoding_format == "base64"
            else vector.tolist(),
        }
        for at, vector in enumerate(np.asarray(vectors, "<f4"))
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    name = body.model or work.opened.name
    return JSONResponse({"object": "list", "data": data, "model": name, "usage": usage})


@router.post("/v1/feedback")
async def feedback(body: FeedbackRequest, service: Serves, caller: Calls) -> dict[str, Any]:
    """Store what a reader says of an answer or of a draft."""
    async with admit(service, caller, RequestNeeds(lane="searches")) as work:
        stored = await asyncio.to_thread(respond_to, work, body)
    return {"id": body.id, "output": stored.output, "at": stored.at}


def respond_to(work: Admission, body: FeedbackRequest) -> Feedback:
    """Store what a caller says of an answer that it was given.

    Raises:
        ApiError: 404, there is no such answer, or another key asked for it.
    """
    outputs, caller = work.bench.outputs, work.caller
    stored = outputs.named(body.id)
    if stored is None or (not caller.owner and stored[1] != caller.name):
        raise ApiError(404, f"unknown answer {body.id!r}", "not_found", param="id")
    return outputs.respond(
        stored[0],
        by=caller.name or "http",
        verdict=body.verdict,
        score=body.score,
        note=body.note,
        correction=body.correction,
        passages=body.passages,
    )


@router.post("/v1/drafts")
async def drafts(request: Request, body: DraftsRequest, service: Serves, caller: Calls) -> Response:
    """Write texts from records."""
    wanted = _draft_request(body.model_extra or {})
    async with admit(
        service, caller, RequestNeeds(body.model, "drafts", "drafts", request)
    ) as work:
        options = Drafting(
            _drafting_models(work.opened, body.models),
            scope=work.scope,
            trace=work.trace,
            filters=work.asking().filters,
            timeout=work.left,
            examples=body.examples,
            pool=body.pool,
        )
        # It goes on when the client goes away: what was paid for is stored.
        batch = await service.aside(lambda: work.bench.draft(wanted, options))
        ids = [f"{batch.number}.{number}" for number in range(1, len(batch.texts) + 1)]
        for name in ids:  # so that the key may rate them
            await asyncio.to_thread(work.bench.outputs.give_name, name, name, caller.name)
        caller.note.subject = str(batch.number)
        caller.note.used(hit.document_id for hit in batch.hits)
    reply = batch_json(replace(batch, hits=tuple(hits_for(batch.hits, caller))))
    for name, text in zip(ids, reply["texts"], strict=True):
        text["id"] = name
    if not caller.owner:
        del reply["prompts"]
        reply["models"] = [brief_model(name) for name in reply["models"]]
        for text in reply["texts"]:
            text["model"] = brief_model(text["model"])
    return JSONResponse(reply)


def _drafting_models(opened: OpenConfiguration, wanted: Sequence[str]) -> tuple[str, ...]:
    """The models that write; a client chooses among those of the project file."""
    settings = opened.bench.project.settings
    own = tuple(dict.fromkeys((*settings.answer.draft.models, settings.answer.model)))
    allowed = {*own, *settings.models}
    for name in wanted:
        if name not in allowed:
            raise ApiError(400, f"the project names no model {name!r}", param="models")
    return tuple(wanted) or settings.answer.draft.models or own


def _draft_request(values: dict[str, Any]) -> DraftRequest:
    known = {*(field.name for field in fields(DraftRequest)), *DraftsRequest.model_fields}
    for name in values:
        if name not in known:
            raise ApiError(400, f"unknown field {name!r}; {suggest_name(name, known)}", param=name)
    try:
        return TypeAdapter(DraftRequest).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ApiError(400, f"{place}: {first['msg']}", "invalid_value", param=place) from None
