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
"""Characters of an n-gram; 4 is best on edited messages, of 4 to 6 characters and 2 to 3 words."""

_LEAST = 20
"""Fewest n-grams of a near copy; a shorter text must be equal, as any text contains three words."""

_SIGNS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class NearCopy:
    """The text that another nearly repeats, and the share of the shorter one: 0 to 1."""

    of: str
    share: float

    def __str__(self) -> str:
        """Return the mark of a text."""
        return f"near copy of {self.of} ({self.share:.2f})"


def containment(text: str, other: str) -> float:
    """Return the share of the n-grams of the shorter text that are in the other one, 0 to 1.

    Case, punctuation and spacing are ignored. If the shorter text has under 20 n-grams, the result
    is 1 for equal texts, else 0.
    """
    first, second = sorted((_grams_of_text(text), _grams_of_text(other)), key=len)
    if len(first) < _LEAST:
        return float(bool(first) and normalise_case(text) == normalise_case(other))
    return len(first & second) / len(first)


_VARIABLE = re.compile(r"\S*\d\S*|\S*[^\W\d_]\.[^\W\d_]\S*|[^\w\s]")
"""Amounts, dates and numbers, addresses of web pages, and signs."""

_DATES = re.compile(r"today|tonight|tomorrow|noon|midnight|[ap]m")
"""Words of dates and times without a capital."""

_SAME = 0.9
"""Least share of common words (Dice) of two texts with the same template."""


def template_of(text: str) -> Counter[str]:
    """Return the words of a text without amounts, dates and names.

    Names are words with a capital, including the first words of sentences. A text with fewer than
    three other words (all in capitals, for example) keeps its capitalised words.
    """
    words = _VARIABLE.sub(" ", text).split()
    lower = [word for word in words if word[0].islower()]
    chosen = lower if len(lower) >= 3 else [word.lower() for word in words]
    return Counter(word for word in chosen if not _DATES.fullmatch(word))


def compare_templates(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return the pairs of texts that differ in amounts, dates and names; shape (texts, texts)."""
    templates = [template_of(text) for text in texts]
    same = np.eye(len(texts), dtype=np.bool_)
    for row, template in enumerate(templates):
        for other in range(row):
            size = template.total() + templates[other].total()
            is_same = 2 * (template & templates[other]).total() >= _SAME * size if size else False
            same[row, other] = same[other, row] = is_same
    return same


def copies_among(
    texts: Sequence[str], examples: Sequence[tuple[str, str]], threshold: float
) -> list[tuple[NearCopy, ...]]:
    """Return the near copies of each text: at most one example, and one earlier text.

    Each is the most similar one, the first of equals.
    """
    names = [*(name for name, _ in examples), *(f"text {n}" for n in range(1, len(texts) + 1))]
    all_texts = [*(text for _, text in examples), *texts]
    first = len(examples)
    copies = []
    for shares in shares_before(all_texts, first):
        parts = ((0, shares[:first]), (first, shares[first:]))
        best = [(begin + int(part.argmax()), part.max()) for begin, part in parts if len(part)]
        copies.append(tuple(NearCopy(names[n], float(s)) for n, s in best if s >= threshold))
    return copies


def shares_before(texts: Sequence[str], first: int = 0) -> Iterator[NDArray[np.float64]]:
    """Return the :func:`containment` of each text with all earlier ones, from a first one on.

    An inverted index of n-grams counts the overlaps.
    """
    numbers: dict[str, int] = {}
    normalised_texts = [normalise_case(text) for text in texts]
    grams_of_texts = [
        np.array(
            [numbers.setdefault(gram, len(numbers)) for gram in _grams_of_normalised(text)],
            np.int64,
        )
        for text in normalised_texts
    ]
    sizes = np.array([len(grams) for grams in grams_of_texts], np.int64)
    first_places = {text: place for place, text in reversed(list(enumerate(normalised_texts)))}
    equals = np.array([first_places[text] for text in normalised_texts], np.int64)
    all_grams = np.concatenate([*grams_of_texts, np.empty(0, np.int64)])
    order = np.argsort(all_grams, kind="stable")
    holders = np.repeat(np.arange(len(texts)), sizes)[order]
    ends = np.cumsum(np.bincount(all_grams, minlength=len(numbers))).tolist()
    for place in range(first, len(texts)):
        lists = [
            holders[ends[gram - 1] if gram else 0 : ends[gram]]
            for gram in grams_of_texts[place].tolist()
        ]
        common = np.bincount(np.concatenate([*lists, holders[:0]]), minlength=len(texts))[:place]
        least = np.minimum(sizes[:place], sizes[place])
        equal = (equals[:place] == equals[place]) & (least > 0)
        yield np.where(least < _LEAST, equal, common / np.maximum(least, 1))


def normalise_case(text: str) -> str:
    """Return a text without case, punctuation and runs of blanks (NFKC)."""
    return _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


@lru_cache(maxsize=1024)
def _grams_of_text(text: str) -> frozenset[str]:
    return _grams_of_normalised(normalise_case(text))


def _grams_of_normalised(text: str) -> frozenset[str]:
    return frozenset(text[at : at + SIZE] for at in range(len(text) - SIZE + 1))
