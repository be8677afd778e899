"""Measures of a response against its reference, or against the passages it was written from."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..core import Row, require
from ._edit import edit_distance
from ._knowledge import Found, answer_recall, knowledge_value
from ._measure import Measure
from ._rouge import f1, rouge
from ._setup import MeasureSetup
from ._spans import citation_value
from ._words import (
    answer_words,
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
    response_words, reference_words = _normalised_words(response, reference, parameter, language)
    return float(response_words == reference_words)


def token_f1(response: str, reference: str, parameter: str, language: str) -> Found:
    """F1 of normalised words, each counted at most as often as in the other text."""
    response_words, reference_words = _normalised_words(response, reference, parameter, language)
    if not response_words or not reference_words:
        return float(response_words == reference_words)
    return f1(
        (Counter(response_words) & Counter(reference_words)).total(),
        len(response_words),
        len(reference_words),
    )


def contains(response: str, reference: str, parameter: str, language: str) -> Found:
    """1 if the reference's normalised words occur in sequence in the response, else 0."""
    response_words, reference_words = _normalised_words(response, reference, parameter, language)
    return float(stands_in(reference_words, response_words))


def _normalised_words(
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
