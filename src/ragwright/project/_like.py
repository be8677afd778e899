"""Builds an index for other settings from the stored documents."""

from __future__ import annotations

from collections.abc import Iterator

from ..core import Document, SourceError
from ..index import IndexSpec, Store
from ..ingest import Failure, FetchBytes, Fetched, Reader
from ._ingesting import read_sources_again
from ._make_ingest import make_ingest
from ._project import Project
from .building import Feed, Ingest, IngestReport


class StoredDocuments(Reader):
    """Reads the documents that a store holds under one pair, by the source they came from.

    ``only`` names those that are read; None for all.
    """

    name = "store"

    def __init__(self, store: Store, pair: IndexSpec, only: frozenset[str] | None = None) -> None:
        self._store = store
        self._pair = pair
        self._hashes = store.content_hashes(pair)
        self._by_source: dict[str, list[str]] = {}
        for name, source in sorted(store.sources(pair).items()):
            if only is None or name in only:
                self._by_source.setdefault(source, []).append(name)

    @property
    def sources(self) -> list[str]:
        """Sources the documents came from."""
        return sorted(self._by_source)

    def accepts(self, source: str) -> bool:
        """True for the sources of the pair."""
        return source in self._by_source

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        """Documents from a source, by id."""
        for name in self._by_source[source]:
            document = self._store.document(name)
            if document is None or document.content_hash() != self._hashes[name]:
                # Another pair has another version of it.
                document = next(d for d in self._store.documents(self._pair) if d.id == name)
            yield document


def build_like(project: Project, other: Project) -> IngestReport | None:
    """Update the index of a project to the documents of another's; None if it is up to date.

    No source is read: documents come from the store, and texts with stored vectors are not embedded
    again. Documents that the other project no longer has are removed. With another parser
    (``ingest.parser``) the sources of the project file are read, unchanged files once.

    Raises:
        ConfigError: The parser differs, and the project file lists no sources.
        ModelError: The embedding model fails; what was written before stays.
    """
    store, pair = project.store, project.settled_spec()
    if pair == other.pair:
        return None
    if project.settings.ingest.parser != other.settings.ingest.parser:
        return read_sources_again(project)
    if other.store.content_hashes(other.pair) == store.content_hashes(pair):
        return None
    reader = StoredDocuments(other.store, other.pair)
    feeds = [Feed(source, (reader,)) for source in reader.sources]
    report = make_ingest(project, Ingest).run(feeds, unfetched, prune=True)
    if report.failures:
        raise report.failures[0].error
    return report


def unfetched(address: str) -> Fetched:
    """Raises: stored documents are not fetched."""
    raise SourceError("a stored document is not fetched", where=address)
