"""An audit as text, JSON and a page: the findings in their order, with both places."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from textwrap import fill
from typing import Any, TypeAlias

from ..audit import Audit, Finding, Place, cut_place
from ..core import count_noun
from ._page import load_template, report_asset, stylesheet
from ._text import WIDTH, ResultBlock, fields_of, print_result

_SHOWN = 5
"""Findings of a kind that the terminal shows unless all are wanted."""
_EXCERPT = 160


def audit_json(audit: Audit) -> dict[str, Any]:
    """The document of ``audit --json``.

    ``{"findings": [{"kind", "severity", "places": [{"source", "start", "end", "text"}], "why",
    "what_to_do", …}], "counts", "documents", "snapshot", …}``.
    """
    place = ("source", "start", "end", "text", "page", "document_id")
    finding = ("why", "what_to_do", "id", "fault", "sure", "marks", "verdict")
    counts = ("hidden", "dismissed", "known", "documents", "pages", "characters", "snapshot")
    return {
        "findings": [
            {
                **fields_of(found, "kind", "severity"),
                "places": [fields_of(where, *place) for where in found.places],
                **fields_of(found, *finding),
            }
            for found in audit.findings
        ],
        "counts": audit.counts(),
        **fields_of(audit, *counts, "run", "since", "notes"),
    }


def audit_table(audit: Audit, *, width: int = WIDTH, every: bool = False) -> str:
    """The counts of each kind, then the findings in their order, a few of each kind or all."""
    severities = Counter((finding.kind, finding.severity) for finding in audit.findings)
    rows = tuple(
        (kind, str(n), *(str(severities[kind, name] or "") for name in ("high", "medium", "low")))
        for kind, n in audit.counts().items()
    )
    head = ("kind", "findings", "high", "medium", "low")
    counts = ResultBlock("counts", "", "", head, rows if audit.findings else ())
    shown: Counter[str] = Counter()
    texts = []
    for finding in audit.findings:
        shown[finding.kind] += 1
        if every or shown[finding.kind] <= _SHOWN:
            texts.append(_finding_text(finding, width))
    left = [f"{n - _SHOWN:,} {kind}" for kind, n in shown.items() if n > _SHOWN and not every]
    more = (
        [f"and {', '.join(left)} more: --all, --json or -o audit.html shows them"] if left else []
    )
    head_text = print_result([audit_verdict(audit)], [counts], width=width)
    tail = print_result((), (), run=audit.run, notes=audit.notes, width=width)
    return "\n\n".join(filter(None, [head_text, *texts, *more, tail]))


def audit_verdict(audit: Audit) -> str:
    """One or two sentences: how many findings, of how many documents, and what is not shown."""
    severe = sum(finding.severity == "high" for finding in audit.findings)
    text = count_noun(len(audit.findings), "new finding" if audit.since else "finding")
    text += f" in {count_noun(audit.documents, 'document')}" if audit.documents else ""
    text += f", {severe:,} of them severe" if severe else ""
    counts = {
        "known before": audit.known,
        "dismissed": audit.dismissed,
        "less certain (--level all)": audit.hidden,
    }
    rest = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{text}.{f' Not shown: {rest}.' if rest else ''}"


def place_text(place: Place) -> str:
    """Source, page and characters of a place."""
    page = f", page {place.page}" if place.page is not None else ""
    return f"{place.source}{page}, {place.start:,}-{place.end:,}"


def _finding_text(finding: Finding, width: int) -> str:
    def indent(text: str, first: int, rest: int) -> str:
        return fill(text, width, initial_indent=" " * first, subsequent_indent=" " * rest)

    unsure = "" if finding.sure else "  less certain"
    lines = [f"{finding.severity}  {finding.kind}: {finding.fault}  [{finding.id}]{unsure}"]
    lines.append(indent(finding.why, 2, 2))
    for place in finding.places[:4]:
        excerpt = " ".join(place.text.split())
        cut = excerpt if len(excerpt) <= _EXCERPT else f"{excerpt[:_EXCERPT]}…"
        lines += [f"  {place_text(place)}", *([indent(cut, 4, 4)] if cut else [])]
    lines += [indent(f"judge: {finding.verdict}", 2, 4)] if finding.verdict else []
    return "\n".join([*lines, indent(f"-> {finding.what_to_do}", 2, 5)])


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
    page: str = load_template("audit.html").render(
        audit=audit,
        verdict=audit_verdict(audit),
        kinds=kinds,
        names=_NAMES,
        counts=counts,
        style=stylesheet() + report_asset("audit.css"),
        policy="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'",
    )
    return page


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
    codes = difflib.SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes()
    left = [("".join(words[0][a:b]), tag != "equal") for tag, a, b, _, _ in codes]
    right = [("".join(words[1][c:d]), tag != "equal") for tag, _, _, c, d in codes]
    return left, right
