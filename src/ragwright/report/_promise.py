"""A promise of few wrong answers: as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..promise import risk_bound
from ._data import as_json, fields_of
from ._text import WIDTH, number, text_table

if TYPE_CHECKING:
    from ..promise import Candidate, Certificate, Promised, Standing, Watching


def promise_text(promised: Promised, width: int = WIDTH) -> str:
    """The outcome of ``promise`` as text: the sentence, the certificate, the scores tried."""
    lines = [f"Not certified: {promised.reason}."] if promised.certificate is None else []
    if promised.certificate is not None:
        lines += _certificate_lines(promised.certificate)
    if promised.failed is not None and promised.certificate is None:
        failed = promised.failed
        lines.append(
            f"on the confirm split {failed.errors} of {failed.answered} answers were wrong at the "
            "first threshold"
        )
    lines += ["", _candidates_table(promised.candidates, width)]
    lines += [f"note: {note}" for note in promised.notes]
    return "\n".join(lines)


def promise_json(promised: Promised) -> dict[str, Any]:
    """The document of ``promise --json``."""
    certificate = promised.certificate
    return {
        "certified": certificate is not None,
        "line": "" if certificate is None else certificate.line(),
        "certificate": None if certificate is None else certificate_json(certificate),
        **fields_of(promised, "reason", "needed", "failed", "opened", "again", "candidates"),
        "notes": list(promised.notes),
    }


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """A certificate with its coverage, as in ``promise --json``."""
    document: dict[str, Any] = as_json(certificate)
    return document | {"coverage": certificate.coverage}


def promise_status_text(watching: Watching, changes: str = "") -> str:
    """The promise in force, what later labels say, and what changed since: as text."""
    standing = watching.standing
    lines = _certificate_lines(watching.certificate, standing)
    lines.append(f"state         {standing.state}{', suspended' if changes else ''}")
    if changes:
        lines.append(f"suspended: {changes}; run `ragwright promise --again`")
    return "\n".join([*lines, *watching.lines, *(f"note: {n}" for n in watching.certificate.notes)])


def promise_status_json(watching: Watching, changes: str = "") -> dict[str, Any]:
    """The document of ``promise --status --json``."""
    return {
        "line": watching.certificate.line(watching.standing.threshold),
        "certificate": certificate_json(watching.certificate),
        **fields_of(watching, "standing", "sampled", "votes", "limit", "changed"),
        "suspended": changes,
    }


def _certificate_lines(certificate: Certificate, standing: Standing | None = None) -> list[str]:
    threshold = certificate.threshold if standing is None else standing.threshold
    step = certificate.step(threshold)
    bound = risk_bound(step.errors, step.answered, certificate.alpha)
    return [
        f"{certificate.line(threshold)}.",
        f"certificate   promises/{certificate.number}.json",
        f"threshold     {certificate.score} >= {threshold:.6g}",
        f"confirm split {step.errors} of {step.answered} answers wrong; upper bound "
        f"{bound:.4f} with confidence {1 - certificate.alpha:.4g}",
        f"rule          {certificate.rule}",
    ]


def _candidates_table(candidates: tuple[Candidate, ...], width: int) -> str:
    rows = [["score, on the tune split", "AUC of right over wrong", "expected to answer"]]
    rows += [
        [candidate.score, number(candidate.auc), f"{100 * candidate.coverage:.0f} %"]
        for candidate in candidates
    ]
    return text_table(rows, right=(1, 2), width=width)
