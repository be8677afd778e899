"""Channels of plug-ins: further ways to search a snapshot, with files of their own."""

from __future__ import annotations

import math
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

from ..core import Hit, PluginError, RagwrightError, value_hash
from ..flow import Search, SearchReply
from ._store import View

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
    """A further way to search, such as learned sparse vectors or late interaction.

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
