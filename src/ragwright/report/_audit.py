"""An audit as text, JSON and a page: the findings in their order, with both places."""

from __future__ import annotations

from textwrap import fill
from typing import Any

from ..audit import Audit, Finding, Place
from ..core import count_noun
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
        "findings": [_finding_json(finding) for finding in audit.findings],
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


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
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
