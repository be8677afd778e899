"""Facts of a gold answer: content words and numbers that an answer should contain."""

from __future__ import annotations

from ...core import Row
from ...measure import SHORT_WORDS, answer_words, content_words, references_of, stands_in

RIGHT_SHARE = 0.5
"""Least share of a longer gold answer's facts in a right answer."""

RIGHT_ANSWER = (
    f"an answer is right if it holds a gold answer of up to {SHORT_WORDS} words word for word, or "
    "half of the content words and numbers of a longer one"
)
"""The rule of :func:`is_right` for readers."""

RIGHT_RULE = f"{RIGHT_ANSWER}; an abstention is wrong"
"""The same where every question should be answered."""


def facts_of(text: str, language: str = "en") -> frozenset[str]:
    """Return the facts of a text: its content words and numbers, as stems."""
    return frozenset(content_words(text, language))


def facts_kept(reference: str, response: str, language: str = "en") -> float | None:
    """Return the share of a gold answer's facts in an answer, 0 to 1; None without facts."""
    facts = facts_of(reference, language)
    return len(facts & facts_of(response, language)) / len(facts) if facts else None


def is_right(row: Row, response: str, language: str = "en") -> bool | None:
    """True if an answer is right by the gold answers; None for a row without one.

    A gold answer of up to 5 words must occur in it in sequence (as in ``Contains``); of a longer
    one, at least half of the content words and numbers must occur. If several gold answers are
    accepted, one is enough.
    """
    row_language = row.metadata.get("language")
    language = row_language if isinstance(row_language, str) and row_language else language
    response_words = answer_words(response, language)
    verdicts = []
    for reference in references_of(row):
        reference_words = answer_words(reference, language)
        if len(reference_words) <= SHORT_WORDS:
            verdicts.append(stands_in(reference_words, response_words))
        else:
            verdicts.append((facts_kept(reference, response, language) or 0.0) >= RIGHT_SHARE)
    return any(verdicts) if verdicts else None
