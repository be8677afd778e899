"""An audit as text, JSON and a page: the findings in their order, with both places."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..audit import Audit, Finding
from ..core import count_noun, shorten_text
from ._headline import Headline
from ._page import PageSection, write_page
from ._text import WIDTH, ResultBlock, fields_of, print_result

_SHOWN = 5
"""Findings of a kind that the terminal shows unless all are wanted."""
_EXCERPT = 300
"""Characters of a place that are shown."""
_MOST = 200
"""Findings of a kind on the page."""


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
    shown: Counter[str] = Counter()
    blocks = [_counts_block(audit)]
    for finding in audit.findings:
        shown[finding.kind] += 1
        if every or shown[finding.kind] <= _SHOWN:
            blocks.append(_finding_block(finding))
    left = [f"{n - _SHOWN:,} {kind}" for kind, n in shown.items() if n > _SHOWN and not every]
    more = [f"and {', '.join(left)} more: --all, --json or -o audit.html shows them"]
    notes = (*audit.notes, *(more if left else ()))
    return print_result([audit_verdict(audit)], blocks, run=audit.run, notes=notes, width=width)


def audit_page(audit: Audit) -> str:
    """The whole file: verdict, counts, and the findings kind by kind, the first kind first."""
    sections = []
    for kind, count in audit.counts().items():
        blocks = [_finding_block(finding) for finding in audit.findings if finding.kind == kind]
        left = [f"{count_noun(count - _MOST, 'finding')} more: --json has them."]
        sections.append(
            PageSection(
                kind,
                f"{kind.capitalize()} ({count:,})",
                blocks=blocks[:_MOST],
                sentences=left if count > _MOST else () if count else ("Nothing to report.",),
            )
        )
    about = f"Audit, compared with {audit.since}" if audit.since else "Audit of the documents"
    facts = {name: f"{getattr(audit, name):,}" for name in ("documents", "characters", "pages")}
    return write_page(
        PageSection("top", about, blocks=[_counts_block(audit)], sentences=audit.notes),
        Headline(audit_verdict(audit)),
        sections,
        facts={**facts, "snapshot": audit.snapshot, "run": audit.run},
    )


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


def _counts_block(audit: Audit) -> ResultBlock:
    severities = Counter((finding.kind, finding.severity) for finding in audit.findings)
    rows = tuple(
        (kind, str(n), *(str(severities[kind, name] or "") for name in ("high", "medium", "low")))
        for kind, n in audit.counts().items()
    )
    head = ("kind", "findings", "high", "medium", "low")
    return ResultBlock("counts", "", "", head, rows if audit.findings else ())


def _finding_block(finding: Finding) -> ResultBlock:
    unsure = "" if finding.sure else "  less certain"
    rows = []
    for place in finding.places[:4]:
        page = f", page {place.page}" if place.page is not None else ""
        where = f"{place.source}{page}, {place.start:,}-{place.end:,}"
        rows.append((where, shorten_text(place.text, _EXCERPT)))
    judged = (f"judge: {finding.verdict}",) if finding.verdict else ()
    return ResultBlock(
        finding.id,
        f"{finding.severity}  {finding.kind}: {finding.fault}  [{finding.id}]{unsure}",
        "",
        ("place", "text"),
        tuple(rows),
        section=finding.kind,
        remarks=(finding.why, *judged, f"to do: {finding.what_to_do}"),
    )
