r"""Patterns with the same meaning in Python's ``re`` and in Rust's engine.

A pattern is read from left to right against a list of syntax that both engines share:

- a character that stands for itself, and escapes of one (``\.``, ``\t``, ``\xe9``, ``\u201c``);
- ``.``, ``\w``, ``\d``, ``\s``, their opposites, and classes of these, of characters and of ranges;
- ``^``, ``\A``, ``\Z``, ``$`` and ``\b``;
- alternation; groups, plain, named and not captured; the flags ``i``, ``s`` and ``m``;
- greedy and lazy loops over what cannot be empty.

Anything else (look-around, back-references, ``\B``, ``(?x)``, possessive loops, a stray ``]``) runs
in Python; if only look-around prevents Rust, Rust first finds the rows that match without it.
Syntax that depends on Unicode tables is compared in both engines: which characters does ``\w``
match, or ``(?i)k``? Rows with a character on which they disagree run in Python, and so do rows that
end in a line break if the pattern has a ``$``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core import PatternToken, require
from ._kernels import rewritten

LAST_BREAK = r"\n\z"
"""Finds texts in which ``$`` matches before the last line break in Python, after it in Rust."""

_CHARACTER = (
    r"\\[wWdDsStnrfv]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}"
    r"|\\[ !-/:;=?@\[-`{-~]"
)
_CLASS = rf"\[\^?(?:{_CHARACTER}|(?!--|&&|~~|\|\|)[^\\\[\]])+\]"
_TOKEN = re.compile(
    r"(?P<open>\((?!\?)|\(\?P<[A-Za-z_][A-Za-z0-9_]*>|(?P<bare>\(\?[is]*(?:-[is]+)?:)"
    r"|(?P<look>\(\?<?[=!]))"
    r"|\||(?P<at>\^|\\A|(?P<end>\\Z)|(?P<loose>\$|\\b))"
    rf"|(?:(?P<close>\))|\.|(?P<atom>{_CHARACTER}|{_CLASS}|[^\\\[\](){{}}.^$|*+?]))"
    r"(?P<loop>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)?"
)
_CATEGORY = re.compile(r"\\[wWdDsS]")
_FLAGS = re.compile(r"\(\?[ims]+\)")
_BLOCK = 256
"""Characters checked together: most blocks have no upper or lower case."""


@dataclass(frozen=True, slots=True)
class Plan:
    r"""The parts of a pattern that Rust's engine can run.

    Attributes:
        rust: The pattern in Rust's syntax; None if Python runs it.
        loose: Found wherever the pattern is: without ``$``, ``\b`` and look-around, and with any
            character in place of what the engines match differently.
        odd: Finds the rows on which the engines may disagree; empty if there can be none.
        empty: The pattern may match nothing at all: the engines go on differently from there.
        looped: A group is captured inside a loop: its content differs.
    """

    rust: str | None
    loose: str = ""
    odd: str = ""
    empty: bool = False
    looped: bool = False

    def replaces(self, tokens: Sequence[PatternToken]) -> bool:
        """True if a replacement is the same in Rust."""
        # Daft takes \\1 for a group too, and has no way to write it as a text
        slashed = any(isinstance(token, str) and "\\" in token for token in tokens)
        grouped = any(isinstance(token, int) for token in tokens)
        return not (self.rust is None or self.empty or slashed or (self.looped and grouped))


def read_plan(find: str) -> Plan:
    """The plan of a pattern that ``re`` compiles."""
    flags = flag_group[0] if (flag_group := _FLAGS.match(find)) else ""
    tokens: list[re.Match[str]] = []
    opened: list[int] = []
    at, looped, looks = len(flags), False, False
    while at < len(find):
        token = _TOKEN.match(find, at)
        if token is None:
            return Plan(None)
        tokens.append(token)
        if token["open"]:
            opened.append(len(tokens) - 1)
        elif token["close"]:
            group = tokens[opened.pop() :]
            if group[0]["look"]:
                looks = True
                del tokens[-len(group) :]
            if token["loop"] and (group[0]["look"] or _may_be_empty([*group[:-1], ")"])):
                return Plan(None)
            repeated = token["loop"] not in (None, "?", "??")
            looped |= repeated and any(t["open"] and not t["bare"] for t in group)
        at = token.end()
    rust = "".join(r"\z" if token["end"] else token[0] for token in tokens)
    loose, odd = _doubts(flags, tokens)
    return Plan(
        None if looks else flags + rust, loose, odd, empty=_may_be_empty(tokens), looped=looped
    )


def _may_be_empty(tokens: Sequence[re.Match[str] | str]) -> bool:
    """True if tokens match the empty text, ignoring those that only match at a position."""
    parts = (t if isinstance(t, str) else t[0] for t in tokens if isinstance(t, str) or not t["at"])
    return re.match("".join(parts), "") is not None


def _doubts(flags: str, tokens: Sequence[re.Match[str]]) -> tuple[str, str]:
    """``loose`` and ``odd`` of a plan."""
    folded = "i" in flags or any("i" in (token["bare"] or "") for token in tokens)
    disputed: set[frozenset[int]] = set()
    loose = [flags]
    for token in tokens:
        atom = token["atom"] or ""
        disputed_codes = _disputed(atom) if len(atom) > 1 else frozenset[int]()
        disputed_codes |= _disputed(f"(?i:{atom})") if folded and atom else frozenset[int]()
        disputed_codes |= _disputed_category(r"\W") if token["loose"] == r"\b" else frozenset[int]()
        disputed.add(disputed_codes)
        if not token["loose"]:
            any_character = f"(?s:.){token['loop'] or ''}"
            loose.append(any_character if disputed_codes else r"\z" if token["end"] else token[0])
    odd = [_class_of(frozenset[int]().union(*disputed))]
    if "m" not in flags and any(token["loose"] == "$" for token in tokens):
        odd.append(LAST_BREAK)
    return "".join(loose), "|".join(filter(None, odd))


@lru_cache(maxsize=256)
def _class_of(codes: frozenset[int]) -> str:
    """A class of Rust's engine that holds these characters; empty for none."""
    rising = np.array(sorted(codes), np.int64)
    starts = np.flatnonzero(np.diff(rising, prepend=-2) > 1)
    ends = np.append(starts[1:], len(rising))[: len(starts)] - 1
    spans = zip(rising[starts].tolist(), rising[ends].tolist(), strict=True)
    ranges = "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in spans)
    return f"[{ranges}]" if ranges else ""


@cache
def _disputed(atom: str) -> frozenset[int]:
    """The characters that only one of the engines matches by an atom."""
    return _differently_kept(_probes() if _CATEGORY.search(atom) else _cased(), atom)


@cache
def _disputed_category(opposite: str) -> frozenset[int]:
    r"""The same for ``\W``, ``\D`` or ``\S``, and so for ``\w``, ``\d`` or ``\s``."""
    return _differently_kept(_every_character(), f"{opposite}+")


def _differently_kept(characters: str, taken: str) -> frozenset[int]:
    """The characters that are left by one engine, and not by the other, of all but a pattern."""
    left = _codes(re.sub(taken, "", characters)), _codes(_kept(characters, taken))
    return frozenset(np.setxor1d(*left, assume_unique=True).tolist())


def _kept(characters: str, taken: str) -> str:
    pa = require("pyarrow", "records", "reading patterns")
    left = rewritten(pa.array([characters], pa.large_string()), [(taken, "")])
    return str(left[0].as_py())


def _codes(characters: str) -> NDArray[np.uint32]:
    return np.frombuffer(characters.encode("utf-32-le"), "<u4")


@cache
def _cased() -> str:
    """The first characters, and all that have upper or lower case for either engine."""
    every = _every_character()
    blocks = (every[at : at + _BLOCK] for at in range(0, len(every), _BLOCK))
    cased = (c for block in blocks if _is_cased(block) for c in block if _is_cased(c))
    return "".join({*every[:_BLOCK], *cased, *_kept(every, r"\P{Cased}+")})


@cache
def _probes() -> str:
    """The same, and all that are a word, a digit or white space for one engine only."""
    disputed = map(_disputed_category, (r"\W", r"\D", r"\S"))
    return "".join({*_cased(), *map(chr, frozenset[int]().union(*disputed))})


@cache
def _every_character() -> str:
    """The characters of all planes that have any: surrogates and private planes are none."""
    codes = np.concatenate([np.arange(0x40000), np.arange(0xE0000, 0xF0000)]).astype("<u4")
    return codes[(codes < 0xD800) | (codes > 0xDFFF)].tobytes().decode("utf-32-le")


def _is_cased(text: str) -> bool:
    return text.lower() != text or text.upper() != text
