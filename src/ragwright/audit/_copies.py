"""Copies: documents and sections that repeat another one, exactly or nearly.

MinHash (Broder, 1997) over runs of five words proposes pairs, bands of equal values find them
without comparing all (Leskovec, Rajaraman and Ullman, *Mining of Massive Datasets*, chapter 3), and
the real Jaccard similarity of the runs decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core import Document
from ..models import is_code, words
from ._records import Finding
from ._text import AuditCorpus, Brief

_RUN = 5
_VALUES, _ROWS = 64, 4
"""Values of a signature, and values of a band: pairs of similarity 0.5 share one with 0.64, those
of 0.8 with more than 0.999."""
_LEAST = 40
"""Words of the shortest text that is compared."""
_LEAST_SIMILARITY = 0.8
"""Share of common runs of words from which two texts are near copies."""

_MOST_IN_BAND = 200
"""Texts with an equal band; of more, each is compared with the next alone."""
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d{2}(?!\d)")

_Shingles = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _HashedText:
    """A document or a section of one, and the hashes of its runs of words."""

    document: int
    start: int
    end: int
    whole: bool
    shingles: _Shingles


def shingles_of(tokens: Sequence[str], numbers: dict[str, int]) -> _Shingles:
    """Sorted hashes of the runs of five words, each once.

    ``numbers`` holds a number for each word met so far, and gets the new ones.
    """
    ids = np.fromiter(
        (numbers.setdefault(token, len(numbers) + 1) for token in tokens), np.uint64, len(tokens)
    )
    if len(ids) < _RUN:
        return np.empty(0, np.uint64)
    runs = np.zeros(len(ids) - _RUN + 1, np.uint64)
    for offset in range(_RUN):  # a polynomial modulo 2^64, mixed below
        runs = runs * np.uint64(0x9E3779B97F4A7C15) + ids[offset : offset + len(runs)]
    runs ^= runs >> np.uint64(29)
    runs *= np.uint64(0xBF58476D1CE4E5B9)
    runs ^= runs >> np.uint64(32)
    return np.unique(runs)


def jaccard(first: _Shingles, second: _Shingles) -> float:
    """Share of the runs of two texts that both have, 0 to 1."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    union = len(first) + len(second) - common
    return common / union if union else 0.0


class Copies:
    """Collects the texts of a corpus, and pairs those that are alike."""

    def __init__(self, corpus: AuditCorpus) -> None:
        self._corpus = corpus
        self._texts: list[_HashedText] = []
        self._signatures: list[_Shingles] = []
        self._numbers: dict[str, int] = {}
        random = np.random.default_rng(0)
        self._factors = random.integers(1, 2**63, _VALUES, np.uint64) | np.uint64(1)
        self._terms = random.integers(0, 2**63, _VALUES, np.uint64)

    def read(self, document: Document, brief: Brief) -> None:
        """Remember the runs of words of a document and of its longer sections."""
        size = len(document.text)
        self._add(document.text, _HashedText(brief.number, 0, size, True, np.empty(0, np.uint64)))
        starts = sorted({section.span.start for section in document.sections})
        for start, end in pairwise([*starts, size]):
            if (start, end) != (0, size) and end - start > 6 * _LEAST:
                part = _HashedText(brief.number, start, end, False, np.empty(0, np.uint64))
                self._add(document.text[start:end], part)

    def _add(self, text: str, place: _HashedText) -> None:
        tokens = words(text.casefold())
        if len(tokens) < _LEAST:
            return
        shingles = shingles_of(tokens, self._numbers)
        signature = np.empty(_VALUES, np.uint64)
        for number in range(_VALUES):
            hashed = (shingles * self._factors[number] + self._terms[number]) >> np.uint64(20)
            signature[number] = hashed.min()
        self._signatures.append(signature)
        self._texts.append(
            _HashedText(place.document, place.start, place.end, place.whole, shingles)
        )

    def _candidates(self) -> set[tuple[int, int]]:
        """Pairs of texts with an equal band."""
        pairs: set[tuple[int, int]] = set()
        for band in range(0, _VALUES, _ROWS):
            buckets: dict[bytes, list[int]] = {}
            for number, signature in enumerate(self._signatures):
                buckets.setdefault(signature[band : band + _ROWS].tobytes(), []).append(number)
            for numbers in buckets.values():
                reach = len(numbers) if len(numbers) <= _MOST_IN_BAND else 2
                for at, first in enumerate(numbers):
                    pairs.update((first, second) for second in numbers[at + 1 : at + reach])
        return pairs

    def findings(self) -> Iterator[Finding]:
        """Copies: one finding for each text that repeats an earlier one."""
        best: dict[int, tuple[float, int]] = {}
        for first, second in sorted(self._candidates()):
            a, b = self._texts[first], self._texts[second]
            if a.document == b.document or a.whole != b.whole:
                continue
            alike = jaccard(a.shingles, b.shingles)
            if alike >= _LEAST_SIMILARITY and (second not in best or alike > best[second][0]):
                best[second] = (alike, first)
        copied = {
            (self._texts[a].document, self._texts[b].document)
            for b, (_, a) in best.items()
            if self._texts[b].whole
        }
        for second, (alike, first) in sorted(best.items()):
            a, b = self._texts[first], self._texts[second]
            if a.whole or (a.document, b.document) not in copied:
                yield self._copy_finding(a, b, alike)

    def _copy_finding(self, first: _HashedText, second: _HashedText, alike: float) -> Finding:
        briefs = self._corpus.briefs
        a, b = briefs[first.document], briefs[second.document]
        exact = alike == 1.0
        what = "document" if first.whole else "section"
        newer = _newer(a, b)
        order = f"; {newer} is newer" if newer else "; nothing says which is newer"
        distinct = not exact and _different_names(a, b)
        degree = "equals" if exact else f"repeats {alike:.0%} of"
        return Finding(
            "copies",
            "exact copy" if exact else "near copy",
            "medium" if first.whole or not exact else "low",
            (
                self._corpus.place(first.document, first.start, first.end),
                self._corpus.place(second.document, second.start, second.end),
            ),
            f"The {what} in {b.source} {degree} the one in {a.source}{order}.",
            "Keep one of them, the newer where both are versions of one text, and leave the other "
            "out of the sources.",
            not distinct,
            {"similarity": round(alike, 3), "newer": newer, "unit": what},
        )


def _different_names(a: Brief, b: Brief) -> bool:
    """True if the titles name different codes: pages of one template on two things."""
    names = [
        {word.casefold() for word in words(brief.title) if is_code(word, written=True)}
        for brief in (a, b)
    ]
    return bool(names[0] and names[1] and names[0] != names[1])


def _newer(a: Brief, b: Brief) -> str:
    """Source of the newer of two documents, by their dates, else by years in their names."""
    if a.date and b.date and a.date[:10] != b.date[:10]:
        return (a if a.date > b.date else b).source
    years = [max(_YEAR.findall(f"{brief.source} {brief.title}"), default="") for brief in (a, b)]
    if all(years) and years[0] != years[1]:
        return (a if years[0] > years[1] else b).source
    return ""
