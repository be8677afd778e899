"""The conformance suite of chunkers: what a custom chunker must do."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ..core import Document, Page, Section, Span
from ..ingest import Chunker, check_spans

_ALPHABET = (
    "a", "b", "Z", "7", "é", "ß", "漢", "字", "。", "🙂", "👩‍🔬", "e\u0301", "\u00a0", "\u200d",
    " ", " ", " ", "  ", "\n", "\n", "\n\n", "\n \n", "\t", "\f", ".", ". ", "? ", "!", ",",
    "(", ")", "'", '"', "-", "_", "APP_w304", "C2065", "word", "mot ", "l'eau ", "# ", "|",
)  # fmt: skip
"""Pieces that random texts are made of: the borders, scripts and marks that chunkers meet."""


class ChunkerSuite:
    """Tests that every chunker passes; subclass it and offer one fixture.

    .. code-block:: python

        class TestMine(ChunkerSuite):
            @pytest.fixture
            def chunker(self) -> Chunker:
                return MyChunker()
    """

    @pytest.fixture
    def chunker(self) -> Chunker:
        """The chunker under test."""
        raise NotImplementedError("offer a fixture named chunker")

    def test_spans_cover_random_texts_and_join_to_them(self, chunker: Chunker) -> None:
        """Spans are sorted, not empty, without gaps; joined without overlaps they are the text."""
        for document in map(random_document, range(50)):
            spans = chunker.cut(document)
            check_spans(document, spans)
            assert join_pieces(document.text, spans) == document.text, document.id

    def test_odd_texts_are_covered(self, chunker: Chunker) -> None:
        """White space, marks and single characters belong to some span as well."""
        for text in (" ", "\n", "x", "\n\n \n", "...", "a\n\n\nb", "é" * 300):
            document = Document(id=f"odd {text!r}", source="odd", text=text)
            check_spans(document, chunker.cut(document))

    def test_an_empty_text_has_no_span(self, chunker: Chunker) -> None:
        """An empty text has no chunks."""
        assert list(chunker.cut(Document(id="empty", source="empty", text=""))) == []

    def test_cutting_twice_gives_the_same(self, chunker: Chunker) -> None:
        """Cutting twice gives the same spans, because a chunk's id is its place."""
        for document in map(random_document, range(5)):
            assert chunker.cut(document) == chunker.cut(document)

    def test_chunks_are_their_spans(self, chunker: Chunker) -> None:
        """Text, order, ids and counts of the chunks follow from the spans."""
        document = random_document(0)
        chunks = chunker.chunks(document)
        assert [chunk.span for chunk in chunks] == list(chunker.cut(document))
        assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
        assert len({chunk.id for chunk in chunks}) == len(chunks)
        for chunk in chunks:
            assert chunk.text == document.text[chunk.span.start : chunk.span.end]
            assert chunk.document_id == document.id
            assert chunk.tokens >= 0

    def test_it_says_what_it_does(self, chunker: Chunker) -> None:
        """The spec is part of the index's identity."""
        assert isinstance(chunker.spec, str)
        assert chunker.spec.strip()


def join_pieces(text: str, spans: list[Span]) -> str:
    """The text joined from its pieces again, with overlaps taken once."""
    parts, end = [], 0
    for span in spans:
        parts.append(text[max(span.start, end) : span.end])
        end = max(end, span.end)
    return "".join(parts)


def random_document(seed: int) -> Document:
    """A document of random unicode with pages and nested sections, by seed."""
    draw = random.Random(seed)  # noqa: S311 - repeatable texts, no secrets
    text = "".join(draw.choices(_ALPHABET, k=draw.randint(1, 600)))
    size = len(text)
    borders = sorted({0, size, *(draw.randrange(size) for _ in range(draw.randrange(5)))})
    pairs = list(pairwise(borders))
    pages = tuple(Page(n, Span(a, b)) for n, (a, b) in enumerate(pairs, 1))
    sections = tuple(
        Section(f"Part {n}", 1 + n % 2, Span(a, b)) for n, (a, b) in enumerate(pairs[1:], 1)
    )
    return Document(id=f"random-{seed}", source="", text=text, pages=pages, sections=sections)
