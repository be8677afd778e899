"""Ingest: sources to documents to chunks to the store, a bounded batch at a time.

Unchanged files are not read, unchanged documents not chunked, known texts not embedded.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ...core import (
    CLOSED,
    GROUPS,
    Chunk,
    Document,
    DuplicateIdError,
    EmptySourceError,
    SourceError,
    UnclearGroupsError,
    count_noun,
)
from ...flow import Flow, Runner
from ...index import IndexedDocument, IndexSpec, Store, WriteCounts, chunk_key, write_embedded_text
from ...ingest import (
    Chunker,
    Failure,
    FetchBytes,
    HeadedChunker,
    Reader,
    SourceFile,
    catch_failures,
    files_of,
    workers,
)
from ._batch import (
    KEPT,
    Batch,
    ChunkSentences,
    Cut,
    Files,
    cut_document,
    embed_missing,
    write_contexts,
)
from ._feeds import Feed, Stamp, Stamps, feed_bytes
from ._progress import IngestForecast, IngestProgress, IngestReport, scan_notes

_BATCH_CHUNKS = 512
_BATCH_UNEMBEDDED = 2048
"""Chunks of a batch without an embedding model, when memory and cost are small."""
_BATCH_CHARACTERS = 2_000_000


class Ingest:
    """One ingest under way.

    Args:
        store: The store to write to.
        spec: Index spec to write to.
        chunker: Cuts the documents.
        embedding: Embedding model as configured (empty for none), and whether it is local.
        runner: Carries ``Embed`` requests.
        stamps: Stamps of unchanged files; None reads every file.
        embed_again: Embed every document again although its vectors are stored.
    """

    def __init__(
        self,
        store: Store,
        spec: IndexSpec,
        chunker: Chunker,
        embedding: tuple[str, bool],
        runner: Runner,
        stamps: Stamps | None,
        *,
        embed_again: bool = False,
    ) -> None:
        self.progress = IngestProgress()
        self._store = store
        self._spec = spec
        self._chunker = chunker
        self._heads = chunker if isinstance(chunker, HeadedChunker) else None
        self._calls_models = False
        self._model, self._local = embedding
        self._runner = runner
        self._stamps = stamps
        self._embed_again = embed_again
        self._known: Mapping[str, str] = {}
        self._seen: dict[str, str] = {}
        self._ended: Files = []
        self._flying: set[str] = set()
        self._fresh: set[str] = set()
        self._failures: list[Failure] = []
        self._skipped: list[Failure] = []
        self._warnings: list[Failure] = []
        self._contexts_written = 0

    def run(self, feeds: Sequence[Feed], fetch: FetchBytes, *, prune: bool = False) -> IngestReport:
        """Read, chunk, embed and store; continue after sources that cannot be read.

        ``prune`` removes documents of these sources that are no longer there; those of unreadable
        sources stay.
        """
        self.progress.bytes_total = sum(feed_bytes(feed) for feed in feeds)
        self._calls_models = True
        counts = WriteCounts()
        flows = (self._embed_missing_texts(batch) for batch in self._batches(feeds, fetch))
        ahead = 2 if self._model else 1
        with workers():
            for batch in self._runner.map(flows, limit=ahead):
                counts += self._write(batch)
            closed = self._close_unclear()
        gone = self._removed_documents(feeds)
        notes: tuple[str, ...] = ()
        if gone and prune:
            counts += self._store.remove(gone, self._spec)
        elif gone:
            notes = (
                f"{count_noun(len(gone), 'document is', 'documents are')} no longer in these "
                "sources: --prune removes them",
            )
        if closed:
            notes = (
                *notes,
                f"{count_noun(closed, 'stored document is', 'stored documents are')} closed to all "
                "but owners until its groups can be read: see the failures",
            )
        notes = (*notes, *scan_notes(self.progress.scans), *self._model_notes())
        self._store.settle(self._spec)
        counts += WriteCounts(unchanged=self.progress.unchanged)
        if self._stamps is not None:
            self._stamps.commit()
        if self._runner.replies is not None and self._model and not self._local:
            self._runner.replies.drop(KEPT)
        kinds = map(tuple, (self._failures, self._skipped, self._warnings))
        failures, skipped, warnings = kinds
        return IngestReport(counts, failures, len(self._fresh), notes, skipped, warnings)

    def forecast(self, feeds: Sequence[Feed], fetch: FetchBytes) -> IngestForecast:
        """Forecast what :meth:`run` would write and embed; read and chunk, but change nothing."""
        documents = chunks = 0
        missing: dict[str, str] = {}
        calls = None
        for batch in self._batches(feeds, fetch):
            documents += len(batch.documents)
            chunks += sum(len(cut) for _, cut in batch.documents)
            missing.update(batch.missing)
            if makers := self._context_flows(batch):
                written = self._runner.forecast(makers)
                calls = written if calls is None else calls + written
        if self._model and not self._local:
            texts = Batch("", missing=missing)
            embedded = self._runner.forecast([lambda: self._embed_missing_texts(texts)])
            calls = embedded if calls is None else calls + embedded
        failures, skipped = tuple(self._failures), tuple(self._skipped)
        return IngestForecast(
            documents, chunks, self.progress.unchanged, len(missing), calls, failures, skipped
        )

    def forecast_into(
        self, feeds: Sequence[Feed], fetch: FetchBytes, into: Store, flying: set[str]
    ) -> list[Callable[[], Flow[object]]]:
        """Build the index in another store, with stand-ins for missing vectors.

        Args:
            feeds: Sources with their readers.
            fetch: Fetches addresses.
            into: The other store.
            flying: Keys of texts that are already counted; extended here.

        Returns:
            Flows that would embed the rest and write the sentences of heads, for a forecast.
        """
        self._flying = flying
        makers: list[Callable[[], Flow[object]]] = []
        for batch in self._batches(feeds, fetch):
            makers += self._context_flows(batch)
            if batch.missing and not self._local:
                makers.append(partial(self._embed_missing_texts, Batch("", missing=batch.missing)))
            if batch.documents:
                ready = [self._stood_in(d, chunks) for d, chunks in batch.documents]
                into.upsert(self._spec, ready, batch.root)
        return makers

    def _stood_in(self, document: Document, chunks: tuple[Chunk, ...]) -> IndexedDocument:
        """A document with pseudo-random vectors from the hash of each text."""
        if not self._model:
            return IndexedDocument(document, chunks)
        width = self._spec.dimensions
        rows = [
            np.random.default_rng(int(chunk_key(chunk, document.title)[:16], 16))
            .standard_normal(width)
            .astype(np.float32)
            for chunk in chunks
        ]
        matrix = np.stack(rows) if rows else np.zeros((0, width), dtype=np.float32)
        return IndexedDocument(document, chunks, matrix)

    # -- reading ---------------------------------------------------------------------------

    def _batches(self, feeds: Sequence[Feed], fetch: FetchBytes) -> Iterator[Batch]:
        self._load_known(feeds)
        for feed in feeds:
            yield from self._batches_of_source(feed.source, self._items_to_index(feed, fetch))
        self.progress.all_read = True

    def _batches_of_source(
        self, source: str, items: Iterator[tuple[Document | Failure, str]]
    ) -> Iterator[Batch]:
        batch = Batch(source)
        chunks = characters = 0
        for item, content in items:
            if isinstance(item, Failure):
                self._fail(item)
                continue
            cut = self._cut_if_new(item, content)
            if cut is None:
                continue
            batch.documents.append((item, cut))
            chunks += len(cut)
            characters += len(item.text)
            if self._is_full(chunks, characters):
                yield self._with_vectors(batch)
                batch = Batch(source)
                chunks = characters = 0
        yield self._with_vectors(batch)

    def _close_unclear(self) -> int:
        """Close the stored documents whose groups cannot be read any more; how many are closed.

        They are no longer what their authors want them to be, and an author who names groups
        wants them to be narrower.
        """
        failed = {f.source for f in self._failures if isinstance(f.error, UnclearGroupsError)}
        unclear: dict[str, list[str]] = {}
        for name, source in self._store.sources(self._spec).items() if failed else ():
            if name not in self._seen and failed & {name, name.partition("#")[0]}:
                unclear.setdefault(source, []).append(name)
        for source, names in unclear.items():
            for batch in self._batches_of_source(source, self._closed_documents(names)):
                self._write(self._runner.run(self._embed_missing_texts(batch)))
        return sum(map(len, unclear.values()))

    def _closed_documents(self, names: Sequence[str]) -> Iterator[tuple[Document, str]]:
        """Stored documents that nobody but owners may read, without those that are so already."""
        for name in names:
            document = self._store.document(name)
            if document is not None and document.metadata.get(GROUPS) != (CLOSED,):
                closed = replace(document, metadata={**document.metadata, GROUPS: (CLOSED,)})
                yield closed, closed.content_hash()

    def _load_known(self, feeds: Sequence[Feed]) -> None:
        """Content hashes of stored documents, without those to be embedded again."""
        if not all(feed.changes for feed in feeds):
            self._known = {} if self._embed_again else self._store.content_hashes(self._spec)

    def _is_full(self, chunks: int, characters: int) -> bool:
        """True for a batch of this size."""
        most = _BATCH_CHUNKS if self._model else _BATCH_UNEMBEDDED
        return chunks >= most or characters >= _BATCH_CHARACTERS

    def _items_to_index(
        self, feed: Feed, fetch: FetchBytes
    ) -> Iterator[tuple[Document | Failure, str]]:
        """(document, content hash), or (failure, '')."""
        try:
            reader = feed.reader()
        except SourceError as error:
            yield Failure(feed.source, error), ""
            return
        files = files_of(reader, feed.source)
        if files is None:
            read = catch_failures(reader.read(feed.source, fetch), feed.source, reader)
            for item in feed.labelled(read):
                yield _with_hash(item)
            return
        for path in files:
            if isinstance(path, Failure):
                yield path, ""
            elif not self._as_it_was(path):
                stored = self._read_before(path)
                yield from stored or self._documents_of_file(feed, reader, path)

    def _documents_of_file(
        self, feed: Feed, reader: Reader, path: SourceFile
    ) -> Iterator[tuple[Document | Failure, str]]:
        stamp = Stamp.of(path)
        hashes: list[tuple[str, str]] = []
        warnings: list[Failure] = []
        size = 0 if stamp is None else stamp.size
        counted = 0
        for item in feed.labelled(catch_failures(reader.read_file(path), str(path), reader)):
            pair = _with_hash(item)
            if isinstance(item, Failure):
                if item.warning:
                    warnings.append(item)
                elif not item.skipped:  # tried again next time
                    stamp = None
            else:
                hashes.append((item.id, pair[1]))
                step = min(len(item.text), size - counted)  # progress within a large file
                counted += step
                self.progress.bytes_done += step
            yield pair
        self.progress.bytes_done += size - counted
        if stamp is not None:
            self._ended.append((path, stamp, hashes, warnings))

    def _as_it_was(self, path: SourceFile) -> bool:
        known = None if self._stamps is None else self._stamps.known(path)
        if known is None:
            return False
        documents = known.documents
        if any(
            self._known.get(name) != content or name in self._seen for name, content in documents
        ):
            return False
        self._seen.update(documents)
        self._warnings += known.warnings
        self.progress.bytes_done += known.size
        self.progress.read += len(documents)
        self.progress.unchanged += len(documents)
        return True

    def _read_before(self, path: SourceFile) -> list[tuple[Document | Failure, str]]:
        """Documents of an unchanged file that an index of other settings holds; else none."""
        known = None if self._stamps is None else self._stamps.known(path)
        documents: list[tuple[Document | Failure, str]] = []
        for name, content in known.documents if known else ():
            document = self._store.document(name)
            if document is None or document.content_hash() != content:
                return []
            documents.append((document, content))
        if known and documents:
            self.progress.bytes_done += known.size
            documents += [(warning, "") for warning in known.warnings]
        return documents

    def _cut_if_new(self, document: Document, content: str) -> tuple[Chunk, ...] | None:
        """Chunks of a document, None if there is nothing to write."""
        if not self._is_new(document.id, document.source, content):
            return None
        cut = cut_document(self._chunker, document)
        if isinstance(cut, Failure):
            self._fail(cut)
            return None
        return cut

    def _is_new(self, name: str, source: str, content: str) -> bool:
        """True for a document that has to be written; counts it."""
        self.progress.current = name
        self.progress.read += 1
        before = self._seen.get(name)
        if before is not None:
            if before != content:
                self._fail(
                    Failure(
                        name,
                        DuplicateIdError(
                            "another document has this id already; the first one is kept",
                            where=source,
                            hint="give one of them another id or path",
                        ),
                    )
                )
            return False
        self._seen[name] = content
        if self._known.get(name) == content:
            self.progress.unchanged += 1
            return False
        return True

    def _fail(self, failure: Failure) -> None:
        if failure.warning or (failure.skipped and not self._is_emptied(failure)):
            (self._skipped if failure.skipped else self._warnings).append(failure)
            return
        self._failures.append(failure)
        self.progress.failed += 1

    def _is_emptied(self, failure: Failure) -> bool:
        """True for an empty folder of which documents are stored: its disk may be missing."""
        below = "" if failure.source == "." else f"{failure.source}/"
        return isinstance(failure.error, EmptySourceError) and any(
            name.startswith(below) for name in self._store.sources(self._spec)
        )

    # -- heads -----------------------------------------------------------------------------

    @property
    def _context_model(self) -> str:
        """The chat model that writes a sentence for each chunk; empty for none."""
        return "" if self._heads is None else self._heads.options.model

    def _contexts(self, documents: Sequence[Cut]) -> Flow[ChunkSentences]:
        """A flow that writes the sentences of documents."""
        assert self._heads is not None
        return write_contexts(documents, self._heads.options, self._heads.tokenizer)

    def _write_contexts(self, batch: Batch) -> None:
        """Give the chunks of a batch their sentences; documents that lack some are failures."""
        written = self._runner.run(self._contexts(batch.documents))
        batch.documents = written.documents
        self._contexts_written += sum(
            1 for _, cut in written.documents for c in cut if c.head is not None and c.head.context
        )
        for failure in written.failures:
            self._fail(failure)
        lost = {failure.source for failure in written.failures if not failure.warning}
        batch.files = [f for f in batch.files if not lost & {name for name, _ in f[2]}]

    def _context_flows(self, batch: Batch) -> list[Callable[[], Flow[object]]]:
        """Flows that would write the sentences of a batch, for a forecast."""
        if not self._context_model or not batch.documents:
            return []
        return [partial(self._contexts, batch.documents)]

    def _model_notes(self) -> tuple[str, ...]:
        """What a model wrote into heads."""
        if not self._contexts_written:
            return ()
        count = count_noun(self._contexts_written, "chunk has a sentence", "chunks have a sentence")
        return (f"{count} by {self._context_model} in the head",)

    # -- embedding -------------------------------------------------------------------------

    def _with_vectors(self, batch: Batch) -> Batch:
        """Attach stored vectors, and return the texts without one."""
        batch.files, self._ended = self._ended, []
        if self._calls_models and self._context_model and batch.documents:
            self._write_contexts(batch)
        if self._model:
            texts = {
                chunk_key(chunk, document.title): write_embedded_text(chunk, document.title)
                for document, chunks in batch.documents
                for chunk in chunks
            }
            stored = self._store.stored_vectors(self._spec.embedder, list(texts))
            batch.vectors = {key: row for key, row in stored.items() if self._may_use(key)}
            batch.replaced = stored.keys() - batch.vectors.keys()
            for key, text in texts.items():
                if key in self._flying:  # being embedded by the previous batch
                    batch.waiting[key] = text
                elif key not in batch.vectors:
                    batch.missing[key] = text
            self._flying |= batch.missing.keys()
            self.progress.texts += len(batch.missing)
        return batch

    def _may_use(self, key: str) -> bool:
        """True if a stored vector may be used for a text."""
        return not self._embed_again or key in self._fresh

    def _count_embedded(self, texts: int) -> None:
        self.progress.embedded += texts

    def _embed_missing_texts(self, batch: Batch) -> Flow[Batch]:
        """A flow that fills in the missing vectors, and counts them."""
        yield from embed_missing(batch, self._model, local=self._local, done=self._count_embedded)
        self._fresh |= batch.missing.keys() - batch.refused.keys()
        return batch

    # -- writing ---------------------------------------------------------------------------

    def _write(self, batch: Batch) -> WriteCounts:
        counts = WriteCounts()
        if batch.waiting:
            self._collect_vectors(batch)
        self._flying -= batch.missing.keys()
        if batch.refused:
            self._leave_out(batch)
        if batch.documents:
            ready = [self._indexed_document(d, chunks, batch) for d, chunks in batch.documents]
            new = {key: batch.vectors[key] for key in batch.replaced & batch.vectors.keys()}
            if new:
                self._store.replace_vectors(self._spec, new)
            counts = self._store.upsert(self._spec, ready, batch.root)
            self.progress.chunks += counts.chunks_added
        if self._stamps is not None:
            for file in batch.files:
                self._stamps.put(*file)
            self._stamps.commit()
        return counts

    def _collect_vectors(self, batch: Batch) -> None:
        """Use vectors of an earlier batch; embed the texts that it left out."""
        stored = self._store.stored_vectors(self._spec.embedder, list(batch.waiting))
        batch.vectors.update((key, row) for key, row in stored.items() if self._may_use(key))
        lost = {k: t for k, t in batch.waiting.items() if k not in batch.vectors}
        if lost:
            late = self._runner.run(self._embed_missing_texts(Batch("", missing=lost)))
            batch.vectors.update(late.vectors)
            batch.refused.update(late.refused)
            batch.replaced |= late.vectors.keys()

    def _leave_out(self, batch: Batch) -> None:
        """Remove documents whose text the embedding model refuses; each is a failure."""
        accepted = []
        for document, chunks in batch.documents:
            errors = [batch.refused.get(chunk_key(c, document.title)) for c in chunks]
            error = next((e for e in errors if e is not None), None)
            if error is None:
                accepted.append((document, chunks))
            else:
                self._fail(Failure(document.id, error))
        left_out = {d.id for d, _ in batch.documents} - {d.id for d, _ in accepted}
        batch.documents = accepted
        batch.files = [f for f in batch.files if not left_out & {name for name, _ in f[2]}]

    def _indexed_document(
        self, document: Document, chunks: tuple[Chunk, ...], batch: Batch
    ) -> IndexedDocument:
        content = self._seen[document.id]
        terms = batch.terms.get(document.id)
        if not self._model:
            return IndexedDocument(document, chunks, hash=content, terms=terms)
        vectors = [batch.vectors[chunk_key(chunk, document.title)] for chunk in chunks]
        shape = (len(chunks), self._spec.dimensions)
        matrix = np.stack(vectors) if vectors else np.zeros(shape, dtype=np.float32)
        return IndexedDocument(document, chunks, matrix, content, terms)

    def _removed_documents(self, feeds: Sequence[Feed]) -> list[str]:
        """Stored documents of these sources that were not found again, without failed ones."""
        failed = {failure.source for failure in self._failures}
        complete = [feed.source for feed in feeds if not feed.changes]
        roots = {_normal_source(source) for source in complete if source not in failed}
        if not roots:
            return []
        return [
            name
            for name, root in self._store.sources(self._spec).items()
            if _normal_source(root) in roots
            and name not in self._seen
            and not any(name == f or name.startswith((f"{f}#", f"{f}/")) for f in failed)
        ]


def _normal_source(source: str) -> str:
    """Normalised spelling of a source: ``docs``, ``docs/`` and ``./docs`` are the same folder."""
    return source if ":" in source.partition("/")[0] else posixpath.normpath(source)


def _with_hash(item: Document | Failure) -> tuple[Document | Failure, str]:
    return item, "" if isinstance(item, Failure) else item.content_hash()
