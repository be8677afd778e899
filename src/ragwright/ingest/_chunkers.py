"""Chunkers: seven ways to cut a document into spans, all at token borders; and heads of chunks."""

from __future__ import annotations

import inspect
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

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
from ._options import KINDS, ChunkOptions, HeadOptions
from ._seams import Chunker, find_first_character, make_chunks
from ._token_map import TokenMap, paragraph_borders, sentence_borders

_LETTERS_PER_TOKEN = 20
"""A chunk of ``size`` tokens has at most so many characters for each; prose has four to seven."""

_RULES = 2
"""Part of every ``spec``; incremented when chunks are cut in another way."""

_PATTERN_SECONDS = 10
"""Processor time that ``chunk.pattern`` may take on one document."""

_TABLE = re.compile(
    r"^[ ]{0,3}\|(?P<header>[^\n]*)\n"  # the header row, the rule below it, the rows
    r"[ ]{0,3}\|[ \t:|-]*-[ \t:|-]*(?:\n[ ]{0,3}\|[^\n]*)*",
    re.MULTILINE,
)


_SIZES = ("size", "overlap", "slack")
_READS = {
    "page": _SIZES,
    "entries": ("pattern", *_SIZES),
    "whole": (),
}
"""Unit -> the settings that its cutting depends on; the others depend on the sizes."""


class UnitChunker(Chunker):
    """Cuts by one of the seven units.

    Windows of tokens; paragraphs or sentences, packed up to the size; or parts of the document
    (sections, pages, entries), of which those that are cut become packed paragraphs. A document
    without parts is cut by paragraphs.

    Args:
        options: Settings.
        tokenizer: Counts tokens: the embedder's own, or the keyword analyzer's words.
    """

    def __init__(self, options: ChunkOptions, tokenizer: Tokenizer) -> None:
        self.options = options
        self.tokenizer = tokenizer
        values = ", ".join(
            f"{name}={canonical_json(getattr(options, name))}"
            for name in _READS.get(options.by, _SIZES)
        )
        self.spec = f"{options.by}/{_RULES}({values}) in {tokenizer.name or 'tokens'}"
        self._divides = options.by not in _READS

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
        spans = _without_hollow(self._pieces(document, tokens), tokens)
        most = _LETTERS_PER_TOKEN * self.options.size
        return list(_bounded(spans, document.text, most)) if self._divides else spans

    def _pieces(self, document: Document, tokens: TokenMap) -> list[Span]:
        """Cut a text that is not empty into spans that cover it."""
        whole = Span(0, len(document.text))
        if self.options.by == "whole":
            return [whole]
        if self.options.by == "tokens":
            return tokens.windows(whole, self.options, document.language)
        starts = self._starts(document)
        if not starts:
            return self._pack(document, tokens, whole)
        spans: list[Span] = []
        for part in map(Span, *_ends(tokens, whole, starts)):
            long = self._divides and tokens.count(part) > self.options.size
            spans += self._pack(document, tokens, part) if long else [part]
        return spans

    def _starts(self, document: Document) -> list[int]:
        """Find the positions at which the document's parts begin.

        A heading whose next line is another heading joins the section that follows.

        Raises:
            ChunkError: The pattern took longer than 10 s on this document.
        """
        if self.options.by == "page":
            return [page.span.start for page in document.pages]
        if self.options.by == "headings":
            starts = sorted({section.span.start for section in document.sections})
            return [
                start
                for last, start in zip([None, *starts], starts, strict=False)
                if last is None or "\n" in document.text[last:start].strip()
            ]
        if self.options.by != "entries":
            return []
        try:
            matches = self.options.entry_pattern().finditer(document.text, timeout=_PATTERN_SECONDS)
            return [match.start() for match in matches]
        except TimeoutError as error:
            raise ChunkError(
                f"chunk.pattern {self.options.pattern!r} took longer than {_PATTERN_SECONDS} s: it "
                "backtracks",
                where=document.id,
                hint="avoid a loop within a loop, such as (a+)+",
            ) from error

    def _pack(self, document: Document, tokens: TokenMap, span: Span) -> list[Span]:
        """Pack the units of a part of the text greedily; a unit longer than that becomes windows.

        The ends of the part must split no token.
        """
        part = document.text[span.start : span.end]
        borders = [*paragraph_borders(part)]
        if self.options.by == "sentences":
            borders += sentence_borders(part, document.language)
        units, ends = _ends(tokens, span, [span.start + at for at in borders])
        units.append(ends[-1])
        before = [*map(tokens.before, units)]
        size, spans = self.options.size, []
        first = done = 0
        last = len(units) - 1
        while done < last:
            end = bisect_right(before, before[first] + size, first, last + 1) - 1
            if end <= first:  # then nothing overlaps: first is done
                unit = Span(units[first], units[first + 1])
                spans += tokens.windows(unit, self.options, document.language)
                first = done = first + 1
                continue
            spans.append(Span(units[first], units[end]))
            done = end
            first = self._overlap_start(before, first, end) if end < last else end
        return spans

    def _overlap_start(self, before: Sequence[int], first: int, end: int) -> int:
        """Find the first unit of the next chunk: some overlap, and room for a new unit."""
        start = end
        room = self.options.size - (before[end + 1] - before[end])
        most = min(self.options.overlap, room)
        while start - 1 > first and before[end] - before[start - 1] <= most:
            start -= 1
        return start


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
            begins = find_first_character(chunk.text, chunk.span.start)
            at = bisect_right(starts, begins) - 1
            if at >= 0 and starts[at] < begins < tables[at][0].end:
                table = tables[at][1]
        headings = chunk.headings if self.options.headings else ()
        head = self._bounded(Head(title, headings, table))
        plain = self.options.title and not chunk.headings and head == Head(title)
        return chunk if plain else replace(chunk, head=head)

    def _bounded(self, head: Head) -> Head:
        """The head within its bound: title first, then the innermost headings."""
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
    if options.by in KINDS:
        return UnitChunker(options, tokenizer)
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


def _ends(tokens: TokenMap, span: Span, inner: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return where pieces of a span begin and end: at the borders in it that split no token."""
    positions = np.asarray(inner, np.int64)
    inside = positions[(positions > span.start) & (positions < span.end)]
    borders = tokens.free_of(inside).tolist()
    return [span.start, *borders], [*borders, span.end]


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
