"""The addresses of the interfaces that other programs speak."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from .._api import Calls, Serves
from .._errors import KNOWLEDGE, KnowledgeError, documented
from ._dify import KnowledgeRequest, knowledge_records
from ._responses import response
from ._responses_wire import ResponsesRequest
from ._vector_stores import StoreSearchRequest, store_search


def interface_routes() -> APIRouter:
    """The endpoints, each described in the API's description."""
    states = (404, 429, 501, 502, 503, 504)
    router = APIRouter(responses=documented(*states))

    @router.post("/v1/responses", responses={200: {"content": {"text/event-stream": {}}}})
    async def responses(
        request: Request, body: ResponsesRequest, service: Serves, caller: Calls
    ) -> Response:
        """Answer an input in OpenAI's newer shape: a file search, then a message with citations."""
        return await response(service, request, body, caller)

    @router.post("/v1/vector_stores/{store}/search")
    async def vector_store(
        store: str, request: Request, body: StoreSearchRequest, service: Serves, caller: Calls
    ) -> Response:
        """Find passages in OpenAI's shape; the id of a store is the name of a configuration."""
        return await store_search(service, request, store, body, caller)

    @router.post(KNOWLEDGE, responses=documented(*states, model=KnowledgeError))
    async def knowledge(
        request: Request, body: KnowledgeRequest, service: Serves, caller: Calls
    ) -> Response:
        """Find passages as an external knowledge base of Dify."""
        return await knowledge_records(service, request, body, caller)

    return router
