"""The endpoints below ``/v1``, and those that say how the server is."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import TypeAdapter, ValidationError

from ..core import near
from ..drafting import Drafting, DraftRequest
from ..flow import embed
from ..report import batch_json, hit_json, summary_json
from ..testsets import Testset, rows_of
from ._answers import (
    Caller,
    ClientGoneError,
    admit,
    charge,
    narrowed,
    require_prices,
    while_connected,
)
from ._chat import chat_completion
from ._errors import ApiError, documented
from ._links import source_url
from ._wire import (
    ChatRequest,
    DraftsRequest,
    EmbeddingsRequest,
    Extras,
    FeedbackRequest,
    RetrieveRequest,
    ScoreRequest,
)

if TYPE_CHECKING:
    from ..flow import Vector
    from ._service import Opened, Service

router = APIRouter(responses=documented(400, 404, 429, 501, 502, 503, 504))


def service_of(request: Request) -> Service:
    """The service behind an app."""
    found: Service = request.app.state.service
    return found


def caller_of(request: Request) -> Caller:
    """Who sends a request; the door has checked its key."""
    found: Caller = request.state.caller
    return found


Serves = Annotated[Any, Depends(service_of)]
Calls = Annotated[Caller, Depends(caller_of)]


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """Say that the process runs."""
    return "ok"


@router.get("/readyz", response_class=PlainTextResponse)
async def readyz(service: Serves) -> Response:
    """Say whether every configuration can answer."""
    fault = service.ready
    if fault is None:
        return PlainTextResponse("ready")
    return PlainTextResponse(f"not ready: {fault.what}", 503)


@router.get("/v1/models")
async def models(service: Serves, caller: Calls) -> dict[str, Any]:
    """List ids of models: each configuration, and each with every persona."""
    listed = [
        {"id": name, "object": "model", "created": service.started, "owned_by": "ragwright"}
        for name in service.models(caller.key)
    ]
    return {"object": "list", "data": listed}


@router.get("/v1/models/{name:path}")
async def model(name: str, service: Serves, caller: Calls) -> dict[str, Any]:
    """Show one model."""
    service.find(name, caller.key)
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
    opened, _ = service.find(body.model, caller.key)
    admit(service, caller)
    asking = narrowed(opened.asking(caller.key), Extras(filters=body.filters, soft=body.soft))
    try:
        async with service.using(opened) as bench, service.turns.turn():
            tracing = service.tracing.answering("retrieval", opened.name, request.headers)
            async with asyncio.timeout(service.options.timeout):
                with tracing as trace:
                    found = await while_connected(
                        request,
                        bench.aretrieve(body.query, body.top_k, replace(asking, trace=trace)),
                    )
    except ClientGoneError:
        return Response(status_code=499)
    hits = [
        hit_json(hit)
        | {"url": source_url(caller.base, hit.document_id, hit.start, hit.end, hit.text)}
        for hit in found.hits
    ]
    return JSONResponse({"hits": hits, "notes": list(found.notes)})


@router.post("/v1/embeddings")
async def embeddings(
    request: Request, body: EmbeddingsRequest, service: Serves, caller: Calls
) -> Response:
    """Embed texts with the model of a configuration."""
    opened, _ = service.find(body.model, caller.key)
    admit(service, caller)
    model = opened.bench.project.settings.embed.model
    if not model:
        raise ApiError(
            400,
            "no embedding model is configured (embed.model), so there is nothing to embed with",
            "model_not_configured",
            param="model",
        )
    texts = [body.input] if isinstance(body.input, str) else body.input
    try:
        async with service.using(opened) as bench, service.turns.turn():
            async with asyncio.timeout(service.options.timeout):
                made = await while_connected(
                    request, bench.project.runner.arun(embed(model, texts, body.input_type))
                )
    except ClientGoneError:
        return Response(status_code=499)
    length = int(made.shape[1])
    if body.dimensions not in (None, length):
        raise ApiError(400, f"vectors of {model} have {length} dimensions", param="dimensions")
    data = [
        {"object": "embedding", "index": at, "embedding": _vector(one, body.encoding_format)}
        for at, one in enumerate(made)
    ]
    tokens = sum(await asyncio.to_thread(_counts, opened.bench.project.count, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    name = body.model or opened.name
    return JSONResponse({"object": "list", "data": data, "model": name, "usage": usage})


def _counts(count: Any, texts: Sequence[str]) -> list[int]:
    return [count(text) for text in texts]


def _vector(one: Vector, form: str) -> list[float] | str:
    values = np.asarray(one, "<f4")
    return base64.b64encode(values.tobytes()).decode() if form == "base64" else values.tolist()


@router.post("/v1/feedback")
async def feedback(body: FeedbackRequest, service: Serves, caller: Calls) -> dict[str, Any]:
    """Store what a reader says of an answer or of a draft."""
    admit(service, caller)
    whose = None if caller.owner else caller.name
    output = await asyncio.to_thread(service.ledger.output_of, body.id, whose)
    opened, _ = service.find("", None)
    outputs = opened.bench.outputs
    if output is None:
        raise ApiError(404, f"there is no answer {body.id!r}", "not_found", param="id")
    said = await asyncio.to_thread(
        lambda: outputs.respond(
            output,
            by=caller.name or "http",
            verdict=body.verdict,
            score=body.score,
            note=body.note,
        )
    )
    return {"id": body.id, "output": said.output, "at": said.at}


@router.post("/v1/drafts")
async def drafts(request: Request, body: DraftsRequest, service: Serves, caller: Calls) -> Response:
    """Write texts from records."""
    opened, _ = service.find(body.model, caller.key)
    wanted = _draft_request(body.model_extra or {})
    admit(service, caller)
    asking = opened.asking(caller.key)
    chosen = _drafting_models(opened, body.models)
    for one in chosen:
        require_prices(service, caller, opened, one)
    how = Drafting(chosen, scope=asking.scope, filters=asking.filters)
    async with service.using(opened) as bench, service.turns.turn():
        # Not cancelled with its client: what was paid for is stored.
        batch = await asyncio.to_thread(bench.draft, wanted, how)
    charge(service, caller, batch.usage)
    shown = batch_json(batch)
    if not caller.owner:
        del shown["prompts"]
    for number, text in enumerate(shown["texts"], 1):
        text["id"] = name = f"{batch.number}.{number}"
        await asyncio.to_thread(service.ledger.remember, name, name, caller.name, asking.scope)
    return JSONResponse(shown)


def _drafting_models(opened: Opened, wanted: Sequence[str]) -> tuple[str, ...]:
    """The models that write; a client chooses among those of the project file."""
    settings = opened.bench.project.settings
    own = tuple(dict.fromkeys((*settings.answer.draft.models, settings.answer.model)))
    allowed = {*own, *settings.models}
    for name in wanted:
        if name not in allowed:
            raise ApiError(400, f"the project names no model {name!r}", param="models")
    return tuple(wanted) or settings.answer.draft.models or own


def _draft_request(values: dict[str, Any]) -> DraftRequest:
    known = {field.name for field in fields(DraftRequest)}
    for name in values:
        if name not in known:
            raise ApiError(400, f"unknown field {name!r}; {near(name, known)}", param=name)
    try:
        return TypeAdapter(DraftRequest).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ApiError(400, f"{place}: {first['msg']}", "invalid_value", param=place) from None


@router.post("/v1/score")
async def score(body: ScoreRequest, service: Serves, caller: Calls) -> Response:
    """Score rows of any system into a stored run."""
    caller.require_owner()
    opened, _ = service.find(body.model, caller.key)
    admit(service, caller)
    rows = tuple(rows_of(body.rows))
    async with service.using(opened) as bench, service.turns.turn():
        evaluation, summary = await asyncio.to_thread(
            bench.score, Testset("rows of a request", rows), body.measures
        )
    return JSONResponse(summary_json(evaluation.summaries, run=summary.run, notes=evaluation.notes))
