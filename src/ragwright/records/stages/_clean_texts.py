"""Texts through the steps of a cleaning, a batch at a time."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import partial

from ...core import require
from .._patterns import Replace, replace_matches
from .._seams import ArrowTable
from ..declared import Cleaning, MaxRepeat, NamedStep

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")

_NAMED: dict[str, Callable[[str], str]] = {
    "strip": str.strip,
    "unescape_html": html.unescape,
    "normalise_unicode": partial(unicodedata.normalize, "NFKC"),
    "control_characters": partial(
        re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]").sub, ""
    ),
    "squeeze_spaces": partial(re.compile(r"\s+").sub, " "),
}


def clean_texts(texts: ArrowTable, keys: ArrowTable, cleaning: Cleaning) -> ArrowTable:
    """The texts after every step, and without NUL, which no step need ask for.

    A model, a terminal and a database each end a text at it, or refuse it.

    Args:
        texts: Arrow array of large strings; nulls stay.
        keys: Key of each row, for messages.
        cleaning: The steps.

    Raises:
        PatternError: A pattern took too long on a row; the row is named.
    """
    pa = require("pyarrow", "records", "cleaning records")
    values = without_nul(texts).to_pylist()
    for step in cleaning.steps:
        if isinstance(step, Replace):
            values = replace_matches(values, keys, step, cleaning.pattern_seconds)
            continue
        change = _NAMED[step.name] if isinstance(step, NamedStep) else _shortening(step)
        values = [None if value is None else change(value) for value in values]
    return without_nul(pa.array(values, pa.large_string()))


def without_nul(texts: ArrowTable) -> ArrowTable:
    """Texts without the character U+0000."""
    compute = require("pyarrow.compute", "records", "cleaning records")
    return compute.replace_substring(texts, "\x00", "")


def repeated_at_most(text: str, times: int, *, digits: bool = True) -> str:
    """A text in which no character (or none but digits) stands more than so many times in a row."""
    each = "(.)" if digits else r"(\D)"
    return re.sub(rf"{each}\1{{{times},}}", r"\1" * times, text, flags=re.DOTALL)


def _shortening(step: MaxRepeat) -> Callable[[str], str]:
    return partial(repeated_at_most, times=step.times, digits=step.digits)
