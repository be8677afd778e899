"""Heads: what a chunk stands under, so that it is searched with it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..core import Chunk, Document, Head, Span
from ..models import Tokenizer
from ._chunks import first_character
from ._options import HeadOptions
from ._seams import Chunker

_TABLE = re.compile(
    r"^[ ]{0,3}\|(?P<header>[^\n]*)\n"  # the header row, the rule below it, the rows
    r"[ ]{0,3}\|[ \t:|-]*-[ \t:|-]*(?:\n[ ]{0,3}\|[^\n]*)*",
    re.MULTILINE,
)


class HeadedChunker(Chunker):
    """Cuts as another chunker does, and gives each chunk its head.

    The sentence of ``head.model`` is not written here: it costs a call per chunk.

    Args:
        chunker: Cuts the documents.
        options: Pieces of the head.
        tokenizer: Counts the tokens of heads.
    """

    def __init__(self, chunker: Chunker, options: HeadOptions, tokenizer: Tokenizer) -> None:
        self.chunker = chunker
        self.options = options
        self.tokenizer = tokenizer
        self.spec = f"{chunker.spec}{options.spec}"

    def cut(self, document: Document) -> list[Span]:
        """Cut a document into spans; see the chunker."""
        return self.chunker.cut(document)

    def count(self, text: str) -> int:
        """Count the tokens of a piece."""
        return self.chunker.count(text)

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks, each with its head."""
        chunks = self.chunker.chunks(document)
        tables = list(_tables(document.text)) if self.options.table_header else []
        starts = [span.start for span, _ in tables]
        title = document.title.strip() if self.options.title else ""
        return tuple(self._headed(chunk, title, tables, starts) for chunk in chunks)

    def _headed(
        self, chunk: Chunk, title: str, tables: Sequence[tuple[Span, str]], starts: Sequence[int]
    ) -> Chunk:
        table = ""
        if tables:
            begins = first_character(chunk.text, chunk.span.start)
            at = bisect_right(starts, begins) - 1
            if at >= 0 and starts[at] < begins < tables[at][0].end:
                table = tables[at][1]
        headings = chunk.headings if self.options.headings else ()
        head = self._bounded(Head(title, headings, table))
        plain = self.options.title and not chunk.headings and head == Head(title)
        return chunk if plain else replace(chunk, head=head)

    def _bounded(self, head: Head) -> Head:
        """The head within ``head.max_tokens``: title first, then the innermost headings."""
        most = self.options.max_tokens
        if len(head.title) + sum(map(len, head.headings)) + len(head.table) <= most:
            return head
        title, left = self._start(head.title, most)
        headings: list[str] = []
        for name in reversed(head.headings):
            if left > 0:
                kept, left = self._start(name, left)
                headings.insert(0, kept)
        table, left = self._start(head.table, left)
        return Head(title, tuple(headings), table, head.context)

    def _start(self, text: str, most: int) -> tuple[str, int]:
        """The first tokens of a text, at most so many, and how many more there may be."""
        if not text or most <= 0:
            return "", max(most, 0)
        spans = self.tokenizer.spans(text)
        if len(spans) <= most:
            return text, most - len(spans)
        return text[: spans[most - 1].end], 0


def _tables(text: str) -> Iterator[tuple[Span, str]]:
    """Span of each Markdown table, and its header row without bars."""
    for match in _TABLE.finditer(text) if "|" in text else ():
        cells = [cell.strip() for cell in match["header"].strip().strip("|").split("|")]
        yield Span(*match.span()), " | ".join(cell for cell in cells if cell)
