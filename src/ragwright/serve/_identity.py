"""Who sends a request, and what they may do."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ..core import EVERYONE, Filter, reader_filter
from ..jobs import EventKind
from ..retrieve import parse_filter

Role: TypeAlias = Literal["reader", "reviewer", "owner"]

ROLES: tuple[Role, ...] = get_args(Role)
"""Every role, the fewest rights first."""

PROXIED = "proxy:"
"""Beginning of the names of people of a proxy; no key may have such a name."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person or a key, and its rights.

    Attributes:
        name: Its name, for lists, logs and its own answers; no other identity has it.
        role: A ``reader`` may ask, retrieve, draft and rate its own answers; a ``reviewer`` may
            also review rows of testsets; an ``owner`` may see everything of the project.
        configurations: Names of the configurations that it may use; all of them where empty.
        filters: Hard filters that every search is narrowed by, as ``field=value``.
        per_minute: Most requests a minute, None for no bound.
        daily_budget: Most money that its requests of a day (UTC) may cost, None for no bound.
        groups: Groups of readers that it belongs to: it sees their documents. An owner sees all.
        label: Name that pages show; others may have the same one.
    """

    name: str
    role: Role = "reader"
    configurations: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    per_minute: int | None = None
    daily_budget: float | None = None
    groups: tuple[str, ...] = ()
    label: str = ""

    @property
    def shown(self) -> str:
        """Its label, or its name where it has none."""
        return self.label or self.name

    @property
    def conditions(self) -> tuple[Filter, ...]:
        """Its filters, parsed."""
        return tuple(map(parse_filter, self.filters))

    def right(self, *, ungrouped: bool) -> Filter | None:
        """Its right to read, None where it may read everything.

        Args:
            ungrouped: True if documents without groups are everyone's.
        """
        if self.role == "owner":
            return None
        return reader_filter(self.groups, ungrouped=ungrouped)

    @property
    def scope(self) -> str:
        """The tenant that may see what is made for it: identities of equal rights are one tenant.

        One filter is its own name; several are a JSON list, which no filter can imitate. Groups
        count as one filter, ``groups:hr|all``, which without a ``=`` is no filter.
        """
        named = {*self.groups} - {EVERYONE} if self.role != "owner" else set()
        filters = sorted({*self.filters, *([f"groups:{'|'.join(sorted(named))}"] if named else [])})
        if len(filters) == 1 and not filters[0].startswith("["):
            return filters[0]
        return json.dumps(filters, ensure_ascii=False) if filters else ""


def is_loopback(host: str) -> bool:
    """True for the names and addresses of this machine alone."""
    if host.strip("[]").lower() in ("localhost", ""):
        return bool(host)
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
