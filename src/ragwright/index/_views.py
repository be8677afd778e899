"""Open views of one store, and who answers where a view fails."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
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
from ._scan_view import ScanView
from ._store import IndexSpec, Store, View

T = TypeVar("T")

_ASKED_WRONG = (RetrieveError, SnapshotGoneError, ConfigError, MissingExtraError)
"""Errors of who asked or of who configured: no other way of searching would help."""

_READS = 3

_PATIENCE = 10
"""Pauses before a view that was built anew in vain is built anew once more."""


class Views:
    """Open views of a store by snapshot name; opens on demand, keeps the few last used.

    Safe to use from several threads.

    Args:
        store: The store.
        keep: Views that are kept open.
        pause: Seconds after a failure before a view is tried again. Building it anew, where
            that was of no use, is tried again after ten times as long.
    """

    def __init__(self, store: Store, keep: int = 4, *, pause: float = 60.0) -> None:
        self._store = store
        self._keep = keep
        self._pause = pause
        self._useless = _PATIENCE * pause
        self._open: OrderedDict[str, View] = OrderedDict()
        self._failed: dict[str, tuple[float, Exception]] = {}
        self._renewed: dict[str, float] = {}
        self._lock = threading.Lock()

    def current(self, pair: IndexSpec) -> View:
        """The view of the pair's present state."""
        name = self._store.snapshot(pair)
        with self._lock:
            found = self._held(name)
        return found or self._add(self._store.view(pair))

    def snapshot(self, pair: IndexSpec) -> str:
        """Name of the pair's present state, whose view is open now wherever it can be.

        Where it cannot, searches of that snapshot are answered by a scan (:meth:`answer`).

        Raises:
            MissingExtraError: The settings ask for what is not installed.
        """
        try:
            return self.current(pair).snapshot
        except _ASKED_WRONG:
            raise
        except Exception as error:
            name = self._store.snapshot(pair)
            if self._rebuilt(pair, name, error) is None:
                with self._lock:
                    self._failed[name] = (time.monotonic(), error)
            return name

    def view(self, snapshot: str) -> View:
        """The view of a named snapshot.

        Raises:
            SnapshotGoneError: It is neither the stored state of its pair, nor open, nor saved.
        """
        with self._lock:
            found = self._held(snapshot)
        if found is not None:
            return found
        return self._add(self._store.view(self._pair(snapshot), snapshot))

    def answer(self, snapshot: str, ask: Callable[[View], T]) -> tuple[T, tuple[str, ...]]:
        """What a snapshot answers, and what the reader must know of how it came to be.

        Where the view fails it is built anew, once. Where that fails as well, the stored rows
        are gone through instead: slow, exact, and of the present state.

        Args:
            snapshot: Whom to ask.
            ask: The question; may be put several times.

        Raises:
            RetrieveError: The question is wrong.
            SnapshotGoneError: It is neither the stored state of its pair, nor open, nor saved.
            StoreError: The stored rows cannot be read either.
        """
        with self._lock:
            failed = self._failed.get(snapshot)
        if failed is not None and time.monotonic() - failed[0] < self._pause:
            return self._scanned(snapshot, ask, failed[1])
        try:
            found = ask(self.view(snapshot))
            self._sound(snapshot)
            return found, ()
        except _ASKED_WRONG:
            raise
        except Exception as error:
            first = error
        try:
            pair = self._pair(snapshot)
            anew = self._rebuilt(pair, snapshot, first)
            if anew is not None:
                note = f"the read view failed ({_told(first)}) and was rebuilt"
                found = ask(anew)
                self._sound(snapshot)
                return found, (note,)
        except RetrieveError:
            raise
        except Exception as error:
            first = error if isinstance(error, StoreError) else first
        with self._lock:
            self._open.pop(snapshot, None)
            self._failed[snapshot] = (time.monotonic(), first)
        return self._scanned(snapshot, ask, first)

    def _sound(self, snapshot: str) -> None:
        """A view answered: whatever comes next is another damage, to be mended like the first."""
        if snapshot in self._renewed or snapshot in self._failed:
            with self._lock:
                self._renewed.pop(snapshot, None)
                self._failed.pop(snapshot, None)

    def _rebuilt(self, pair: IndexSpec, snapshot: str, error: Exception) -> View | None:
        """A view that trusts nothing saved; None where that was of no use, or would be of none."""
        now = time.monotonic()
        with self._lock:
            self._open.pop(snapshot, None)
            last = self._renewed.get(snapshot)
            if isinstance(error, MemoryError) or (last is not None and now - last < self._useless):
                return None
            self._renewed[snapshot] = now
        try:
            return self._add(self._store.renewed(pair, snapshot))
        except Exception:
            return None

    def _scanned(
        self, snapshot: str, ask: Callable[[View], T], failure: Exception
    ) -> tuple[T, tuple[str, ...]]:
        """The answer of the stored rows; a few times over where writers come in between."""
        notes = [
            f"the read view failed ({_told(failure)}); "
            "a slow exact scan of the stored rows answered"
        ]
        try:
            pair = self._pair(snapshot)
            for attempt in range(_READS):
                try:
                    with self._store.reading(pair) as reading:
                        found = ask(ScanView(pair, reading))
                        state = reading.snapshot
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
                f"the read view failed ({_told(failure)}), "
                f"and so did the scan of the stored rows ({_told(error)})",
                where=f"snapshot {snapshot}",
                hint="run: ragwright doctor",
            ) from error
        if state != snapshot:
            notes.append(
                f"the answer is of the present state {state!r}: "
                f"the snapshot asked for, {snapshot!r}, could not be opened"
            )
        return found, tuple(notes)

    def _pair(self, snapshot: str) -> IndexSpec:
        key = snapshot.partition("@")[0]
        for pair in self._store.pairs():
            if pair.key == key:
                return pair
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


def _told(error: Exception) -> str:
    """Kind and message of an error, on one line."""
    said = error.what if isinstance(error, RagwrightError) else str(error)
    return f"{type(error).__name__}: {said.partition(chr(10))[0]}".rstrip(": ")
