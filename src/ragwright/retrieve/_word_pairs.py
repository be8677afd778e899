"""The words that late interaction matched, for `--explain`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

import numpy as np

from ..flow import Flow, encode
from ..index import headed_text
from ..models import PLACED, TokenVectors, read_placed
from ._target import Retrieved

_HITS = 3
"""First hits whose words are compared."""

_PAIRS = 6
"""Pairs that are shown of a hit."""

_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")


def word_pairs(
    retrieved: Retrieved, model: str
) -> Flow[Mapping[str, tuple[tuple[float, str, str], ...]]]:
    """The words of the query and those of each first hit that they match best.

    A word's share of the score is the sum over its tokens; tokens that are part of no text (those
    of the model's prompt and of its query expansion) are left out, though they count in the score.

    Args:
        retrieved: The result of a search.
        model: The late-interaction model.

    Returns:
        Chunk id of each first hit that late interaction scored -> (share of the score, word of the
        query, word of the hit), the greatest first.
    """
    hits = [hit for hit in retrieved.hits if "late" in hit.channels][:_HITS]
    if not hits:
        return {}
    texts = [headed_text(hit.text, hit.title, hit.head) for hit in hits]
    [asked] = yield from encode(PLACED, model, [retrieved.query])
    passages = yield from encode(PLACED, model, texts, "passage")
    query = read_placed(asked)
    return {
        hit.chunk_id: _pairs_of(retrieved.query, query, text, read_placed(form))
        for hit, text, form in zip(hits, texts, passages, strict=True)
    }


def _pairs_of(
    query: str, wanted: TokenVectors, text: str, tokens: TokenVectors
) -> tuple[tuple[float, str, str], ...]:
    """The best pairs of words of a query and a passage."""
    asked, given = _words_of(query, wanted), _words_of(text, tokens)
    shown = np.array(sorted(given), np.int64)
    if not len(shown):
        return ()
    products = wanted.vectors @ tokens.vectors[shown].T
    shares: dict[tuple[int, str], tuple[float, float, str]] = {}
    for row, word in asked.items():
        at = int(products[row].argmax())
        product = float(products[row, at])
        share, most, match = shares.get(word, (0.0, -np.inf, ""))
        if product > most:
            most, match = product, given[int(shown[at])][1]
        shares[word] = (share + product, most, match)
    pairs = [(round(share, 3), word, match) for (_, word), (share, _, match) in shares.items()]
    return tuple(sorted(pairs, key=lambda pair: -pair[0])[:_PAIRS])


def _words_of(text: str, tokens: TokenVectors) -> dict[int, tuple[int, str]]:
    """Number of each token that is part of a word -> start and text of the word."""
    matches = list(_WORD.finditer(text))
    starts = [match.start() for match in matches]
    words = {}
    for number, (start, end) in enumerate(tokens.spans.tolist()):
        at = bisect_right(starts, start) - 1
        if start < end and at >= 0 and matches[at].end() >= end:
            words[number] = (starts[at], matches[at].group())
    return words
