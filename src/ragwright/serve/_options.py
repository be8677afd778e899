"""The section ``serve`` of a project file."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ..core import ConfigError, option, suggest_name
from ..jobs import AuditLogOptions, ServedMeasureOptions
from ..project import Settings
from ._keys import ROLES

LogForm: TypeAlias = Literal["warnings", "requests", "json"]

_ORIGIN = re.compile(r"https?://[\w.-]+(?::\d{1,5})?|https?://\[[0-9a-f:]+\](?::\d{1,5})?")


_HEADER = re.compile(r"[A-Za-z0-9-]+")
_SENT_BY_CLIENTS = frozenset({"authorization", "cookie", "host", "x-api-key"})


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
        dict, "Groups that give each role (`reader`, `reviewer`, `owner`); the highest role counts."
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
                    f"serve.people.roles: {role!r} is not a role; {suggest_name(role, ROLES)}"
                )

    @property
    def admits(self) -> bool:
        """True where anybody may come in."""
        return self.default_role != "none" or any(self.roles.values())


@lru_cache(maxsize=8)
def _parsed_networks(
    addresses: tuple[str, ...],
) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """The networks of a proxy."""
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


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The address, the names and the limits under which a project is served."""

    name: str = option(
        "", "Name of the configuration in the ids of models; the folder's where empty."
    )
    host: str = option("127.0.0.1", "Address to listen on; any but a loopback address needs a key.")
    port: int = option(8321, "Port to listen on; 0: any free one.", ge=0)
    public_url: str = option(
        "",
        "Address under which readers reach the server, such as https://ask.example.org; links to "
        "sources begin with it. The address of each request where empty.",
    )
    cors: tuple[str, ...] = option(
        (),
        "Origins such as https://app.example.org whose pages may call the API from a browser; "
        "none by default.",
    )
    personas: tuple[str, ...] = option(
        (),
        "Personas that are served, shipped ones too; those of the folder `personas` where empty.",
    )
    configurations: Mapping[str, tuple[str, ...]] = option(
        dict,
        "Further configurations by name: lists of `key.path=value` that replace settings of the "
        "served one.",
    )
    source_links: bool = option(
        False, "End answers with links to their sources, for programs that show no annotations."
    )
    log: LogForm = option(
        "warnings",
        "What `ragwright serve` logs to standard error: faults; a line per request too; or both as "
        "JSON.",
    )
    audit: AuditLogOptions = field(default_factory=AuditLogOptions)
    keep_answers: bool = option(
        True, "Store served answers among the outputs, for feedback and measurement."
    )
    answer_days: int | None = option(
        None, "Days that stored answers and their feedback are kept; without end by default.", ge=1
    )
    proxy: ProxyOptions = field(default_factory=ProxyOptions)
    people: PeopleOptions = field(default_factory=PeopleOptions)
    measure: ServedMeasureOptions = field(default_factory=ServedMeasureOptions)
    daily_budget: float | None = option(
        None, "Most money that all requests of a day (UTC) may cost; models then need prices.", gt=0
    )
    concurrency: int = option(
        64,
        "Answers made at once by one worker, and searches beside them; further requests wait.",
        ge=1,
    )
    waiting: int = option(
        256, "Requests that may wait for their turn; further ones get status 503.", ge=0
    )
    timeout: float = option(
        300.0, "Most seconds for one request, the wait for its turn included.", gt=0
    )

    def __post_init__(self) -> None:
        """Refuse to measure answers that are not stored, and what is not an origin."""
        for origin in self.cors:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"serve.cors: {origin!r} is not an origin",
                    hint="write scheme and host without a path, as in https://app.example.org",
                )
        if self.measure.share and not self.keep_answers:
            raise ConfigError(
                "serve.measure.share measures stored answers, and serve.keep_answers is false",
                hint="set serve.keep_answers: true, or serve.measure.share: 0",
            )
        if self.knows_people and not self.people.admits:
            raise ConfigError(
                "serve.people lets nobody in",
                hint="map groups to roles, as in serve.people.roles: {reader: [staff]}, or set "
                "serve.people.default_role: reader for everybody whom the proxy names",
            )

    @property
    def knows_people(self) -> bool:
        """True where a proxy says who sends a request."""
        return bool(self.proxy.user_header)

    @property
    def prefix(self) -> str:
        """Path before every address of the server, without a slash at its end; mostly empty."""
        return urlsplit(self.public_url).path.rstrip("/")


def serve_options(settings: Settings) -> ServeOptions:
    """Return the section ``serve``."""
    return settings.part("serve", ServeOptions)
