"""Borders within a text: where paragraphs, sentences and lines begin."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..models import sentence_spans

_PARAGRAPH = re.compile(r"\n(?:[^\S\n]*\n)+")


def paragraph_borders(text: str) -> Iterator[int]:
    """Find the ends of runs of blank lines, ascending; indentation belongs to the next line."""
    return (match.end() for match in _PARAGRAPH.finditer(text))


def line_borders(text: str) -> Iterator[int]:
    """Find the ends of line breaks, ascending."""
    return (at + 1 for at, character in enumerate(text) if character == "\n")


def sentence_borders(text: str, language: str) -> Iterator[int]:
    """Find where sentences other than the first begin, ascending."""
    return (span.start for span in sentence_spans(text, language)[1:])
