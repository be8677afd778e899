"""Texts that repeat an example, or one another: containment of character n-grams (Broder 1997)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

SIZE = 4
"""Characters of an n-gram: of 4, 5 and 6 characters, 2 and 3 words the best on edited messages."""

_LEAST = 20
"""N-grams below which a text is a near copy only if it is equal, as any text contains three
words."""

_SIGNS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class NearCopy:
    """The text that another nearly repeats, and the share of the shorter one: 0 to 1."""

    of: str
    share: float

    def __str__(self) -> str:
        """As it is marked on a text."""
        return f"near copy of {self.of} ({self.share:.2f})"


def containment(one: str, other: str) -> float:
    """Share of the n-grams of the shorter text that are in the other one, 0 to 1.

    Case, punctuation and spacing do not count. If the shorter one has under 20 n-grams it is 1 for
    equal texts and else 0.
    """
    first, second = sorted((_grams(one), _grams(other)), key=len)
    if len(first) < _LEAST:
        return float(bool(first) and normalised(one) == normalised(other))
    return len(first & second) / len(first)


_VARIABLE = re.compile(r"\S*\d\S*|\S*[^\W\d_]\.[^\W\d_]\S*|[^\w\s]")
"""Amounts, dates and numbers, addresses of web pages, and signs."""

_DATES = re.compile(r"today|tonight|tomorrow|noon|midnight|[ap]m")
"""Words of dates and times without a capital."""

_SAME = 0.9
"""Share of common words (Dice) from which two texts without amounts, dates and names are one."""


def template_of(text: str) -> Counter[str]:
    """The words of a text without amounts, dates and names.

    Names are words with a capital, the first words of sentences among them. A text of which fewer
    than three words are left (all in capitals, say) keeps its capitalised words.
    """
    words = _VARIABLE.sub(" ", text).split()
    lower = [word for word in words if word[0].islower()]
    kept = lower if len(lower) >= 3 else [word.lower() for word in words]
    return Counter(word for word in kept if not _DATES.fullmatch(word))


def same_template(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Pairs of texts that differ only in amounts, dates and names; shape (texts, texts)."""
    found = [template_of(text) for text in texts]
    same = np.eye(len(texts), dtype=np.bool_)
    for at, one in enumerate(found):
        for other in range(at):
            size = one.total() + found[other].total()
            alike = 2 * (one & found[other]).total() >= _SAME * size if size else False
            same[at, other] = same[other, at] = alike
    return same


def copies_among(
    texts: Sequence[str], examples: Sequence[tuple[str, str]], threshold: float
) -> list[tuple[NearCopy, ...]]:
    """For each text its near copies: at most one example, and one earlier text.

    Of each the most similar, the first of equals.
    """
    names = [*(name for name, _ in examples), *(f"text {n}" for n in range(1, len(texts) + 1))]
    whole = [*(text for _, text in examples), *texts]
    first = len(examples)
    found = []
    for shares in shares_before(whole, first):
        parts = ((0, shares[:first]), (first, shares[first:]))
        best = [(begin + int(part.argmax()), part.max()) for begin, part in parts if len(part)]
        found.append(tuple(NearCopy(names[n], float(s)) for n, s in best if s >= threshold))
    return found


def shares_before(texts: Sequence[str], first: int = 0) -> Iterator[NDArray[np.float64]]:
    """The :func:`containment` of each text with all earlier ones, from a first one on.

    Overlaps are counted in an inverted index of n-grams.
    """
    numbers: dict[str, int] = {}
    plain = [normalised(text) for text in texts]
    held = [
        np.array([numbers.setdefault(gram, len(numbers)) for gram in _grams_of(text)], np.int64)
        for text in plain
    ]
    sizes = np.array([len(grams) for grams in held], np.int64)
    firsts = {text: at for at, text in reversed(list(enumerate(plain)))}
    equals = np.array([firsts[text] for text in plain], np.int64)
    every = np.concatenate([*held, np.empty(0, np.int64)])
    order = np.argsort(every, kind="stable")
    holders = np.repeat(np.arange(len(texts)), sizes)[order]
    ends = np.cumsum(np.bincount(every, minlength=len(numbers))).tolist()
    for at in range(first, len(texts)):
        lists = [holders[ends[gram - 1] if gram else 0 : ends[gram]] for gram in held[at].tolist()]
        common = np.bincount(np.concatenate([*lists, holders[:0]]), minlength=len(texts))[:at]
        least = np.minimum(sizes[:at], sizes[at])
        equal = (equals[:at] == equals[at]) & (least > 0)
        yield np.where(least < _LEAST, equal, common / np.maximum(least, 1))


def normalised(text: str) -> str:
    """A text without case, punctuation and runs of blanks (NFKC)."""
    return _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


@lru_cache(maxsize=1024)
def _grams(text: str) -> frozenset[str]:
    return _grams_of(normalised(text))


def _grams_of(plain: str) -> frozenset[str]:
    return frozenset(plain[at : at + SIZE] for at in range(len(plain) - SIZE + 1))
