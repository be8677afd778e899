"""The meanings of a glossary that hard filters allow."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import Filter, FilterError
from ..flow import Flow, Search, SearchReply, gather, send
from ._glossary import Glossary, Meaning
from ._target import Target


def visible_glossary(
    query: str, target: Target, filters: Sequence[Filter]
) -> Flow[Glossary | None]:
    """The part of the target's glossary that a query needs and the filters allow.

    A mined meaning stays if a chunk of one of its documents meets all filters. A given one has no
    document, and always stays. An invalid filter hides them all; the search that follows reports
    it. These searches are not traced, since their filters name other users' documents.
    """
    glossary = target.glossary
    if glossary is None or not filters:
        return glossary
    visible: dict[str, tuple[Meaning, ...]] = {}
    hidden: set[str] = set()
    while True:
        # a term that is hidden may have covered a shorter one
        new = [term for term in glossary.find(query, hidden) if term not in visible]
        if not new:
            return Glossary(visible)
        for term in new:
            every = glossary.entries[term]
            meanings = yield from gather([_if_visible(entry, target, filters) for entry in every])
            allowed = [meaning for meaning in meanings if meaning is not None]
            if allowed:
                visible[term] = tuple(allowed)
            else:
                hidden.add(term)


def _if_visible(
    meaning: Meaning, target: Target, filters: Sequence[Filter]
) -> Flow[Meaning | None]:
    """The meaning, None if all of its documents are hidden."""
    if not meaning.document_id:
        return meaning
    of_documents = Filter("document_id", (meaning.document_id, *meaning.also))
    request = Search(target.snapshot, "all", 1, filters=(*filters, of_documents), untraced=True)
    try:
        candidates = (yield from send(request, SearchReply)).candidates
    except FilterError:  # like any filter on values that no chunk under the other filters has
        return None
    return meaning if candidates else None
