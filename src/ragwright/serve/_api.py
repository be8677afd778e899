"""The endpoints below ``/v1``, and those that say how the server is."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import TypeAdapter, ValidationError

from ..core import person_source, suggest_name
from ..drafting import DraftRequest, Feedback
from ..flow import Vector, embed
from ..monitoring import brief_model
from ..report import batch_json, hit_json, summary_json
from ..testsets import Testset, rows_of
from ._admission import Admission, Caller, RequestNeeds, admit
from ._answers import deliver_drafts, drafting, hits_for
from ._chat import chat_completion
from ._errors import ApiError, describe_errors
from ._links import source_url
from ._opened import OpenConfiguration
from ._service import Service
from ._wire import (
    ChatRequest,
    DraftsRequest,
    EmbeddingsRequest,
    Extras,
    FeedbackRequest,
    RetrieveRequest,
    ScoreRequest,
)

router = APIRouter(responses=describe_errors(404, 429, 501, 502, 503, 504))


def service_of(request: Request) -> Service:
    """The service behind an app."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Caller:
    """Return the sender of a request; the door has checked its key."""
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
    return await chat_completion(service, request, body, caller)


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
        hit_json(hit)
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
            "embedding": _encoded_vector(vector, body.encoding_format),
        }
        for at, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    name = body.model or work.opened.name
    return JSONResponse({"object": "list", "data": data, "model": name, "usage": usage})


def _encoded_vector(vector: Vector, form: str) -> list[float] | str:
    values = np.asarray(vector, "<f4")
    return base64.b64encode(values.tobytes()).decode() if form == "base64" else values.tolist()


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
        options = replace(
            drafting(work, _drafting_models(work.opened, body.models)),
            examples=body.examples,
            pool=body.pool,
        )
        batch = await deliver_drafts(work, wanted, options)
    reply = batch_json(replace(batch, hits=tuple(hits_for(batch.hits, caller))))
    for number, text in enumerate(reply["texts"], 1):
        text["id"] = f"{batch.number}.{number}"
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


@router.post("/v1/score")
async def score(request: Request, body: ScoreRequest, service: Serves, caller: Calls) -> Response:
    """Score rows of any system into a stored run, which is completed if the client goes away."""
    caller.require_owner()
    rows = Testset("rows of a request", tuple(rows_of(body.rows)))
    async with admit(service, caller, RequestNeeds(body.model, "drafts", "score", request)) as work:
        scoring = service.aside(lambda: work.bench.score(rows, body.measures))
        evaluation, summary = await work.result(scoring)
    return JSONResponse(summary_json(evaluation.summaries, run=summary.run, notes=evaluation.notes))
