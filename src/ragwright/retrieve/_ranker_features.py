"""Features of the learned ranking: what the search knows of a query and each of its hits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core import Hit, Term
from ..flow import Vector
from ..models import TokenSource, is_code

Table = NDArray[np.float64]

VERSION = 1
"""Version of these features: raise it where one changes, so that old rankers are refused. New ones
are added at the end: a ranker that does not know them stays usable."""

FEATURES: Mapping[str, str] = {
    "search": "score of the search, 0 (worst of the hits) to 1 (best)",
    "search_rank": "1 / log2(1 + rank) in the search",
    "keyword": "BM25 score as a share of the best one; 0 if not found by keyword",
    "keyword_rank": "1 / log2(1 + rank) by keyword; 0 if not found",
    "keyword_held": "BM25 score as a share of the greatest that the query could have",
    "dense": "similarity minus the best one's",
    "dense_rank": "1 / log2(1 + rank) by vectors; 0 if not found",
    "both": "1 if keyword and vector search both found it",
    "codes": "share of the query's codes in the text, title or headings",
    "title": "share of the query's rarity (idf) in the title and headings",
    "text": "share of the query's rarity in the text",
    "beginning": "share of the query's rarity in the first 30 words of the text",
    "together": "share of neighbouring words of the query that are neighbours in the text too",
    "length": "logarithm of the number of words",
    "first": "1 for a chunk at the beginning of its document",
    "document": "logarithm of the number of further hits from the same document",
    "support": "mean similarity to the five best hits of the search",
    "sparse": "learned sparse score as a share of the best one; 0 if not found by sparse",
    "sparse_rank": "1 / log2(1 + rank) by sparse; 0 if not found",
    "late": "late-interaction score minus the best one's, as a share of the best one",
    "late_rank": "1 / log2(1 + rank) by late interaction; 0 if not found",
}
"""Name -> what it is."""

_BEGINNING = 30
_SUPPORT = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of a query, with their rarity.

    Attributes:
        analyzer: Cuts texts into tokens; without one no words are compared.
        tokens: Tokens of the query, in order.
        idf: Rarity of those that the index holds.
        most: Greatest BM25 score that the query could have; 0 where none was searched.
    """

    analyzer: TokenSource | None
    tokens: tuple[str, ...]
    idf: Mapping[str, float]
    most: float

    @classmethod
    def of(cls, query: str, terms: Sequence[Term], analyzer: TokenSource | None) -> Asked:
        """From the query and the terms of the keyword search; without these all are as rare."""
        tokens = tuple(analyzer.query_tokens(query)) if analyzer is not None else ()
        known_idf = {term.token: term.idf for term in terms if term.chunks}
        idf = known_idf if terms else dict.fromkeys(tokens, 1.0)
        return cls(analyzer, tokens, idf, sum(term.most for term in terms))


def features(hits: Sequence[Hit], asked: Asked, vectors: Vector | None) -> Table:
    """One line per hit, one column per feature, in the order of :data:`FEATURES`.

    Args:
        hits: Hits of one search, best first, at least one; a feature may depend on all of them.
        asked: The words of the query.
        vectors: Vectors of the hits, shape (hits, dimensions), None where the index has none.
    """
    columns = {name: np.zeros(len(hits)) for name in FEATURES}
    _fill_channel_columns(hits, asked, columns)
    analyzer = asked.analyzer
    if analyzer is not None:
        texts = analyzer.tokens_of([hit.text for hit in hits])
        heads = analyzer.tokens_of(["\n".join((hit.title, *hit.headings)) for hit in hits])
        _fill_word_columns(texts, heads, asked, columns)
    documents: dict[str, int] = {}
    for hit in hits:
        documents[hit.document_id] = documents.get(hit.document_id, 0) + 1
    columns["document"][:] = [math.log(documents[hit.document_id]) for hit in hits]
    columns["first"][:] = [hit.start == 0 for hit in hits]
    if vectors is not None:
        alike = (vectors @ vectors[:_SUPPORT].T).astype(np.float64)
        is_self = np.arange(len(hits))[:, None] == np.arange(alike.shape[1])
        others = np.maximum((~is_self).sum(axis=1), 1)
        columns["support"][:] = np.where(is_self, 0.0, alike).sum(axis=1) / others
    return np.stack(list(columns.values()), axis=1)


def _fill_channel_columns(
    hits: Sequence[Hit], query_words: Asked, columns: Mapping[str, Table]
) -> None:
    scores = np.array([hit.score for hit in hits])
    spread = scores.max() - scores.min()
    columns["search"][:] = (scores - scores.min()) / spread if spread > 0 else 1.0
    columns["search_rank"][:] = _rank_discount(np.arange(1, len(hits) + 1))
    for name in ("keyword", "dense", "sparse", "late"):
        places_and_scores = [
            (at, hit.channels[name]) for at, hit in enumerate(hits) if name in hit.channels
        ]
        if not places_and_scores:
            continue
        at = [place for place, _ in places_and_scores]
        raw = np.array([channel.score for _, channel in places_and_scores])
        columns[f"{name}_rank"][at] = _rank_discount(
            np.array([channel.rank for _, channel in places_and_scores])
        )
        if name in ("keyword", "sparse"):
            columns[name][at] = raw / max(float(raw.max()), 1e-9)
            if name == "keyword" and query_words.most > 0:
                columns["keyword_held"][at] = raw / query_words.most
        else:
            # A cosine has a scale; a late-interaction score grows with the length of the query.
            unit = 1.0 if name == "dense" else max(float(np.abs(raw).max()), 1e-9)
            columns[name][:] = (raw.min() - raw.max()) / unit
            columns[name][at] = (raw - raw.max()) / unit
    columns["both"][:] = [{"keyword", "dense"} <= hit.channels.keys() for hit in hits]


def _rank_discount(ranks: NDArray[np.int64]) -> Table:
    return np.asarray(1.0 / np.log2(1.0 + ranks), np.float64)


def _fill_word_columns(
    texts: Sequence[Sequence[str]],
    heads: Sequence[Sequence[str]],
    query_words: Asked,
    columns: Mapping[str, Table],
) -> None:
    total_idf = sum(query_words.idf.values()) or 1.0
    codes = {token for token in query_words.tokens if is_code(token)}
    pairs = set(pairwise(query_words.tokens))
    for at, (text, head) in enumerate(zip(texts, heads, strict=True)):
        text_tokens, head_tokens = set(text), set(head)
        for name, tokens in (
            ("title", head_tokens),
            ("text", text_tokens),
            ("beginning", set(text[:_BEGINNING])),
        ):
            columns[name][at] = (
                sum(v for t, v in query_words.idf.items() if t in tokens) / total_idf
            )
        if codes:
            columns["codes"][at] = len(codes & (text_tokens | head_tokens)) / len(codes)
        if pairs:
            near = {*pairwise(text), *pairwise(head)}
            columns["together"][at] = len(pairs & near) / len(pairs)
        columns["length"][at] = math.log1p(len(text))
