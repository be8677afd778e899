"""Who sends a request, and what they may do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from ..retrieve import parse_filter

if TYPE_CHECKING:
    from ..core import Filter

Role: TypeAlias = Literal["reader", "reviewer", "owner"]

ROLES: tuple[Role, ...] = get_args(Role)
"""Every role, the fewest rights first."""


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
        groups: Groups of readers that it belongs to.
    """

    name: str
    role: Role = "reader"
    configurations: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    per_minute: int | None = None
    daily_budget: float | None = None
    groups: tuple[str, ...] = ()

    @property
    def conditions(self) -> tuple[Filter, ...]:
        """Its filters, parsed."""
        return tuple(map(parse_filter, self.filters))

    @property
    def scope(self) -> str:
        """The tenant that may see what is made for it: identities of equal filters are one tenant.

        One filter is its own name; several are a JSON list, which no filter can imitate.
        """
        filters = sorted(set(self.filters))
        if len(filters) == 1 and not filters[0].startswith("["):
            return filters[0]
        return json.dumps(filters, ensure_ascii=False) if filters else ""
