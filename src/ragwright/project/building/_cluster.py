"""Ingest with the help of an engine: workers prepare documents, this process stores them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core import Chunk, Document, SourceError
from ...index import chunk_key
from ...ingest import Engine, Failure, FetchBytes, catch_failures, files_of
from ._batch import Batch, pack_known
from ._feeds import Feed, Stamp
from ._ingest import Ingest
from ._preparing import Item, PreparedPart, Preparing, ReadDocument, SourceTask

_TASK_BYTES = 1_000_000
"""Bytes of the files of a task: seconds of work, so that starting it costs little."""
_TASK_ITEMS = 256


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

    def __init__(
        self, engine: Engine, work: Preparing, *arguments: Any, embed_again: bool = False
    ) -> None:
        super().__init__(*arguments, embed_again=embed_again)
        self._engine = engine
        self._work = work
        self._sent: deque[_Sent] = deque()

    def _batches(self, feeds: Sequence[Feed], fetch: FetchBytes) -> Iterator[Batch]:
        self._load_known(feeds)
        work = replace(self._work, known=pack_known(self._known))
        batch: Batch | None = None
        chunks = characters = 0
        parts = self._engine.run(work, self._reading_tasks(feeds, fetch))
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
                yield SourceTask(position, tuple(item for item, _ in sent.items))

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
        self.progress.texts += len(fresh)
        self.progress.embedded += len(fresh)
        return batch
