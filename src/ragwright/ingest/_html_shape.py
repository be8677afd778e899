"""Shapes of HTML that no page has and that parsers take quadratic time for."""

from __future__ import annotations

import re
from collections import Counter

from ..core import MalformedSourceError

_DEPTH = 10_000
_ATTRIBUTES = 10_000
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_QUOTED = re.compile("\"[^\"]*\"|'[^']*'|[\"'].*", re.DOTALL)
_EMPTY = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
     "wbr"}
)  # fmt: skip
_CLOSED_BY_OTHERS = frozenset({"p", "li", "dd", "dt", "option", "td", "th", "tr", "rt", "rp"})
"""Elements whose end is often left out; within them no other of their kind opens."""


def check_shape(html: str, where: str) -> None:
    """Refuse a page that nests elements, or gives one of them attributes, beyond all reason.

    A scan of the tags in linear time, before a parser sees them. Depth is counted by name, so
    that the end of an element that was never opened hides nothing.

    Raises:
        MalformedSourceError: More than 10,000 elements in one another, or 10,000 attributes.
    """
    open_: Counter[str] = Counter()
    depth = 0
    for match in _TAG.finditer(html):
        name = match[2].lower()
        if name in _EMPTY:
            continue
        if match[1]:
            if open_[name]:
                open_[name] -= 1
                depth -= 1
            continue
        if name not in _CLOSED_BY_OTHERS or not open_[name]:
            open_[name] += 1
            depth += 1
        if depth > _DEPTH:
            raise _refused(f"more than {_DEPTH:,} elements stand in one another", where)
    _check_attributes(html, where)


def _check_attributes(html: str, where: str) -> None:
    for match in re.finditer(rf"<[A-Za-z][^<>]{{{2 * _ATTRIBUTES},}}", html):
        names = _QUOTED.sub("", match[0]).split()
        if len(names) > _ATTRIBUTES:
            raise _refused(f"an element has more than {_ATTRIBUTES:,} attributes", where)


def _refused(what: str, where: str) -> MalformedSourceError:
    return MalformedSourceError(
        f"the HTML is built to exhaust its parser: {what}",
        where=where or None,
        hint="leave the page out with `exclude`, or save it from a browser",
    )
