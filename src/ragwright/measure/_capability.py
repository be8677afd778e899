"""Capabilities read off the response: refusing, noticing an error, mending it.

A response is recognised by cues: their words must stand in it in a row, case, punctuation and
width of spaces aside. Nothing else is read into it, so what a generator is told to say must
match what is looked for here (:class:`MeasureSetup`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core import Row
from ._gold import NoGold
from ._measure import Measure
from ._setup import MeasureSetup
from ._text import Found, contains, language_of, references_of, stands_in
from ._words import plain_words


def recognised(response: str, cues: Sequence[str]) -> bool:
    """True where the words of at least one cue stand in the response in a row."""
    said = plain_words(response)
    return any(words and stands_in(words, said) for words in map(plain_words, cues))


def capability_value(row: Row, measure: Measure, setup: MeasureSetup) -> Found:
    """1 or 0, or the reason why the row does not test the capability."""
    if measure.name == "RejectionRate":
        if row.metadata.get("answerable") is True:
            return NoGold("the row is marked as answerable")
        if row.metadata.get("abstained") is True:
            return 1.0
        return float(recognised(row.response, setup.rejection_cues))
    if row.metadata.get("falsified") is False:
        return NoGold("the row is marked as not falsified")
    detected = recognised(row.response, setup.error_cues)
    if measure.name == "ErrorDetection":
        return float(detected)
    if not detected:
        return "no error was pointed out"
    language = language_of(row, setup)
    found = [contains(row.response, text, "", language) for text in references_of(row)]
    values = [value for value in found if not isinstance(value, str)]
    return max(values) if values else found[0]
