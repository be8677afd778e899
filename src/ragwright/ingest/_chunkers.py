"""Chunkers: seven ways to cut a document into spans, all at token borders; and heads of chunks."""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..core import (
    Chunk,
    ChunkError,
    Document,
    Head,
    PluginError,
    Span,
    canonical_json,
    load_addition,
)
from ..models import Tokenizer
from ._borders import paragraph_borders, sentence_borders
from ._chunks import first_character, make_chunks
from ._options import ChunkOptions, HeadOptions
from ._seams import Chunker
from ._token_map import TokenMap, Window

_LETTERS_PER_TOKEN = 20
"""A chunk of ``size`` tokens has at most so many characters for each; prose has four to seven."""

_RULES = 2
"""Part of every ``spec``; incremented when chunks are cut in another way."""

_TABLE = re.compile(
    r"^[ ]{0,3}\|(?P<header>[^\n]*)\n"  # the header row, the rule below it, the rows
    r"[ ]{0,3}\|[ \t:|-]*-[ \t:|-]*(?:\n[ ]{0,3}\|[^\n]*)*",
    re.MULTILINE,
)


class TokenChunker(Chunker):
    """Cuts into windows of tokens; the base of the other chunkers of this file.

    Args:
        options: Settings; ``by`` is not read here.
        tokenizer: Counts tokens: the embedder's own, or the keyword analyzer's words.
    """

    reads: tuple[str, ...] = ("size", "overlap", "slack")

    def __init__(self, options: ChunkOptions, tokenizer: Tokenizer) -> None:
        self.options = options
        self.tokenizer = tokenizer
        settings = {name: getattr(options, name) for name in self.reads}
        values = ", ".join(f"{name}={canonical_json(v)}" for name, v in settings.items())
        self.spec = f"{options.by}/{_RULES}({values}) in {tokenizer.name or 'tokens'}"

    def cut(self, document: Document) -> list[Span]:
        """Cut a document into spans; see the class."""
        return self._spans(document, TokenMap.of(document.text, self.tokenizer))

    def count(self, text: str) -> int:
        """Count the tokens of a piece, out of its context."""
        return self.tokenizer.count(text)

    def chunks(self, document: Document) -> tuple[Chunk, ...]:
        """Cut a document into chunks; tokens are counted in the document, in one pass."""
        tokens = TokenMap.of(document.text, self.tokenizer)
        spans = self._spans(document, tokens)
        return make_chunks(document, spans, map(tokens.count, spans))

    def _spans(self, document: Document, tokens: TokenMap) -> list[Span]:
        if not document.text:
            return []
        spans = _without_hollow(self.pieces(document, tokens), tokens)
        return list(_bounded(spans, document.text, self.most)) if self.most else spans

    @property
    def most(self) -> int:
        """Most characters of a chunk; 0 for any number."""
        return _LETTERS_PER_TOKEN * self.options.size

    def pieces(self, document: Document, tokens: TokenMap) -> list[Span]:
        """Cut a text that is not empty into spans that cover it."""
        return tokens.windows(Span(0, len(document.text)), self.window(document))

    def window(self, document: Document) -> Window:
        """Return the sizes of the windows for a document."""
        options = self.options
        return Window(options.size, options.overlap, options.slack, document.language)


class UnitChunker(TokenChunker):
    """Packs whole units of the text up to the size; a unit longer than that becomes windows."""

    @abstractmethod
    def borders(self, text: str, language: str) -> Iterable[int]:
        """Find the characters at which units other than the first begin."""

    def pieces(self, document: Document, tokens: TokenMap) -> list[Span]:
        """Pack the units of the whole text."""
        return self.packed(document, tokens, Span(0, len(document.text)))

    def packed(self, document: Document, tokens: TokenMap, span: Span) -> list[Span]:
        """Pack the units of a part of the text; its ends must split no token."""
        part = document.text[span.start : span.end]
        inner = (span.start + at for at in self.borders(part, document.language))
        units = _units(tokens, span, inner)
        before = np.searchsorted(tokens.starts, np.asarray(units)).tolist()
        return _pack(units, before, self.window(document), tokens)


class ParagraphChunker(UnitChunker):
    """Packs paragraphs: runs of lines between blank lines."""

    def borders(self, text: str, language: str) -> Iterable[int]:
        """Find the ends of blank lines."""
        return paragraph_borders(text)


class SentenceChunker(UnitChunker):
    """Packs sentences; a blank line ends one as well."""

    def borders(self, text: str, language: str) -> Iterable[int]:
        """Find the first characters of sentences and of paragraphs."""
        return [*paragraph_borders(text), *sentence_borders(text, language)]


class PartChunker(ParagraphChunker):
    """Cuts at the document's own borders; without any, by paragraphs."""

    @abstractmethod
    def parts(self, document: Document) -> list[int]:
        """Find the positions at which the document's parts begin."""

    def divides(self) -> bool:
        """Return True if a part longer than the size is cut."""
        return self.options.subdivide

    def pieces(self, document: Document, tokens: TokenMap) -> list[Span]:
        """Return the parts, whole or cut into packed paragraphs."""
        whole = Span(0, len(document.text))
        parts = self.parts(document)
        if not parts:
            return self.packed(document, tokens, whole)
        units = _units(tokens, whole, parts)
        spans: list[Span] = []
        for start, end in pairwise(units):
            part = Span(start, end)
            if self.divides() and tokens.count(part) > self.options.size:
                spans += self.packed(document, tokens, part)
            else:
                spans.append(part)
        return spans


class HeadingChunker(PartChunker):
    """One chunk per section; one longer than the size is cut by paragraphs.

    A heading whose next line is another heading joins the section that follows.
    """

    def divides(self) -> bool:
        """Return True: sections can have any length."""
        return True

    def parts(self, document: Document) -> list[int]:
        """Find the starts of sections, except those that directly follow a heading."""
        starts = sorted({section.span.start for section in document.sections})
        return [
            start
            for last, start in zip([None, *starts], starts, strict=False)
            if last is None or "\n" in document.text[last:start].strip()
        ]


class PageChunker(PartChunker):
    """One chunk per page, however long, unless ``subdivide`` is on."""

    reads = ("subdivide", "size", "overlap", "slack")

    @property
    def most(self) -> int:
        """Most characters of a page that is cut."""
        return super().most if self.options.subdivide else 0

    def parts(self, document: Document) -> list[int]:
        """Find the starts of pages."""
        return [page.span.start for page in document.pages]


class EntryChunker(PartChunker):
    """One chunk from each match of the pattern to the next, unless ``subdivide`` is on."""

    reads = ("pattern", "subdivide", "size", "overlap", "slack")

    def __init__(self, options: ChunkOptions, tokenizer: Tokenizer) -> None:
        super().__init__(options, tokenizer)
        self._pattern = options.entry_pattern()

    @property
    def most(self) -> int:
        """Most characters of an entry that is cut."""
        return super().most if self.options.subdivide else 0

    def parts(self, document: Document) -> list[int]:
        """Find the starts of matches.

        Raises:
            ChunkError: The pattern took longer than `chunk.pattern_seconds` on this document.
        """
        seconds = self.options.pattern_seconds
        try:
            matches = self._pattern.finditer(document.text, timeout=seconds)
            return [match.start() for match in matches]
        except TimeoutError as error:
            raise ChunkError(
                f"chunk.pattern {self.options.pattern!r} took longer than {seconds:g} s: it "
                "backtracks",
                where=document.id,
                hint="avoid a loop within a loop, such as (a+)+; "
                "chunk.pattern_seconds allows more time",
            ) from error


class WholeChunker(TokenChunker):
    """One chunk per document."""

    reads = ()
    most = 0

    def pieces(self, document: Document, tokens: TokenMap) -> list[Span]:
        """Return the whole text as one span."""
        return [Span(0, len(document.text))]


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
        return Head(title, tuple(headings), table)

    def _start(self, text: str, most: int) -> tuple[str, int]:
        """The first tokens of a text, at most so many, and how many more there may be."""
        if not text or most <= 0:
            return "", max(most, 0)
        spans = self.tokenizer.spans(text)
        if len(spans) <= most:
            return text, most - len(spans)
        return text[: spans[most - 1].end], 0


_KINDS: dict[str, Callable[[ChunkOptions, Tokenizer], Chunker]] = {
    "tokens": TokenChunker,
    "paragraphs": ParagraphChunker,
    "sentences": SentenceChunker,
    "headings": HeadingChunker,
    "page": PageChunker,
    "entries": EntryChunker,
    "whole": WholeChunker,
}


def make_chunker(options: ChunkOptions, tokenizer: Tokenizer) -> Chunker:
    """Create the chunker that a project's settings name; its chunks have heads.

    Args:
        options: Settings of the section ``chunk``.
        tokenizer: Counts the tokens of sizes.

    Raises:
        PluginError: ``module:object`` cannot be loaded, or makes no `Chunker`.
    """
    return HeadedChunker(_cutter(options, tokenizer), options.head, tokenizer)


def _cutter(options: ChunkOptions, tokenizer: Tokenizer) -> Chunker:
    """The chunker without heads."""
    kind = _KINDS.get(options.by)
    if kind is not None:
        return kind(options, tokenizer)
    chunker = load_addition("chunkers", options.by, where="chunk.by")
    if callable(chunker) and not isinstance(chunker, Chunker):
        try:
            takes_nothing = not inspect.signature(chunker).parameters
            chunker = chunker() if takes_nothing else chunker(options, tokenizer)
        except Exception as error:
            raise PluginError(
                f"{options.by!r} cannot be made from (options, tokenizer): {error}",
                where="chunk.by",
            ) from error
    if not isinstance(chunker, Chunker) or not getattr(chunker, "spec", ""):
        raise PluginError(
            f"{options.by!r} is not a chunker with a spec",
            where="chunk.by",
            hint="subclass ragwright.ingest.Chunker and set spec; test it with ChunkerSuite",
        )
    return chunker


def _units(tokens: TokenMap, span: Span, inner: Iterable[int]) -> list[int]:
    """Return the ends of a span and the borders in it that split no token, ascending."""
    positions = np.fromiter(inner, np.int64)
    inside = positions[(positions > span.start) & (positions < span.end)]
    return [span.start, *tokens.free_of(inside).tolist(), span.end]


def _pack(
    units: Sequence[int], before: Sequence[int], window: Window, tokens: TokenMap
) -> list[Span]:
    """Pack units greedily.

    Args:
        units: Borders; unit ``i`` is ``units[i]`` to ``units[i + 1]``.
        before: Tokens in front of each border.
        window: Size and overlap.
        tokens: For units longer than the size.
    """
    spans: list[Span] = []
    first = done = 0
    last = len(units) - 1
    while done < last:
        end = bisect_right(before, before[first] + window.size, first, last + 1) - 1
        if end <= first:  # then nothing overlaps: first is done
            spans += tokens.windows(Span(units[first], units[first + 1]), window)
            first = done = first + 1
            continue
        spans.append(Span(units[first], units[end]))
        done = end
        first = _overlap_start(before, first, end, window) if end < last else end
    return spans


def _overlap_start(before: Sequence[int], first: int, end: int, window: Window) -> int:
    """Find the first unit of the next chunk: some overlap, and room for at least one new unit."""
    start = end
    room = window.size - (before[end + 1] - before[end])
    most = min(window.overlap, room)
    while start - 1 > first and before[end] - before[start - 1] <= most:
        start -= 1
    return start


def _without_hollow(spans: list[Span], tokens: TokenMap) -> list[Span]:
    """Join each span without tokens to the span before it (the first: to the next)."""
    kept: list[Span] = []
    for span in spans:
        if kept and (tokens.count(span) == 0 or tokens.count(kept[0]) == 0):
            kept[-1] = Span(kept[-1].start, max(span.end, kept[-1].end))
        else:
            kept.append(span)
    return kept


def _bounded(spans: Iterable[Span], text: str, most: int) -> Iterator[Span]:
    """Cut spans of too many characters, in front of a word where there is one.

    A text without words, such as a dump of bytes, is one token however long it is. Where the next
    span overlaps more than the last piece, it begins where that piece ends.
    """
    start = end = -1
    for span in spans:
        start = span.start if span.start > start else end
        while span.end - start > most:
            cut = text.rfind(" ", start + most // 2, start + most) + 1 or start + most
            yield Span(start, cut)
            start = cut
        end = span.end
        yield Span(start, end)


def _tables(text: str) -> Iterator[tuple[Span, str]]:
    """Span of each Markdown table, and its header row without bars."""
    for match in _TABLE.finditer(text) if "|" in text else ():
        cells = [cell.strip() for cell in match["header"].strip().strip("|").split("|")]
        yield Span(*match.span()), " | ".join(cell for cell in cells if cell)
