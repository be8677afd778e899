"""The weight of each channel for one query, from its words and the keyword results.

    keyword = base + (1 - base) * unknown * held,    dense = 1 - keyword

``unknown``  share of the query's rarity (idf) in words unknown to the embedding model:

    unknown = sum over words of idf(w) * u(w) / sum over words of idf(w)
    u(w)    = 1 for a code, else (pieces of w that go on within a run of letters) / (pieces of w)

``held``     share of the query that its best chunk in the keyword channel holds:

    held    = (best BM25 score) / (greatest BM25 score this query could have)

So words that a model splits into pieces move weight to the keyword channel, but only if the index
holds them: misspelt or foreign words that are not in the index do not. Otherwise the scores
themselves show how well a channel separates chunks, and their sum keeps this
(:func:`ragwright.retrieve.convex`): a flat list hardly changes the order.

The base is 0.2, the weight that Bruch et al. (2023) found best over nine collections. Formula
and base were chosen on SciFact's training claims and PIAF (docs/decisions/0005-fusion.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ..core import Term
from ..models import Tokenizer, TokenSource, is_code, words

_WORD_LIMIT = 60
"""Longest word that is cut to pieces, which bounds the cost of a query."""

_KNOWN: WeakKeyDictionary[Tokenizer, dict[str, float]] = WeakKeyDictionary()
"""Shares computed before, kept as long as their tokenizer."""

_KNOWN_WORDS = 50_000


@dataclass(frozen=True, slots=True)
class Balance:
    """Share of the keyword channel, 0 to 1, and the two figures it is computed from.

    The dense channel has what it leaves.
    """

    keyword: float
    unknown: float
    held: float

    @property
    def reason(self) -> str:
        """The balance as text."""
        shares = f"keyword {self.keyword:.2f}, dense {1 - self.keyword:.2f}"
        if not self.held:
            # The unknown words do not matter then, and were not computed.
            return f"{shares}: the keyword channel found nothing that would change the weights"
        return (
            f"{shares}: {self.unknown:.0%} of the query is unknown to the embedding model, "
            f"and the best chunk by keyword holds {self.held:.0%} of it"
        )


def balance(base: float, unknown: float, held: float) -> Balance:
    """The formula of this module; arguments and result 0 to 1."""
    return Balance(base + (1.0 - base) * unknown * held, unknown, held)


def held_share(best: float, terms: Sequence[Term]) -> float:
    """Best BM25 score as a share of the greatest that the terms allow; 0 without terms."""
    most = sum(term.most for term in terms)
    return min(1.0, best / most) if most > 0 else 0.0


def unknown_share(
    text: str, terms: Sequence[Term], analyzer: TokenSource | None, tokenizer: Tokenizer | None
) -> float:
    """Share of the query's rarity in words that are unknown to the embedding model.

    Args:
        text: The query.
        terms: The terms that the keyword channel looked for.
        analyzer: Cuts a word into those terms; without one each term counts as a word.
        tokenizer: The embedding model's own; without one only codes are unknown.
    """
    idf = {term.token: term.idf for term in terms}
    cut: list[tuple[str, list[str]]]
    if analyzer is None:
        cut = [(token, [token]) for token in idf]
    else:
        cut = [(word, analyzer.query_tokens(word)) for word in words(text)]
    shares = {} if tokenizer is None else _KNOWN.setdefault(tokenizer, {})
    total = unknown = 0.0
    for word, tokens in cut:
        weight = max((idf.get(token, 0.0) for token in tokens), default=0.0)
        if not weight:
            continue
        total += weight
        if any(map(is_code, tokens)):
            unknown += weight
        elif tokenizer is not None:
            share = shares.get(word)
            if share is None:
                if len(shares) >= _KNOWN_WORDS:
                    shares.clear()
                share = shares[word] = broken_share(tokenizer, word)
            unknown += weight * share
    return unknown / total if total else 0.0


def broken_share(tokenizer: Tokenizer, word: str) -> float:
    """Share of a word's pieces that go on within a run of letters and digits, 0 to 1."""
    spans = tokenizer.spans(word[:_WORD_LIMIT])
    going_on = sum(1 for s in spans if s.start and word[s.start - 1 : s.start + 1].isalnum())
    return going_on / len(spans) if spans else 0.0
