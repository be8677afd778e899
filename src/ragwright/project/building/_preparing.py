"""Work of a worker on documents: read, normalise, cut, tokenise and, by local models, embed.

It opens no database. What it has prepared goes back to the driver, which stores it.
"""

from __future__ import annotations

import pickle
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...core import Chunk, Document, EngineError, RagwrightError, SourceError, import_plugins_from
from ...flow import Embed, Runner, RunnerOptions
from ...index import (
    IndexedDocument,
    IndexSpec,
    chunk_key,
    default_analyzer,
    pack_chunk_terms,
    write_embedded_text,
)
from ...ingest import (
    Chunker,
    ChunkOptions,
    Failure,
    Reader,
    ScanProgress,
    SourceFile,
    catch_failures,
    make_chunker,
    pick_reader,
    workers,
)
from ...models import Analyzer, EmbedOptions, Models, ModelSettings, WordTokenizer, model_handlers
from ._batch import Bad, Batch, Matrix, cut_document, embed_missing, is_known
from ._feeds import Recipe

Item: TypeAlias = "SourceFile | Document | Failure"
"""A file to read, or what the driver has read."""


@dataclass(frozen=True, slots=True)
class SourceTask:
    """Some files or documents of one source, as one task.

    Attributes:
        feed: Position of the source.
        items: What is read and prepared, in order.
    """

    feed: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document that was read.

    Attributes:
        failure: Why it could not be cut.
        place: Its position among the prepared documents; None if it is stored or has failed.
    """

    id: str
    source: str
    hash: str
    failure: Failure | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Documents ready to be stored.

    Attributes:
        documents: Each with its chunks and their packed terms.
        vectors: Vectors by key of their text, if a worker embeds.
        refused: Texts that the model refuses, by key.
    """

    documents: list[tuple[Document, tuple[Chunk, ...], tuple[bytes, ...]]]
    vectors: Mapping[str, Matrix] = field(default_factory=dict)
    refused: Mapping[str, Bad] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedPart:
    """The result of a :class:`SourceTask`.

    Attributes:
        read: For each item what was read, in order.
        scans: Pages that OCR read.
        prepared: The prepared documents.
    """

    read: tuple[tuple[ReadDocument | Failure, ...], ...]
    scans: ScanProgress
    prepared: Prepared


@dataclass(slots=True)
class _Tools:
    """The tools that a worker holds open."""

    chunker: Chunker
    analyzer: Analyzer
    runner: Runner | None
    pool: ExitStack
    readers: dict[int, Reader] = field(default_factory=dict)
    scans: ScanProgress = field(default_factory=ScanProgress)


@dataclass(frozen=True)
class Preparing:
    """Reads and prepares documents under the settings of a project; picklable.

    Attributes:
        root: Folder of the project.
        chunk: How documents are cut.
        embed: The embedding model and its options.
        models: Settings of models, by name.
        local: True if workers embed, with the model of ``embed``.
        path: Folders that custom code is imported from.
        plugins: Folder that modules named in the settings are imported from; may be empty.
        spec: Index spec that the documents are prepared for.
        sources: Each source with the recipe of its readers.
        known: The stored documents, from :func:`pack_known`.
    """

    root: Path
    chunk: ChunkOptions
    embed: EmbedOptions
    models: Mapping[str, ModelSettings]
    local: bool
    path: tuple[str, ...]
    plugins: str
    spec: IndexSpec
    sources: tuple[tuple[str, Recipe | None], ...]
    known: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    advice: ClassVar[str] = "let fewer tasks run on a node (ray start --num-cpus)"

    @cached_property
    def _tools(self) -> _Tools:
        """Chunker, analyzer and model, as the settings name them, for all tasks of this process."""
        if not self.root.exists():
            raise EngineError(
                f"a worker does not see {self.root}",
                where=_this_node(),
                hint="keep the project on storage that every node mounts at the same path",
            )
        sys.path += [folder for folder in self.path if folder not in sys.path]
        import_plugins_from(self.plugins)
        try:
            return self._open_tools()
        except EngineError:
            raise
        except RagwrightError as error:
            model = self.embed.model
            fault = f"the model {model}" if model else "the project"
            where = f": {error.where}" if error.where else ""
            raise EngineError(
                f"{fault} cannot be opened on a worker: {error.what}{where}",
                where=_this_node(),
                hint=f"{error.hint or 'install the same packages on every node'}; files of "
                "models and custom code have to be under the same path on every node",
            ) from error

    def _open_tools(self) -> _Tools:
        spec, model = self.spec, self.embed.model
        models = Models(self.models, self.embed, self.root)
        own = models.tokenizer(model) if model else None
        chunker = make_chunker(self.chunk, own or WordTokenizer())
        if chunker.spec != spec.chunker.partition("; read by ")[0]:
            raise _different_here("chunks are cut as", chunker.spec, spec.chunker)
        runner = None
        if self.local:
            identity = models.embedder_identity(model)
            if identity != spec.embedder:
                raise _different_here(
                    f"the files of the model {model} are", identity, spec.embedder
                )
            runner = Runner({Embed: model_handlers(models)[Embed]}, RunnerOptions(reuse=False))
        pool = ExitStack()
        pool.enter_context(workers())
        return _Tools(chunker, default_analyzer(spec.analyzer), runner, pool)

    def __call__(self, task: SourceTask) -> PreparedPart:
        """Read the items of a task, and prepare documents that are not stored yet."""
        tools = self._tools
        prepared = Prepared([])
        read = []
        for item in task.items:
            reports = (
                self._report_on(document, prepared)
                for document in self._documents_of(task.feed, item)
            )
            read.append(tuple(reports))
        return PreparedPart(tuple(read), tools.scans.taken(), self._with_vectors(prepared))

    def _documents_of(self, feed: int, item: Item) -> Iterator[Document | Failure]:
        """The documents of an item."""
        if isinstance(item, Document | Failure):
            yield item
            return
        reader = self._reader_of(feed)
        recipe = self.sources[feed][1]
        assert recipe is not None, "the driver reads sources without one"
        yield from recipe.labelled(catch_failures(reader.read_file(item), str(item), reader))

    def _reader_of(self, feed: int) -> Reader:
        """The reader of a source, made once."""
        tools = self._tools
        if feed not in tools.readers:
            source, recipe = self.sources[feed]
            assert recipe is not None, "the driver reads sources without one"
            tools.readers[feed] = pick_reader(source, recipe.readers(tools.scans))
        return tools.readers[feed]

    def _report_on(self, item: Document | Failure, prepared: Prepared) -> ReadDocument | Failure:
        """The worker's report on a document to the driver; a new one is cut and tokenised."""
        tools = self._tools
        if isinstance(item, Failure):
            return _sendable_failure(item)
        report = ReadDocument(item.id, item.source, item.content_hash())
        if is_known(self.known, item.id, report.hash):
            return report
        cut = cut_document(tools.chunker, item)
        if isinstance(cut, Failure):
            return replace(report, failure=_sendable_failure(cut))
        terms = pack_chunk_terms(tools.analyzer, IndexedDocument(item, cut))
        prepared.documents.append((item, cut, terms))
        return replace(report, place=len(prepared.documents) - 1)

    def _with_vectors(self, prepared: Prepared) -> Prepared:
        """The same with the vectors of a local model."""
        tools = self._tools
        if tools.runner is None or not prepared.documents:
            return prepared
        texts = {
            chunk_key(chunk, document.title): write_embedded_text(chunk, document.title)
            for document, cut, _ in prepared.documents
            for chunk in cut
        }
        flow = embed_missing(
            Batch("", missing=texts), self.embed.model, local=True, done=_ignore_progress
        )
        batch = tools.runner.run(flow)
        return Prepared(prepared.documents, batch.vectors, batch.refused)


def _ignore_progress(texts: int) -> None:
    """Progress of a worker is that of its whole tasks."""


def _sendable_failure(failure: Failure) -> Failure:
    """The failure, with an error that another process can load."""
    try:
        pickle.loads(pickle.dumps(failure))  # noqa: S301 - our own, of just now
        return failure
    except Exception:
        error = failure.error
        return replace(failure, error=SourceError(error.what, where=error.where, hint=error.hint))


def _this_node() -> str:
    return f"node {socket.gethostname()}"


def _different_here(subject: str, here: str, there: str) -> EngineError:
    return EngineError(
        f"{subject} {here} on a worker, but {there} where the ingest was started",
        where=_this_node(),
        hint="install the same packages and the same files of models on every node",
    )
