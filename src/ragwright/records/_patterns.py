r"""Patterns over texts: the module ``regex``, which ends a search that takes too long.

Its syntax is that of Python's ``re``, and more (``\p{Lu}``, possessive loops).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import regex
from numpy.typing import NDArray

from ..core import PatternError
from ._seams import ArrowTable

T = TypeVar("T")

_LONG = 100_000
"""Characters of a text that may take the limit once."""

_SHORT = 3_000
"""Characters of a text in which a quick pattern needs no limit."""

_ATOM = regex.compile(
    r"\(\?[aimsx]+\)|\\[pPN]\{[^}]*}|\\[^1-9gkL]|\[(?:\\.|[^]\\])+]", regex.DOTALL
)
_QUICK = regex.compile(
    r"(?!.*\(\?[R\d&P+-])[^*+{\\]*+(?:(?<!\))(?:[*+]|\{\d*,?\d*\})[^*+{\\]*+)?", regex.DOTALL
)
"""One loop at most, and not over a group; no recursion, back reference or fuzzy match."""

_GROUP = regex.compile(r"\$(?:(\$)|([0-9]+)|\{(\w+)\})")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression and where it was written (``file:line``)."""

    find: str
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Replace:
    """Every match of a pattern becomes a replacement.

    Attributes:
        list_name: Name of the list it stands in.
        replacement: A text that is literal but for ``$1``, ``${name}`` and ``$$``.
    """

    list_name: str
    pattern: Pattern
    replacement: str = ""


@lru_cache(maxsize=4096)
def compile_pattern(pattern: Pattern) -> Any:
    """A compiled pattern.

    Raises:
        PatternError: It does not compile.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a syntax that may come; this one holds
            return regex.compile(pattern.find)
    except (regex.error, OverflowError, RecursionError) as error:
        raise PatternError(
            f"the pattern {quote_text(pattern.find)} does not compile: {error}",
            where=pattern.where,
            hint="a character that means something in patterns stands for itself after a \\",
        ) from error


def match_rows(
    texts: ArrowTable, keys: ArrowTable, patterns: Sequence[Pattern], seconds: float
) -> NDArray[np.bool_]:
    """Search texts for patterns: a mask of the hits, shape (rows, patterns).

    Args:
        texts: Arrow array of texts; nothing is found in a null.
        keys: Key of each row, for messages.
        patterns: To search for.
        seconds: Most seconds of one pattern on one row; more for texts over 100,000 characters.

    Raises:
        PatternError: A pattern took longer; it and the row are named.
    """
    values = texts.to_pylist()
    hits = np.zeros((len(values), len(patterns)), np.bool_)
    for at, pattern in enumerate(patterns):
        matches = _each(values, keys, (pattern, seconds), compile_pattern(pattern).search)
        hits[:, at] = [match is not None for match in matches]
    return hits


def replace_matches(
    texts: Sequence[str | None], keys: ArrowTable, step: Replace, seconds: float
) -> list[str | None]:
    """Texts with every match replaced; arguments and errors are those of :func:`match_rows`."""
    substitute = partial(compile_pattern(step.pattern).sub, replacement_template(step))
    return _each(texts, keys, (step.pattern, seconds), substitute)


def _each(
    texts: Sequence[str | None],
    keys: ArrowTable,
    limits: tuple[Pattern, float],
    run: Callable[..., T],
) -> list[T | None]:
    pattern, seconds = limits
    if is_quick(pattern.find) and max(map(len, filter(None, texts)), default=0) <= _SHORT:
        return [None if text is None else run(text) for text in texts]
    results: list[T | None] = []
    try:
        for text in texts:
            limit = seconds * max(1, len(text or "") / _LONG)
            results.append(None if text is None else run(text, timeout=limit))
    except TimeoutError as error:
        raise PatternError(
            f"the pattern {quote_text(pattern.find)} took longer than {seconds:g} s on the row "
            f"{keys[len(results)].as_py()!r}: it backtracks",
            where=pattern.where,
            hint="avoid a loop within a loop, such as (a+)+; pattern_seconds in the file allows "
            "more time",
        ) from error
    return results


def is_quick(find: str) -> bool:
    """Whether the time of a pattern grows at most with the square of a text.

    A time limit costs more than most searches: the module reads the clock of the process.
    """
    plain = _ATOM.sub("x", find)
    branches = plain.count("(") + plain.count("?")  # each can double the time
    most = 4 if regex.search("[*+{]", plain) else 12
    return branches <= most and bool(_QUICK.fullmatch(plain))


def replacement_template(step: Replace) -> str:
    """A replacement as a template of ``regex``, which calls no Python for each match.

    Raises:
        PatternError: It names a group that the pattern does not have.
    """
    expression = compile_pattern(step.pattern)

    def group(mark: Any) -> str:
        if mark[1]:
            return "$"
        name = mark[2] or mark[3]
        number = int(name) if name.isdecimal() else expression.groupindex.get(name)
        if number is None or number > expression.groups:
            raise PatternError(
                f"the replacement {quote_text(step.replacement)} names the group {mark[0]}, "
                "which the pattern lacks",
                where=step.pattern.where,
                hint=f"for the text itself write ${mark[0]}; for a group before a digit ${{1}}",
            )
        return f"\\g<{number}>"

    template: str = _GROUP.sub(group, step.replacement.replace("\\", "\\\\"))
    return template


def quote_text(text: str) -> str:
    """A text in quotes for a message: control characters by their numbers, all else as it is."""
    shown = (
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    return f"'{''.join(shown)}'"
