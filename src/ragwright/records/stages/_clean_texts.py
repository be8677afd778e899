"""Texts through the steps of a cleaning, a batch at a time."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from functools import cache, partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ...core import require
from .._seams import ArrowTable
from ..declared import Cleaning, CleaningStep, MaxRepeat, NamedStep
from ..patterns import Pattern, Replace, Replacement, found_in, replaced

_BY_PATTERN = {
    "strip": Replace("strip", Pattern(r"\A\s+|\s+\Z"), Replacement("")),
    "control_characters": Replace(
        "control_characters",
        Pattern(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]"),
        Replacement(""),
    ),
    # a single blank stays as it is: most of them do, and replacing each by itself takes time
    "squeeze_spaces": Replace("squeeze_spaces", Pattern(r"\s{2,}|[^\S ]"), Replacement(" ")),
}
"""Named steps that are replacements."""

_SQUEEZED = (Pattern(r"\s+"), Replacement(" "))
"""The usual handwritten form of the step."""


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
    texts = without_nul(texts)
    steps = [_by_pattern(step) for step in cleaning.steps]
    for by_pattern, several in groupby(steps, lambda step: isinstance(step, Replace)):
        if by_pattern:
            chain = [step for step in several if isinstance(step, Replace)]
            texts = replaced(texts, keys, chain, cleaning.pattern_seconds)
            continue
        for step in several:
            rows, change = _slow(step, texts)
            texts = _changed(texts, rows, change)
    return without_nul(texts)


def without_nul(texts: ArrowTable) -> ArrowTable:
    """Texts without the character U+0000."""
    compute = require("pyarrow.compute", "records", "cleaning records")
    return compute.replace_substring(texts, "\x00", "")


def repeated_at_most(text: str, times: int, *, digits: bool = True) -> str:
    """A text in which no character (or none but digits) stands more than so many times in a row."""
    each = "(.)" if digits else r"(\D)"
    return re.sub(rf"{each}\1{{{times},}}", r"\1" * times, text, flags=re.DOTALL)


def _by_pattern(step: CleaningStep) -> CleaningStep:
    if isinstance(step, Replace) and (step.pattern, step.replacement) == _SQUEEZED:
        return _BY_PATTERN["squeeze_spaces"]
    return _BY_PATTERN.get(step.name, step) if isinstance(step, NamedStep) else step


def _slow(step: CleaningStep, texts: ArrowTable) -> tuple[NDArray[np.bool_], Callable[[str], str]]:
    """The rows that a step may change, and what it makes of a text."""
    compute = require("pyarrow.compute", "records", "cleaning records")
    if isinstance(step, MaxRepeat):
        change = partial(repeated_at_most, times=step.times, digits=step.digits)
        return found_in(texts, [_repeats(step.times)])[:, 0], change
    if isinstance(step, NamedStep) and step.name == "unescape_html":
        return found_in(texts, ["&"])[:, 0], html.unescape
    plain = compute.fill_null(compute.string_is_ascii(texts), True)
    return ~np.asarray(plain), lambda t: unicodedata.normalize("NFKC", t)


@cache
def _repeats(times: int) -> str:
    """Found wherever a character stands more than so many times, and in runs of non-ASCII ones."""
    ascii_runs = "|".join(rf"\x{{{code:X}}}{{{times + 1},}}" for code in range(128))
    return rf"{ascii_runs}|[^\x00-\x7f]{{{times + 1},}}"


def _changed(
    texts: ArrowTable, rows: NDArray[np.bool_], change: Callable[[str], str]
) -> ArrowTable:
    """The texts with some rows changed, each distinct text once."""
    pa = require("pyarrow", "records", "cleaning records")
    which = np.nonzero(rows)[0]
    if not len(which):
        return texts
    coded = texts.take(which).dictionary_encode()
    changed_texts = [change(text) for text in coded.dictionary.to_pylist()]
    both = pa.concat_arrays([texts, pa.array(changed_texts, pa.large_string())])
    at = np.arange(len(texts))
    at[which] = len(texts) + np.asarray(coded.indices)
    return both.take(pa.array(at))
