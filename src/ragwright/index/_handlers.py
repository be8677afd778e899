"""The handler of searches and look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..core import RagwrightError, RetrieveError
from ..flow import BatchHandler, Lookup, LookupReply, Search, SearchReply
from ._catalog import Views
from ._store import Matrix, View


class ViewHandler(BatchHandler[Search | Lookup, SearchReply | LookupReply]):
    """Carries out searches and look-ups; dense searches of one snapshot are one matrix product."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Search | Lookup) -> bool:
        """False: searching is free, so replies are not stored."""
        return False

    def carry(
        self, requests: Sequence[Search | Lookup]
    ) -> Sequence[SearchReply | LookupReply | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""
        replies: list[SearchReply | LookupReply | RagwrightError] = [
            RetrieveError("not carried out") for _ in requests
        ]
        dense: dict[tuple[object, ...], dict[int, Search]] = {}
        for number, request in enumerate(requests):
            if isinstance(request, Search) and request.channel == "dense" and request.relax is None:
                key = (request.snapshot, request.k, request.filters, len(request.vector))
                dense.setdefault(key, {})[number] = request
                continue
            try:
                reply, notes = self._views.answer(request.snapshot, partial(_answer, request))
                replies[number] = replace(reply, notes=(*notes, *reply.notes)) if notes else reply
            except RagwrightError as error:
                replies[number] = error
        for group in dense.values():
            for number, found in zip(group, self._search_dense([*group.values()]), strict=True):
                replies[number] = found
        return replies

    def _search_dense(self, group: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        first = group[0]

        def ask(view: View) -> list[SearchReply]:
            vectors = np.stack([_request_vector(request) for request in group])
            results = view.dense(vectors, first.k, first.filters)
            note = view.approximation(first.k, first.filters)
            noted = (*((note,) if note else ()), *view.range_notes(first.filters))
            return [SearchReply(result, notes=noted) for result in results]

        try:
            replies, notes = self._views.answer(first.snapshot, ask)
        except RagwrightError as error:
            # One bad vector must not fail the others.
            return (
                [error]
                if len(group) == 1
                else [self._search_dense([result])[0] for result in group]
            )
        return (
            [replace(result, notes=(*notes, *result.notes)) for result in replies]
            if notes
            else replies
        )


def _answer(request: Search | Lookup, view: View) -> SearchReply | LookupReply:
    """The reply of a view to a look-up, or to a search that is no matrix product.

    Raises:
        RetrieveError: An id is not in the snapshot, or the request is invalid.
    """
    if isinstance(request, Lookup):
        vectors = view.vectors(request.chunk_ids) if request.vectors else None
        return LookupReply(view.lookup(request.chunk_ids), vectors)
    if request.channel == "all":
        reply = _listed_chunks(view, request)
    elif request.relax is not None:
        query = _request_vector(request) if request.channel == "dense" else request.text
        reply = view.relaxed(query, request.k, request.relax, request.filters)
    else:
        reply = view.keyword_reply(request.text, request.k, request.filters)
    notes = view.range_notes(request.filters)
    return replace(reply, notes=(*reply.notes, *notes)) if notes else reply


def _request_vector(request: Search) -> Matrix:
    if len(request.vector) % 4:
        raise RetrieveError(f"{len(request.vector)} bytes are not a float32 vector")
    return np.frombuffer(request.vector, np.float32)


def _listed_chunks(view: View, request: Search) -> SearchReply:
    if request.relax is not None:
        raise RetrieveError(
            "listing every chunk does not support soft filters",
            hint="use hard filters, or search instead",
        )
    ids = view.every(request.k, request.filters, request.after)
    return SearchReply(tuple((chunk_id, 0.0) for chunk_id in ids))
