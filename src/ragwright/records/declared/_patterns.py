"""Patterns and replacements in files."""

from __future__ import annotations

import unicodedata
from typing import Any

from ...core import PatternError
from .._patterns import Pattern, compile_pattern, quote_text, read_replacement_tokens
from ._file import SINGLE_QUOTES, DeclaredFile


def read_pattern(declared: DeclaredFile, value: Any, *path: str) -> Pattern | None:
    """A pattern from a file's value; one that does not compile is a fault."""
    text = declared.text(value, *path)
    if text is None or not _without_controls(declared, text, *path):
        return None
    try:
        compile_pattern(text)
    except PatternError as error:
        declared.fault(error.what, *path, hint=error.hint, kind=PatternError)
        return None
    return Pattern(text, declared.where(*path))


def read_replacement(
    declared: DeclaredFile, value: Any, pattern: Pattern | None, *path: str
) -> str | None:
    """A replacement from a file's value; a group that the pattern lacks is a fault."""
    if value is None or value == "":
        return ""
    text = declared.text(value, *path)
    if text is None or pattern is None or not _without_controls(declared, text, *path):
        return None
    try:
        read_replacement_tokens(text, pattern.find)
    except PatternError as error:
        declared.fault(error.what, *path, hint=error.hint, kind=PatternError)
        return None
    return text


def _without_controls(declared: DeclaredFile, text: str, *path: str) -> bool:
    r"""True if a text has no control characters, which YAML makes from ``\b`` in double quotes."""
    control = next((c for c in text if unicodedata.category(c) == "Cc" and c not in "\t\n\r"), "")
    if control:
        declared.fault(
            f"{quote_text(text)} contains a control character", *path, hint=SINGLE_QUOTES
        )
        return False
    return True
