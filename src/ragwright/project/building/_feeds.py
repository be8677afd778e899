"""Sources of an ingest, and the readers that read them, here or on a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ...core import (
    GROUPS,
    Document,
    SourceError,
    common_groups,
    find_additions,
    group_names,
    list_changed_options,
    value_hash,
)
from ...ingest import (
    Failure,
    FetchBytes,
    Fetched,
    GroupOptions,
    Reader,
    RemoteReader,
    ScanProgress,
    TableReader,
    WebReader,
    clean_metadata,
    default_readers,
    engine_name,
    files_of,
    load_reader,
    parser_version,
    pick_reader,
)
from .._settings import SourceEntry

_READING = 5
"""Incremented when readers change their results, so that files are read again."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe for the readers of a source; picklable, so that workers make them too.

    Attributes:
        entry: The source as configured.
        base: Folder that relative paths start from.
        home: Folder of the project, which ids are relative to.
        groups: Rules of who may read which documents.
    """

    entry: SourceEntry
    base: Path
    home: Path
    groups: GroupOptions

    def labelled(self, items: Iterator[Document | Failure]) -> Iterator[Document | Failure]:
        """Documents with the fields that the project file gives to all of the source, and groups.

        Documents whose groups of readers cannot be read become failures.
        """
        options = self.entry.options
        fields = clean_metadata(options.metadata)
        named = [group_names(n) for n in (fields.get(GROUPS), options.groups) if n]
        if named:
            fields[GROUPS] = common_groups(named) or ()
        return self.groups.labelled(items, self.entry.source, fields)

    def readers(self, scans: ScanProgress | None = None) -> tuple[Reader, ...]:
        """The readers, in the order in which they are tried.

        Args:
            scans: Counts the pages that OCR reads.

        Raises:
            PluginError: A custom reader cannot be loaded.
        """
        entry = self.entry
        if entry.options.reader:
            return (load_reader(entry.options.reader),)
        if entry.options.text_column:
            return (TableReader(entry.options, self.base, self.home),)
        return default_readers(entry.options, self.base, self.home, scans)


@dataclass(frozen=True, slots=True)
class Feed:
    """One source and the readers that may read it; the first that accepts it does.

    With ``changes`` they return only changed documents: the store is not compared first, and
    missing documents are not removed. ``recipe`` makes the readers on a worker; without one,
    ``groups`` are the rules of who may read the documents.
    """

    source: str
    readers: tuple[Reader, ...]
    changes: bool = False
    recipe: Recipe | None = None
    groups: GroupOptions = field(default_factory=GroupOptions)

    def labelled(self, items: Iterator[Document | Failure]) -> Iterator[Document | Failure]:
        """Documents as :meth:`Recipe.labelled` returns them."""
        if self.recipe is not None:
            return self.recipe.labelled(items)
        return self.groups.labelled(items, self.source, {})

    def reader(self) -> Reader:
        """The reader of the source.

        Raises:
            SourceError: No reader accepts it, or one fails while checking it.
        """
        return pick_reader(self.source, self.readers)


def reading(entries: Sequence[SourceEntry], base: Path, groups: GroupOptions) -> str:
    """Key of the reading settings: other settings or another version read every file again."""
    options = [
        list_changed_options(entry.options) | _ocr_engine(entry) | _parser_used(entry)
        for entry in entries
    ]
    readers = {name: reader.version for name, reader in find_additions("readers").items()}
    added_keys = [key for key in (readers, groups.key) if key]
    return value_hash([_READING, str(base.resolve()), options, *added_keys])


def _ocr_engine(entry: SourceEntry) -> dict[str, str]:
    """The OCR engine, so that installing it reads files again whose pages had no text."""
    engine = engine_name() if entry.options.ocr != "never" else ""
    return {"engine": engine} if engine else {}


def _parser_used(entry: SourceEntry) -> dict[str, str]:
    """The parser and its version; nothing for ragwright's own."""
    used = parser_version(entry.options)
    return {"parser": used} if used else {}


def web_pages(feeds: Sequence[Feed]) -> Iterator[str]:
    """Addresses that will be fetched literally: one per web page."""
    for feed in feeds:
        try:
            web = isinstance(feed.reader(), WebReader)
        except SourceError:  # reported when the source is read
            continue
        if web:
            yield feed.source.strip().partition("#")[0]


def feed_bytes(feed: Feed) -> int:
    """Bytes of the local files of a source, 0 if there are none or it cannot be read."""
    try:
        reader = feed.reader()
        if isinstance(reader, RemoteReader):  # to list a store twice takes time
            return 0
        files = files_of(reader, feed.source)
        return sum(
            p.stat().st_size if isinstance(p, Path) else p.size
            for p in files or ()
            if not isinstance(p, Failure)
        )
    except (OSError, SourceError):  # faults are reported when the source is read
        return 0


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
