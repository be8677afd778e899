"""Views, saved and open: segments and the files that combine them, in the cache folder.

``<folder>/<store>/<key of the index spec>/`` holds ``*.seg`` (segments) and ``*.view`` (which
segments make one snapshot, the impacts under its statistics, and which documents are dead).
Everything here can be rebuilt from the store; deleting it costs only time.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core import (
    ConfigError,
    MissingExtraError,
    RagwrightError,
    RetrieveError,
    SnapshotGoneError,
    StoreBusyError,
    StoreError,
)
from ..flow import BatchHandler, Lookup, LookupReply, Search, SearchReply
from ._arrays import Array, Arrays, open_arrays, write_arrays
from ._segment import FORMAT, MAX_ROWS, Segment, build_segments
from ._store import IndexSpec, Store, StoredDocument, StoredState, StoreOptions, View
from ._view import SegmentView, ViewSegment, ViewState

Stamps = NDArray[np.int64]
Read = Callable[[Stamps], Iterator[StoredDocument]]

_KEPT = 3
"""Snapshots of an index spec that stay saved, so that runs pinned to one can continue."""

_MANY = 8
"""Number of small segments at which they are merged: each costs every query microseconds."""

_DEAD_SHARE = 0.2
_GRACE_SECONDS = 900.0


class Catalog:
    """Opens, builds, saves and forgets the views of one store.

    Args:
        folder: Where views are saved.
        store_id: Identity of the store's file, so that a new store never meets old segments.
        options: For k1 and b.
    """

    def __init__(self, folder: Path, store_id: str, options: StoreOptions) -> None:
        self._folder = folder / store_id
        self._options = options
        self._lock = threading.RLock()

    def saved(self, index_spec: IndexSpec, snapshot: str) -> ViewState | None:
        """A saved state; None if it is not saved."""
        try:
            view = open_arrays(self._view_path(index_spec, snapshot))
            return _view_state(view, self._open_segments(index_spec, view))
        except (OSError, StoreError):
            return None

    def outdate(self, index_spec: IndexSpec) -> None:
        """Reuse none of the index spec's saved segments from now on.

        A damaged segment of the right length looks intact, so all are rebuilt.
        """
        for path in self._saved_views(index_spec):
            _unlink_file(path)

    def build(self, index_spec: IndexSpec, snapshot: str, live: Stamps, read: Read) -> ViewState:
        """Build the state whose documents have the stamps ``live``, from old segments and new ones.

        Args:
            index_spec: The index spec.
            snapshot: Name of the state.
            live: Stamps of its documents, ascending.
            read: Gives the documents with some stamps, in the same state of the store.
        """
        with self._lock:
            state = self.saved(index_spec, snapshot)
            if state is not None:
                return state
            reused = self._reusable_segments(index_spec, live)
            covered = [segment.stamps for segment in reused]
            missing = np.setdiff1d(live, np.concatenate(covered)) if covered else live
            # map() releases each before the next is built: one segment is in memory at a time.
            built = build_segments(read(missing), index_spec.dimensions)
            fresh = list(map(partial(self._save_segment, index_spec), built))
            state = self._save_view(index_spec, snapshot, [*reused, *fresh], live)
            self._delete_old(index_spec)
            return state

    def purge(self, live: Stamps) -> list[Path]:
        """Delete saved segments with any document that is not live, and the views on them.

        Args:
            live: Stamps of the documents of every index spec.

        Returns:
            Files that could not be deleted because another process holds them (Windows).
        """
        with self._lock:
            # Also deletes files left half written (a live process then works without them).
            gone = [*self._folder.glob("*/.*.tmp")]
            for path in self._folder.glob("*/*.seg"):
                with suppress(OSError, StoreError):
                    if np.isin(open_arrays(path)["stamps"], live).all():
                        continue
                gone.append(path)
            for path in gone:
                _unlink_file(path)
            for view in self._folder.glob("*/*.view"):
                names = _segment_names(view)
                if names is None or not all((view.parent / name).exists() for name in names):
                    _unlink_file(view)
            return [path for path in gone if path.exists()]

    def _view_path(self, index_spec: IndexSpec, snapshot: str) -> Path:
        return self._folder / index_spec.key / f"{snapshot.partition('@')[2]}.view"

    def _open_segments(self, index_spec: IndexSpec, view: Arrays) -> list[Segment]:
        """The segments of a saved view."""
        if view.meta["format"] != FORMAT:
            raise StoreError("a saved view of another format")
        folder = self._folder / index_spec.key
        return [Segment(open_arrays(folder / name), name) for name in view.meta["segments"]]

    def _reusable_segments(self, index_spec: IndexSpec, live: Stamps) -> list[Segment]:
        """Segments of the newest saved view that a new state should reuse."""
        usable = []
        for newest in self._saved_views(index_spec)[:1]:
            try:
                segments = self._open_segments(index_spec, open_arrays(newest))
            except (OSError, StoreError):
                return []
            usable = [segment for segment in segments if _dead_share(segment, live) <= _DEAD_SHARE]
        small = [segment for segment in usable if segment.rows < MAX_ROWS // 2]
        if len(small) >= _MANY:
            total = sum(segment.rows for segment in small)
            merged = {id(segment) for segment in small if segment.rows < total / 4}
            usable = [segment for segment in usable if id(segment) not in merged]
        return usable

    def _saved_views(self, index_spec: IndexSpec) -> list[Path]:
        """Newest first."""
        return sorted((self._folder / index_spec.key).glob("*.view"), key=_age_key, reverse=True)

    def _save_segment(self, index_spec: IndexSpec, arrays: Arrays) -> Segment:
        name = f"{uuid.uuid4().hex}.seg"
        path = self._folder / index_spec.key / name
        try:
            write_arrays(path, arrays)
            return Segment(open_arrays(path), name)
        except OSError:
            # A full or read-only cache must not stop answers: the view lives in memory.
            return Segment(arrays)

    def _save_view(
        self, index_spec: IndexSpec, snapshot: str, segments: Sequence[Segment], live: Stamps
    ) -> ViewState:
        view = _view_arrays(segments, live, self._options.k1, self._options.b)
        if all(segment.name for segment in segments):
            path = self._view_path(index_spec, snapshot)
            with suppress(OSError):
                write_arrays(path, view)
                view = open_arrays(path)
        return _view_state(view, segments)

    def _delete_old(self, index_spec: IndexSpec) -> None:
        """Delete old views and the segments that only they used."""
        views = self._saved_views(index_spec)
        for view in views[_KEPT:]:
            _unlink_file(view)
        used = {name for view in views[:_KEPT] for name in _segment_names(view) or ()}
        now = time.time()
        for path in (self._folder / index_spec.key).glob("*.seg"):
            # Another process may be about to refer to a recent one in its view.
            if path.name not in used and now - _age_key(path) > _GRACE_SECONDS:
                _unlink_file(path)


def memory_view(index_spec: IndexSpec, reading: StoredState) -> SegmentView:
    """A view built from the stored rows alone: no file is read or written, none is mapped.

    Exact, and as large in memory as the index.

    Raises:
        StoreError: The rows cannot be read, or are too many.
    """
    if not reading.fits:
        raise StoreError("the index is too large to be built in memory")
    built = build_segments(reading.documents(), index_spec.dimensions)
    segments = [Segment(arrays) for arrays in built]
    stamps = [segment.stamps for segment in segments]
    live = np.concatenate(stamps) if stamps else np.empty(0, np.int64)
    described = _view_arrays(segments, live, reading.k1, reading.b)
    return SegmentView(
        reading.snapshot, index_spec, _view_state(described, segments), reading.analyzer
    )


def _view_arrays(segments: Sequence[Segment], live: Stamps, k1: float, b: float) -> Arrays:
    """The content of a view file: global statistics, impacts under them, live rows."""
    masks = [segment.rows_of(np.isin(segment.stamps, live)) for segment in segments]
    rows = sum(int(mask.sum()) for mask in masks)
    tokens = sum(
        int(segment.postings.lengths[mask].sum(dtype=np.int64))
        for segment, mask in zip(segments, masks, strict=True)
    )
    average = tokens / rows if rows else 0.0
    arrays: dict[str, Array] = {}
    for index, (segment, mask) in enumerate(zip(segments, masks, strict=True)):
        arrays[f"impacts/{index}"] = segment.postings.impacts(average, k1, b, mask)
        arrays[f"live/{index}"] = mask
    names = [segment.name for segment in segments]
    counts = {"rows": rows, "tokens": tokens, "documents": len(live)}
    return Arrays({"format": FORMAT, "segments": names, **counts}, arrays)


def _view_state(view: Arrays, segments: Sequence[Segment]) -> ViewState:
    parts = [
        ViewSegment(segment, view[f"impacts/{index}"], view[f"live/{index}"])
        for index, segment in enumerate(segments)
    ]
    meta = view.meta
    return ViewState(
        parts, rows=meta["rows"], documents=meta["documents"], tokens=meta["tokens"], file=view
    )


def _dead_share(segment: Segment, live: Stamps) -> float:
    gone = ~np.isin(segment.stamps, live)
    dead = segment.rows_of(gone)
    return float(dead.mean() if len(dead) else gone.mean())


def _segment_names(view: Path) -> list[str] | None:
    try:
        meta = open_arrays(view).meta
    except (OSError, StoreError):
        return None
    return list(meta["segments"]) if meta["format"] == FORMAT else None


def _age_key(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _unlink_file(path: Path) -> None:
    # Windows keeps files that another process has mapped; the next cleanup gets them.
    with suppress(OSError):
        path.unlink(missing_ok=True)


T = TypeVar("T")

_REQUEST_ERRORS = (RetrieveError, SnapshotGoneError, ConfigError, MissingExtraError)
"""Errors of the request or the settings: a fallback would not help."""

_READS = 3
"""Attempts to read the stored rows while other processes write."""


@dataclass(frozen=True, slots=True)
class _SecondIndex:
    """The index that answers in place of a failed view, until a time, with notes for users."""

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

    def __init__(self, store: Store, keep: int = 4, *, pause: float = 300.0) -> None:
        self._store = store
        self._keep = keep
        self._pause = pause
        self._open: OrderedDict[str, View] = OrderedDict()
        self._seconds: dict[str, _SecondIndex] = {}
        self._lock = threading.Lock()

    def current(self, index_spec: IndexSpec) -> View:
        """The view of the index spec's present state."""
        name = self._store.snapshot(index_spec)
        with self._lock:
            view = self._recently_used(name)
        return view or self._keep_view(self._store.view(index_spec))

    def snapshot(self, index_spec: IndexSpec) -> str:
        """The name of the index spec's present state; opens its view if possible.

        If it cannot be opened, a second index answers searches of that snapshot
        (:meth:`answer`).

        Raises:
            MissingExtraError: The settings need a package that is not installed.
        """
        try:
            return self.current(index_spec).snapshot
        except _REQUEST_ERRORS:
            raise
        except Exception:
            name = self._store.snapshot(index_spec)
            with suppress(Exception):
                self._renew_view(index_spec, name)
            return name

    def view(self, snapshot: str) -> View:
        """The view of a named snapshot.

        Raises:
            SnapshotGoneError: It is neither the stored state, nor open, nor saved.
        """
        with self._lock:
            open_view = self._recently_used(snapshot)
        if open_view is not None:
            return open_view
        return self._keep_view(self._store.view(self._index_spec_of(snapshot), snapshot))

    def answer(self, snapshot: str, ask: Callable[[View], T]) -> tuple[T, tuple[str, ...]]:
        """The result of a search on a snapshot, with notes for the user.

        If the view fails, it is built anew, once. If that fails too, a second index is built in
        memory from the stored rows. It answers for ``pause`` seconds, with the same results, from
        the present state.

        Args:
            snapshot: Name of the snapshot.
            ask: The search; may be called several times.

        Raises:
            RetrieveError: The request is invalid.
            SnapshotGoneError: It is neither the stored state, nor open, nor saved.
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
            except _REQUEST_ERRORS:
                raise
            except Exception as error:
                failure = error
            try:
                result = ask(self._renew_view(self._index_spec_of(snapshot), snapshot))
                return result, (f"the read view failed ({_error_line(failure)}) and was rebuilt",)
            except RetrieveError:
                raise
            except Exception:
                second = self._second_index(snapshot, failure)
        return ask(second.view), second.notes

    def _renew_view(self, index_spec: IndexSpec, snapshot: str) -> View:
        """A view that trusts nothing saved."""
        with self._lock:
            self._open.pop(snapshot, None)
        return self._keep_view(self._store.rebuild_view(index_spec, snapshot))

    def _second_index(self, snapshot: str, failure: Exception) -> _SecondIndex:
        """A second index of the stored rows; tried a few times where writers come in between."""
        notes = [
            f"the read view failed ({_error_line(failure)}); "
            "a second index, built in memory from the stored rows, answered"
        ]
        try:
            index_spec = self._index_spec_of(snapshot)
            for attempt in range(_READS):
                try:
                    with self._store.reading(index_spec) as reading:
                        view = memory_view(index_spec, reading)
                    break
                except StoreBusyError:
                    if attempt == _READS - 1:
                        raise
        except _REQUEST_ERRORS:
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

    def _index_spec_of(self, snapshot: str) -> IndexSpec:
        key = snapshot.partition("@")[0]
        for index_spec in self._store.index_specs():
            if index_spec.key == key:
                return index_spec
        raise SnapshotGoneError(
            f"the store has no snapshot {snapshot!r}",
            hint="run ingest with the settings it was made with",
        )

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


class ViewHandler(BatchHandler[Search | Lookup, SearchReply | LookupReply]):
    """Carries out searches and look-ups."""

    max_batch = 256

    def __init__(self, views: Views) -> None:
        self._views = views

    def durable(self, request: Search | Lookup) -> bool:
        """False: searching is free, so replies are not stored."""
        return False

    def reply_to(
        self, requests: Sequence[Search | Lookup]
    ) -> Sequence[SearchReply | LookupReply | RagwrightError]:
        """Replies in the order of the requests; one that failed is its error."""
        replies: list[SearchReply | LookupReply | RagwrightError] = []
        for request in requests:
            try:
                reply, notes = self._views.answer(request.snapshot, partial(_answer, request))
                replies.append(replace(reply, notes=(*notes, *reply.notes)))
            except RagwrightError as error:
                replies.append(error)
        return replies


def _answer(request: Search | Lookup, view: View) -> SearchReply | LookupReply:
    """The reply of a view to a search or a look-up."""
    if isinstance(request, Lookup):
        vectors = view.vectors(request.chunk_ids) if request.vectors else None
        return LookupReply(view.lookup(request.chunk_ids), vectors)
    dense = request.channel == "dense"
    query = np.frombuffer(request.vector, np.float32) if dense else request.text
    if request.channel == "all":
        ids = view.every(request.k, request.filters, request.after)
        reply = SearchReply(tuple((chunk_id, 0.0) for chunk_id in ids))
    elif request.relax is not None:
        reply = view.relaxed(query, request.k, request.relax, request.filters)
    elif isinstance(query, str):
        reply = view.keyword_reply(query, request.k, request.filters)
    else:
        [candidates] = view.dense(query, request.k, request.filters)
        note = view.approximation(request.k, request.filters)
        reply = SearchReply(candidates, notes=(note,) if note else ())
    return replace(reply, notes=(*reply.notes, *view.range_notes(request.filters)))
