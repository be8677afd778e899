"""The search that every retriever shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import Hit, make_plain
from ..retrieve import parse_filter
from ..workbench import AskOptions, Workbench


def hits_for(
    bench: Workbench, query: str, k: int | None, filters: Sequence[str]
) -> tuple[Hit, ...]:
    """The passages for a query, best first, as the project's settings find them."""
    return bench.retrieve(query, k, filters=filters).hits


async def ahits_for(
    bench: Workbench, query: str, k: int | None, filters: Sequence[str]
) -> tuple[Hit, ...]:
    """As :func:`hits_for`, without blocking."""
    asking = AskOptions(filters=tuple(map(parse_filter, filters)))
    return (await bench.aretrieve(query, k, asking)).hits


def metadata(hit: Hit) -> dict[str, Any]:
    """The place of a passage, its score, and the metadata of its document."""
    return {
        **make_plain(hit.metadata),
        "score": hit.score,
        "source": hit.source,
        "title": hit.title,
        "page": hit.page,
        "document_id": hit.document_id,
        "chunk_id": hit.chunk_id,
        "start": hit.start,
        "end": hit.end,
    }
