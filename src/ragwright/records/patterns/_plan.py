r"""Patterns: which engine runs one is decided once, from the pattern alone.

Rust's engine wherever it means the same as Python's ``re`` (see ``_rust``), else Python
in a worker process with a time limit per row. The result is that of ``re`` either way. A pattern
that only Rust's engine accepts (``\p{Lu}``) means what it means there.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from ...core import PatternError, PatternToken
from ._kernels import refusal
from ._rust import Odd, Ranges, translate

PatternEngine: TypeAlias = Literal["rust", "python"]

_GROUP = re.compile(r"\$(?:(\$)|([0-9]+)|\{(\w+)\})")
_OPENING = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:(?!\?)|\?P?<([A-Za-z_]\w*)>)", re.DOTALL
)
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression and where it was written."""

    find: str
    where: str = field(default="", compare=False)

    @property
    def engine(self) -> PatternEngine:
        """What runs it to search; a replacement may need Python where a search does not."""
        return "rust" if plan_of(self.find).rust is not None else "python"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text that is literal but for ``$1``, ``${name}`` and ``$$``."""

    text: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Every match of a pattern becomes a replacement.

    Attributes:
        list_name: Name of the list it stands in.
    """

    list_name: str
    pattern: Pattern
    replacement: Replacement


@dataclass(frozen=True, slots=True)
class Plan:
    """How a pattern runs.

    Attributes:
        rust: For Rust's engine; None where Python must run it.
        loose: For Rust's engine: found wherever the pattern is; None where it says nothing.
        odd: Rows that Python must see all the same.
        empty: The pattern may match nothing at all: replacements are Python's.
        looped: Groups inside loops: replacements that name them are Python's.
        classes: The characters that it tells from others.
    """

    rust: str | None
    loose: str | None
    odd: frozenset[Odd]
    empty: bool
    looped: frozenset[int]
    classes: frozenset[Ranges] = frozenset()

    def replaces_in_rust(self, tokens: tuple[PatternToken, ...]) -> bool:
        """Whether a replacement is the same there."""
        # Daft takes \\1 for a group too, and has no way to write it as a text
        slashed = any(isinstance(token, str) and "\\" in token for token in tokens)
        return not (self.rust is None or self.empty or slashed or self.looped & set(tokens))


@lru_cache(maxsize=4096)
def plan_of(find: str) -> Plan:
    """The plan of a pattern.

    Raises:
        PatternError: Neither engine accepts it; with the words of both.
    """
    expression = compiled(find)
    if expression is None:
        return Plan(find, None, frozenset(), False, frozenset())
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = translate(expression)
    exact = told.exact if told.exact is not None and refusal(told.exact) is None else None
    loose = told.loose if told.loose is not None and refusal(told.loose) is None else None
    odd = told.odd if exact is not None else frozenset[Odd]()
    return Plan(exact, loose, odd, told.empty, told.looped, told.classes)


@lru_cache(maxsize=4096)
def compiled(find: str) -> re.Pattern[str] | None:
    """The pattern as Python compiles it; None where only Rust's engine accepts it.

    Raises:
        PatternError: Neither engine accepts it; with the words of both.
    """
    try:
        with _LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a syntax that may come; this one holds
            return re.compile(find)
    except (re.error, OverflowError, RecursionError) as error:
        reason = refusal(find)
        if reason is None:
            return None
        raise PatternError(
            f"the pattern {quoted(find)} does not compile: {error} (Python); {reason} (Rust)",
            hint="a character that means something in patterns stands for itself after a \\",
        ) from error


def _groups(find: str) -> tuple[int, Mapping[str, int]]:
    """How many groups a pattern has, and number by name."""
    expression = compiled(find)
    if expression is not None:
        return expression.groups, expression.groupindex
    names = [found[1] for found in _OPENING.finditer(find) if found[0].startswith("(")]
    return len(names), {name: at for at, name in enumerate(names, 1) if name}


@cache
def tokens_of(text: str, find: str) -> tuple[PatternToken, ...]:
    """A replacement as literals and numbers of groups.

    Raises:
        PatternError: It names a group that the pattern does not have.
    """
    groups, names = _groups(find)
    tokens: list[PatternToken] = []
    literal, at = "", 0
    for mark in _GROUP.finditer(text):
        literal += text[at : mark.start()]
        at = mark.end()
        if mark[1]:
            literal += "$"
            continue
        name = mark[2] or mark[3]
        number = int(name) if name.isdecimal() else names.get(name)
        if number is None or number > groups:
            raise PatternError(
                f"the replacement {quoted(text)} names the group {mark[0]}, "
                "which the pattern lacks",
                hint=f"for the text itself write ${mark[0]}; for a group before a digit ${{1}}",
            )
        tokens += [literal, number] if literal else [number]
        literal = ""
    literal += text[at:]
    return tuple([*tokens, literal] if literal else tokens)


def quoted(text: str) -> str:
    """A text in quotes for a message: control characters by their numbers, all else as it is."""
    shown = (
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    return f"'{''.join(shown)}'"
