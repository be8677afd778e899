"""Carrying out searches and look-ups for the runner, on the views of one store."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from ..core import Document, RagwrightError, RetrieveError, SnapshotGoneError
from ..flow import BatchHandler, Lookup, LookupReply, Search, SearchReply
from ._store import Matrix, Pair, Store, View
from ._surroundings import look_up

QUICK_ROWS = 20_000
"""Chunks up to which one plain dense search of 384 dimensions takes about 5 ms or less."""

_FILTER_ROWS = 8
"""A new filter costs as much as searching this many times the rows: a slip in one is compared
with all that is there, and a range with every value."""

_ORDER_ROWS = 20
_RELAX_ROWS = 2
_VALUE_ROWS = 100
_CHARACTER_ROWS = 10
_PLAIN_BYTES = 4 * 384


class Views:
    """Open views of a store by snapshot name; opens on demand, keeps the few last used.

    Safe to use from several threads.
    """

    def __init__(self, store: Store, keep: int = 4) -> None:
        self._store = store
        self._keep = keep
        self._open: OrderedDict[str, View] = OrderedDict()
        self._lock = threading.Lock()

    def current(self, pair: Pair) -> View:
        """The view of the pair's present state."""
        name = self._store.snapshot(pair)
        with self._lock:
            found = self._held(name)
        return found or self._add(self._store.view(pair))

    def view(self, snapshot: str) -> View:
        """The view of a named snapshot.

        Raises:
            SnapshotGoneError: It is neither the stored state of its pair, nor open, nor saved.
        """
        with self._lock:
            found = self._held(snapshot)
        if found is not None:
            return found
        key = snapshot.partition("@")[0]
        for pair in self._store.pairs():
            if pair.key == key:
                return self._add(self._store.view(pair, snapshot))
        raise SnapshotGoneError(
            f"no pair of the store has the snapshot {snapshot!r}",
            hint="ingest with the settings it was made with",
        )

    def rows(self, snapshot: str) -> int | None:
        """Chunks of a snapshot whose view is open, None where it is not."""
        with self._lock:
            found = self._open.get(snapshot)
        return None if found is None else found.statistics().chunks

    def document(self, document_id: str) -> Document | None:
        """One document as the store holds it now, None where there is none."""
        return self._store.document(document_id)

    def close(self) -> None:
        """Close all views."""
        with self._lock:
            views, self._open = list(self._open.values()), OrderedDict()
        for view in views:
            view.close()

    def _held(self, snapshot: str) -> View | None:
        found = self._open.get(snapshot)
        if found is not None:
            self._open.move_to_end(snapshot)
        return found

    def _add(self, view: View) -> View:
        with self._lock:
            held = self._open.setdefault(view.snapshot, view)
            self._open.move_to_end(view.snapshot)
            # Let go, not closed: a search in another thread may be using it.
            while len(self._open) > self._keep:
                self._open.popitem(last=False)
        return held


class SearchHandler(BatchHandler[Search, SearchReply]):
    """Carries out searches; dense ones on one snapshot become one matrix product."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Search) -> bool:
        """Searching is free; replies are not stored."""
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
                replies[number] = self._single(request)
        for numbers in dense.values():
            group = [requests[number] for number in numbers]
            for number, reply in zip(numbers, self._dense(group), strict=True):
                replies[number] = reply
        return replies

    def quick(self, requests: Sequence[Search]) -> bool:
        """True for a few searches on a small view that is open already.

        Filters, long query texts and long vectors count as further rows. Who is in doubt is
        not quick.
        """
        total = 0.0
        for request in requests:
            rows = self._views.rows(request.snapshot)
            if rows is None:
                return False
            total += _cost(request, rows)
        return total <= QUICK_ROWS

    def _single(self, request: Search) -> SearchReply | RagwrightError:
        try:
            view = self._views.view(request.snapshot)
            if request.channel == "all":
                return _listed(view, request)
            if request.relax is not None:
                query = _vector(request) if request.channel == "dense" else request.text
                return view.relaxed(query, request.k, request.relax, request.filters)
            return view.keyword_reply(request.text, request.k, request.filters)
        except RagwrightError as error:
            return error

    def _dense(self, group: Sequence[Search]) -> Sequence[SearchReply | RagwrightError]:
        first = group[0]
        try:
            view = self._views.view(first.snapshot)
            vectors = np.stack([_vector(request) for request in group])
            return [SearchReply(one) for one in view.dense(vectors, first.k, first.filters)]
        except RagwrightError as error:
            # One bad vector must not fail the others.
            return [error] if len(group) == 1 else [self._dense([one])[0] for one in group]


def _vector(request: Search) -> Matrix:
    if len(request.vector) % 4:
        raise RetrieveError(f"{len(request.vector)} bytes are no float32 vector")
    return np.frombuffer(request.vector, np.float32)


def _listed(view: View, request: Search) -> SearchReply:
    if request.relax is not None:
        raise RetrieveError(
            "listing every chunk knows no soft filters", hint="give hard filters, or search"
        )
    ids = view.every(request.k, request.filters, request.after)
    return SearchReply(tuple((chunk_id, 0.0) for chunk_id in ids))


def _cost(request: Search, rows: int) -> float:
    """About how many rows a plain search could go through in the time this one takes."""
    if request.channel == "dense":
        cost = rows * max(1.0, len(request.vector) / _PLAIN_BYTES)
    elif request.channel == "all":
        # The first page puts all chunks in order.
        cost = rows * _ORDER_ROWS + request.k
    else:
        # Each word has its postings; cutting a text into words takes time without any row.
        length = len(request.text)
        cost = rows * (0.5 + length / 400) + length * _CHARACTER_ROWS
    soft = request.relax.soft if request.relax is not None else ()
    if request.relax is not None:
        cost += rows * _RELAX_ROWS
    for condition in (*request.filters, *(one.condition for one in soft)):
        cost += rows * _FILTER_ROWS + len(condition.values) * _VALUE_ROWS
    return cost


class LookupHandler(BatchHandler[Lookup, LookupReply]):
    """Fetches the chunks behind candidates."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Lookup) -> bool:
        """Looking up is free; replies are not stored."""
        return False

    def carry(self, requests: Sequence[Lookup]) -> Sequence[LookupReply | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""
        replies: list[LookupReply | RagwrightError] = []
        for request in requests:
            try:
                view = self._views.view(request.snapshot)
                replies.append(look_up(view, request, self._views.document))
            except RagwrightError as error:
                replies.append(error)
        return replies

    def quick(self, requests: Sequence[Lookup]) -> bool:
        """True for up to some hundred chunks, as they are, of views that are open already."""
        known = all(
            not request.expand and self._views.rows(request.snapshot) is not None
            for request in requests
        )
        return known and sum(len(request.chunk_ids) for request in requests) <= 150
