"""Signs in questions and values: they compare numbers, or tell ``A+`` from ``A``."""

from __future__ import annotations

import re
from collections.abc import Iterable

SIGN = (
    r"<>|!=|=[<>]|[<>]=?|[=≤≥≠≈~±+^*]"
    r"|(?<=\w)(?:[-−](?!\w)|#)|(?<!\S)\.(?=[^\W\d_])"  # A-, C#, .NET
)
"""Pattern of the signs that make another value of a word, or compare."""
RANGE = r"(?<=\d)\s*[-–—−]\s*(?=\d)"
"""Pattern of a dash between numbers, which may mean a range."""
COMPARING = {
    ">": ">", ">=": ">=", "=>": ">=", "≥": ">=", "<": "<", "<=": "<=", "=<": "<=", "≤": "<=",
    "=": "=",
}  # fmt: skip
UNEQUAL = frozenset(["!=", "<>", "≠"])
_ALONE = re.compile(r"<>|!=|=[<>]|[<>]=?|[=≤≥≠≈~±+^*#.–—−-]")
_SIGNS = re.compile(rf"{SIGN}|(?<![\w.,])[-−](?=\d)|[€$£¥%]")


def signs(text: str) -> tuple[str, ...]:
    """The signs of a text that make another value of its words, in their order."""
    return tuple(match[0].replace("−", "-") for match in _SIGNS.finditer(text))


def is_sign(word: str) -> bool:
    """True for a word of a question that is such a sign, or a dash between numbers."""
    return not any(map(str.isalnum, word)) and bool(_ALONE.fullmatch(word))


def written_so(values: Iterable[str], text: str) -> tuple[str, ...]:
    """Those of several values with the same words that a question can mean.

    They have its signs. Where their digits are separated by different marks, such as ``1.2`` and
    ``1-2``, they are also written as in the question.
    """
    alike = tuple(value for value in values if signs(value) == signs(text))
    if len({_plain(value) for value in alike}) > 1 and any(map(str.isdigit, text)):
        return tuple(value for value in alike if _plain(value) == _plain(text))
    return alike


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
