"""What a request tells the audit log of itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..operations import EventKind


@dataclass(slots=True)
class Note:
    """What a request did, as far as its handler knows; the middleware knows the rest.

    Attributes:
        kind: What it did; that of its route where None.
        subject: What it was about besides documents.
        documents: Ids of the documents whose text was shown or used.
        question: Text of the question.
        configuration: Configuration that answered.
        who: Name of an identity that the door did not know yet, such as one that signs in.
        role: Its role.
        outcome: How it ended, where the status of the reply does not say it.
    """

    kind: EventKind | None = None
    subject: str = ""
    documents: dict[str, None] = field(default_factory=dict)
    question: str = ""
    configuration: str = ""
    who: str = ""
    role: str = ""
    outcome: str = ""

    def used(self, documents: Iterable[str]) -> None:
        """Add documents whose text was shown or used."""
        self.documents.update(dict.fromkeys(documents))

    def identified(self, kind: EventKind, who: str, role: str = "") -> None:
        """Say who signs in or out."""
        self.kind, self.who, self.role = kind, who, role
