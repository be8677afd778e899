"""The conformance suite of readers: what a custom reader must do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..core import Document, RagwrightError, SourceError
from ..ingest import Failure, FetchBytes, Fetched, Reader, SuffixReader, catch_failures, normalise


class ReaderSuite:
    """Tests that every reader passes; subclass it and offer the fixtures.

    ``reader`` and ``source`` (something it can read) are needed. ``missing`` is a source of
    its kind that does not exist; ``fetch`` answers for the network, by default with an error.

    .. code-block:: python

        class TestMine(ReaderSuite):
            @pytest.fixture
            def reader(self) -> Reader:
                return ChatLogReader()

            @pytest.fixture
            def source(self, tmp_path: Path) -> str:
                (tmp_path / "a.log").write_text("09:00 Ann: Hello")
                return f"chatlog:{tmp_path}"
    """

    @pytest.fixture
    def reader(self) -> Reader:
        """The reader under test."""
        raise NotImplementedError("offer a fixture named reader")

    @pytest.fixture
    def source(self) -> str:
        """A source that holds at least one document."""
        raise NotImplementedError("offer a fixture named source")

    @pytest.fixture
    def missing(self) -> str:
        """A source of the reader's kind that does not exist."""
        pytest.skip("no fixture named missing")

    @pytest.fixture
    def fetch(self) -> FetchBytes:
        """The network."""

        def offline(url: str) -> Fetched:
            raise SourceError("the test offers no network", where=url)

        return offline

    @pytest.fixture
    def documents(self, reader: Reader, source: str, fetch: FetchBytes) -> list[Document]:
        """What the source holds."""
        return [item for item in reader.read(source, fetch) if isinstance(item, Document)]

    def test_it_accepts_its_source(self, reader: Reader, source: str) -> None:
        """A reader decides by the address alone, and always the same; one of a suffix by that."""
        if isinstance(reader, SuffixReader):
            assert Path(source).suffix.lower() in reader.suffixes
            assert all(suffix == suffix.lower() and suffix[0] == "." for suffix in reader.suffixes)
        accepted = not isinstance(reader, SuffixReader)
        assert reader.accepts(source) is accepted
        assert reader.accepts(source) is accepted

    def test_it_has_a_name(self, reader: Reader) -> None:
        """A reader has a name, for messages and reports."""
        assert reader.name

    def test_items_come_one_by_one(self, reader: Reader, source: str, fetch: FetchBytes) -> None:
        """A reader returns an iterator of documents and failures."""
        items = reader.read(source, fetch)
        assert isinstance(items, Iterator)
        for item in items:
            assert isinstance(item, Document | Failure)

    def test_documents_hold_normalised_text(self, documents: list[Document]) -> None:
        """Spans point into the normalised text; a document without text is a failure."""
        assert documents
        for document in documents:
            assert document.text.strip()
            assert normalise(document.text) == document.text
            assert document.source

    def test_ids_are_stable_and_each_its_own(
        self, reader: Reader, source: str, fetch: FetchBytes, documents: list[Document]
    ) -> None:
        """Reading again finds the same documents: nothing unchanged is embedded twice."""
        ids = [document.id for document in documents]
        assert all(ids)
        assert len(set(ids)) == len(ids)
        again = [item for item in reader.read(source, fetch) if isinstance(item, Document)]
        assert [d.id for d in again] == ids
        assert [d.content_hash() for d in again] == [d.content_hash() for d in documents]

    def test_pages_and_sections_lie_in_the_text(self, documents: list[Document]) -> None:
        """Pages are in ascending order, each with a span inside the text."""
        for document in documents:
            size = len(document.text)
            starts = [page.span.start for page in document.pages]
            assert starts == sorted(starts)
            numbers = [page.number for page in document.pages]
            assert numbers == sorted(set(numbers))
            heads = [section.span.start for section in document.sections]
            assert heads == sorted(heads)
            for span in [p.span for p in document.pages] + [s.span for s in document.sections]:
                assert 0 <= span.start <= span.end <= size
            assert all(section.level >= 1 and section.title for section in document.sections)

    def test_metadata_is_what_filters_can_use(self, documents: list[Document]) -> None:
        """Metadata are scalars and tuples of strings."""
        for document in documents:
            for name, value in document.metadata.items():
                assert isinstance(name, str)
                if isinstance(value, tuple):
                    assert all(isinstance(part, str) for part in value)
                else:
                    assert isinstance(value, str | int | float | bool)

    def test_what_is_missing_is_a_failure_and_no_exception(
        self, reader: Reader, missing: str, fetch: FetchBytes
    ) -> None:
        """A missing source is a failure, or an error that becomes one; the others are read."""
        items = list(catch_failures(reader.read(missing, fetch), missing, reader))
        assert items
        for item in items:
            assert isinstance(item, Failure)
            assert isinstance(item.error, RagwrightError)
            assert "this is a fault of the reader" not in str(item.error)
