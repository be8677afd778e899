"""Network addresses that may be fetched: public ones, and those that a project allows."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable

from ..core import AddressRefusedError, ConfigError, FetchError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Addresses of a host and port, best first."""

_SERVICES = {
    "168.63.129.16": "a cloud's own service",
    "169.254.169.254": "a cloud's metadata service",
    "fd00:ec2::254": "a cloud's metadata service",
    "100.100.100.200": "a cloud's metadata service",
}
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64: the last 32 bits are an IPv4 address."""
_LOCAL_TRANSLATED = ipaddress.IPv6Network("64:ff9b:1::/48")


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver; each address once, in its order.

    Raises:
        FetchError: No such host; retryable if the resolver itself failed.
    """
    loop = asyncio.get_running_loop()
    try:
        entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        again = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
        raise FetchError(
            f"the host {host!r} has no address",
            hint="check the spelling and the network connection",
            retryable=again,
        ) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks written as CIDR blocks or single addresses.

    Raises:
        ConfigError: A text is neither.
    """
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise ConfigError(
            f"not a network: {error}", hint="write it like 10.1.0.0/16 or 10.1.2.3"
        ) from error


def refusal(text: str, opened: Iterable[Network] = ()) -> str:
    """Return why an address may not be fetched; empty if it may.

    Refused are private, shared, loopback, link-local, multicast, reserved and unspecified
    addresses and the metadata services of clouds, also where an IPv6 address wraps one of
    them (mapped, 6to4, Teredo, NAT64). Networks in ``opened`` are allowed.
    """
    address: Address = ipaddress.ip_address(text.partition("%")[0])
    if any(address.version == n.version and address in n for n in opened):
        return ""
    for inner in _meant(address):
        if str(inner) in _SERVICES:
            return _SERVICES[str(inner)]
        if inner.is_multicast:
            return "a multicast address"
        if inner.is_loopback:
            return "this machine"
        if inner.is_link_local:
            return "a link-local address"
        if inner.is_private or inner.is_reserved or inner.is_unspecified or not inner.is_global:
            return "a private or reserved address"
        if isinstance(inner, ipaddress.IPv6Address) and (
            inner.is_site_local or inner in _LOCAL_TRANSLATED
        ):
            return "a private or reserved address"
    return ""


def check_addresses(host: str, addresses: Iterable[str], opened: Iterable[Network] = ()) -> None:
    """Refuse a host if any of its addresses is refused.

    Raises:
        AddressRefusedError: Names the address and its kind.
    """
    networks_open = tuple(opened)
    for address in addresses:
        reason = refusal(address, networks_open)
        if reason:
            raise AddressRefusedError(
                f"the host {host!r} has the address {address}, {reason}",
                hint="if you trust it, add the address or its network to "
                f'`fetch.open_networks`: ["{address}"]',
            )


def _meant(address: Address) -> list[Address]:
    """Return an address and the IPv4 addresses embedded in it."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address in _TRANSLATED:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    inner: list[Address | None] = [address, address.ipv4_mapped, address.sixtofour]
    inner += address.teredo or ()
    return [version for version in inner if version is not None]
