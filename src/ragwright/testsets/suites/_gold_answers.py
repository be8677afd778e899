"""Gold answers as parts, and checks for texts that contain or reveal them."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...core import MetaValue, Row
from ...measure import answer_words, content_words, stands_in

ALL_OF = 3
"""A passage must contain all content words of an answer with at most this many to reveal it."""

MOST_OF = 0.75
"""Least share of a longer answer's content words in a passage that reveals it."""

_NUMBERS = {
    "en": "two three four five six seven eight nine ten eleven twelve",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici",
}
"""Words for 2 to 12; 1 is an article in most of these languages."""

_DIGITS = {
    name: {word: str(value) for value, word in enumerate(words.split(), 2)}
    for name, words in _NUMBERS.items()
}


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """A full answer: every part, each in one of its accepted wordings.

    Attributes:
        parts: Wordings of each part; the first one is the reference.
        language: ISO code, for articles and stems.
    """

    parts: tuple[tuple[str, ...], ...]
    language: str = "en"

    @property
    def text(self) -> str:
        """The reference: the first wording of every part."""
        return "; ".join(part[0] for part in self.parts)

    def held(self, text: str) -> tuple[bool, ...]:
        """Check each part for a wording whose words are in a text in sequence, as `Contains` does.

        A wording without words is never contained.
        """
        text_words = answer_words(text, self.language)
        return tuple(
            any(words and stands_in(words, text_words) for words in self._words(part))
            for part in self.parts
        )

    def metadata(self) -> dict[str, MetaValue]:
        """Return metadata from which, with ``reference``, :func:`gold_answer` rebuilds it."""
        values: dict[str, MetaValue] = {"language": self.language}
        if len(self.parts) > 1:
            values |= {f"part_{n}": part for n, part in enumerate(self.parts, 1)}
        elif len(self.parts[0]) > 1:
            values["references"] = self.parts[0]
        return values

    def joined(self, other: GoldAnswer) -> GoldAnswer:
        """Return the combined answer of two joined questions."""
        return GoldAnswer(self.parts + other.parts, self.language)

    def _words(self, part: Sequence[str]) -> Iterable[list[str]]:
        return (answer_words(wording, self.language) for wording in part)


def gold_answer(row: Row, language: str = "") -> GoldAnswer | None:
    """Return the gold answer of a row; None if it has no reference.

    ``metadata["part_1"]``, ``part_2``, … hold the wordings of each part; without them the
    reference, and further ones in ``metadata["references"]``, are wordings of the one part.
    """
    row_language = row.metadata.get("language")
    answer_language = (
        row_language if isinstance(row_language, str) and row_language else language or "en"
    )
    parts: list[tuple[str, ...]] = []
    while (wordings := row.metadata.get(f"part_{len(parts) + 1}")) is not None:
        parts.append(_nonempty_texts(wordings))
    if not parts:
        further = row.metadata.get("references")
        parts = [_nonempty_texts((row.reference, *(further if isinstance(further, tuple) else ())))]
    if not all(parts):
        return None
    return GoldAnswer(tuple(parts), answer_language)


class LeakCheck:
    """A check for passages that reveal a gold answer, by their words alone.

    A passage reveals the answer if it contains a wording of a part in sequence (numbers up to
    twelve as word or digit), or the wording's content words in any order: all of up to three, three
    quarters of more. This errs towards finding a leak: a passage wrongly left out costs little, one
    that answers the question spoils the test.

    Args:
        gold: The answer.

    Attributes:
        possible: False if a part has no wording with a content word (``yes``, ``no``): then
            passages cannot be checked.
    """

    def __init__(self, gold: GoldAnswer) -> None:
        self._language = gold.language
        wordings = [
            [(self._words(wording), self._content(wording)) for wording in part]
            for part in gold.parts
        ]
        self.possible = all(any(words and content for words, content in part) for part in wordings)
        self._wordings = [pair for part in wordings for pair in part if pair[0] and pair[1]]

    def leaks(self, text: str) -> bool:
        """True if the text reveals a part of the answer."""
        text_words, text_content = self._words(text), self._content(text)
        return any(
            stands_in(words, text_words) or _contains_most(content, text_content)
            for words, content in self._wordings
        )

    def _words(self, text: str) -> list[str]:
        return _words_with_digits(text, self._language)

    def _content(self, text: str) -> frozenset[str]:
        digits = " ".join(_words_with_digits(text, self._language))
        return frozenset(content_words(digits, self._language))


_NO_SIGNS = dict.fromkeys(map(ord, string.punctuation))
"""Removes signs that distinguish answers, as the check errs towards a leak."""


@lru_cache(maxsize=8192)  # a passage is compared with many answers
def _words_with_digits(text: str, language: str) -> list[str]:
    digits = _DIGITS.get(language, {})
    unsigned = (word.translate(_NO_SIGNS) for word in answer_words(text, language))
    return [digits.get(word, word) for word in unsigned if word]


@lru_cache(maxsize=8192)
def _contains_most(content: frozenset[str], text_content: frozenset[str]) -> bool:
    share = 1.0 if len(content) <= ALL_OF else MOST_OF
    return len(content & text_content) >= share * len(content)


def _nonempty_texts(value: MetaValue | tuple[str, ...]) -> tuple[str, ...]:
    texts = value if isinstance(value, tuple) else (str(value),)
    return tuple(dict.fromkeys(text for text in texts if text.strip()))
