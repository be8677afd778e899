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
_PRIVATE = "a private or reserved address"
_SPECIAL = {
    ipaddress.ip_network(block): kind
    for kind, blocks in {
        "this machine": "127.0.0.0/8 ::1/128",
        "a link-local address": "169.254.0.0/16 fe80::/10",
        "a multicast address": "224.0.0.0/4 ff00::/8",
        _PRIVATE: "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
        "192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 "
        "198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 "
        "2001::/23 2001:db8::/32 2620:4f:8000::/48 3fff::/20",
    }.items()
    for block in blocks.split()
}
"""IANA's special-purpose addresses (2025), for IPv6 those within 2000::/3. Python's
``is_global`` lacks some of them, and which ones depends on its version."""

_PUBLIC6 = ipaddress.IPv6Network("2000::/3")
"""The only IPv6 addresses that are given to hosts of the internet."""

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64: the last 32 bits are an IPv4 address."""


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

    Refused are all special-purpose addresses (private, shared, loopback, link-local, multicast,
    documentation, protocols and their tunnels) and the metadata services of clouds, also where an
    IPv6 address wraps one of them (mapped, 6to4, NAT64). Networks in ``opened`` are allowed.
    """
    address: Address = ipaddress.ip_address(text.partition("%")[0])
    if any(address.version == n.version and address in n for n in opened):
        return ""
    for inner in _meant(address):
        if str(inner) in _SERVICES:
            return _SERVICES[str(inner)]
        for network, kind in _SPECIAL.items():
            if inner.version == network.version and inner in network:
                return kind
        if isinstance(inner, ipaddress.IPv6Address) and inner not in _PUBLIC6:
            return _PRIVATE
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
    """Return the IPv4 address that an address wraps, and itself unless it is only a translation."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address in _TRANSLATED:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    wrapped = (address.ipv4_mapped, address.sixtofour)
    return [*(inner for inner in wrapped if inner is not None), address]
