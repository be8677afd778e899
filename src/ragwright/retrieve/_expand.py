"""Expansion: hits with their surroundings, so that small chunks are found, but read in context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ..core import Filter, Hit, RetrieveError, counted
from ..flow import Flow, Lookup, LookupReply, send
from ._options import ExpandOptions
from ._target import Target

Expanded: TypeAlias = tuple[tuple[Hit, ...], tuple[str, ...]]


def expand_hits(
    hits: Sequence[Hit], target: Target, options: ExpandOptions, filters: Sequence[Filter] = ()
) -> Flow[Expanded]:
    """The hits with their surroundings, in their order, ranks from 1, and notes.

    Text and span grow; rank, score, channels, relaxation level and chunk id stay those of the hit.
    Expanded hits of one document that overlap are merged into the best ranked one, so that no
    character is shown twice. A hit whose surroundings exceed ``max_words`` is not expanded, with a
    note. Surroundings never reach into a chunk that misses one of the hard ``filters``.

    Raises:
        RetrieveError: The index lacks a chunk that it has found.
    """
    if not options.by or not hits:
        return tuple(hits), ()
    ids = tuple(hit.chunk_id for hit in hits)
    request = Lookup(
        target.snapshot, ids, expand=options.by, reach=options.reach, filters=tuple(filters)
    )
    reply = yield from send(request, LookupReply)
    if len(reply.hits) != len(hits):
        raise RetrieveError(
            f"{counted(len(hits), 'chunk was', 'chunks were')} to be expanded, "
            f"{len(reply.hits)} could be fetched",
            where=f"snapshot {target.snapshot}",
            hint="the index answers from two different states: refresh it",
        )
    grown, unexpanded = [], 0
    for hit, wide in zip(hits, reply.hits, strict=True):
        if len(wide.text.split()) > options.max_words:
            unexpanded += 1
            wide = hit
        grown.append(
            replace(
                hit,
                page=wide.page,
                start=wide.start,
                end=wide.end,
                text=wide.text,
                headings=wide.headings,
                pages=wide.pages,
            )
        )
    merged = merge_hits(grown)
    notes = list(reply.notes)
    if unexpanded:
        count_text = counted(unexpanded, "hit is", "hits are")
        notes.append(f"{count_text} not expanded: over {options.max_words} words by {options.by}")
    if len(merged) < len(hits):
        gone = len(hits) - len(merged)
        count_text = counted(gone, "hit is", "hits are")
        notes.append(f"{count_text} merged into the surroundings of a better one")
    return merged, tuple(notes)


def merge_hits(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Hits without overlaps: those that overlap are merged.

    The merged hit keeps the scores of the best ranked one and spans all; ranks are renumbered from
    1. Hits that only touch stay separate. Texts must be exactly those of their spans.
    """
    groups: list[list[int]] = []
    end, document = 0, None
    for at in sorted(range(len(hits)), key=lambda i: (hits[i].document_id, hits[i].start)):
        hit = hits[at]
        if groups and hit.document_id == document and hit.start < end:
            groups[-1].append(at)
            end = max(end, hit.end)
        else:
            groups.append([at])
            document, end = hit.document_id, hit.end
    groups.sort(key=min)
    return tuple(
        replace(_merged_hit([hits[at] for at in group], hits[min(group)]), rank=rank)
        for rank, group in enumerate(groups, 1)
    )


def _merged_hit(parts: Sequence[Hit], best: Hit) -> Hit:
    """Merge overlapping parts in text order into one hit."""
    if len(parts) == 1:
        return best
    first, text, end = parts[0], parts[0].text, parts[0].end
    for part in parts[1:]:
        if part.end > end:
            text += part.text[end - part.start :]
            end = part.end
    turns = {place: number for part in parts for place, number in part.pages}
    return replace(
        best,
        page=first.page,
        start=first.start,
        end=end,
        text=text,
        headings=first.headings,
        pages=tuple(sorted(turns.items())),
    )
