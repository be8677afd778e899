"""People whom a proxy names in headers: what the headers say, and what people may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core import is_group_name
from ._errors import ApiError
from ._identity import PROXIED, ROLES, Identity
from ._options import PeopleOptions, ProxyOptions

if TYPE_CHECKING:
    from starlette.requests import Request

_LONGEST_NAME = 255
_LABEL = 80
_GROUPS = 500
_GROUP = 256


@dataclass(frozen=True, slots=True)
class Person:
    """A person, as the proxy names them.

    Attributes:
        name: Unique name.
        label: Name for pages.
        groups: Groups, as the proxy sends them.
    """

    name: str
    label: str
    groups: tuple[str, ...] = ()


def read_proxied_person(request: Request, options: ProxyOptions) -> Person | None:
    """The person whom the proxy names; None where it names nobody, or another sender does.

    Raises:
        ApiError: 401; the name or the groups cannot be used, or a header was sent twice.
    """
    sender = request.client.host if request.client is not None else ""
    if not options.user_header or not options.trusts(sender):
        return None
    name = _only_header(request, options.user_header).strip()
    if not name:
        return None
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise _refusal(f"the header {options.user_header} cannot be used")
    label = _printed(_only_header(request, options.name_header)) or _printed(name)
    sent = _only_header(request, options.groups_header).split(",")
    groups = tuple(dict.fromkeys(filter(None, map(str.strip, sent))))
    if len(groups) > _GROUPS or any(len(group) > _GROUP for group in groups):
        raise _refusal(
            f"more than {_GROUPS} groups, or one of more than {_GROUP} characters: let the proxy "
            "send only the groups of this server"
        )
    return Person(PROXIED + name, label, groups)


def _only_header(request: Request, header: str) -> str:
    """The value of a header, which a client must not be able to add to; empty without a name.

    Raises:
        ApiError: 401; it was sent twice.
    """
    values = request.headers.getlist(header) if header else []
    if len(values) > 1:
        raise _refusal(f"the header {header} was sent twice")
    sent = values[0] if values else ""
    try:
        return sent.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return sent


def _refusal(fault: str) -> ApiError:
    return ApiError(401, fault, "invalid_proxy")


def identity_of(options: PeopleOptions, person: Person) -> Identity | None:
    """The rights of a person under the present settings, None for whom nothing lets in."""
    names = set(person.groups)
    matching = [role for role in ROLES if names & set(options.roles.get(role, ()))]
    role = matching[-1] if matching else options.default_role
    if role == "none":
        return None
    configurations: tuple[str, ...] = ()
    if options.configurations and role != "owner":
        opened = [options.configurations.get(group, ()) for group in person.groups]
        configurations = tuple(dict.fromkeys(name for names in opened for name in names))
        if not configurations:  # an empty list would open all of them
            return None
    return Identity(
        person.name,
        role,
        configurations,
        per_minute=options.per_minute,
        daily_budget=options.daily_budget,
        groups=_reader_groups(person.groups),
        label=person.label,
    )


def _reader_groups(sent: Sequence[str]) -> tuple[str, ...]:
    """Groups of readers by the names that a proxy sends: a path without its first slash.

    Keycloak names a group by its path, ``/hr/berlin``. What no document can name is left out.
    """
    names = (name.removeprefix("/") for name in sent)
    return tuple(dict.fromkeys(filter(is_group_name, names)))


def _printed(text: str) -> str:
    """A name for pages: printable, on one line, of a bounded length."""
    kept = "".join(character for character in text if character.isprintable())
    return " ".join(kept.split())[:_LABEL]
