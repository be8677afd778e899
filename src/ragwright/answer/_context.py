"""The context block: which passages, in which order, within how many tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ..core import Hit
from ..models import Tokenizer, WordTokenizer

HitOrder: TypeAlias = Literal["best_first", "best_last", "best_at_ends"]

TOKENS_PER_WORD = 1.5
"""Tokens of a language model for one word, on the safe side; used where no tokenizer is known."""


def order_hits(hits: Sequence[Hit], order: HitOrder = "best_first") -> tuple[Hit, ...]:
    """Hits, given best first, in the order they stand in the prompt.

    Models read the middle of a long context least ("lost in the middle", Liu et al. 2023):
    ``best_at_ends`` puts the best first, the second best last, and so on inwards.
    """
    if order == "best_last":
        return tuple(reversed(hits))
    if order == "best_at_ends":
        return (*hits[::2], *reversed(hits[1::2]))
    return tuple(hits)


def count_tokens(text: str, tokenizer: Tokenizer | None = None) -> int:
    """Tokens of a text by a tokenizer, or estimated as 1.5 a word where none is given."""
    if tokenizer is not None:
        return tokenizer.count(text)
    return int(WordTokenizer().count(text) * TOKENS_PER_WORD) + 1


def fit_hits(
    hits: Sequence[Hit], budget: int, tokenizer: Tokenizer | None = None
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The longest run of best hits that fits a token budget, and a note on what was dropped.

    Hits come best first and are dropped from the end, whole. The first one is kept even where
    it alone is over the budget, with a note that says so.
    """
    kept: list[Hit] = []
    used = 0
    for hit in hits:
        cost = count_tokens(f"[00] {hit.title}, page 000\n{hit.text}", tokenizer)
        if kept and used + cost > budget:
            break
        kept.append(hit)
        used += cost
    notes = []
    if len(kept) < len(hits):
        notes.append(
            f"{len(hits) - len(kept)} of {len(hits)} passages left out: the context may hold "
            f"{budget} tokens"
        )
    if used > budget:
        notes.append(f"the first passage alone has about {used} tokens, over the {budget} allowed")
    return tuple(kept), tuple(notes)
