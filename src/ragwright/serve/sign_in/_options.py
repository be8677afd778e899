"""The settings of people: identity provider, proxy, and what people may do."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from ...core import ConfigError, near, option
from .._identity import ROLES, is_loopback

_HEADER = re.compile(r"[A-Za-z0-9-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class SignInOptions:
    """The identity provider through which people sign in (OpenID Connect)."""

    issuer: str = option(
        "",
        "Issuer of the identity provider, such as https://id.example.org/realms/staff; nobody "
        "signs in through one where empty.",
    )
    client_id: str = option(
        "", "Id of this server at the provider, for sign-in on the pages; none where empty."
    )
    client_secret_env: str = option(
        "RAGWRIGHT_CLIENT_SECRET",
        "Environment variable that holds the client's secret; a client without one is public.",
    )
    name: str = option(
        "", "Name of the provider on the sign-in page; the issuer's host where empty."
    )
    scopes: tuple[str, ...] = option(
        ("openid", "profile", "email"), "Scopes that are requested at sign-in."
    )
    audiences: tuple[str, ...] = option(
        (),
        "Audiences of the access tokens that the API and MCP accept, such as "
        "https://ask.example.org/mcp; tokens are refused where empty.",
    )
    groups_claim: str = option(
        "groups",
        "Claim with a person's groups; dots lead into objects, as in realm_access.roles.",
    )
    roles_claim: str = option(
        "", "Claim with the names that `serve.people.roles` maps; the groups where empty."
    )
    name_claim: str = option("name", "Claim with the name that pages show.")
    session: float = option(
        8 * 3600.0,
        "Seconds after which a person has to sign in again; rights follow the provider by then.",
        ge=60,
        le=30 * 24 * 3600,
    )
    leeway: float = option(
        60.0, "Seconds by which the clocks of provider and server may differ.", ge=0, le=300
    )
    sign_out: Literal["here", "provider"] = option(
        "here",
        "Where signing out ends the session: on this server, or at the provider too, which must "
        "know the address of the page /login.",
    )

    def __post_init__(self) -> None:
        """Refuse what no provider can be asked with."""
        if not self.issuer:
            if self.client_id or self.audiences:
                raise ConfigError(
                    "serve.sign_in names no identity provider",
                    hint="set serve.sign_in.issuer, such as https://id.example.org/realms/staff",
                )
            return
        parts = _checked_address("serve.sign_in.issuer", self.issuer)
        if parts.query or parts.fragment:
            raise ConfigError(
                f"serve.sign_in.issuer: {self.issuer!r} has a query or a fragment",
                hint="write the `issuer` of the provider's /.well-known/openid-configuration",
            )
        if not self.client_id and not self.audiences:
            raise ConfigError(
                "serve.sign_in lets nobody in: it has neither a client nor an audience",
                hint="set serve.sign_in.client_id for pages, serve.sign_in.audiences for the API",
            )
        if self.client_id and "openid" not in self.scopes:
            raise ConfigError("serve.sign_in.scopes lacks `openid`", hint="add it to the list")
        if not _VARIABLE.fullmatch(self.client_secret_env):
            raise ConfigError(
                "serve.sign_in.client_secret_env is not the name of an environment variable",
                hint="name the variable that holds the secret; the file never holds it",
            )

    @property
    def shown(self) -> str:
        """Name of the provider for people."""
        return self.name or urlsplit(self.issuer).hostname or ""


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """The reverse proxy that signs people in and names them in headers."""

    addresses: tuple[str, ...] = option(
        (),
        "Addresses or networks from which the proxy connects, such as 10.0.0.5 or 10.1.0.0/24; "
        "headers from others are ignored, and all are where empty.",
    )
    user_header: str = option(
        "X-Forwarded-User", "Header with the unique name of the person; the proxy must replace it."
    )
    name_header: str = option(
        "X-Forwarded-Preferred-Username", "Header with the name that pages show."
    )
    groups_header: str = option(
        "X-Forwarded-Groups", "Header with the person's groups, separated by commas."
    )

    def __post_init__(self) -> None:
        """Refuse addresses and headers that are none."""
        for header in (self.user_header, self.name_header, self.groups_header):
            if not _HEADER.fullmatch(header):
                raise ConfigError(
                    f"serve.proxy: {header!r} is not the name of a header",
                    hint="letters, digits and hyphens, as in X-Forwarded-User",
                )
        if self.user_header.lower() in ("authorization", "cookie", "host", "x-api-key"):
            raise ConfigError(
                f"serve.proxy.user_header: {self.user_header} is sent by browsers and programs",
                hint="name a header that only the proxy sets, as in X-Forwarded-User",
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
    """What people may do who come through the identity provider or the proxy."""

    default_role: Literal["none", "reader", "reviewer", "owner"] = option(
        "none", "Role of people whom no name of `roles` matches; `none` keeps them out."
    )
    roles: Mapping[str, tuple[str, ...]] = option(
        dict,
        "Names that give each role (`reader`, `reviewer`, `owner`): the values of "
        "`serve.sign_in.roles_claim`, or groups; the highest role counts.",
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


def check_people(
    sign_in: SignInOptions, proxy: ProxyOptions, people: PeopleOptions, public_url: str
) -> None:
    """Check what the settings of people need of each other.

    Raises:
        ConfigError: Nobody could come in, or codes and sessions could be read on the way.
    """
    if (sign_in.issuer or proxy.addresses) and not people.admits:
        raise ConfigError(
            "serve.people lets nobody in",
            hint="map names to roles, as in serve.people.roles: {reader: [staff]}, or set "
            "serve.people.default_role: reader for everybody who can sign in",
        )
    if sign_in.client_id and public_url:
        _checked_address("serve.public_url", public_url)


def _checked_address(key: str, address: str) -> SplitResult:
    """The parts of an address that only its own server can read on the way.

    Raises:
        ConfigError: It is not an https address, and not one of this machine.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme == "https" and host:
        return parts
    if parts.scheme == "http" and is_loopback(host):
        return parts
    raise ConfigError(
        f"{key}: {address!r} is not an https address",
        hint="sign-in needs https, except for this machine (http://127.0.0.1)",
    )


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
