"""Ingest with the help of an engine: workers prepare documents, this process stores them."""

from __future__ import annotations

import secrets
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import Chunk, Document, SourceError
from ...index import chunk_key
from ...ingest import Engine, Failure, FetchBytes, catch_failures, files_of
from ...ledger import FileLock
from ._batch import Batch, write_known
from ._feeds import Feed, Stamp
from ._ingest import Ingest
from ._preparing import Item, PreparedPart, Preparing, ReadDocument, SourceTask

_TASK_BYTES = 1_000_000
"""Bytes of the files of a task: seconds of work, so that starting it costs little."""
_TASK_ITEMS = 256

_FOLDER = "ingest"
"""Folder of the cache with the files that workers write for their driver."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The resources that an ingest on an engine needs.

    Attributes:
        engine: Carries out the tasks.
        work: What the workers do.
        spool: Folder for their files, on storage that all nodes share.
    """

    engine: Engine
    work: Preparing
    spool: Path


@contextmanager
def spool_folder(cache: Path) -> Iterator[Path]:
    """A folder for the files of one ingest; those of ingests that were killed are deleted."""
    clear_spools(cache)
    home = cache / _FOLDER
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = home / secrets.token_hex(8)
    with FileLock(home / f"{folder.name}.lock", "ingest"):
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            (home / f"{folder.name}.lock").unlink(missing_ok=True)


def clear_spools(cache: Path) -> None:
    """Delete what ingests that were killed have left: prepared documents that nobody stored."""
    for path in (cache / _FOLDER).glob("*.lock"):
        lock = FileLock(path, "clearing")
        if lock.acquire():
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink(missing_ok=True)
            lock.release()


@dataclass(slots=True)
class _Sent:
    """A task under way: its source, and the stamps of its files."""

    feed: Feed
    items: list[tuple[Item, Stamp | None]] = field(default_factory=list)
    size: int = 0

    def add(self, item: Item, stamp: Stamp | None = None, size: int = 0) -> None:
        self.items.append((item, stamp))
        self.size += size

    @property
    def full(self) -> bool:
        return self.size >= _TASK_BYTES or len(self.items) >= _TASK_ITEMS


class ClusterIngest(Ingest):
    """An ingest whose documents are read, cut, tokenised and embedded by an engine's workers.

    Servers embed as in any ingest: through this process's runner, with one budget. So do local
    models where models write into heads, since vectors are made from what they write.
    """

    def __init__(self, cluster: Cluster, *arguments: Any, embed_again: bool = False) -> None:
        super().__init__(*arguments, embed_again=embed_again)
        self._cluster = cluster
        self._sent: deque[_Sent] = deque()

    def _batches(self, feeds: Sequence[Feed], fetch: FetchBytes) -> Iterator[Batch]:
        self._load_known(feeds)
        cluster = self._cluster
        write_known(cluster.spool / "known.npy", self._known)
        batch: Batch | None = None
        chunks = characters = 0
        parts = cluster.engine.run(cluster.work, self._reading_tasks(feeds, fetch))
        for part in parts:
            sent = self._sent.popleft()
            if batch is not None and batch.root != sent.feed.source:
                yield self._with_vectors(batch)
                batch, chunks, characters = None, 0, 0
            batch = batch or Batch(sent.feed.source)
            for document, cut in self._take_prepared(part, sent, batch):
                chunks += len(cut)
                characters += len(document.text)
            if self._is_full(chunks, characters):
                yield self._with_vectors(batch)
                batch, chunks, characters = None, 0, 0
        if batch is not None:
            yield self._with_vectors(batch)

    # -- sending ---------------------------------------------------------------------------

    def _reading_tasks(self, feeds: Sequence[Feed], fetch: FetchBytes) -> Iterator[SourceTask]:
        """Tasks in the order of the sources; each is remembered until its result comes."""
        for position, feed in enumerate(feeds):
            for sent in self._task_shares(feed, fetch):
                self._sent.append(sent)
                yield SourceTask(
                    position,
                    tuple(item for item, _ in sent.items),
                    (self._cluster.spool / "known.npy").absolute(),
                )

    def _task_shares(self, feed: Feed, fetch: FetchBytes) -> Iterator[_Sent]:
        """Cut a source into shares that are worth a task each."""
        sent = _Sent(feed)
        for item, stamp, size in self._changed_files(feed, fetch):
            sent.add(item, stamp, size)
            if sent.full:
                yield sent
                sent = _Sent(feed)
        if sent.items:
            yield sent

    def _changed_files(
        self, feed: Feed, fetch: FetchBytes
    ) -> Iterator[tuple[Item, Stamp | None, int]]:
        """Changed files with their stamps; documents, where a source is not made of files."""
        try:
            reader = feed.reader()
        except SourceError as error:
            yield Failure(feed.source, error), None, 0
            return
        files = files_of(reader, feed.source)
        if files is None or feed.recipe is None:
            read = catch_failures(reader.read(feed.source, fetch), feed.source, reader)
            for item in feed.labelled(read):
                yield item, None, len(item.text) if isinstance(item, Document) else 0
            return
        for path in files:
            if isinstance(path, Failure):
                yield path, None, 0
            elif not self._as_it_was(path):
                stamp = Stamp.of(path)
                yield path, stamp, 0 if stamp is None else stamp.size

    # -- taking ----------------------------------------------------------------------------

    def _take_prepared(
        self, part: PreparedPart, sent: _Sent, batch: Batch
    ) -> Iterator[tuple[Document, tuple[Chunk, ...]]]:
        """Put the new documents of a task's result into a batch, and count all of them."""
        self.progress.scans.add(part.scans)
        wanted: set[int] = set()
        for (item, stamp), read in zip(sent.items, part.read, strict=True):
            wanted |= self._places_to_store(item, stamp, read)
        prepared = part.prepared
        batch.vectors.update(prepared.vectors)
        batch.refused.update(prepared.refused)
        for place, (document, cut, terms) in enumerate(prepared.documents):
            if place in wanted:
                batch.documents.append((document, cut))
                batch.terms[document.id] = terms
                yield document, cut

    def _places_to_store(
        self, item: Item, stamp: Stamp | None, read: Sequence[ReadDocument | Failure]
    ) -> set[int]:
        """Places of an item's documents that are to be stored; failures are noted."""
        wanted: set[int] = set()
        hashes: list[tuple[str, str]] = []
        warnings: list[Failure] = []
        keep = stamp is not None
        for report in read:
            if isinstance(report, Failure):
                self._fail(report)
                if report.warning:
                    warnings.append(report)
                keep = keep and (report.skipped or report.warning)
                continue
            hashes.append((report.id, report.hash))
            if not self._is_new(report.id, report.source, report.hash):
                continue
            if report.failure is not None:
                self._fail(report.failure)
            elif report.place is not None:
                wanted.add(report.place)
        if stamp is not None:
            self.progress.bytes_done += stamp.size
            if keep and not isinstance(item, Document | Failure):
                self._ended.append((item, stamp, hashes, warnings))
        return wanted

    def _with_vectors(self, batch: Batch) -> Batch:
        """Attach stored vectors; those of workers replace the ones that may not be used."""
        if self._context_model:
            batch.terms.clear()  # without what a model writes into heads
            return super()._with_vectors(batch)
        if not (self._model and self._local):
            return super()._with_vectors(batch)
        batch.files, self._ended = self._ended, []
        keys = {
            chunk_key(chunk, document.title) for document, cut in batch.documents for chunk in cut
        }
        stored = self._store.stored_vectors(self._spec.embedder, sorted(keys))
        usable = {key: row for key, row in stored.items() if self._may_use(key)}
        batch.vectors.update(usable)
        batch.replaced = stored.keys() - usable.keys()
        # those of the batch before may not be stored yet
        fresh = keys - usable.keys() - batch.refused.keys() - self._fresh
        self._fresh |= fresh
        self._embedded += len(fresh)
        self.progress.texts += len(fresh)
        self.progress.embedded += len(fresh)
        return batch
