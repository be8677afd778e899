"""People: what claims and headers say of them, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core import is_group_name
from .._errors import ApiError
from .._identity import PERSON, PROXIED, ROLES, Identity

if TYPE_CHECKING:
    from starlette.requests import Request

    from ._options import PeopleOptions, ProxyOptions, SignInOptions

_SUBJECT = 255
"""Most characters of a subject, by OpenID Connect."""

_LABEL = 80
_GROUPS = 500
_GROUP = 256


@dataclass(frozen=True, slots=True)
class Person:
    """A person, as the identity provider or the proxy names them.

    Attributes:
        name: Unique name: issuer and subject, or the name of the proxy's header.
        label: Name for pages.
        groups: Groups of readers.
        roles: Names that roles are given for.
        issuer: The provider; empty where the proxy named the person.
        session: Id of the session at the provider, where it has one.
    """

    name: str
    label: str
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    issuer: str = ""
    session: str = ""


def person_of_claims(options: SignInOptions, claims: Mapping[str, Any]) -> Person:
    """The person of checked claims.

    Raises:
        ApiError: 401; the subject is no name, or the groups are too many or no texts.
    """
    groups = _names(claims, options.groups_claim)
    roles = _names(claims, options.roles_claim) if options.roles_claim else groups
    candidates = (_claim(claims, options.name_claim), claims.get("preferred_username"))
    labels = (candidate for candidate in candidates if isinstance(candidate, str))
    label = next((shown for shown in map(_printed, labels) if shown), "")
    session = claims.get("sid")
    return Person(
        name_of_subject(options.issuer, claims["sub"]),
        label,
        groups,
        roles,
        options.issuer,
        session if isinstance(session, str) else "",
    )


def name_of_subject(issuer: str, subject: object) -> str:
    """The unique name of a person at a provider; no issuer contains a ``#``.

    Raises:
        ApiError: 401; the subject is empty, too long or not printable.
    """
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= _SUBJECT
        or not subject.isprintable()
    ):
        raise ApiError(401, "the subject of the token cannot be used", "invalid_token")
    return f"{PERSON}{issuer}#{subject}"


def lacks_claims(options: SignInOptions, claims: Mapping[str, Any]) -> bool:
    """True where a claim is missing that the person's rights or name come from."""
    names = (options.groups_claim, options.roles_claim, options.name_claim)
    return any(name and _claim(claims, name) is None for name in names)


def proxied_person(request: Request, options: ProxyOptions) -> Person | None:
    """The person whom the proxy names; None where it names nobody, or another sender does.

    Raises:
        ApiError: 401; the name cannot be used, or is sent twice.
    """
    sender = request.client.host if request.client is not None else ""
    if not options.addresses or not options.trusts(sender):
        return None
    name = _only_header(request, options.user_header).strip()
    if not name:
        return None
    if len(name) > _SUBJECT or not name.isprintable():
        raise ApiError(401, f"the header {options.user_header} cannot be used", "invalid_proxy")
    label = _printed(_only_header(request, options.name_header)) or _printed(name)
    groups = (group.strip() for group in _only_header(request, options.groups_header).split(","))
    kept = _bounded_names([group for group in groups if group])
    return Person(PROXIED + name, label, kept, kept)


def _only_header(request: Request, header: str) -> str:
    """The value of a header, which a client must not be able to add to.

    Raises:
        ApiError: 401; it was sent twice.
    """
    values = request.headers.getlist(header)
    if len(values) > 1:
        raise ApiError(401, f"the header {header} was sent twice", "invalid_proxy")
    sent = values[0] if values else ""
    try:
        return sent.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return sent


def identity_of(options: PeopleOptions, person: Person) -> Identity | None:
    """The rights of a person under the present settings, None for whom nothing lets in."""
    names = set(person.roles)
    matching = [role for role in ROLES if names & set(options.roles.get(role, ()))]
    role = matching[-1] if matching else options.default_role
    if role == "none":
        return None
    configurations: tuple[str, ...] = ()
    if options.configurations and role != "owner":
        opened = [
            options.configurations.get(group, ()) for group in (*person.groups, *person.roles)
        ]
        configurations = tuple(dict.fromkeys(name for names in opened for name in names))
        if not configurations:  # an empty list would open all of them
            return None
    return Identity(
        person.name,
        role,
        configurations,
        per_minute=options.per_minute,
        daily_budget=options.daily_budget,
        groups=reader_groups(person.groups),
        label=person.label,
    )


def reader_groups(sent: Sequence[str]) -> tuple[str, ...]:
    """Groups of readers by the names that a provider sends: a path without its first slash.

    Keycloak names a group by its path, ``/hr/berlin``. What no document can name is left out.
    """
    names = (name.removeprefix("/") for name in sent)
    return tuple(dict.fromkeys(filter(is_group_name, names)))


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its whole name, else by the path that its dots make; None where it is missing."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _names(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = _claim(claims, name)
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
        raise ApiError(401, f"the claim {name!r} is not a list of texts", "invalid_token")
    return _bounded_names(names)


def _bounded_names(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > _GROUPS or any(len(name) > _GROUP for name in names):
        raise ApiError(
            401,
            f"more than {_GROUPS} groups, or one of more than {_GROUP} characters: let the "
            "provider send only the groups of this server",
            "invalid_token",
        )
    return tuple(dict.fromkeys(names))


def _printed(text: str) -> str:
    """A name for pages: printable, on one line, of a bounded length."""
    kept = "".join(character for character in text if character.isprintable())
    return " ".join(kept.split())[:_LABEL]
