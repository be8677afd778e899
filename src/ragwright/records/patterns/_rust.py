r"""A Python pattern as one of Rust's engine, which needs no backtracking and lets go of the lock.

The pattern is parsed by Python itself and written out again, so that every class, flag and anchor
means what it means in Python: ``\s``, ``\d``, ``\w`` and letters without case become the very
characters that ``re`` takes for them, whatever the Unicode version of either engine.

What cannot be said there exactly stays with Python: look-around, back-references, conditions,
atomic groups, ``\B``, loops over what may be empty. For these a *loose* pattern is made that
matches at least wherever the exact one does, so that Python sees only rows that may match.
Two things are exact but for some rows: ``\b`` where the engines disagree on what a word is
(``word``), and ``$`` before a last line break (``line``).
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

Odd: TypeAlias = Literal["word", "line"]
"""Kinds of rows on which the exact pattern would not be exact."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points, both ends included, rising, without surrogates."""

_BLOCK = 256
"""Characters that are looked at as one: most blocks have no case at all."""

_TYPE_FLAGS = re.ASCII | re.UNICODE
"""Of which only one holds at a time."""


@dataclass(frozen=True, slots=True)
class Translation:
    """What Rust's engine can do of a pattern.

    Attributes:
        exact: Pattern with the same matches, None where there is none.
        loose: Pattern found in every text in which the pattern is; None where it says nothing.
        odd: Rows on which ``exact`` is not to be trusted.
        empty: The pattern may match nothing at all, which the engines go on from differently.
        looped: Numbers of groups inside a loop.
        classes: The characters that it tells from others.
    """

    exact: str | None
    loose: str | None
    odd: frozenset[Odd] = frozenset()
    empty: bool = False
    looped: frozenset[int] = frozenset()
    classes: frozenset[Ranges] = frozenset()


def translate(compiled: re.Pattern[str]) -> Translation:
    """The translation of a compiled pattern; nothing where its tree holds anything unknown."""
    parser = importlib.import_module("re._parser")
    try:
        tree = parser.parse(compiled.pattern)
        writer = _Writer(tree.state.flags)
        loose = _Writer(tree.state.flags, loose=True)
        exact = writer.sequence(tree)
        empty = tree.getwidth()[0] == 0
        told = None if empty else loose.sequence(tree)
    except (_Untold, RecursionError, OverflowError, AttributeError, TypeError, ValueError):
        return Translation(None, None, empty=True)
    return Translation(
        None if writer.inexact else exact,
        told,
        frozenset(writer.odd),
        empty,
        frozenset(writer.looped),
        frozenset(writer.classes),
    )


class _Untold(Exception):
    """A node that no word is known for."""


@dataclass(slots=True)
class _Writer:
    """Writes a tree of ``re._parser`` down as a pattern for Rust."""

    flags: int
    loose: bool = False
    inexact: bool = False
    odd: set[Odd] = field(default_factory=set)
    looped: set[int] = field(default_factory=set)
    classes: set[Ranges] = field(default_factory=set)
    _loops: int = 0
    _groups: int = 0

    def sequence(self, nodes: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._node(str(op), value) for op, value in nodes)

    def _node(self, op: str, value: Any) -> str:
        write = _NODES.get(op)
        if write is None:
            raise _Untold(op)
        return write(self, value)

    def _literal(self, value: int) -> str:
        return self._told(_letter(value, self._marks()), negated=False)

    def _not_literal(self, value: int) -> str:
        return self._told(_letter(value, self._marks()), negated=True)

    def _any(self, _: Any) -> str:
        return "(?s:.)" if self.flags & re.DOTALL else r"[^\n]"

    def _in(self, items: list[tuple[Any, Any]]) -> str:
        negated = bool(items) and str(items[0][0]) == "NEGATE"
        found: list[tuple[int, int]] = []
        marks = self._marks()
        for op, value in items[1:] if negated else items:
            name = str(op)
            if name == "LITERAL":
                found += _letter(value, marks)
            elif name == "RANGE":
                found += _range(value[0], value[1], marks)
            elif name == "CATEGORY":
                found += _category(str(value), self._ascii())
            else:
                raise _Untold(name)
        return self._told(_merged(found), negated)

    def _told(self, ranges: Ranges, negated: bool) -> str:
        self.classes.add(ranges)
        return _class(ranges, negated)

    def _at(self, value: Any) -> str:
        name = str(value)
        lines = bool(self.flags & re.MULTILINE)
        if self.loose:
            return ""
        if name == "AT_BEGINNING_STRING" or (name == "AT_BEGINNING" and not lines):
            return r"\A"
        if name == "AT_BEGINNING":
            return "(?m:^)"
        if name == "AT_END_STRING":
            return r"\z"
        if name == "AT_END":
            if lines:
                return "(?m:$)"
            self.odd.add("line")
            return r"\z"
        if name == "AT_BOUNDARY":
            if self._ascii():
                return r"(?-u:\b)"
            self.odd.add("word")
            return r"\b"
        return self._inexact()

    def _branch(self, value: Any) -> str:
        return f"(?:{'|'.join(self.sequence(nodes) for nodes in value[1])})"

    def _subpattern(self, value: Any) -> str:
        group, added, taken, nodes = value
        before = self.flags
        kept = before
        if added & _TYPE_FLAGS:
            kept &= ~_TYPE_FLAGS
            self._inexact()  # (?a:…) means one thing to re.match and another to re.search
        self.flags = (kept | added) & ~taken
        if group is not None and not self.loose:
            self._groups += 1
            if group != self._groups:
                raise _Untold("groups out of order")
            if self._loops:
                self.looped.add(group)
        inner = self.sequence(nodes)
        self.flags = before
        return f"({inner})" if group is not None and not self.loose else f"(?:{inner})"

    def _loop(self, value: Any, lazy: str = "") -> str:
        low, high, nodes = value
        top = "" if str(high) == "MAXREPEAT" else str(high)
        again = top != "1"
        self._loops += again
        inner = self.sequence(nodes)
        self._loops -= again
        if nodes.getwidth()[0] == 0:
            self._inexact()
        return f"(?:{inner}){{{low},{top}}}{lazy}"

    def _lazy_loop(self, value: Any) -> str:
        return self._loop(value, "?")

    def _greedy_only(self, value: Any) -> str:
        self._inexact()
        return self._loop(value)

    def _atomic(self, value: Any) -> str:
        self._inexact()
        return f"(?:{self.sequence(value)})"

    def _back_reference(self, _: Any) -> str:
        self._inexact()
        return "(?s:.)*"

    def _condition(self, value: Any) -> str:
        self._inexact()
        _, yes, no = value
        return f"(?:{self.sequence(yes)}|{self.sequence(no or [])})"

    def _inexact(self, *_: Any) -> str:
        self.inexact = True
        return ""

    def _ascii(self) -> bool:
        return bool(self.flags & re.ASCII)

    def _marks(self) -> str:
        """Flags that change which characters a letter stands for, as a pattern writes them."""
        if not self.flags & re.IGNORECASE:
            return ""
        return "ai" if self._ascii() else "i"


_NODES: dict[str, Callable[[_Writer, Any], str]] = {
    "LITERAL": _Writer._literal,
    "NOT_LITERAL": _Writer._not_literal,
    "ANY": _Writer._any,
    "IN": _Writer._in,
    "AT": _Writer._at,
    "BRANCH": _Writer._branch,
    "SUBPATTERN": _Writer._subpattern,
    "MAX_REPEAT": _Writer._loop,
    "MIN_REPEAT": _Writer._lazy_loop,
    "POSSESSIVE_REPEAT": _Writer._greedy_only,
    "ATOMIC_GROUP": _Writer._atomic,
    "ASSERT": _Writer._inexact,
    "ASSERT_NOT": _Writer._inexact,
    "GROUPREF": _Writer._back_reference,
    "GROUPREF_EXISTS": _Writer._condition,
    "FAILURE": _Writer._inexact,
}


def _class(ranges: Iterable[tuple[int, int]], negated: bool) -> str:
    """A class of Rust's engine; a single character stands alone."""
    told = [
        f"\\x{{{low:X}}}" if low == high else f"\\x{{{low:X}}}-\\x{{{high:X}}}"
        for low, high in _without_surrogates(ranges)
    ]
    if not told:
        return "(?s:.)" if negated else r"[^\x{0}-\x{10FFFF}]"
    if len(told) == 1 and not negated and "-" not in told[0]:
        return told[0]
    return f"[{'^' if negated else ''}{''.join(told)}]"


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The ranges less the code points that no UTF-8 text holds."""
    for low, high in ranges:
        if low < 0xD800:
            yield low, min(high, 0xD7FF)
        if high > 0xDFFF:
            yield max(low, 0xE000), high


def _letter(code: int, marks: str) -> Ranges:
    """What a letter stands for."""
    return _range(code, code, marks)


@cache
def _range(low: int, high: int, marks: str) -> Ranges:
    if not marks:
        return ((low, high),)
    written = f"(?{marks})[\\U{low:08x}-\\U{high:08x}]"
    cased = [ord(character) for character in re.findall(written, _cased())]
    return _merged([(low, high), *((code, code) for code in cased)])


def _category(name: str, ascii_only: bool) -> Ranges:
    letter = {"SPACE": "s", "DIGIT": "d", "WORD": "w"}.get(name.rpartition("_")[2])
    if letter is None:
        raise _Untold(name)
    return _class_of(letter.upper() if "_NOT_" in name else letter, ascii_only)


@cache
def _class_of(letter: str, ascii_only: bool) -> Ranges:
    r"""The characters that Python takes for ``\s``, ``\d``, ``\w`` or their opposites."""
    written = f"(?{'a' if ascii_only else 'u'})\\{letter}+"
    spans = (found[0] for found in re.finditer(written, every_character()))
    return tuple((ord(span[0]), ord(span[-1])) for span in spans)


def ranges_of(characters: str) -> Ranges:
    """The code points of a text."""
    codes = np.unique(np.frombuffer(characters.encode("utf-32-le"), "<u4")).astype(np.int64)
    starts = np.flatnonzero(np.diff(codes, prepend=-2) > 1)
    ends = np.append(starts[1:], len(codes))[: len(starts)] - 1
    return tuple(zip(codes[starts].tolist(), codes[ends].tolist(), strict=True))


def _merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


@cache
def every_character() -> str:
    """All characters that a UTF-8 text can hold, rising."""
    codes = np.arange(0x110000, dtype="<u4")
    return codes[(codes < 0xD800) | (codes > 0xDFFF)].tobytes().decode("utf-32-le")


@cache
def _cased() -> str:
    """All characters that some change of case touches."""
    every = every_character()
    blocks = (every[at : at + _BLOCK] for at in range(0, len(every), _BLOCK))
    return "".join(c for block in blocks if _is_cased(block) for c in block if _is_cased(c))


def _is_cased(text: str) -> bool:
    return text.lower() != text or text.upper() != text or text.casefold() != text


def difference(one: Ranges, other: Ranges) -> Ranges:
    """Code points in exactly one of two sets."""
    edges = sorted(
        edge for ranges in (one, other) for low, high in ranges for edge in (low, high + 1)
    )
    found = []
    for low, high in pairwise(edges):
        if low < high and _holds(one, low) != _holds(other, low):
            found.append((low, high - 1))
    return _merged(found)


def _holds(ranges: Ranges, code: int) -> bool:
    at = bisect_right(ranges, (code, 0x110000)) - 1
    return at >= 0 and ranges[at][0] <= code <= ranges[at][1]


def shared(one: Ranges, other: Ranges) -> Ranges:
    """Code points in both of two sets."""
    found = []
    for low, high in one:
        at = max(bisect_right(other, (low, 0x110000)) - 1, 0)
        while at < len(other) and other[at][0] <= high:
            start, end = max(low, other[at][0]), min(high, other[at][1])
            if start <= end:
                found.append((start, end))
            at += 1
    return tuple(found)


def word_characters() -> Ranges:
    r"""What Python takes for ``\w``."""
    return _class_of("w", ascii_only=False)


def class_of(ranges: Ranges) -> str:
    """A class of Rust's engine that holds these code points."""
    return _class(ranges, negated=False)
