"""Carrying out searches and look-ups for the runner, on the views of one store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core import RagwrightError, RetrieveError
from ..flow import BatchHandler, Lookup, LookupReply, Search, SearchReply
from ._channel import Channels
from ._store import Matrix, View
from ._surroundings import look_up
from ._views import Views

_OWN_CHANNELS = ("keyword", "dense", "all")

QUICK_ROWS = 20_000
"""Chunks up to which one plain dense search of 384 dimensions takes about 5 ms or less."""

_FILTER_ROWS = 8
"""A new filter costs as much as searching this many times the rows: an unknown value is compared
with all values, and a range too."""

_ORDER_ROWS = 20
_RELAX_ROWS = 2
_VALUE_ROWS = 100
_CHARACTER_ROWS = 10
_PLAIN_BYTES = 4 * 384


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
                replies[number] = self._search_one(request)
        for numbers in dense.values():
            group = [requests[number] for number in numbers]
            for number, reply in zip(numbers, self._search_dense(group), strict=True):
                replies[number] = reply
        return replies

    def quick(self, requests: Sequence[Search]) -> bool:
        """True for a few searches on a small view that is open already.

        Filters, long query texts and long vectors count as further rows. In doubt it is False.
        """
        total = 0.0
        for request in requests:
            rows = self._views.rows(request.snapshot)
            if rows is None or request.channel not in _OWN_CHANNELS:
                return False
            total += _search_cost(request, rows)
        return total <= QUICK_ROWS

    def _search_one(self, request: Search) -> SearchReply | RagwrightError:
        try:
            reply, notes = self._views.answer(
                request.snapshot, lambda view: _search_view(view, request, self._views.channels)
            )
        except RagwrightError as error:
            return error
        return replace(reply, notes=(*notes, *reply.notes)) if notes else reply

    def _search_dense(self, group: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        first = group[0]

        def ask(view: View) -> list[SearchReply]:
            vectors = np.stack([_request_vector(request) for request in group])
            results = view.dense(vectors, first.k, first.filters)
            note = view.approximation(first.k, first.filters)
            return [SearchReply(result, notes=(note,) if note else ()) for result in results]

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


def _search_view(view: View, request: Search, channels: Channels) -> SearchReply:
    if request.channel not in _OWN_CHANNELS:
        return channels.answer(view, request)
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


def _search_cost(request: Search, rows: int) -> float:
    """Approximate number of rows that a plain search could scan in the time of this one."""
    if request.channel == "dense":
        cost = rows * max(1.0, len(request.vector) / _PLAIN_BYTES)
    elif request.channel == "all":
        # The first page puts all chunks in order.
        cost = rows * _ORDER_ROWS + request.k
    else:
        # Each word has its postings; tokenising takes time even without rows.
        length = len(request.text)
        cost = rows * (0.5 + length / 400) + length * _CHARACTER_ROWS
    soft = request.relax.soft if request.relax is not None else ()
    if request.relax is not None:
        cost += rows * _RELAX_ROWS
    for condition in (*request.filters, *(soft_filter.condition for soft_filter in soft)):
        cost += rows * _FILTER_ROWS + len(condition.values) * _VALUE_ROWS
    return cost


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
        replies: list[LookupReply | RagwrightError] = []
        for request in requests:
            replies.append(self._look_up_one(request))
        return replies

    def _look_up_one(self, request: Lookup) -> LookupReply | RagwrightError:
        try:
            reply, notes = self._views.answer(
                request.snapshot, lambda view: look_up(view, request, self._views.document)
            )
        except RagwrightError as error:
            return error
        return replace(reply, notes=(*notes, *reply.notes)) if notes else reply

    def quick(self, requests: Sequence[Lookup]) -> bool:
        """True for up to some hundred chunks without expansion, in views that are open already."""
        all_open = all(
            not request.expand and self._views.rows(request.snapshot) is not None
            for request in requests
        )
        return all_open and sum(len(request.chunk_ids) for request in requests) <= 150
