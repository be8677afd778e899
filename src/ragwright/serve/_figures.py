"""Figures beside citations and hits, and the address of each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..project import figures_by_chunk
from ._errors import ApiError, documented
from ._reading import visible_source

if TYPE_CHECKING:
    from ..core import Answer, Citation, Hit
    from ..workbench import Workbench
    from ._admission import Caller
    from ._service import Service

ChunkFigures: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""Id of a chunk -> its figures as JSON."""

router = APIRouter(responses=documented(404))

_HEADERS = {
    "cache-control": "private, max-age=3600",
    "vary": "authorization, cookie",  # the next reader at this browser may not see it
    "x-content-type-options": "nosniff",
}


def addressed(base: str, figure: Mapping[str, Any]) -> dict[str, Any]:
    """A figure with its address on this server."""
    return {**figure, "url": f"{base}/figure/{figure['id']}"}


async def figures_of_passages(
    bench: Workbench, caller: Caller, passages: Sequence[Hit | Citation]
) -> ChunkFigures:
    """The figures of each passage that has any; with filters those with a known place."""
    if not passages or not bench.project.folder.figures.is_file():
        return {}
    read = partial(figures_by_chunk, bench.project, passages, placed=caller.narrowed)
    chunks = await asyncio.to_thread(read)
    return {
        chunk: [addressed(caller.base, figure) for figure in figures]
        for chunk, figures in chunks.items()
        if figures
    }


async def figures_of_answer(bench: Workbench, caller: Caller, answer: Answer) -> ChunkFigures:
    """The figures of the chunks that an answer cites."""
    cited = {citation.chunk_id for citation in answer.citations}
    return await figures_of_passages(bench, caller, [h for h in answer.hits if h.chunk_id in cited])


@router.get("/figure/{name}")
async def figure(name: str, request: Request) -> Response:
    """Send the image of a figure, if its document may be seen."""
    service, caller = request.app.state.service, request.state.caller
    sent = await _visible_image(service, caller, name)
    if sent is None:
        raise ApiError(404, "figure not found", "not_found")
    media_type, data = sent
    return Response(data, media_type=media_type, headers=_HEADERS)


async def _visible_image(service: Service, caller: Caller, name: str) -> tuple[str, bytes] | None:
    """Type and bytes of an image in the first configuration that shows its place."""
    identity = caller.identity
    for opened in service.configurations(identity):
        if opened.target is None:
            continue
        async with service.using(opened) as bench:
            kept = await asyncio.to_thread(bench.project.figures.image, name)
            if kept is None:
                continue
            place, media_type, data = kept
            caller.note.used([place.document_id])
            visible = await visible_source(bench, opened.asking(identity), place.document_id)
            if visible is None:
                continue
            start = place.start
            if visible.whole or (start is not None and visible.shows(start, start + 1)):
                return media_type, data
    return None
