"""Measures of a response against its reference, and against passages, without a model."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain, pairwise
from typing import Any, TypeAlias, TypeVar

from ..core import Row, require
from ._measure import Measure
from ._retrieval import citation_value
from ._rubric import MeasureSetup
from ._words import (
    answer_words,
    content_words,
    edit_distance,
    f1,
    rouge,
    split_plain_words,
    split_raw_words,
    squad_words,
    words_with_articles,
)

_CHARACTERS = frozenset({"ja", "ko", "th", "lo", "km", "my"})


def language_of(row: Row, setup: MeasureSetup) -> str:
    """ISO code of a row's language: its own if it has one."""
    row_language = row.metadata.get("language")
    return row_language if isinstance(row_language, str) and row_language else setup.language


def references_of(row: Row) -> tuple[str, ...]:
    """The reference and any further accepted ones, from ``metadata["references"]``."""
    more = row.metadata.get("references")
    texts = (row.reference, *more) if isinstance(more, tuple) else (row.reference,)
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


def text_value(row: Row, measure: Measure, setup: MeasureSetup) -> Found:
    """A text measure of a row; for several accepted references the best counts.

    Returns the reason if there is nothing to judge.
    """
    language = language_of(row, setup)
    if measure.name in _KNOWLEDGE:
        return knowledge_value(row, measure, language)
    if measure.name.startswith("Citation"):
        return citation_value(row, measure)
    references = references_of(row)
    if measure.name == "AnswerRecall":
        return answer_recall(row, measure, references, language)
    if measure.name == "BLEU":
        return bleu(int(measure.parameter), row.response_text, references, language)
    formula = _AGAINST[measure.name]
    results = [formula(row.response_text, text, measure.parameter, language) for text in references]
    values = [value for value in results if not isinstance(value, str)]
    if not values:
        return results[0]
    return max(values) if measure.definition.higher_is_better else min(values)


def exact_match(response: str, reference: str, parameter: str, language: str) -> Found:
    """1 if both normalise to the same words, else 0."""
    response_words, reference_words = _normalise_words(response, reference, parameter, language)
    return float(response_words == reference_words)


def token_f1(response: str, reference: str, parameter: str, language: str) -> Found:
    """F1 of normalised words, each counted at most as often as in the other text."""
    response_words, reference_words = _normalise_words(response, reference, parameter, language)
    if not response_words or not reference_words:
        return float(response_words == reference_words)
    return f1(
        (Counter(response_words) & Counter(reference_words)).total(),
        len(response_words),
        len(reference_words),
    )


def contains(response: str, reference: str, parameter: str, language: str) -> Found:
    """1 if the reference's normalised words occur in sequence in the response, else 0."""
    response_words, reference_words = _normalise_words(response, reference, parameter, language)
    return float(stands_in(reference_words, response_words))


def _normalise_words(
    response: str, reference: str, parameter: str, language: str
) -> tuple[list[str], list[str]]:
    """Words of both texts; if normalising leaves nothing of the reference, a weaker one is used."""
    if parameter == "squad":
        return squad_words(response), squad_words(reference)
    for cut in (answer_words, words_with_articles, split_raw_words):
        if reference_words := cut(reference, language):
            return cut(response, language), reference_words
    return [], []  # a blank reference, which references_of leaves out


def stands_in(part: Sequence[str], whole: Sequence[str]) -> bool:
    """True if a list of words occurs in another one, in sequence."""
    size = len(part)
    return any(whole[at : at + size] == part for at in range(len(whole) - size + 1))


def character_distance(response: str, reference: str, parameter: str, language: str) -> Found:
    """Edits of characters over the length of the longer text, 0 (equal) to 1."""
    first, second = (unicodedata.normalize("NFC", text) for text in (response, reference))
    return edit_distance(first, second) / max(len(first), len(second))


def bleu(order: int, response: str, references: Sequence[str], language: str) -> float:
    """Sentence BLEU against all references together, 0 to 1, by sacrebleu.

    Raises:
        MissingExtraError: sacrebleu is not installed.
    """
    score = _bleu_metric(order, language).sentence_score(response, list(references)).score
    return min(1.0, float(score) / 100)


@cache
def _bleu_metric(order: int, language: str) -> Any:
    sacrebleu = require("sacrebleu.metrics", "measures", "BLEU")
    tokenize = "zh" if language == "zh" else "char" if language in _CHARACTERS else "13a"
    return sacrebleu.BLEU(
        max_ngram_order=order, effective_order=True, tokenize=tokenize, force=True
    )


def _rouge_of(response: str, reference: str, parameter: str, language: str) -> Found:
    return rouge(parameter, split_plain_words(response), split_plain_words(reference))


_KNOWLEDGE = frozenset({"KPrecision", "KF1"})

_AGAINST: dict[str, Callable[[str, str, str, str], Found]] = {
    "Contains": contains,
    "EditDistance": character_distance,
    "ExactMatch": exact_match,
    "ROUGE": _rouge_of,
    "TokenF1": token_f1,
}


Found: TypeAlias = float | str
"""A value, or the reason why there is none."""

T = TypeVar("T")

_WITH_BIGRAMS = "content+bigrams"

_NOTHING_KNOWN = "the retrieved contexts contain no words"
_NOTHING_SAID = "the response contains no words"


def knowledge_value(row: Row, measure: Measure, language: str) -> Found:
    """`KPrecision` or `KF1` of a row, 0 to 1, or the reason why it has none."""
    contexts = row.retrieved_contexts
    if measure.parameter == _WITH_BIGRAMS:
        return _content_and_bigrams(row.response_text, contexts, language)

    cut = content_words if measure.parameter == "content" else answer_words
    response_words = Counter(cut(row.response_text, language))
    passage_words = _piece_counts(cut(text, language) for text in contexts)
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
    passage_words = [split_plain_words(text) for text in contexts]
    if not any(passage_words):
        return _NOTHING_KNOWN
    content = Counter(content_words(response, language))
    if content:
        share_of_words = _known_share(
            content, _piece_counts(content_words(text, language) for text in contexts)
        )
    elif words:
        share_of_words = _known_share(Counter(words), _piece_counts(passage_words))
    else:
        return _NOTHING_SAID
    if len(words) < 2:
        return share_of_words
    pairs = _piece_counts(map(pairwise, passage_words))
    return (share_of_words + _known_share(Counter(pairwise(words)), pairs)) / 2


def _known_share(pieces: Counter[T], in_passages: Counter[T]) -> float:
    return (pieces & in_passages).total() / pieces.total()


def _piece_counts(texts: Iterable[Iterable[T]]) -> Counter[T]:
    return Counter(chain.from_iterable(texts))


SHORT_WORDS = 5
"""Most words of a short reference. A longer one is rarely repeated literally."""


def answer_recall(row: Row, measure: Measure, references: Sequence[str], language: str) -> Found:
    """The best value of an accepted reference in the first k passages, 0 to 1.

    A reference of at most :data:`SHORT_WORDS` words counts 1 if one passage contains its words in
    sequence, else 0: ``has_answer`` of Karpukhin et al. 2020 (DPR), with the words of `ExactMatch`,
    which keep the signs of numbers. A longer, free-text reference is rarely repeated word for word:
    it counts the largest share of its distinct content words and numbers (stems, without stop
    words) that one passage contains.
    """
    passages = row.retrieved_contexts[: measure.cutoff]
    values: list[float] = []
    for text in references:
        if len(answer_words(text, language)) > SHORT_WORDS:
            values.append(_largest_share(text, passages, language))
            continue
        pairs = (_normalise_words(passage, text, "", language) for passage in passages)
        values.append(float(any(stands_in(part, whole) for whole, part in pairs)))
    return max(values)


def _largest_share(reference: str, passages: Sequence[str], language: str) -> float:
    cut = content_words if content_words(reference, language) else answer_words
    reference_words = set(cut(reference, language))
    return max(
        (len(reference_words.intersection(cut(text, language))) for text in passages), default=0
    ) / len(reference_words)
