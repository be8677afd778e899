"""What stands around short hits, so that an answer that quotes does not depend on chunk size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core import Answer, Filter, Hit
from ..flow import Flow, Lookup, LookupReply, send
from ..retrieve import Target, merge_hits

_SHORT = 1800
"""Characters up to which the longest hit is short; a chunk of the default size has about 2,500.
Embedding models that read 256 tokens make chunks of about 1,500."""


def with_surroundings(
    hits: Sequence[Hit], target: Target, filters: Sequence[Filter] = ()
) -> Flow[tuple[Hit, ...]]:
    """The hits with the chunk before and after each, where all of them are short.

    A section that is cut into several chunks loses its list, its steps or its definition. Longer
    hits are returned as they are. Surroundings never reach into a chunk that misses a filter.
    """
    if not hits or max(len(hit.text) for hit in hits) > _SHORT:
        return tuple(hits)
    ids = tuple(hit.chunk_id for hit in hits)
    request = Lookup(target.snapshot, ids, expand="neighbours", reach=1, filters=tuple(filters))
    reply = yield from send(request, LookupReply)
    grown = [_grown(hit, wide) for hit, wide in zip(hits, reply.hits, strict=True)]
    merged = {wide.chunk_id: wide for wide in merge_hits(grown)}
    return tuple(merged.get(hit.chunk_id, hit) for hit in hits)


def _grown(hit: Hit, wide: Hit) -> Hit:
    return replace(
        hit,
        page=wide.page,
        start=wide.start,
        end=wide.end,
        text=wide.text,
        headings=wide.headings,
        pages=wide.pages,
    )


def covering(made: Answer, hits: Sequence[Hit]) -> Answer:
    """An answer with the hits as they were found, each as wide as what is quoted from it.

    Args:
        made: An answer from hits with their surroundings.
        hits: The same without.
    """
    return replace(
        made,
        hits=tuple(
            _as_quoted(number, wide, hit, made)
            for number, (wide, hit) in enumerate(zip(made.hits, hits, strict=True), 1)
        ),
    )


def _as_quoted(number: int, wide: Hit, hit: Hit, made: Answer) -> Hit:
    spans = [(cited.start, cited.end) for cited in made.citations if cited.marker == number]
    start = min([hit.start, *(begin for begin, _ in spans)])
    end = max([hit.end, *(stop for _, stop in spans)])
    if (start, end) == (hit.start, hit.end):
        return hit
    text = wide.text[start - wide.start : end - wide.start]
    pages = tuple((at, page) for at, page in wide.pages if start < at < end)
    return replace(hit, page=wide.page_at(start), start=start, end=end, text=text, pages=pages)
