"""Open views by snapshot."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from ..core import (
    ConfigError,
    Document,
    MissingExtraError,
    RagwrightError,
    RetrieveError,
    SnapshotGoneError,
    StoreBusyError,
    StoreError,
)
from ._catalog import memory_view
from ._store import IndexSpec, Store, View

T = TypeVar("T")

_ASKED_WRONG = (RetrieveError, SnapshotGoneError, ConfigError, MissingExtraError)
"""Errors of the request or the settings: a fallback would not help."""

_READS = 3
"""Attempts to read the stored rows while other processes write."""


@dataclass(frozen=True, slots=True)
class _SecondIndex:
    """The index that answers for a failed view: until when, and what readers must know."""

    view: View
    until: float
    notes: tuple[str, ...]


class Views:
    """Open views of a store by snapshot name; opens on demand, keeps the last few used.

    Safe to use from several threads.

    Args:
        store: The store.
        keep: Views that are kept open.
        pause: Seconds for which a second index answers before the view is tried again.
    """

    def __init__(
        self,
        store: Store,
        keep: int = 4,
        *,
        pause: float = 300.0,
    ) -> None:
        self._store = store
        self._keep = keep
        self._pause = pause
        self._open: OrderedDict[str, View] = OrderedDict()
        self._seconds: dict[str, _SecondIndex] = {}
        self._lock = threading.Lock()

    def current(self, pair: IndexSpec) -> View:
        """The view of the pair's present state."""
        name = self._store.snapshot(pair)
        with self._lock:
            view = self._recently_used(name)
        return view or self._keep_view(self._store.view(pair))

    def snapshot(self, pair: IndexSpec) -> str:
        """The name of the pair's present state; opens its view if possible.

        Where it cannot, searches of that snapshot are answered by a second index
        (:meth:`answer`).

        Raises:
            MissingExtraError: The settings need a package that is not installed.
        """
        try:
            return self.current(pair).snapshot
        except _ASKED_WRONG:
            raise
        except Exception:
            name = self._store.snapshot(pair)
            with suppress(Exception):
                self._renew_view(pair, name)
            return name

    def view(self, snapshot: str) -> View:
        """The view of a named snapshot.

        Raises:
            SnapshotGoneError: It is neither the stored state of its pair, nor open, nor saved.
        """
        with self._lock:
            open_view = self._recently_used(snapshot)
        if open_view is not None:
            return open_view
        return self._keep_view(self._store.view(self._pair_of_snapshot(snapshot), snapshot))

    def answer(self, snapshot: str, ask: Callable[[View], T]) -> tuple[T, tuple[str, ...]]:
        """The result of a search on a snapshot, with notes for the user.

        Where the view fails it is built anew, once. Where that fails as well, a second index
        is built in memory from the stored rows, and answers for a while: the same answers, of
        the present state.

        Args:
            snapshot: Name of the snapshot.
            ask: The search; may be called several times.

        Raises:
            RetrieveError: The request is invalid.
            SnapshotGoneError: It is neither the stored state of its pair, nor open, nor saved.
            StoreError: The stored rows cannot be read either.
        """
        with self._lock:
            second = self._seconds.get(snapshot)
            if second is not None and time.monotonic() > second.until:
                del self._seconds[snapshot]
                second = None
        if second is None:
            try:
                return ask(self.view(snapshot)), ()
            except _ASKED_WRONG:
                raise
            except Exception as error:
                failure = error
            try:
                result = ask(self._renew_view(self._pair_of_snapshot(snapshot), snapshot))
                return result, (f"the read view failed ({_error_line(failure)}) and was rebuilt",)
            except RetrieveError:
                raise
            except Exception:
                second = self._second_index(snapshot, failure)
        return ask(second.view), second.notes

    def _renew_view(self, pair: IndexSpec, snapshot: str) -> View:
        """A view that trusts nothing saved."""
        with self._lock:
            self._open.pop(snapshot, None)
        return self._keep_view(self._store.rebuild_view(pair, snapshot))

    def _second_index(self, snapshot: str, failure: Exception) -> _SecondIndex:
        """A second index of the stored rows; tried a few times where writers come in between."""
        notes = [
            f"the read view failed ({_error_line(failure)}); "
            "a second index, built in memory from the stored rows, answered"
        ]
        try:
            pair = self._pair_of_snapshot(snapshot)
            for attempt in range(_READS):
                try:
                    with self._store.reading(pair) as reading:
                        view = memory_view(pair, reading)
                    break
                except StoreBusyError:
                    if attempt == _READS - 1:
                        raise
        except _ASKED_WRONG:
            raise
        except Exception as error:
            if isinstance(failure, RagwrightError):
                raise failure from error
            raise StoreError(
                f"the read view failed ({_error_line(failure)}), "
                f"and so did a second index of the stored rows ({_error_line(error)})",
                where=f"snapshot {snapshot}",
                hint="run: ragwright doctor",
            ) from error
        if view.snapshot != snapshot:
            notes.append(
                f"the answer is of the present state {view.snapshot!r}: "
                f"the snapshot asked for, {snapshot!r}, could not be opened"
            )
        second = _SecondIndex(view, time.monotonic() + self._pause, tuple(notes))
        with self._lock:
            self._open.pop(snapshot, None)
            # One at a time: each takes the memory of a whole index.
            self._seconds = {snapshot: second}
        return second

    def _pair_of_snapshot(self, snapshot: str) -> IndexSpec:
        key = snapshot.partition("@")[0]
        for pair in self._store.pairs():
            if pair.key == key:
                return pair
        raise SnapshotGoneError(
            f"the store has no snapshot {snapshot!r}",
            hint="run ingest with the settings it was made with",
        )

    def document(self, document_id: str) -> Document | None:
        """One document as stored now, None if there is none."""
        return self._store.document(document_id)

    def drop(self) -> None:
        """Forget all open views; searches that are using one go on."""
        with self._lock:
            self._open = OrderedDict()
            self._seconds = {}

    def close(self) -> None:
        """Close all views."""
        with self._lock:
            views, self._open = list(self._open.values()), OrderedDict()
            self._seconds = {}
        for view in views:
            view.close()

    def _recently_used(self, snapshot: str) -> View | None:
        view = self._open.get(snapshot)
        if view is not None:
            self._open.move_to_end(snapshot)
        return view

    def _keep_view(self, view: View) -> View:
        with self._lock:
            opened = self._open.setdefault(view.snapshot, view)
            self._open.move_to_end(view.snapshot)
            # Released, not closed: a search in another thread may be using it.
            while len(self._open) > self._keep:
                self._open.popitem(last=False)
        return opened


def _error_line(error: Exception) -> str:
    """Kind and message of an error, on one line."""
    message = error.what if isinstance(error, RagwrightError) else str(error)
    return f"{type(error).__name__}: {message.partition(chr(10))[0]}".rstrip(": ")
