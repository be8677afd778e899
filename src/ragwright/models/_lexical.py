"""The keyless reranker: a passage is as good as its best sentence, by BM25."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ._analysis import Analyzer
from ._language import sentence_spans
from ._seams import Reranker

_K1, _B = 1.2, 0.75


class LexicalReranker(Reranker):
    """Scores passages by the BM25 score of their best sentence; deterministic, no files.

    Sentences of all passages of a request are the collection; the words of a passage's first
    line, its title, count for each of its sentences.
    """

    name = "lexical"
    identity = "lexical/1"
    scale = "BM25, from 0"

    def __init__(self) -> None:
        self._analyzer = Analyzer()

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, rounded to 6 digits; 0 where no word is shared."""
        terms = dict.fromkeys(self._analyzer.query_tokens(query))
        cut = [[text[s.start : s.end] for s in sentence_spans(text)] for text in passages]
        tokens = [[Counter(row) for row in self._analyzer.tokens_of(lines)] for lines in cut]
        sentences = [counts for passage in tokens for counts in passage]
        if not sentences:
            return [0.0] * len(passages)
        mean = sum(counts.total() for counts in sentences) / len(sentences) or 1.0
        held = Counter(term for counts in sentences for term in terms if term in counts)
        idf = {t: math.log(1 + (len(sentences) - n + 0.5) / (n + 0.5)) for t, n in held.items()}

        def of(counts: Counter[str], title: Counter[str]) -> float:
            norm = _K1 * (1 - _B + _B * counts.total() / mean)
            shares = ((t, max(counts[t], min(title[t], 1))) for t in idf)
            return sum(idf[t] * n * (_K1 + 1) / (n + norm) for t, n in shares if n)

        return [
            round(max((of(counts, passage[0]) for counts in passage), default=0.0), 6)
            for passage in tokens
        ]
