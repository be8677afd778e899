"""Measures of a response against the passages it was written from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from sys import intern
from typing import TypeAlias, TypeVar

from ..core import Row
from ._measure import Measure
from ._rouge import f1
from ._words import answer_words, content_words, plain_words

Found: TypeAlias = float | str
"""A value, or the reason why there is none."""

Cut: TypeAlias = Callable[[str, str], list[str]]
"""The words of a text, by its language."""

T = TypeVar("T")

_WITH_BIGRAMS = "content+bigrams"
_KEPT_CHARACTERS = 2_500  # with the number of texts kept, about 8 MB at most

_NOTHING_KNOWN = "the retrieved contexts contain no words"
_NOTHING_SAID = "the response contains no words"


def knowledge_value(row: Row, measure: Measure, language: str) -> Found:
    """`KPrecision` or `KF1` of a row, 0 to 1, or the reason why it has none."""
    contexts = row.retrieved_contexts
    if measure.parameter == _WITH_BIGRAMS:
        return _content_and_bigrams(row.said, contexts, language)

    cut: Cut = content_words if measure.parameter == "content" else answer_words
    given = Counter(cut(row.said, language))
    known = _counted(_words_of(text, language, cut) for text in contexts)
    if not known:
        return _NOTHING_KNOWN
    if measure.name == "KPrecision":
        return _share(given, known) if given else _NOTHING_SAID
    return f1((given & known).total(), given.total(), known.total())


def _content_and_bigrams(response: str, contexts: Sequence[str], language: str) -> Found:
    """Mean of the shares of content words and of bigrams that are also in the passages, 0 to 1.

    Bigrams are of all words, so that function words and word order count. A response without
    content words (`Me too.`) is scored by all of its words instead; one with a single word has no
    bigram, and is scored by the word alone.
    """
    words = plain_words(response)
    known = [_words_of(text, language, _plain) for text in contexts]
    if not any(known):
        return _NOTHING_KNOWN
    content = Counter(content_words(response, language))
    if content:
        cut = (_words_of(text, language, content_words) for text in contexts)
        found = _share(content, _counted(cut))
    elif words:
        found = _share(Counter(words), _counted(known))
    else:
        return _NOTHING_SAID
    if len(words) < 2:
        return found
    pairs = _counted(map(pairwise, known))
    return (found + _share(Counter(pairwise(words)), pairs)) / 2


def _share(given: Counter[T], known: Counter[T]) -> float:
    """Share of the given items that are known, each counted at most as often as known."""
    return (given & known).total() / given.total()


def _counted(texts: Iterable[Iterable[T]]) -> Counter[T]:
    """Counts of each piece in several texts; no piece spans two texts."""
    return Counter(chain.from_iterable(texts))


def _plain(text: str, language: str) -> list[str]:
    return plain_words(text)


def _words_of(passage: str, language: str, cut: Cut) -> Sequence[str]:
    """The words of a passage; those of short ones are kept, since they come up in every trial."""
    short = len(passage) <= _KEPT_CHARACTERS
    return _kept_words(passage, language, cut) if short else cut(passage, language)


@lru_cache(maxsize=1024)
def _kept_words(passage: str, language: str, cut: Cut) -> tuple[str, ...]:
    return tuple(map(intern, cut(passage, language)))
