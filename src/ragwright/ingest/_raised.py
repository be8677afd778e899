"""Raised and lowered text as plain text: 10⁶, CO₂, x^(a+b), V_max."""

from __future__ import annotations

import re
from collections.abc import Iterable

SUPERSCRIPTS = str.maketrans("0123456789+-\u2212()=ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁽⁾⁼ⁿⁱ")
"""For ``str.translate``: digits and signs to raised ones."""

_DOWN = str.maketrans("0123456789+-\u2212()=", "₀₁₂₃₄₅₆₇₈₉₊₋₋₍₎₌")
_PLAIN = re.compile(
    r"(?i)(?:st|nd|rd|th|er|re|e|ère|ème|ers|os?|as?|ter|te|tm|sm|mme|lle|me|le|ᵉ)\.?|[^\w+\-\u2212]+"
)
"""Raised text that is read as it is: endings of ordinals, signs such as ° and *."""
_MARK = re.compile(r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*")
_AFTER_WORD = re.compile(r"(?:[^\W\d_]{4,}|[^\W\d_]\)|[.,;:!?”\"»’\]])$")
"""What a number of a note stands after; after a shorter word it is an exponent: cm², Ca²."""

Raised = tuple[str, int]
"""A piece of text, and 1 if it is raised, -1 if it is lowered."""


def join_raised(pieces: Iterable[Raised]) -> str:
    """Join pieces of text; neighbours at the same height are one."""
    joined, waiting, height = "", "", 0
    for text, level in (*pieces, ("", 2)):
        if level != height:
            joined += spell_raised(waiting, joined, height)
            waiting, height = "", level
        waiting += text
    return joined


def spell_raised(text: str, before: str, height: int) -> str:
    """Return a piece as it is written after the text before it; ``height`` as in ``Raised``."""
    bare = text.strip()
    if not height or not bare or not before.strip() or "\n" in bare:
        return text
    start, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if height > 0 and _PLAIN.fullmatch(bare):
        return text
    if height > 0 and _MARK.fullmatch(bare) and _AFTER_WORD.search(before):
        return f" {bare.translate(SUPERSCRIPTS)}{end}"
    small = bare.translate(SUPERSCRIPTS if height > 0 else _DOWN)
    if any(character.isascii() for character in small):
        inner = bare if re.fullmatch(r"\w+|[+\-\u2212]\w", bare) else f"({bare})"
        small = f"{'^' if height > 0 else '_'}{inner}"
    return f"{start}{small}{end}"
