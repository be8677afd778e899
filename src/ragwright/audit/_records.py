"""Findings of an audit and their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from ..core import ConfigError, suggest_name, value_hash

Severity: TypeAlias = Literal["high", "medium", "low"]
"""How much a reader may be misled."""

KINDS = ("contradictions", "copies", "codes", "references", "damage", "reach")
"""Kinds of findings."""

_SEVERITIES = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Place:
    """A passage of a document: its characters ``start`` to ``end`` (exclusive), and their text.

    ``page`` is None in formats without pages.
    """

    document_id: str
    source: str
    start: int
    end: int
    text: str
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of the documents.

    Attributes:
        kind: One of :data:`KINDS`.
        fault: What kind of fault within its kind: ``near copy``, ``mojibake``, ….
        severity: How much a reader may be misled.
        places: Where it is; the two sides of a contradiction, of a pair of copies.
        why: One sentence on what is wrong.
        what_to_do: What repairs it.
        sure: False for a rule that is often wrong; such findings are shown with ``--level all``.
        marks: Evidence: words that differ, counts; JSON-able.
        verdict: What the judge said of a contradiction; empty for other kinds.
        subject: What makes it the same finding in the next audit; the texts of its places if
            empty.
    """

    kind: str
    fault: str
    severity: Severity
    places: tuple[Place, ...]
    why: str
    what_to_do: str
    sure: bool = True
    marks: Mapping[str, Any] = field(default_factory=dict)
    verdict: str = ""
    subject: str = ""

    @property
    def id(self) -> str:
        """Name that stays the same while the passages do, wherever they move: 12 digits."""
        texts = sorted([place.document_id, " ".join(place.text.split())] for place in self.places)
        return value_hash([self.kind, self.fault, self.subject or texts])[:12]

    @property
    def order(self) -> tuple[object, ...]:
        """Sorting key: severity, then kind."""
        severity = _SEVERITIES.index(self.severity)
        return severity, KINDS.index(self.kind), self.fault, self.id


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        findings: The findings, the most severe first.
        kinds: The kinds that were looked for.
        snapshot: State of the index that was read.
        documents: Documents read; ``pages`` of formats that have some, ``characters`` of text.
        hidden: Findings of rules that are often wrong, which are not in ``findings``.
        dismissed: Findings that a person has dismissed.
        known: Findings that an earlier audit already had, with ``--since``.
        notes: What could not be looked for, and why.
        run: Name of the stored run.
        since: The audit or snapshot that it was compared with.
    """

    findings: tuple[Finding, ...]
    kinds: tuple[str, ...]
    snapshot: str = ""
    documents: int = 0
    pages: int = 0
    characters: int = 0
    hidden: int = 0
    dismissed: int = 0
    known: int = 0
    notes: tuple[str, ...] = ()
    run: str = ""
    since: str = ""

    def counts(self) -> dict[str, int]:
        """Findings of each kind that was looked for."""
        return {kind: sum(f.kind == kind for f in self.findings) for kind in self.kinds}


def finding_body(finding: Finding) -> dict[str, Any]:
    """A finding as JSON, as it is stored."""
    return {"id": finding.id, **asdict(finding)}


def finding_of(body: Mapping[str, Any]) -> Finding:
    """A stored finding."""
    values = {name: value for name, value in body.items() if name != "id"}
    return Finding(**{**values, "places": tuple(Place(**place) for place in body["places"])})


def rank_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings, each once, in their order."""
    by_id: dict[str, Finding] = {}
    for finding in findings:
        by_id.setdefault(finding.id, finding)
    return tuple(sorted(by_id.values(), key=lambda f: f.order))


def check_kinds(names: tuple[str, ...]) -> None:
    """Refuse a name that is not one of the kinds of findings.

    Raises:
        ConfigError: With the nearest name.
    """
    for name in names:
        if name not in KINDS:
            raise ConfigError(
                f"unknown kind of finding {name!r}",
                where="--kinds",
                hint=f"{suggest_name(name, KINDS)} (kinds: {', '.join(KINDS)})",
            )
