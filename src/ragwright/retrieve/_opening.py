"""The opening of the page that a question names: where a code or a name is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core import Filter, Hit
from ..flow import Flow, Lookup, LookupReply, Search, SearchReply, send
from ..models import is_code, words
from ._target import Target


def with_opening(
    question: str, hits: tuple[Hit, ...], target: Target, filters: Sequence[Filter]
) -> Flow[tuple[Hit, ...]]:
    """The hits, the last one replaced by the opening of a page that the question names.

    That is the best hit's page whose title holds a code of the question or is the question's
    subject, where a search found examples of it and not what it begins with. A single hit stays.
    """
    page = _named_page(question, hits)
    if page is None or len(hits) < 2:
        return hits
    where = Filter("document_id", (page.document_id,))
    request = Search(target.snapshot, "all", 1, filters=(*filters, where))
    search_reply = yield from send(request, SearchReply)
    keys = tuple(key for key, _ in search_reply.candidates)
    if not keys or any(hit.chunk_id == keys[0] for hit in hits):
        return hits
    reply = yield from send(Lookup(target.snapshot, keys), LookupReply)
    last = hits[-1]
    return (*hits[:-1], *(replace(h, rank=last.rank, score=last.score) for h in reply.hits[:1]))


def _named_page(question: str, hits: Sequence[Hit]) -> Hit | None:
    """The first hit whose title names what is asked about, if no hit is the page's opening."""
    query_words = [word.casefold() for word in words(question)]
    codes = {word.casefold() for word in words(question) if is_code(word, written=True)}
    for hit in hits:
        title = [word.casefold() for word in words(hit.title)]
        named = codes.intersection(title) if codes else _is_subject(title, query_words)
        if named:
            opened = any(h.document_id == hit.document_id and h.start == 0 for h in hits)
            return None if opened else hit
    return None


def _is_subject(title: Sequence[str], query_words: Sequence[str]) -> bool:
    """True where a short question ends with a title: *what is hybrid search*."""
    if not title or len(query_words) > len(title) + _ASKING_WORDS:
        return False
    return list(query_words[-len(title) :]) == list(title)


_ASKING_WORDS = 3
"""Most words that a question for a definition has beside the name of the thing."""
