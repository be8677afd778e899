"""What an ingest reads: the feed of each source, and the stamps of files that have not changed."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import (
    GROUPS,
    Document,
    SourceError,
    StoreBusyError,
    StoreError,
    common_groups,
    find_additions,
    group_names,
    list_changed_options,
    text_hash,
    value_hash,
)
from ...flow import FetchReply
from ...ingest import (
    Failure,
    FetchBytes,
    GroupOptions,
    Reader,
    RemoteFile,
    RemoteReader,
    ScanProgress,
    SourceFile,
    WebReader,
    clean_metadata,
    default_readers,
    engine_name,
    files_of,
    parser_version,
    pick_reader,
)
from ...ledger import STAMP_TABLES, SqliteDatabase, discard, open_cache
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
        return default_readers(self.entry.options, self.base, self.home, scans)


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
        {
            **list_changed_options(entry.options),
            # so that installing one reads files again whose pages had no text
            "engine": engine_name() if entry.options.ocr != "never" else "",
            "parser": parser_version(entry.options),
        }
        for entry in entries
    ]
    readers = {name: reader.version for name, reader in find_additions("readers").items()}
    added_keys = [key for key in (readers, groups.key) if key]
    return value_hash([_READING, str(base.resolve()), options, *added_keys])


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
        self._under_way: dict[str, Future[FetchReply]] = {}
        self._pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="ragwright-fetch")

    def __enter__(self) -> FetchAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __call__(self, address: str) -> FetchReply:
        """The content at an address; raises what fetching it raised."""
        while self._next and len(self._under_way) < _AHEAD:
            ahead = self._next.popleft()
            self._under_way[ahead] = self._pool.submit(self._fetch, ahead)
        future = self._under_way.pop(address, None)
        return self._fetch(address) if future is None else future.result()


_RACY_NS = 2_000_000_000
"""A file changed this shortly before reading may change again without new times."""


_DIGITS = 15
"""Hexadecimal digits of a version's hash that SQLite's integers hold."""

_SETTLED = 2**62
"""Taken when: a version changes with the content, so that no time has to pass."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and times of a file when it was read, and when that was (nanoseconds)."""

    size: int
    modified: int
    changed: int
    taken: int

    @classmethod
    def of(cls, path: SourceFile) -> Stamp | None:
        """The stamp of a file as it is now; of a remote one its version, as a number.

        None for a file that cannot be looked at; its reader reports why.
        """
        if isinstance(path, RemoteFile):
            version = int(text_hash(path.version)[:_DIGITS], 16) if path.version else -1
            return cls(path.size, version, 0, _SETTLED if path.version else 0)
        try:
            status = path.stat()
        except OSError:
            return None
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, time.time_ns())


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What was read of a file: its size, (id, content hash) of its documents, and warnings."""

    size: int
    documents: Sequence[tuple[str, str]]
    warnings: Sequence[Failure]


class Stamps:
    """Stamps of files per way of reading, in one SQLite file.

    Args:
        path: File to use; a damaged one is replaced, and if it cannot be written, nothing is
            remembered.
        reading: Key of the reader's settings and version; each has its own stamps.
    """

    def __init__(self, path: Path, reading: str) -> None:
        self._reading = reading
        self._open(path)

    def _open(self, path: Path) -> None:
        self._database = open_cache(path, STAMP_TABLES)
        read_only = self._database.read_only
        self._connection = self._database.in_memory() if read_only else self._database.connect()

    def _first(self, statement: str, values: tuple[str | int | bytes, ...]) -> Any:
        """The first row of a statement; a file that cannot be used is replaced first."""
        try:
            with self._database.explained():
                return self._connection.execute(statement, values).fetchone()
        except StoreBusyError:
            raise
        except StoreError:
            self._connection.close()
            discard(self._database.path)
            self._open(self._database.path)
        with self._database.explained():
            return self._connection.execute(statement, values).fetchone()

    def known(self, path: SourceFile) -> FileRecord | None:
        """What was read of an unchanged file, None if it is new."""
        row = self._first(
            "SELECT size, modified, changed, taken, documents, warnings FROM stamps "
            "WHERE reading = ? AND path = ?",
            (self._reading, _key(path)),
        )
        now = None if row is None else Stamp.of(path)
        if row is None or now is None:
            return None
        if (row[0], row[1], row[2]) != (now.size, now.modified, now.changed):
            return None
        if not isinstance(row[3], int) or row[3] - max(row[1], row[2]) < _RACY_NS:
            return None
        try:
            documents = [(str(name), str(content)) for name, content in json.loads(row[4])]
            warnings = [
                Failure(source, SourceError(what, where=where, hint=hint), warning=True)
                for source, what, where, hint in json.loads(row[5])
            ]
            return FileRecord(row[0], documents, warnings)
        except (ValueError, TypeError):
            return None  # damaged: the file is read again

    def put(
        self,
        path: SourceFile,
        stamp: Stamp,
        documents: Sequence[tuple[str, str]],
        warnings: Sequence[Failure],
    ) -> None:
        """Remember a file that was read; the stamp must have been taken before reading."""
        said = [(w.source, w.error.what, w.error.where, w.error.hint) for w in warnings]
        if not self._connection.in_transaction:
            self._first("BEGIN IMMEDIATE", ())
        self._first(
            "INSERT OR REPLACE INTO stamps VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._reading,
                _key(path),
                stamp.size,
                stamp.modified,
                stamp.changed,
                stamp.taken,
                json.dumps(list(documents)),
                json.dumps(said),
            ),
        )

    def commit(self) -> None:
        """Commit the last entries; a busy or damaged file only costs time."""
        if self._connection.in_transaction:
            with suppress(StoreError), self._database.explained():
                self._connection.execute("COMMIT")
        if self._connection.in_transaction:
            with suppress(StoreError), self._database.explained():
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Commit and close."""
        self.commit()
        self._connection.close()


def forget_stamps(path: Path, document_id: str) -> None:
    """Remove what is remembered of the file of a document; the file is read again if it is there.

    Where that cannot be done, everything that is remembered goes: files are then read again, once.

    Raises:
        OSError: The file cannot be removed either.
    """
    if not path.exists():
        return
    try:
        database = SqliteDatabase(path, STAMP_TABLES)
        with database.transaction() as connection:
            rows = connection.execute("SELECT reading, path, documents FROM stamps").fetchall()
            gone = [row[:2] for row in rows if document_id in _ids(row[2])]
            connection.executemany("DELETE FROM stamps WHERE reading = ? AND path = ?", gone)
        with closing(database.connect()) as connection:
            database.scrub(connection)
    except StoreError:
        discard(path)


def _ids(documents: object) -> set[str]:
    """Ids of documents as a row holds them; those of a damaged row are unknown."""
    try:
        return {str(name) for name, _ in json.loads(str(documents))}
    except (ValueError, TypeError):
        return set()


def _key(path: SourceFile) -> bytes:
    """A file's real path as bytes: its name need not be UTF-8; a link to itself has one too."""
    if isinstance(path, RemoteFile):
        return b"remote:" + path.id.encode("utf-8", "surrogateescape")
    return os.fsencode(os.path.realpath(path))
