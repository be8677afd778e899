r"""Patterns: which engine runs one is decided once, from the pattern alone.

Rust's engine runs it where it means the same as in Python's ``re`` (see ``_dialects``), else
Python does, in a worker process with a time limit per row. The result is that of ``re`` either
way. A pattern that only Rust's engine accepts (``\p{Lu}``) means what it means there.
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
from ._dialects import Plan, read_plan
from ._kernels import refusal

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
        """The engine that searches with it; a replacement may need Python even so."""
        return "python" if plan_of(self.find).rust is None else "rust"


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


@lru_cache(maxsize=4096)
def plan_of(find: str) -> Plan:
    """Return the part of a pattern that Rust's engine can run.

    Raises:
        PatternError: Neither engine accepts it; with the words of both.
    """
    if compiled(find) is None:
        return Plan(find, find)
    with _LOCK:
        plan = read_plan(find)
    return plan if refusal(plan.loose if plan.rust is None else plan.rust) is None else Plan(None)


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
    """Return the number of a pattern's groups, and the number of each name."""
    expression = compiled(find)
    if expression is not None:
        return expression.groups, expression.groupindex
    names = [opening[1] for opening in _OPENING.finditer(find) if opening[0].startswith("(")]
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
