"""``POST /v1/vector_stores/{id}/search``: passages in OpenAI's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from .._admission import Wanted, admitted
from .._wire import Body, Text
from ._conditions import Comparison, Compound, filters_of
from ._passages import attributes, narrowed, unit_scores

if TYPE_CHECKING:
    from ...core import Hit
    from .._admission import Caller
    from .._service import Service


class Ranking(Body):
    """Of OpenAI's options of ranking, the least score; ours ranks as the configuration says."""

    score_threshold: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0


class StoreSearchRequest(Body):
    """A search of a vector store; the query is never rewritten beyond the configuration's rules."""

    query: Text | Annotated[list[Text], Field(min_length=1, max_length=16)]
    max_num_results: Annotated[int, Field(ge=1, le=50, strict=True)] = 10
    filters: Comparison | Compound | None = None
    ranking_options: Ranking = Field(default_factory=Ranking)


async def store_search(
    service: Service, request: Request, store: str, body: StoreSearchRequest, caller: Caller
) -> Response:
    """Search for the queries, one after another; a passage comes once, with its best score."""
    queries = [body.query] if isinstance(body.query, str) else body.query
    wanted = Wanted(store, "searches", "retrieval", request)
    async with admitted(service, caller, wanted) as work:
        asking = narrowed(work.asking(), filters_of(body.filters))
        best: dict[str, tuple[float, Hit]] = {}
        for query in queries:
            retrieval = await work.retrieved(query, body.max_num_results, asking)
            for hit, score in zip(retrieval.hits, unit_scores(retrieval.hits), strict=True):
                if hit.chunk_id not in best or score > best[hit.chunk_id][0]:
                    best[hit.chunk_id] = (score, hit)
    least = body.ranking_options.score_threshold
    ranked = sorted(best.values(), key=lambda pair: -pair[0])[: body.max_num_results]
    results = [
        {
            "file_id": hit.document_id,
            "filename": hit.source,
            "score": score,
            "attributes": attributes(hit, caller),
            "content": [{"type": "text", "text": hit.text}],
        }
        for score, hit in ranked
        if score >= least
    ]
    return JSONResponse(
        {
            "object": "vector_store.search_results.page",
            "search_query": queries,
            "data": results,
            "has_more": False,
            "next_page": None,
        }
    )
