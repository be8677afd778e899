"""Which meanings of a glossary may be shown under hard filters."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import Filter, FilterError
from ..flow import Flow, Search, SearchReply, gather, send
from ._glossary import Glossary, Meaning
from ._target import Target


def visible_glossary(
    query: str, target: Target, filters: Sequence[Filter]
) -> Flow[Glossary | None]:
    """The target's glossary as far as a query needs it and the filters let it through.

    A mined meaning stands in documents: it stays where a chunk of one of them meets all
    filters. A given one belongs to no document, and stays. A wrong filter hides them all; the
    search that follows says what is wrong with it. No trace shows these searches, since their
    filters name documents of others.
    """
    glossary = target.glossary
    if glossary is None or not filters:
        return glossary
    kept: dict[str, tuple[Meaning, ...]] = {}
    hidden: set[str] = set()
    while True:
        # a term that is hidden may have covered a shorter one
        new = [term for term in glossary.find(query, hidden) if term not in kept]
        if not new:
            return Glossary(kept)
        for term in new:
            every = glossary.entries[term]
            seen = yield from gather([_visible(one, target, filters) for one in every])
            shown = [meaning for meaning in seen if meaning is not None]
            if shown:
                kept[term] = tuple(shown)
            else:
                hidden.add(term)


def _visible(meaning: Meaning, target: Target, filters: Sequence[Filter]) -> Flow[Meaning | None]:
    """The meaning, None where all of its documents are barred."""
    if not meaning.document_id:
        return meaning
    where = Filter("document_id", (meaning.document_id, *meaning.also))
    request = Search(target.snapshot, "all", 1, filters=(*filters, where), untraced=True)
    try:
        found = (yield from send(request, SearchReply)).candidates
    except FilterError:  # as any filter on values that no chunk left by the others holds
        return None
    return meaning if found else None
