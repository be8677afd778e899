"""Texts that repeat an example, or one another: containment of character n-grams (Broder 1997)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

SIZE = 4
"""Characters of an n-gram: of 4, 5 and 6 characters, 2 and 3 words the best on edited messages."""

_LEAST = 20
"""N-grams below which a text is a near copy only where it is equal: anything holds three words."""

_SIGNS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class NearCopy:
    """What a text nearly repeats, by name, and how much of the shorter one: 0 to 1."""

    of: str
    share: float

    def __str__(self) -> str:
        """As it is marked on a text."""
        return f"near copy of {self.of} ({self.share:.2f})"


def containment(one: str, other: str) -> float:
    """Share of the n-grams of the shorter text that the other one holds, 0 to 1.

    Case, punctuation and spacing do not count. Where the shorter one has under 20 n-grams it is
    1 for equal texts and else 0.
    """
    first, second = sorted((_grams(one), _grams(other)), key=len)
    if len(first) < _LEAST:
        return float(bool(first) and normalised(one) == normalised(other))
    return len(first & second) / len(first)


def nearest_copy(text: str, others: Iterable[tuple[str, str]], threshold: float) -> NearCopy | None:
    """The one of other texts (name, text) that a text repeats most, None below the threshold.

    Ties go to the first.
    """
    best: NearCopy | None = None
    for name, other in others:
        share = containment(text, other)
        if share >= threshold and (best is None or share > best.share):
            best = NearCopy(name, share)
    return best


def copies_among(
    texts: Sequence[str], examples: Sequence[tuple[str, str]], threshold: float
) -> list[tuple[NearCopy, ...]]:
    """For each text what it nearly repeats: at most one example, and one text before it."""
    found = []
    for at, text in enumerate(texts):
        before = [(f"text {n}", other) for n, other in enumerate(texts[:at], 1)]
        both = (
            nearest_copy(text, examples, threshold),
            nearest_copy(text, before, threshold),
        )
        found.append(tuple(copy for copy in both if copy is not None))
    return found


def normalised(text: str) -> str:
    """A text without case, punctuation and runs of blanks (NFKC)."""
    return _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


@lru_cache(maxsize=1024)
def _grams(text: str) -> frozenset[str]:
    plain = normalised(text)
    return frozenset(plain[at : at + SIZE] for at in range(len(plain) - SIZE + 1))
