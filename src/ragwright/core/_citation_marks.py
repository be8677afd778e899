"""Citation marks such as ``[2]``: one grammar to find them and to neutralise them.

A reply cites by marks; text of a document must not look like one. Both use the same expression, so
whatever counts as a citation in a reply is neutralised in a passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._patterns import late_pattern

_MARK = late_pattern(
    r"[\[【]\s*+(\d{1,3}(?:\s*(?:,|;|&|and|et|[-–—])\s*\d{1,3})*+)\s*+(?:†[^\[\]【】]{0,40}+)?[\]】]"
)
"""One to three digits: a year in brackets is not a citation."""

_PART = late_pattern(r"(\d{1,3})\s*(?:[-–—]\s*(\d{1,3}))?")
_CODE = late_pattern(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_BEFORE_AN_INDEX = late_pattern(r"[\w\])\u2060]")
_FARTHEST = 50


@dataclass(frozen=True, slots=True)
class CitationMark:
    """A mark in a text: its place, and the numbers of the passages that it names."""

    start: int
    end: int
    numbers: tuple[int, ...]


def citation_marks(text: str) -> Iterator[CitationMark]:
    """The citation marks of a text in order: ``[1]``, ``[1-3]``, ``[1 and 2]``, ``【1†a】``.

    An index in code that directly follows a name, such as ``x[0]``, is not a mark.
    """
    at = 0
    for place, part in enumerate(_CODE.split(text)):
        for match in _MARK.finditer(part):
            before = part[max(0, match.start() - 1) : match.start()]
            if place % 2 and _BEFORE_AN_INDEX.match(before):
                continue
            yield CitationMark(at + match.start(), at + match.end(), _passage_numbers(match[1]))
        at += len(part)


def without_marks(text: str) -> str:
    """Put citation marks in round brackets, ``(2)``, so that they no longer count."""
    while marks := list(citation_marks(text)):
        pieces: list[str] = []
        at = 0
        for mark in marks:
            pieces += (text[at : mark.start], "(", text[mark.start + 1 : mark.end - 1], ")")
            at = mark.end
        text = "".join((*pieces, text[at:]))  # which may complete a mark around them
    return text


def _passage_numbers(numbers_text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for first, last in _PART.findall(numbers_text):
        low, high = int(first), int(last or first)
        # A reversed or very long range counts as its two ends only.
        numbers += range(low, high + 1) if 0 <= high - low <= _FARTHEST else (low, high)
    return tuple(numbers)
