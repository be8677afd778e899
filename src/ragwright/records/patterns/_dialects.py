r"""Which patterns mean the same to Python's ``re`` and to Rust's engine.

A pattern is read from left to right against a list of what both engines understand alike:

- a character that stands for itself, and escapes of one (``\.``, ``\t``, ``\xe9``, ``\u201c``);
- ``.``, ``\w``, ``\d``, ``\s``, their opposites, and classes of these, of characters and of ranges;
- ``^``, ``\A``, ``\Z``, ``$`` and ``\b``;
- alternation; groups, plain, named and not captured; the flags ``i``, ``s`` and ``m``;
- greedy and lazy loops over what cannot be empty.

Anything else (look-around, back-references, ``\B``, ``(?x)``, possessive loops, a stray ``]``) runs
in Python; where only look-around keeps a pattern from Rust, Rust first finds the rows that match
without it. What is on the list but depends on Unicode tables is tried in both engines: which
characters does ``\w`` match, or ``(?i)k``? Rows that hold a character on which they disagree run
in Python, and so do rows that end in a line break where the pattern has a ``$``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

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
_FLAGS = re.compile(r"\(\?[ims]+\)")
_BLOCK = 256
"""Characters that are looked at together: most blocks have no upper or lower case at all."""


@dataclass(frozen=True, slots=True)
class Plan:
    r"""What Rust's engine can do of a pattern.

    Attributes:
        rust: The pattern as it writes it; None where Python runs the pattern.
        loose: The same without ``$``, ``\b`` and look-around: found wherever the pattern is.
        disputed: Finds rows with characters on which the engines disagree; empty if none can be.
        placed: Finds rows on which they may only disagree where ``$`` or ``\b`` match; or empty.
        empty: The pattern may match nothing at all: the engines go on differently from there.
        looped: A group is captured inside a loop: what it keeps differs.
    """

    rust: str | None
    loose: str = ""
    disputed: str = ""
    placed: str = ""
    empty: bool = False
    looped: bool = False

    def replaces(self, tokens: Sequence[PatternToken]) -> bool:
        """Whether a replacement is the same in Rust."""
        # Daft takes \\1 for a group too, and has no way to write it as a text
        slashed = any(isinstance(token, str) and "\\" in token for token in tokens)
        grouped = any(isinstance(token, int) for token in tokens)
        return not (self.rust is None or self.empty or slashed or (self.looped and grouped))


def read_plan(find: str) -> Plan:
    """The plan of a pattern that ``re`` compiles."""
    flags = found[0] if (found := _FLAGS.match(find)) else ""
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
    parts = [(r"\z" if token["end"] else token[0], token["loose"]) for token in tokens]
    return Plan(
        None if looks else flags + "".join(part for part, _ in parts),
        flags + "".join(part for part, dropped in parts if not dropped),
        *_doubts(flags, tokens),
        empty=_may_be_empty(tokens),
        looped=looped,
    )


def _may_be_empty(tokens: Sequence[re.Match[str] | str]) -> bool:
    """Whether tokens match the empty text once those that only match at a place are left out."""
    parts = (t if isinstance(t, str) else t[0] for t in tokens if isinstance(t, str) or not t["at"])
    return re.match("".join(parts), "") is not None


def _doubts(flags: str, tokens: Sequence[re.Match[str]]) -> tuple[str, str]:
    """``disputed`` and ``placed`` of a plan."""
    atoms = {token["atom"] for token in tokens if token["atom"]}
    folded = "i" in flags or any("i" in (token["bare"] or "") for token in tokens)
    tried = {atom for atom in atoms if len(atom) > 1}
    tried |= {f"(?i:{atom})" for atom in atoms if folded}
    loose = {token["loose"] for token in tokens}
    placed = [class_of(_disputed_category(r"\W"))] if r"\b" in loose else []
    placed += [LAST_BREAK] if "$" in loose and "m" not in flags else []
    return class_of(frozenset[str]().union(*map(_disputed, tried))), "|".join(placed)


def class_of(characters: Iterable[str]) -> str:
    """A class of Rust's engine that holds these characters; empty for none."""
    codes = np.array(sorted(map(ord, characters)), np.int64)
    starts = np.flatnonzero(np.diff(codes, prepend=-2) > 1)
    ends = np.append(starts[1:], len(codes))[: len(starts)] - 1
    spans = zip(codes[starts].tolist(), codes[ends].tolist(), strict=True)
    told = "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in spans)
    return f"[{told}]" if told else ""


@cache
def _disputed(atom: str) -> frozenset[str]:
    """The characters that one engine matches by an atom, and the other does not."""
    return frozenset(re.sub(atom, "", _probes())) ^ _kept(_probes(), atom)


@cache
def _disputed_category(opposite: str) -> frozenset[str]:
    r"""The same for ``\W``, ``\D`` or ``\S``, and so for ``\w``, ``\d`` or ``\s``."""
    every = _every_character()
    return frozenset(re.sub(f"{opposite}+", "", every)) ^ _kept(every, f"{opposite}+")


def _kept(characters: str, taken: str) -> frozenset[str]:
    """What is left after Rust's engine has replaced a pattern by nothing."""
    pa = require("pyarrow", "records", "reading patterns")
    left = rewritten(pa.array([characters], pa.large_string()), [(taken, "")])
    return frozenset(left[0].as_py())


@cache
def _probes() -> str:
    """The characters on which the engines can disagree: by their Unicode tables, or by case."""
    every = _every_character()
    blocks = (every[at : at + _BLOCK] for at in range(0, len(every), _BLOCK))
    cased = [c for block in blocks if _is_cased(block) for c in block if _is_cased(c)]
    found = _kept(every, r"\P{Cased}+").union(cased, every[:_BLOCK])
    return "".join(sorted(found.union(*map(_disputed_category, (r"\W", r"\D", r"\S")))))


@cache
def _every_character() -> str:
    """All characters that a UTF-8 text can hold, rising."""
    codes = np.arange(0x110000, dtype="<u4")
    return codes[(codes < 0xD800) | (codes > 0xDFFF)].tobytes().decode("utf-32-le")


def _is_cased(text: str) -> bool:
    return text.lower() != text or text.upper() != text
