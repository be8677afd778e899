"""A promise of few wrong answers: as text and JSON."""

from __future__ import annotations

from typing import Any

from ..promise import Certificate, Promised, ScoreCandidate, risk_bound
from ._data import fields_of, make_json
from ._text import WIDTH, number, text_table


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
        "line": "" if certificate is None else certificate.line,
        "certificate": None if certificate is None else certificate_json(certificate),
        **fields_of(
            promised, "reason", "needed", "chance", "failed", "opened", "again", "candidates"
        ),
        "notes": list(promised.notes),
    }


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """A certificate with its coverage, as in ``promise --json``."""
    document: dict[str, Any] = make_json(certificate)
    return document | {"coverage": certificate.coverage}


def promise_status_text(certificate: Certificate, changes: str = "") -> str:
    """The promise in force, and what changed since: as text."""
    lines = _certificate_lines(certificate)
    lines.append(f"state         {'suspended' if changes else 'holds'}")
    if changes:
        lines.append(f"suspended: {changes}; run `ragwright promise --again`")
    return "\n".join([*lines, *(f"note: {note}" for note in certificate.notes)])


def promise_status_json(certificate: Certificate, changes: str = "") -> dict[str, Any]:
    """The document of ``promise --status --json``."""
    return {
        "line": certificate.line,
        "certificate": certificate_json(certificate),
        "suspended": changes,
    }


def _certificate_lines(certificate: Certificate) -> list[str]:
    bound = risk_bound(certificate.errors, certificate.answered, certificate.alpha)
    return [
        f"{certificate.line}.",
        f"certificate   promises/{certificate.number}.json",
        f"threshold     {certificate.score} >= {certificate.threshold:.6g}",
        f"confirm split {certificate.errors} of {certificate.answered} answers wrong; upper bound "
        f"{bound:.4f} with confidence {1 - certificate.alpha:.4g}",
        f"by luck       chance {certificate.luck:.1%}; the chance of passing was "
        f"{certificate.chance:.0%}, both estimated on the tune split",
        f"rule          {certificate.rule}",
    ]


def _candidates_table(candidates: tuple[ScoreCandidate, ...], width: int) -> str:
    rows = [["score, on the tune split", "AUC of right over wrong", "expected to answer"]]
    rows += [
        [candidate.score, number(candidate.auc), f"{100 * candidate.coverage:.0f} %"]
        for candidate in candidates
    ]
    return text_table(rows, right=(1, 2), width=width)
