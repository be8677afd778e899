"""Open views by snapshot, and the channels of plug-ins beside them."""

from __future__ import annotations

import math
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar, TypeVar

from ..core import (
    ConfigError,
    Document,
    Filter,
    Hit,
    MissingExtraError,
    PluginError,
    RagwrightError,
    RetrieveError,
    SnapshotGoneError,
    StoreBusyError,
    StoreError,
    value_hash,
)
from ..flow import Search, SearchReply
from ._catalog import memory_view
from ._store import IndexSpec, Store, View

_PAGE = 1000
"""Chunks that are read at once while a channel is built."""

_KEPT_OPEN = 8
"""Channels over snapshots that are kept open; trials of a study search several in turn."""


class ChannelIndex(ABC):
    """What a channel has built over one snapshot, opened for searches from several threads."""

    @abstractmethod
    def search(
        self, text: str, k: int, allowed: Collection[str] | None
    ) -> Sequence[tuple[str, float]]:
        """Up to ``k`` (chunk id, score); a higher score is better.

        Args:
            text: The query.
            k: Most chunks to return.
            allowed: Ids of the chunks that meet the hard filters; None without filters.
        """


class Channel(ABC):
    """A further way to search, with files of its own.

    Its results are fused with those of the other channels by reciprocal ranks. A channel is built
    over a snapshot before its first search, and again for each later snapshot.

    Attributes:
        name: Name of the channel: in ``retrieve --explain``, and of its section of settings.
        settings: Option record of that section; None for a channel without settings.
        spec: Text that changes whenever what :meth:`build` writes would change.

    Args:
        options: The settings, an instance of ``settings``; by default its defaults.
    """

    name: str = ""
    spec: str = ""
    settings: ClassVar[type[Any] | None] = None

    def __init__(self, options: Any = None) -> None:
        default = self.settings() if self.settings is not None else None
        self.options = default if options is None else options

    @property
    def key(self) -> str:
        """Name and a hash of the spec: equal keys search the same files."""
        return f"{self.name}:{value_hash([self.name, self.spec])[:12]}"

    @abstractmethod
    def build(self, chunks: Iterator[Hit], folder: Path, former: Path | None) -> None:
        """Write what searches need.

        Args:
            chunks: Every chunk of the snapshot in text order, one page in memory at a time.
            folder: An empty folder.
            former: What was built over an earlier snapshot, where it is still there, so that
                unchanged chunks need not be encoded again.
        """

    @abstractmethod
    def open(self, folder: Path) -> ChannelIndex:
        """Open what :meth:`build` wrote."""


class Channels:
    """The channels of one store, built and opened on demand. Safe to use from several threads.

    Args:
        folder: Where channels keep their files: a cache, which :meth:`drop` deletes. None where no
            channel is used.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, Channel] = {}
        self._open: dict[tuple[str, str], ChannelIndex] = {}
        self._lock = threading.Lock()

    def add(self, channels: Collection[Channel]) -> None:
        """Let requests name these channels by their keys."""
        self._known.update((channel.key, channel) for channel in channels)

    def answer(self, view: View, request: Search) -> SearchReply:
        """Search a channel; it is built first where it must be.

        Raises:
            PluginError: The channel fails, or returns something else than chunks and scores.
        """
        channel = self._known.get(request.channel)
        if channel is None:
            raise PluginError(f"no channel {request.channel!r} is known", where="retrieve.channels")
        allowed = None
        if request.filters:
            rows = view.statistics().chunks
            allowed = frozenset(view.every(rows, request.filters))
        try:
            index = self._opened(channel, view)
            candidates = list(index.search(request.text, request.k, allowed))
        except RagwrightError:
            raise
        except Exception as error:
            raise _failed(channel, f"{type(error).__name__}: {error}") from error
        return SearchReply(_ranked(channel, candidates, allowed)[: request.k])

    def drop(self) -> None:
        """Close everything, and delete the files of all channels."""
        with self._lock:
            self._open = {}
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _opened(self, channel: Channel, view: View) -> ChannelIndex:
        place = (channel.key, view.snapshot)
        with self._lock:
            if place not in self._open:
                self._open[place] = channel.open(self._built(channel, view))
                while len(self._open) > _KEPT_OPEN:
                    del self._open[next(iter(self._open))]
            return self._open[place]

    def _built(self, channel: Channel, view: View) -> Path:
        """The folder of a channel over a snapshot, built if need be.

        Of earlier states of the same documents and settings, the last one stays.
        """
        if self._folder is None:
            raise PluginError("these views have no folder for channels", where=channel.name)
        home = self._folder / channel.key.replace(":", "-")
        folder = home / view.snapshot
        if folder.is_dir():
            return folder
        home.mkdir(parents=True, exist_ok=True)
        states = home.glob(f"{view.snapshot.partition('@')[0]}@*")
        former = sorted(states, key=lambda path: path.stat().st_mtime)
        unfinished = Path(mkdtemp(prefix=".", dir=home))
        try:
            channel.build(_chunks(view), unfinished, former[-1] if former else None)
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process has built it
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        for state in former[:-1]:
            shutil.rmtree(state, ignore_errors=True)
        return folder


def _chunks(view: View) -> Iterator[Hit]:
    """Every chunk of a snapshot, in text order."""
    last = ""
    while ids := view.every(_PAGE, (), last):
        yield from view.lookup(ids)
        last = ids[-1]


def _ranked(
    channel: Channel, candidates: Sequence[tuple[str, float]], allowed: frozenset[str] | None
) -> tuple[tuple[str, float], ...]:
    """Candidates best first, ties by id; PluginError unless all are different, allowed chunks."""
    try:
        scores = {str(chunk_id): round(float(score), 6) for chunk_id, score in candidates}
    except (TypeError, ValueError) as error:
        raise _failed(channel, "its results are not pairs of a chunk id and a score") from error
    if len(scores) != len(candidates):
        raise _failed(channel, "it returned a chunk twice")
    if not all(map(math.isfinite, scores.values())):
        raise _failed(channel, "it returned a score that is not a number")
    if allowed is not None and not scores.keys() <= allowed:
        raise _failed(channel, "it returned a chunk that the filters exclude")
    return tuple(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))


def _failed(channel: Channel, reason: str) -> PluginError:
    return PluginError(
        f"the channel {channel.name!r} failed: {reason}",
        where="retrieve.channels",
        hint="test it with ChannelSuite of ragwright.testing",
    )


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
        channels: Channels of plug-ins; none by default.
    """

    def __init__(
        self,
        store: Store,
        keep: int = 4,
        *,
        pause: float = 300.0,
        channels: Channels | None = None,
    ) -> None:
        self.channels = channels or Channels(None)
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
        return self._keep_view(self._store.renewed(pair, snapshot))

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

    def rows(self, snapshot: str) -> int | None:
        """Number of chunks of a snapshot whose view is open, else None."""
        with self._lock:
            view = self._open.get(snapshot)
        return None if view is None else view.statistics().chunks

    def has_filters(self, snapshot: str, filters: Sequence[Filter]) -> bool:
        """True if the open view of a snapshot knows the rows that meet hard filters."""
        with self._lock:
            view = self._open.get(snapshot)
        return view is not None and view.has_filters(filters)

    def document(self, document_id: str) -> Document | None:
        """One document as stored now, None if there is none."""
        return self._store.document(document_id)

    def drop(self) -> None:
        """Forget all open views; searches that are using one go on."""
        with self._lock:
            self._open = OrderedDict()
            self._seconds = {}
        self.channels.drop()

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
