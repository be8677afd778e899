"""Statistics of a collection: rarity of words, and repeated text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ...core import Span, case_folded, text_hash
from ...models import TokenSource, sentence_spans

_FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)


class Vocabulary:
    """The number of chunks with each token.

    Args:
        source: Cuts text into tokens, as the keyword index does.
    """

    def __init__(self, source: TokenSource) -> None:
        self.source = source
        self.chunks = 0
        self._holding: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Count a chunk."""
        self.chunks += 1
        self._holding.update(set(self.source.tokens(text)))

    def holding(self, token: str) -> int:
        """Return the number of chunks that hold a token."""
        return self._holding[token]

    def idf(self, token: str) -> float:
        """Return ``ln(1 + (N - n + 0.5) / (n + 0.5))``, BM25's weight of a token in Lucene."""
        count = self._holding[token]
        return math.log1p((self.chunks - count + 0.5) / (count + 0.5))

    def rare(self, text: str) -> Mapping[str, float]:
        """Return the rare tokens of a text with their idf: those at or above its mean."""
        idf = {token: self.idf(token) for token in dict.fromkeys(self.source.tokens(text))}
        mean = sum(idf.values()) / max(1, len(idf))
        return {token: value for token, value in idf.items() if round(value - mean, 9) >= 0}

    def leak(self, question: str, chunk: str) -> float | None:
        """Return the share of a chunk's rare vocabulary that a question repeats, weighted by idf.

        0 if it repeats none (retrieval by meaning alone); None if the chunk has no rare word.
        """
        rare = self.rare(chunk)
        total = sum(rare.values())
        if not total:
            return None
        question_tokens = set(self.source.tokens(question))
        return round(sum(idf for token, idf in rare.items() if token in question_tokens) / total, 4)


class Survey:
    """Statistics from one pass over a collection: words, chunks, and repeated text.

    Args:
        source: Cuts text into tokens, as the keyword index does.
    """

    def __init__(self, source: TokenSource) -> None:
        self.vocabulary = Vocabulary(source)
        self.chunks: dict[str, tuple[Span, ...]] = {}
        self._texts: Counter[str] = Counter()
        self._sentences: Counter[str] = Counter()

    def add(self, document_id: str, text: str, chunks: Sequence[Span]) -> None:
        """Add a chunked document."""
        self.chunks[document_id] = tuple(chunks)
        for span in chunks:
            piece = text[span.start : span.end]
            self.vocabulary.add(piece)
            self._texts[_text_key(piece)] += 1
        for sentence in sentences_of(text):
            self._sentences[_text_key(text[sentence.start : sentence.end])] += 1

    def repeated(self, sentence: str) -> bool:
        """True if a sentence occurs more than once in the collection."""
        return self._sentences[_text_key(sentence)] > 1

    def usable(self, document_id: str, text: str) -> tuple[Span, ...]:
        """Return the chunks of a document that are neither boilerplate nor duplicates.

        In boilerplate, half of the sentences, by length, also occur elsewhere.
        """
        sentences = sentences_of(text)
        return tuple(
            span
            for span in self.chunks[document_id]
            if self._texts[_text_key(text[span.start : span.end])] == 1
            and not self.boilerplate(text, span, sentences)
        )

    def boilerplate(self, text: str, span: Span, sentences: Sequence[Span]) -> bool:
        """True if half of a text, by length, consists of sentences that also occur elsewhere."""
        inside = [
            sentence
            for sentence in sentences
            if span.start <= sentence.start and sentence.end <= span.end
        ]
        repeated_length = sum(
            sentence.length
            for sentence in inside
            if self.repeated(text[sentence.start : sentence.end])
        )
        return 2 * repeated_length >= max(1, sum(sentence.length for sentence in inside))

    def chunk_of(self, document_id: str, start: int, end: int) -> Span | None:
        """Return the chunk with the largest part of a span, the first of equals; None if there is
        none.
        """
        span = Span(start, end)
        best = max(self.chunks.get(document_id, ()), key=span.overlap, default=None)
        return best if best is not None and span.overlap(best) else None


@lru_cache(maxsize=32)
def sentences_of(text: str) -> tuple[Span, ...]:
    """Return the spans of the sentences of a text; the last few texts are cached."""
    return tuple(sentence_spans(text))


def find_fences(text: str) -> tuple[Span, ...]:
    """Return the spans of fenced code blocks; an unclosed one extends to the end."""
    blocks = []
    begin: int | None = None
    mark = ""
    for fence in _FENCE.finditer(text):
        if begin is None:
            begin, mark = fence.start(), fence[1]
        elif fence[1] == mark:
            blocks.append(Span(begin, fence.end()))
            begin = None
    if begin is not None:
        blocks.append(Span(begin, len(text)))
    return tuple(blocks)


def _text_key(text: str) -> str:
    return text_hash(case_folded(text))
