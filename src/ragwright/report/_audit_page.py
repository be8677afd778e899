"""The page of an audit: one HTML file in the design of reports, without scripts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

from ..audit import Audit, Finding, cut_place
from ..core import count_noun
from ._audit import audit_verdict, place_text
from ._page import stylesheet

if TYPE_CHECKING:
    from jinja2 import Template

_MOST = 200
"""Findings of a kind on the page; the others are counted."""
_OPEN = 20
"""Findings of a kind that are open; the others on the page are folded."""
_WORD = re.compile(r"\w+|\W+")
_NAMES = {
    "contradictions": "Contradictions",
    "copies": "Copies",
    "codes": "Codes",
    "references": "References",
    "damage": "Damage",
    "reach": "Out of reach",
}

_Pieces: TypeAlias = Sequence[tuple[str, bool]]
"""Pieces of a text, and whether each is marked as changed."""


def audit_page(audit: Audit) -> str:
    """The whole file: verdict, counts, and the findings kind by kind, words that differ marked.

    The kinds follow each other as their first findings do.
    """
    kinds = []
    counts = audit.counts()
    for kind in dict.fromkeys(finding.kind for finding in audit.findings):
        findings = [finding for finding in audit.findings if finding.kind == kind]
        views = [_finding_view(finding) for finding in findings[:_MOST]]
        left = counts[kind] - len(views)
        kinds.append((kind, _NAMES[kind], counts[kind], (views[:_OPEN], views[_OPEN:]), left))
    return _audit_template().render(
        audit=audit,
        verdict=audit_verdict(audit),
        kinds=kinds,
        names=_NAMES,
        counts=counts,
        style=stylesheet() + _own_style(),
        counted=count_noun,
        policy="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'",
    )


def _finding_view(finding: Finding) -> dict[str, object]:
    """What the page shows of a finding."""
    places = [cut_place(place) for place in finding.places[:6]]
    texts: list[_Pieces] = [((place.text, False),) for place in places]
    if len(places) == 2 and finding.kind in ("contradictions", "copies"):
        texts = list(_compared(places[0].text, places[1].text))
    return {
        "finding": finding,
        "places": list(zip(map(place_text, places), texts, strict=True)),
        "more": len(finding.places) - len(places),
    }


def _compared(first: str, second: str) -> tuple[_Pieces, _Pieces]:
    """Two texts in pieces; those that only one of them has are marked."""
    words: list[list[str]] = [_WORD.findall(text) for text in (first, second)]
    matcher = difflib.SequenceMatcher(None, words[0], words[1], autojunk=False)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        left.append(("".join(words[0][a:b]), tag != "equal"))
        right.append(("".join(words[1][c:d]), tag != "equal"))
    return left, right


@cache
def _audit_template() -> Template:
    from jinja2 import DictLoader, Environment, StrictUndefined

    text = (files("ragwright.report") / "data" / "audit.html").read_text("utf-8")
    environment = Environment(
        loader=DictLoader({"audit.html": text}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("audit.html")


def _own_style() -> str:
    return (files("ragwright.report") / "data" / "audit.css").read_text("utf-8")
