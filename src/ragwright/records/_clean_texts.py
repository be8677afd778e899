"""Texts through the steps of a cleaning, a batch at a time."""

from __future__ import annotations

import html
import re
import unicodedata

from ..core import require
from ._cleaning import Cleaning, MaxRepeat, NamedStep
from ._patterns import replaced
from ._seams import ArrowTable


def clean_texts(texts: ArrowTable, keys: ArrowTable, cleaning: Cleaning) -> ArrowTable:
    """The texts after every step.

    Args:
        texts: Arrow array of large strings; nulls stay.
        keys: Key of each row, for messages.
        cleaning: The steps.

    Raises:
        PatternError: A pattern took too long on a row; the row is named.
    """
    pa = require("pyarrow", "records", "cleaning records")
    for step in cleaning.steps:
        if isinstance(step, NamedStep):
            texts = pa.array([_named(step.name, t) for t in texts.to_pylist()], pa.large_string())
        elif isinstance(step, MaxRepeat):
            found = re.compile(rf"(.)\1{{{step.times},}}", re.DOTALL)
            cut = rf"{chr(92)}1" * step.times
            texts = pa.array(
                [t and found.sub(cut, t) for t in texts.to_pylist()], pa.large_string()
            )
        else:
            texts = replaced(texts, keys, [step], cleaning.pattern_seconds)
    return texts


def _named(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    if name == "strip":
        return text.strip()
    if name == "unescape_html":
        return html.unescape(text)
    if name == "normalise_unicode":
        return unicodedata.normalize("NFKC", text)
    return re.sub(r"\s+", " ", text)
