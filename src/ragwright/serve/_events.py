"""The events of sign-in: who came in, who was refused, who left."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from ._service import Service

log = logging.getLogger("ragwright.serve")

Happening: TypeAlias = Literal["signed in", "refused", "signed out", "ended by the provider"]

Way: TypeAlias = Literal["key", "provider", "token"]


@dataclass(frozen=True, slots=True)
class SignInEvent:
    """Something that happened at the door.

    Attributes:
        what: What happened.
        way: How the person or program proved who it is.
        name: Its name, empty where it is not known.
        reason: Why it was refused.
        address: Address that the request came from.
    """

    what: Happening
    way: Way
    name: str = ""
    reason: str = ""
    address: str = ""


def note_event(service: Service, event: SignInEvent) -> None:
    """Log an event; the one place that every sign-in, refusal and sign-out passes."""
    facts = (event.what, event.way, event.name, event.address, event.reason)
    log.info("sign-in: %s", " · ".join(fact for fact in facts if fact))
