"""The audit of documents, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "audit",
    sections={
        "audit": "ragwright.audit:AuditOptions",
    },
    commands={
        "audit": "ragwright.app.checking._audit:command",
    },
    sentences={
        "audit": "Find faults of the documents.",
    },
)
