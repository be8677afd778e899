"""Prefetching: web sources are read one by one, but fetched a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from ...ingest import FetchBytes, Fetched

_AHEAD = 8


class FetchAhead:
    """A ``fetch`` that prefetches the next few addresses of a list.

    Args:
        fetch: Gets one address; called from several threads at once.
        addresses: Addresses that will be needed, in this order; others are fetched on demand.

    At most eight pages are in memory or under way. Use it as a context manager.
    """

    def __init__(self, fetch: FetchBytes, addresses: Iterable[str]) -> None:
        self._fetch = fetch
        self._next = deque(dict.fromkeys(addresses))
        self._under_way: dict[str, Future[Fetched]] = {}
        self._pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="ragwright-fetch")

    def __enter__(self) -> FetchAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, address: str) -> Fetched:
        """The content at an address; raises what fetching it raised."""
        while self._next and len(self._under_way) < _AHEAD:
            ahead = self._next.popleft()
            self._under_way[ahead] = self._pool.submit(self._fetch, ahead)
        future = self._under_way.pop(address, None)
        return self._fetch(address) if future is None else future.result()
