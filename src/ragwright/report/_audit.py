"""An audit as text, JSON and a page: the findings in their order, with both places."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

from ..audit import Audit, Finding, Place, cut_place
from ..core import count_noun
from ._page import stylesheet
from ._text import WIDTH, text_table

_SHOWN = 5
"""Findings of a kind that the terminal shows unless all are wanted."""
_EXCERPT = 160


def audit_json(audit: Audit) -> dict[str, Any]:
    """The document of ``audit --json``.

    ``{"findings": [{"kind", "severity", "places": [{"source", "start", "end", "text"}], "why",
    "what_to_do", …}], "counts", "documents", "snapshot", …}``.
    """
    return {
        "findings": [
            {
                "kind": finding.kind,
                "severity": finding.severity,
                "places": [
                    {
                        "source": place.source,
                        "start": place.start,
                        "end": place.end,
                        "text": place.text,
                        "page": place.page,
                        "document_id": place.document_id,
                    }
                    for place in finding.places
                ],
                "why": finding.why,
                "what_to_do": finding.what_to_do,
                "id": finding.id,
                "fault": finding.fault,
                "sure": finding.sure,
                "marks": dict(finding.marks),
                "verdict": finding.verdict,
            }
            for finding in audit.findings
        ],
        "counts": audit.counts(),
        "hidden": audit.hidden,
        "dismissed": audit.dismissed,
        "known": audit.known,
        "documents": audit.documents,
        "pages": audit.pages,
        "characters": audit.characters,
        "snapshot": audit.snapshot,
        "run": audit.run,
        "since": audit.since,
        "notes": list(audit.notes),
    }


def audit_table(audit: Audit, *, width: int = WIDTH, every: bool = False) -> str:
    """The counts of each kind, then the findings in their order, a few of each kind or all."""
    blocks = [audit_verdict(audit)]
    counts = audit.counts()
    if audit.findings:
        rows = [("kind", "findings", "high", "medium", "low")]
        for kind, count in counts.items():
            of_kind = [f.severity for f in audit.findings if f.kind == kind]
            marks = (str(of_kind.count(name) or "") for name in ("high", "medium", "low"))
            rows.append((kind, str(count), *marks))  # type: ignore[arg-type]
        blocks.append(text_table(rows, right=(1, 2, 3, 4), width=width))
    shown: dict[str, int] = {}
    for finding in audit.findings:
        shown[finding.kind] = shown.get(finding.kind, 0) + 1
        if every or shown[finding.kind] <= _SHOWN:
            blocks.append(_finding_text(finding, width))
    left = {} if every else {kind: n - _SHOWN for kind, n in shown.items() if n > _SHOWN}
    tail = []
    if left:
        more = ", ".join(f"{count:,} {kind}" for kind, count in left.items())
        tail.append(f"and {more} more: --all, --json or -o audit.html shows them")
    tail += [f"note: {note}" for note in audit.notes]
    tail += [f"run: {audit.run}"] if audit.run else []
    return "\n\n".join([*blocks, "\n".join(tail)]).rstrip()


def audit_verdict(audit: Audit) -> str:
    """One or two sentences: how many findings, of how many documents, and what is not shown."""
    what = "new finding" if audit.since else "finding"
    severe = sum(finding.severity == "high" for finding in audit.findings)
    text = f"{count_noun(len(audit.findings), what)}"
    if audit.documents:
        text += f" in {count_noun(audit.documents, 'document')}"
    if severe:
        text += f", {severe:,} of them severe"
    rest = [
        f"{count:,} {name}"
        for count, name in (
            (audit.known, "known before"),
            (audit.dismissed, "dismissed"),
            (audit.hidden, "less certain (--level all)"),
        )
        if count
    ]
    return f"{text}." + (f" Not shown: {', '.join(rest)}." if rest else "")


def place_text(place: Place) -> str:
    """Source, page and characters of a place."""
    page = f", page {place.page}" if place.page is not None else ""
    return f"{place.source}{page}, {place.start:,}-{place.end:,}"


def _finding_text(finding: Finding, width: int) -> str:
    unsure = "" if finding.sure else "  less certain"
    lines = [f"{finding.severity}  {finding.kind}: {finding.fault}  [{finding.id}]{unsure}"]
    lines.append(fill(finding.why, width, initial_indent="  ", subsequent_indent="  "))
    for place in finding.places[:4]:
        lines.append(f"  {place_text(place)}")
        excerpt = " ".join(place.text.split())
        if len(excerpt) > _EXCERPT:
            excerpt = f"{excerpt[:_EXCERPT]}…"
        if excerpt:
            lines.append(fill(excerpt, width, initial_indent="    ", subsequent_indent="    "))
    if finding.verdict:
        lines.append(fill(f"judge: {finding.verdict}", width, initial_indent="  ",
                          subsequent_indent="    "))  # fmt: skip
    lines.append(fill(f"-> {finding.what_to_do}", width, initial_indent="  ",
                      subsequent_indent="     "))  # fmt: skip
    return "\n".join(lines)


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
        style=stylesheet() + (files("ragwright.report") / "data" / "audit.css").read_text("utf-8"),
        counted=count_noun,
        policy="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'",
    )


def _finding_view(finding: Finding) -> dict[str, object]:
    """What the page shows of a finding."""
    places = [cut_place(place) for place in finding.places[:6]]
    texts: list[_Pieces] = [((place.text, False),) for place in places]
    if len(places) == 2 and finding.kind in ("contradictions", "copies"):
        texts = list(_compare_texts(places[0].text, places[1].text))
    return {
        "finding": finding,
        "places": list(zip(map(place_text, places), texts, strict=True)),
        "more": len(finding.places) - len(places),
    }


def _compare_texts(first: str, second: str) -> tuple[_Pieces, _Pieces]:
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
