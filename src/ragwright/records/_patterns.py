"""Patterns: which engine runs one is decided once, from the pattern alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import PatternError, require
from ._declared import Declared

_GROUP = re.compile(r"\$(?:(\$)|(\d+)|\{(\w+)\})")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression and where it was written."""

    find: str
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text that is literal but for ``$1``, ``${name}`` and ``$$``."""

    text: str


def read_pattern(declared: Declared, value: Any, *path: str) -> Pattern | None:
    """A pattern from a file's value; one that does not compile is a fault."""
    text = declared.text(value, *path)
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        declared.fault(f"the pattern {text!r} does not compile: {error}", *path, kind=PatternError)
        return None
    return Pattern(text, declared.where(*path))


def read_replacement(
    declared: Declared, value: Any, pattern: Pattern | None, *path: str
) -> Replacement | None:
    """A replacement from a file's value; a group that the pattern lacks is a fault."""
    if value is None or value == "":
        return Replacement("")
    text = declared.text(value, *path)
    return None if text is None else Replacement(text)


def replaced(texts: Any, keys: Any, steps: Any, seconds: float) -> Any:
    """Texts after replacements, in order."""
    pa = require("pyarrow", "records", "cleaning records")
    for step in steps:
        found = re.compile(step.pattern.find)
        with_ = _GROUP.sub(
            lambda m: "$" if m[1] else rf"\g<{m[2] or m[3]}>",
            step.replacement.text.replace("\\", r"\\"),
        )
        texts = pa.array(
            [None if t is None else found.sub(with_, t) for t in texts.to_pylist()],
            pa.large_string(),
        )
    return texts


def matches(texts: Any, keys: Any, patterns: Any, seconds: float) -> Any:
    """Which patterns are found in which texts: bool, shape (rows, patterns)."""
    found = np.zeros((len(texts), len(patterns)), np.bool_)
    for at, pattern in enumerate(patterns):
        compiled = re.compile(pattern.find)
        found[:, at] = [bool(compiled.search(t)) for t in texts.to_pylist()]
    return found
