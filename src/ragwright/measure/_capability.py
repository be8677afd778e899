"""Capabilities shown by the response: refusing, asking back, reporting errors.

A response is recognised by cues: their words must occur in sequence, ignoring case, punctuation and
spacing; ``a|b`` is either of two words, and a cue that begins with ``=`` is the whole response.
Nothing else counts, so the generator's instructions must
match the cues (:class:`MeasureSetup`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..core import Row
from ._gold import NoGold, marked
from ._knowledge import Found
from ._measure import Measure
from ._setup import MeasureSetup
from ._text import contains, language_of, references_of
from ._words import plain_words


def recognised(response: str, cues: Sequence[str]) -> bool:
    """True if the words of at least one cue occur in the response in sequence."""
    pattern = _cue_pattern(tuple(cues))
    return pattern is not None and pattern.search(" ".join(plain_words(response))) is not None


@lru_cache(maxsize=16)
def _cue_pattern(cues: tuple[str, ...]) -> re.Pattern[str] | None:
    """One pattern over words separated by single spaces; None without a cue."""
    parts = [part for part in map(_cue_words, cues) if part]
    return re.compile(rf"(?<!\S)(?:{'|'.join(parts)})(?!\S)") if parts else None


def _cue_words(cue: str) -> str:
    """The pattern of one cue, word by word; empty if it has no words."""
    words = []
    for word in cue.removeprefix("=").split():
        alternatives = [re.escape(" ".join(plain_words(text))) for text in word.split("|")]
        if nonempty := [text for text in alternatives if text]:
            words.append(nonempty[0] if len(nonempty) == 1 else f"(?:{'|'.join(nonempty)})")
    is_whole = cue.startswith("=") and words
    return rf"\A{' '.join(words)}\Z" if is_whole else " ".join(words)


def capability_value(row: Row, measure: Measure, setup: MeasureSetup) -> Found:
    """1 or 0, or the reason why the row does not test the capability.

    Each measure uses only the rows that are marked to test it: what is right for a question without
    an answer is wrong for one with an answer.
    """
    if measure.name in _ANSWERABLE:
        return _rejection_value(row, setup, _ANSWERABLE[measure.name])
    if measure.name == "AskBackRate":
        if row.metadata.get("answerability") != "underspecified":
            return NoGold("the row is not marked `answerability: underspecified`")
        return float(recognised(row.response_text, setup.ask_back_cues))
    if marked(row, "falsified") is not True:
        return NoGold("the row is not marked `falsified: true`")
    detected = recognised(row.response_text, setup.error_cues)
    if measure.name == "ErrorDetection":
        return float(detected)
    if not detected and measure.parameter != "all":
        return "no error was reported"
    language = language_of(row, setup)
    results = [contains(row.response_text, text, "", language) for text in references_of(row)]
    values = [value for value in results if not isinstance(value, str)]
    return max(values) if values else results[0]


def _rejection_value(row: Row, setup: MeasureSetup, answerable: bool) -> Found:
    if marked(row, "answerable") is not answerable:
        return NoGold(f"the row is not marked `answerable: {str(answerable).lower()}`")
    return float(is_refusal(row, setup))


def is_refusal(row: Row, setup: MeasureSetup | None = None) -> bool:
    """True if a row's system declined to answer: it is marked ``abstained``, or says so."""
    refusals = (setup or MeasureSetup()).refusals
    return bool(marked(row, "abstained")) or recognised(row.response_text, refusals)


_ANSWERABLE = {"FalseRejectionRate": True, "RejectionRate": False}
"""The rows of a refusal rate."""
