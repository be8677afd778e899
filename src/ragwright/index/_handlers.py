"""Handlers of searches and look-ups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from ..core import RagwrightError, RetrieveError
from ..flow import BatchHandler, Lookup, LookupReply, Search, SearchReply
from ._catalog import Views
from ._store import Matrix, View

ReplyT = TypeVar("ReplyT", bound=SearchReply | LookupReply)


class SearchHandler(BatchHandler[Search, SearchReply]):
    """Carries out searches; dense ones on one snapshot become one matrix product."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Search) -> bool:
        """False: searching is free, so replies are not stored."""
        return False

    def carry(self, requests: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""
        replies: list[SearchReply | RagwrightError] = [
            RetrieveError("not carried out") for _ in requests
        ]
        dense: dict[tuple[object, ...], list[int]] = {}
        for number, request in enumerate(requests):
            if request.channel == "dense" and request.relax is None:
                key = (request.snapshot, request.k, request.filters, len(request.vector))
                dense.setdefault(key, []).append(number)
            else:
                replies[number] = _reply_or_error(
                    self._views, request.snapshot, partial(_search_view, request)
                )
        for numbers in dense.values():
            group = [requests[number] for number in numbers]
            for number, reply in zip(numbers, self._search_dense(group), strict=True):
                replies[number] = reply
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


def _reply_or_error(
    views: Views, snapshot: str, ask: Callable[[View], ReplyT]
) -> ReplyT | RagwrightError:
    """The reply with the notes of the view that answered, or its error."""
    try:
        reply, notes = views.answer(snapshot, ask)
    except RagwrightError as error:
        return error
    return replace(reply, notes=(*notes, *reply.notes)) if notes else reply


def _search_view(request: Search, view: View) -> SearchReply:
    reply = _found(view, request)
    notes = view.range_notes(request.filters)
    return replace(reply, notes=(*reply.notes, *notes)) if notes else reply


def _found(view: View, request: Search) -> SearchReply:
    if request.channel == "all":
        return _listed_chunks(view, request)
    if request.relax is not None:
        query = _request_vector(request) if request.channel == "dense" else request.text
        return view.relaxed(query, request.k, request.relax, request.filters)
    return view.keyword_reply(request.text, request.k, request.filters)


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


class LookupHandler(BatchHandler[Lookup, LookupReply]):
    """Fetches the chunks behind candidates."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Lookup) -> bool:
        """False: looking up is free, so replies are not stored."""
        return False

    def carry(self, requests: Sequence[Lookup]) -> Sequence[LookupReply | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""
        return [
            _reply_or_error(self._views, request.snapshot, partial(_look_up, request))
            for request in requests
        ]


def _look_up(request: Lookup, view: View) -> LookupReply:
    """The chunks of a request, with their vectors if requested.

    Raises:
        RetrieveError: An id is not in the snapshot.
    """
    vectors = view.vectors(request.chunk_ids) if request.vectors else None
    return LookupReply(view.lookup(request.chunk_ids), vectors)
