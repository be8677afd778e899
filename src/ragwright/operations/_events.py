"""An event of the audit log."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

from ..core import current_user

EventKind: TypeAlias = Literal[
    "asked",
    "saw",
    "changed",
    "exported",
    "promoted",
    "erased",
    "signed in",
    "signed out",
    "sign-in failed",
    "refused",
]

EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)
"""What somebody can do, or failed to."""


def utc_now() -> str:
    """The time, ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that somebody did.

    Attributes:
        kind: What it was.
        who: Name of the key, the person, or the user of the machine; empty where nobody says.
        role: The role of this identity.
        origin: Address that the request came from; for a command the name of the machine.
        request: Id of the request.
        configuration: Configuration that answered.
        action: Method and route, or the command.
        outcome: ``done``, ``refused``, ``failed``, ``cut off``; ``begun`` where another event
            says how it ended.
        subject: What it was about besides documents: an output, a key, a testset.
        documents: Ids of the documents whose text was shown or used.
        question: Text of the question, where the settings keep it.
        scope: The tenant.
        at: When, ISO 8601 in UTC.
    """

    kind: EventKind
    who: str = ""
    role: str = ""
    origin: str = ""
    request: str = ""
    configuration: str = ""
    action: str = ""
    outcome: str = "done"
    subject: str = ""
    documents: tuple[str, ...] = ()
    question: str = ""
    scope: str = ""
    at: str = field(default_factory=utc_now)


def owner_event(kind: EventKind, action: str, subject: str = "", outcome: str = "done") -> Event:
    """An event of the user of this machine, who may do everything."""
    return Event(
        kind=kind,
        who=current_user(),
        role="owner",
        origin=socket.gethostname(),
        action=action,
        subject=subject,
        outcome=outcome,
    )


def event_json(number: int, event: Event) -> Mapping[str, Any]:
    """An event as JSON; its keys are those of :class:`Event`, and ``number``."""
    names = (name for name in Event.__dataclass_fields__ if name not in ("at", "kind"))
    values = {name: getattr(event, name) for name in names}
    values["documents"] = list(event.documents)
    return {"number": number, "at": event.at, "kind": event.kind, **values}
