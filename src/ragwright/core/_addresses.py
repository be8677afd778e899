"""Addresses whose secrets come from the environment, and how long a server asks to wait."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from ._errors import ConfigError
from ._text import compile_late

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""An environment variable in an address."""

_FILE = re.compile(r"sqlite(\+\w+)?:")
"""Addresses that are paths."""

_PASSWORD = re.compile(r"://[^:@/?#]*:([^@?]+)@")
"""A password in an address that is not a valid URL because a character is not quoted."""

_SECRET = re.compile(
    r"passw(or)?d|passphrase|pwd|token|secret|credential|^pass$"
    r"|(?<![a-z])key(?![a-z])|(api|access|account|private|shared|secret)_?key(?![a-z])"
)
"""Parameters that hold secrets: ``sslpassword``, ``PWD``, ``AccountKey``; ``sslkey`` is a path."""

_NO_SECRET = re.compile(r"(path|file|ur[il])$")
"""Parameters that only give the path of a secret."""

_SETTING = re.compile(r"([^=;]+)=(\{[^}]*\}|[^;]*)")
"""A setting of a connection string of ODBC."""


_USER_PASSWORD = compile_late(r"^[a-z0-9+.-]+://[^/@?\s]*?:(?P<secret>[^/@?\s]+)@", re.IGNORECASE)
_SECRET_KEY = compile_late(
    r"[?&](?:pass|password|token|secret|api_?key|key|auth)=(?P<secret>[^&\s]+)", re.IGNORECASE
)


def fill_address(address: str, where: str | None = None) -> str:
    """An address with its environment variables replaced by their values, quoted within a URL.

    Args:
        address: As it is written.
        where: Place of it, for the error.

    Raises:
        ConfigError: A variable is not set.
    """
    unquoted = _VARIABLE.fullmatch(address) is not None or _FILE.match(address) is not None

    def value(match: re.Match[str]) -> str:
        text = os.environ.get(match[1], "")
        if not text:
            raise ConfigError(
                f"a database address needs {match[1]}, which is not set",
                where=where,
                hint=f"export {match[1]}=…  (secrets are read from the environment only)",
            )
        return text if unquoted else quote(text, safe="")

    return _VARIABLE.sub(value, address)


def holds_secret(address: str) -> bool:
    """True if the address contains a password, a token or a key in plain text."""
    if _FILE.match(address):
        return False
    bare = _VARIABLE.sub("", address)
    return any(_passwords_of(bare)) or any(value.strip("{}") for value in _secret_parameters(bare))


def hide_secret(text: str, address: str) -> str:
    """A message without the secrets of a filled address, which drivers may repeat."""
    for secret in sorted(_secrets_of(address), key=len, reverse=True):
        text = text.replace(secret, "…")
    return text


def notice_address_faults(address: str) -> Iterator[tuple[str, str]]:
    """Faults of a notice address: sentence, what to do. The address itself is not repeated."""
    if "${" in _VARIABLE.sub("", address):
        yield "a variable in an address is written ${NAME}", "only letters, digits and _"
    elif "://" not in address and not _VARIABLE.fullmatch(address):
        yield "this is not a valid notice address", "write mailto://…, json://… or ${VARIABLE}"
    for pattern in (_USER_PASSWORD, _SECRET_KEY):
        match = pattern.search(address)
        if match and not _VARIABLE.fullmatch(match["secret"]):
            yield (
                "a notice address contains a secret",
                "put it into an environment variable and write ${VARIABLE} instead",
            )


def _secrets_of(address: str) -> set[str]:
    """Secrets of an address, as written in it and decoded."""
    texts = {*_passwords_of(address), *_secret_parameters(address)}
    try:
        urlsplit(address)
    except ValueError:
        texts.add(address)
    texts |= {value.strip("{}") for value in texts}
    texts |= {form for text in texts for form in (unquote(text), unquote_plus(text))}
    return {form for text in texts for form in (text, quote(text, safe="")) if form}


def _passwords_of(address: str) -> Iterator[str]:
    """The password of an address, also if the address is not a valid URL."""
    with suppress(ValueError):
        yield urlsplit(address).password or ""
    yield from _PASSWORD.findall(address)


def _secret_parameters(address: str) -> Iterator[str]:
    """Yield the values of parameters that hold secrets, also those of ODBC within one."""
    for pair in re.split("[?&]", address)[1:]:
        for text in {pair, unquote_plus(pair)}:
            name, _, value = text.partition("=")
            if _is_secret(name):
                yield value
            for inner, setting in _SETTING.findall(value if "=" in value else text):
                if _is_secret(inner):
                    yield setting


def _is_secret(name: str) -> bool:
    name = name.strip().lower().replace(" ", "_")
    return _SECRET.search(name) is not None and not _NO_SECRET.search(name)


def retry_after(text: str | None, now: float | None = None) -> float | None:
    """Seconds that a ``Retry-After`` asks to wait, written as a number or as a date (RFC 9110).

    Args:
        text: The header, None where there is none.
        now: Seconds since 1970 that a date is counted from; the present by default.

    Returns:
        Seconds, 0 or more and finite; None if the header cannot be parsed.
    """
    text = (text or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (TypeError, ValueError):
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = date.timestamp() - (time.time() if now is None else now)
    return max(0.0, seconds) if math.isfinite(seconds) else None
