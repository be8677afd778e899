"""Patterns and replacements in files."""

from __future__ import annotations

import unicodedata
from typing import Any

from ...core import PatternError
from .. import patterns
from ._file import SINGLE_QUOTES, Declared


def read_pattern(declared: Declared, value: Any, *path: str) -> patterns.Pattern | None:
    """A pattern from a file's value; one that no engine accepts is a fault."""
    text = declared.text(value, *path)
    if text is None or not _without_controls(declared, text, *path):
        return None
    try:
        patterns.compiled(text)
    except PatternError as error:
        declared.fault(error.what, *path, hint=error.hint, kind=PatternError)
        return None
    return patterns.Pattern(text, declared.where(*path))


def read_replacement(
    declared: Declared, value: Any, pattern: patterns.Pattern | None, *path: str
) -> patterns.Replacement | None:
    """A replacement from a file's value; a group that the pattern lacks is a fault."""
    if value is None or value == "":
        return patterns.Replacement("")
    text = declared.text(value, *path)
    if text is None or pattern is None or not _without_controls(declared, text, *path):
        return None
    try:
        patterns.tokens_of(text, pattern.find)
    except PatternError as error:
        declared.fault(error.what, *path, hint=error.hint, kind=PatternError)
        return None
    return patterns.Replacement(text)


def _without_controls(declared: Declared, text: str, *path: str) -> bool:
    r"""True if a text has no control characters, which YAML makes from ``\b`` in double quotes."""
    control = next((c for c in text if unicodedata.category(c) == "Cc" and c not in "\t\n\r"), "")
    if control:
        declared.fault(
            f"{patterns.quoted(text)} contains a control character", *path, hint=SINGLE_QUOTES
        )
        return False
    return True
