"""Addresses of databases: secrets come from the environment and never leave in a message."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ._errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""An environment variable in an address."""

_FILE = re.compile(r"(adbc\+)?sqlite(\+\w+)?:")
"""Addresses that are paths."""


def filled_address(address: str) -> str:
    """An address with its environment variables put in, quoted where they are part of a URL.

    Raises:
        ConfigError: A variable is not set.
    """
    plain = _VARIABLE.fullmatch(address) is not None or _FILE.match(address) is not None

    def value(found: re.Match[str]) -> str:
        text = os.environ.get(found[1], "")
        if not text:
            raise ConfigError(
                f"a database address needs {found[1]}, which is not set",
                hint=f"export {found[1]}=…  (secrets are read from the environment only)",
            )
        return text if plain else quote(text, safe="")

    return _VARIABLE.sub(value, address)


def holds_secret(address: str) -> bool:
    """True where a password stands in an address as it is written."""
    if _FILE.match(address):
        return False
    bare = _VARIABLE.sub("", address)
    try:
        parts = urlsplit(bare)
        return bool(parts.password) or any(
            any(values) for key, values in parse_qs(parts.query).items() if "password" in key
        )
    except ValueError:
        return "password" in address or bool(re.search(r":[^/@]+@", bare))


def without_secret(text: str, address: str) -> str:
    """A message without the password of a filled address, which drivers may repeat."""
    for secret in sorted(_secrets(address), key=len, reverse=True):
        text = text.replace(secret, "…")
    return text


def _secrets(address: str) -> set[str]:
    """Passwords of an address, as they are written in it and as they are meant."""
    try:
        parts = urlsplit(address)
        found = {parts.password or ""}
        for pair in parts.query.split("&"):
            name, _, value = pair.partition("=")
            if "password" in name:
                found.add(value)
    except ValueError:
        return {address}
    return {form for secret in found for form in (secret, unquote(secret)) if form}
