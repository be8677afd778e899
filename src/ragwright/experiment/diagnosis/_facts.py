"""Facts of a gold answer in an answer: content words and numbers."""

from __future__ import annotations

from ...core import MetaValue, Row
from ...measure import answer_words, content_words, stands_in

SHORT_WORDS = 5
"""A gold answer with at most this many words must occur literally in the answer."""

RIGHT_SHARE = 0.5
"""Share of the facts of a longer one from which an answer is right."""


RIGHT_RULE = (
    f"an answer is right if it holds a gold answer of up to {SHORT_WORDS} words word for word, or "
    "half of the content words and numbers of a longer one; an abstention is wrong"
)
"""The rule of :func:`is_right` for readers."""


def facts_of(text: str, language: str = "en") -> frozenset[str]:
    """The facts of a text: its content words and numbers, as stems."""
    return frozenset(content_words(text, language))


def facts_kept(reference: str, response: str, language: str = "en") -> float | None:
    """Share of a gold answer's facts in an answer, 0 to 1; None without facts."""
    due = facts_of(reference, language)
    return len(due & facts_of(response, language)) / len(due) if due else None


def is_right(row: Row, response: str, language: str = "en") -> bool | None:
    """True if an answer is right by the gold answers; None for a row without one.

    A gold answer of up to 5 words must occur in it in sequence (as in ``Contains``), of a longer
    one at least half of its content words and numbers. With several accepted ones any one is
    enough.
    """
    own = row.metadata.get("language")
    language = own if isinstance(own, str) and own else language
    said = answer_words(response, language)
    verdicts = []
    for reference in _references(row.reference, row.metadata.get("references")):
        due = answer_words(reference, language)
        if len(due) <= SHORT_WORDS:
            verdicts.append(stands_in(due, said))
        else:
            verdicts.append((facts_kept(reference, response, language) or 0.0) >= RIGHT_SHARE)
    return any(verdicts) if verdicts else None


def _references(first: str, more: MetaValue | None) -> tuple[str, ...]:
    found = (first, *more) if isinstance(more, tuple) else (first,)
    return tuple(text for text in found if text.strip())
