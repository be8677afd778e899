"""The context block: which passages, in which order, within how many tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..core import Hit
from ..models import Tokenizer, WordTokenizer, sentence_spans
from ._options import HitOrder

Counter: TypeAlias = Callable[[str], int]

TOKENS_PER_WORD = 1.5
"""Tokens of a language model per word, a safe estimate for unknown tokenizers."""

_CHARACTERS_PER_TOKEN = 4.0
"""Bounds the estimate for long or unseparated words: code, tables, addresses."""

_NAMED = 8


def order_hits(hits: Sequence[Hit], order: HitOrder = "best_first") -> tuple[Hit, ...]:
    """Hits, given best first, in the order of the prompt.

    Models read the middle of a long context least ("lost in the middle", Liu et al. 2023):
    ``best_at_ends`` puts the best first, the second best last, and so on inwards.
    """
    if order == "best_last":
        return tuple(reversed(hits))
    if order == "best_at_ends":
        return (*hits[::2], *reversed(hits[1::2]))
    return tuple(hits)


def count_tokens(text: str, tokenizer: Tokenizer | None = None) -> int:
    """Tokens of a text by a tokenizer; without one, 1.5 per word or one per 4 characters.

    The larger of the two estimates counts.
    """
    if tokenizer is not None:
        return tokenizer.count(text)
    by_words = WordTokenizer().count(text) * TOKENS_PER_WORD
    return int(max(by_words, len(text) / _CHARACTERS_PER_TOKEN)) + 1


def fit_hits(
    hits: Sequence[Hit], budget: int, count: Counter = count_tokens, *, hard: bool = False
) -> tuple[tuple[Hit, ...], tuple[str, ...]]:
    """The longest run of best hits that fits a token budget, and notes that name the others.

    Hits come best first and are dropped from the end, whole. The first one stays even if it alone
    exceeds the budget, with a note; with ``hard`` it is then cut at the end of a sentence.
    """
    kept: list[Hit] = []
    used = 0
    for hit in hits:
        cost = count(f"[00] {hit.title}, page 000\n{hit.text}")
        if kept and used + cost > budget:
            break
        kept.append(hit)
        used += cost
    notes = []
    if len(kept) < len(hits):
        notes.append(
            f"{len(hits) - len(kept)} of {len(hits)} passages left out, the context may have "
            f"{budget} tokens: {named_hits(hits[len(kept) :], len(kept) + 1)}"
        )
    if used > budget and hard:
        room = budget - (used - count(kept[0].text))
        short = shortened(kept[0], room, count)
        change = "shortened to" if short else "left out: no word of it fits"
        notes.append(f"passage {named_hits(kept, 1)} has about {used} tokens, {change} {budget}")
        kept = [short] if short else []
    elif used > budget:
        notes.append(f"the first passage alone has about {used} tokens, over the {budget} allowed")
    return tuple(kept), tuple(notes)


def named_hits(hits: Sequence[Hit], first: int) -> str:
    """Passages by number, title and page, for a note; ``first`` is the first one's number."""
    names = []
    for number, hit in enumerate(hits[:_NAMED], first):
        page = f", page {hit.page}" if hit.page is not None else ""
        names.append(f"{number} ({hit.title or hit.source}{page})")
    more = len(hits) - _NAMED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def shortened(hit: Hit, room: int, count: Counter) -> Hit | None:
    """The first piece of a hit that is cut to ``room`` tokens (see :func:`split_hit`).

    None if nothing fits.
    """
    return next(split_hit(hit, room, count), None)


def split_hit(hit: Hit, room: int, count: Counter) -> Iterator[Hit]:
    """A hit in pieces of at most ``room`` tokens, cut between sentences, else words, else inside.

    Each piece has its own span; together they hold everything except the space between them. If not
    even a character fits, the pieces end.
    """
    text = hit.text
    ends = [span.end for span in sentence_spans(text)]
    spaces = [at for at, character in enumerate(text) if character.isspace()] + [len(text)]
    start = 0
    while start < len(text):
        borders = (ends, spaces, range(start + 1, len(text) + 1))
        ends_reached = (_furthest_border(text, start, marks, room, count) for marks in borders)
        end = next((at for at in ends_reached if at is not None), None)
        if end is None:
            return
        if text[start:end].strip():
            yield replace(hit, text=text[start:end], start=hit.start + start, end=hit.start + end)
        start = end
        while start < len(text) and text[start].isspace():
            start += 1


def _furthest_border(
    text: str, start: int, borders: Sequence[int], room: int, count: Counter
) -> int | None:
    """The last border up to which a text from ``start`` fits, None if there is none."""
    later = [border for border in borders if border > start]
    low, high = 0, len(later)
    while low < high:
        middle = (low + high) // 2
        if count(text[start : later[middle]]) <= room:
            low = middle + 1
        else:
            high = middle
    return later[low - 1] if low else None
