"""People whom a proxy names in headers: what the headers say, and what people may do."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ..core import ConfigError, is_group_name, near, option
from ._errors import ApiError
from ._identity import PROXIED, ROLES, Identity

if TYPE_CHECKING:
    from starlette.requests import Request

_HEADER = re.compile(r"[A-Za-z0-9-]+")
_SENT_BY_CLIENTS = frozenset({"authorization", "cookie", "host", "x-api-key"})
_LONGEST_NAME = 255
_LABEL = 80
_GROUPS = 500
_GROUP = 256


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """The reverse proxy that signs people in and names them in headers."""

    addresses: tuple[str, ...] = option(
        (),
        "Addresses or networks from which the proxy connects, such as 10.0.0.5 or 10.1.0.0/24: "
        "headers from others are ignored; the audit log believes its X-Forwarded-For.",
    )
    user_header: str = option(
        "",
        "Header with the unique name of the person, such as Remote-User, which the proxy must "
        "replace; nobody is named where empty.",
    )
    name_header: str = option("", "Header with the name that pages show, such as Remote-Name.")
    groups_header: str = option(
        "", "Header with the person's groups, separated by commas, such as Remote-Groups."
    )

    def __post_init__(self) -> None:
        """Refuse headers that anybody could send, and addresses that are none."""
        headers = [h for h in (self.user_header, self.name_header, self.groups_header) if h]
        for header in headers:
            if not _HEADER.fullmatch(header) or header.lower() in _SENT_BY_CLIENTS:
                raise ConfigError(
                    f"serve.proxy: {header!r} cannot name people",
                    hint="name a header that only the proxy sets, such as Remote-User",
                )
        if headers and not self.addresses:
            raise ConfigError(
                "serve.proxy names headers and no address, so anybody could claim to be anyone",
                hint="set serve.proxy.addresses to the addresses of the proxy, such as 10.0.0.5",
            )
        if headers and not self.user_header:
            raise ConfigError(
                "serve.proxy.user_header is empty, so nobody is named",
                hint="name the header with the unique name of a person, such as Remote-User",
            )
        _parsed_networks(self.addresses)

    def trusts(self, address: str) -> bool:
        """True for an address from which the proxy connects."""
        try:
            peer = ipaddress.ip_address(address)
        except ValueError:
            return False
        peer = getattr(peer, "ipv4_mapped", None) or peer
        return any(peer in network for network in _parsed_networks(self.addresses))


@dataclass(frozen=True, slots=True)
class PeopleOptions:
    """What people may do who come through the proxy."""

    default_role: Literal["none", "reader", "reviewer", "owner"] = option(
        "none", "Role of people whom no group of `roles` matches; `none` keeps them out."
    )
    roles: Mapping[str, tuple[str, ...]] = option(
        dict,
        "Groups that give each role (`reader`, `reviewer`, `owner`); the highest role counts.",
    )
    configurations: Mapping[str, tuple[str, ...]] = option(
        dict,
        "Configurations that each group opens; all of them for everybody where empty, and for "
        "owners always.",
    )
    per_minute: int | None = option(None, "Most requests a minute of one person.", ge=1)
    daily_budget: float | None = option(
        None, "Most money that the requests of one person may cost a day (UTC).", gt=0
    )

    def __post_init__(self) -> None:
        """Refuse unknown roles."""
        for role in self.roles:
            if role not in ROLES:
                raise ConfigError(
                    f"serve.people.roles: {role!r} is not a role; {near(role, ROLES)}"
                )

    @property
    def admits(self) -> bool:
        """True where anybody may come in."""
        return self.default_role != "none" or any(self.roles.values())


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


def proxied_person(request: Request, options: ProxyOptions) -> Person | None:
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


@lru_cache(maxsize=8)
def _parsed_networks(
    addresses: tuple[str, ...],
) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """The networks of a proxy.

    Raises:
        ConfigError: One is not an address or a network, or names every address.
    """
    networks = []
    for text in addresses:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise ConfigError(
                f"serve.proxy.addresses: {error}", hint="as in 10.0.0.5 or 10.1.0.0/24"
            ) from None
        if network.prefixlen == 0:
            raise ConfigError(
                f"serve.proxy.addresses: {text} names every address, so anybody could claim "
                "to be anyone",
                hint="name the addresses of the proxy alone",
            )
        networks.append(network)
    return tuple(networks)
