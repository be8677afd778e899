"""Measures of passages: a response against those it was written from, answers within them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, pairwise
from sys import intern
from typing import TypeAlias, TypeVar

from ..core import Row
from ._measure import Measure
from ._rouge import f1
from ._words import (
    answer_words,
    content_words,
    split_plain_words,
    split_raw_words,
    words_with_articles,
)

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
        return _content_and_bigrams(row.response_text, contexts, language)

    cut: Cut = content_words if measure.parameter == "content" else answer_words
    response_words = Counter(cut(row.response_text, language))
    passage_words = _piece_counts(_words_of(text, language, cut) for text in contexts)
    if not passage_words:
        return _NOTHING_KNOWN
    if measure.name == "KPrecision":
        return _known_share(response_words, passage_words) if response_words else _NOTHING_SAID
    return f1(
        (response_words & passage_words).total(), response_words.total(), passage_words.total()
    )


def _content_and_bigrams(response: str, contexts: Sequence[str], language: str) -> Found:
    """Mean of the shares of content words and of bigrams that are also in the passages, 0 to 1.

    Bigrams are of all words, so that function words and word order count. A response without
    content words (`Me too.`) is scored by all of its words instead; one with a single word has no
    bigram, and is scored by the word alone.
    """
    words = split_plain_words(response)
    passage_words = [_words_of(text, language, _plain_cut) for text in contexts]
    if not any(passage_words):
        return _NOTHING_KNOWN
    content = Counter(content_words(response, language))
    if content:
        cut = (_words_of(text, language, content_words) for text in contexts)
        share_of_words = _known_share(content, _piece_counts(cut))
    elif words:
        share_of_words = _known_share(Counter(words), _piece_counts(passage_words))
    else:
        return _NOTHING_SAID
    if len(words) < 2:
        return share_of_words
    pairs = _piece_counts(map(pairwise, passage_words))
    return (share_of_words + _known_share(Counter(pairwise(words)), pairs)) / 2


def _known_share(pieces: Counter[T], in_passages: Counter[T]) -> float:
    """Share of the given items that are known, each counted at most as often as known."""
    return (pieces & in_passages).total() / pieces.total()


def _piece_counts(texts: Iterable[Iterable[T]]) -> Counter[T]:
    """Counts of each piece in several texts; no piece spans two texts."""
    return Counter(chain.from_iterable(texts))


def _plain_cut(text: str, language: str) -> list[str]:
    return split_plain_words(text)


def _words_of(passage: str, language: str, cut: Cut) -> Sequence[str]:
    """The words of a passage; those of short ones are cached, since they come up in every trial."""
    short = len(passage) <= _KEPT_CHARACTERS
    return _kept_words(passage, language, cut) if short else cut(passage, language)


@lru_cache(maxsize=1024)
def _kept_words(passage: str, language: str, cut: Cut) -> tuple[str, ...]:
    return tuple(map(intern, cut(passage, language)))


SHORT_WORDS = 5
"""Most words of a short reference. A longer one is rarely repeated literally."""


def answer_recall(row: Row, measure: Measure, references: Sequence[str], language: str) -> Found:
    """The best value of an accepted reference in the first k passages, 0 to 1.

    A reference of at most :data:`SHORT_WORDS` words counts 1 if one passage contains its words in
    sequence, else 0: ``has_answer`` of Karpukhin et al. 2020 (DPR), with the words of `ExactMatch`,
    which keep the signs of numbers. A longer, free-text reference is rarely repeated word for word:
    it counts the largest share of its distinct content words and numbers (stems, without stop
    words) that one passage contains. With ``dpr`` every reference is looked for word for word, cut
    as DPR's SimpleTokenizer does.
    """
    passages = row.retrieved_contexts[: measure.cutoff]
    if measure.parameter == "dpr":
        return max(_in_sequence(text, passages, (dpr_words,)) for text in references)
    cuts = tuple(
        partial(cut, language=language)
        for cut in (answer_words, words_with_articles, split_raw_words)
    )
    return max(
        _in_sequence(text, passages, cuts)
        if len(answer_words(text, language)) <= SHORT_WORDS
        else _largest_share(text, passages, language)
        for text in references
    )


def dpr_words(text: str) -> list[str]:
    """Words as DPR's SimpleTokenizer cuts them: runs of letters, numbers and marks, in lower case
    and Unicode form NFD; every other visible sign is a word.
    """
    pieces: list[str] = []
    run = False
    for sign in unicodedata.normalize("NFD", text).lower():
        kind = _sign_kind(sign)
        if kind == "word" and run:
            pieces[-1] += sign
        elif kind:
            pieces.append(sign)
        run = kind == "word"
    return pieces


@cache
def _sign_kind(sign: str) -> str:
    """``word``, ``sign``, or empty for a blank or a control character."""
    first = unicodedata.category(sign)[0]
    return "word" if first in "LNM" else "" if first in "ZC" else "sign"


def _in_sequence(
    reference: str, passages: Sequence[str], cuts: Sequence[Callable[[str], list[str]]]
) -> float:
    """1 if a passage contains the words of a reference in sequence, else 0.

    Of several ways to cut, the first that leaves words of the reference is taken.
    """
    for cut in cuts:
        if reference_words := cut(reference):
            return float(any(_has_run(cut(text), reference_words) for text in passages))
    return 0.0


def _has_run(words: Sequence[str], run: Sequence[str]) -> bool:
    size = len(run)
    return any(
        words[at] == run[0] and words[at : at + size] == run for at in range(len(words) - size + 1)
    )


def _largest_share(reference: str, passages: Sequence[str], language: str) -> float:
    """The largest share of a reference's content words that one passage contains."""
    cut = content_words if content_words(reference, language) else answer_words
    reference_words = set(cut(reference, language))
    shared = (len(reference_words.intersection(cut(text, language))) for text in passages)
    return max(shared, default=0) / len(reference_words)
